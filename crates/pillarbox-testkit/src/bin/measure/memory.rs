//! The memory of a process.

use std::fmt::Display;

use anyhow::{Context, Result};
use pillarbox_testkit::Program;

const MEGABYTE: f64 = 1024.0 * 1024.0;

/// Returns the most memory that the program has had, in bytes.
pub(crate) fn peak(program: &Program) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", program.pid()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM in status")?;
    let kilobytes: u64 = line.split_whitespace().next().context("no number")?.parse()?;
    Ok(kilobytes * 1024)
}

pub(crate) struct Megabytes(pub(crate) u64);

impl Display for Megabytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} MB", self.0 as f64 / MEGABYTE)
    }
}
