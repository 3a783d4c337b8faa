//! The resources that this process has used so far, as Linux reports them.

use anyhow::{Context, Result};
use serde::Serialize;

/// Linux reports CPU time to programs in hundredths of a second, whatever the kernel's own clock is.
const TICKS: f64 = 100.0;

/// The memory and CPU time of this process.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Usage {
    /// The resident memory now, in MB.
    pub(crate) rss_mb: f64,
    /// The maximum of resident memory, in MB.
    pub(crate) peak_rss_mb: f64,
    /// The user and system time of all threads.
    pub(crate) cpu_seconds: f64,
}

impl Usage {
    pub(crate) fn now() -> Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let megabytes = |name: &str| -> Result<f64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).context("no such line in status")?;
            let kilobytes: f64 = line.split_whitespace().next().context("no number")?.parse()?;
            Ok(kilobytes / 1024.0)
        };
        let stat = std::fs::read_to_string("/proc/self/stat")?;
        // The program's name is in parentheses and may contain anything; the times are the 14th and 15th field.
        let (_, fields) = stat.rsplit_once(')').context("no name in stat")?;
        let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<f64>).sum::<Result<f64, _>>()?;
        Ok(Self { rss_mb: megabytes("VmRSS:")?, peak_rss_mb: megabytes("VmHWM:")?, cpu_seconds: ticks / TICKS })
    }
}
