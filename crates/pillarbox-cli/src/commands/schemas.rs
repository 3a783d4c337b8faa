//! `pillarbox schemas`: compares two versions of a schema, for CI.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};
use pillarbox::schema::{Comparison, Difference, Mode, compare};
use serde_json::{Value, json};

use super::Misuse;
use crate::output::{Output, count};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say whether a new version of a JSON Schema is compatible with the old one; exits with 1 if it is not
    ///
    /// Compatible means proven: every payload that one version allows is allowed by the other. What cannot be decided
    /// counts as incompatible, and is listed as "cannot tell".
    Check {
        /// The file with the old version
        old: PathBuf,
        /// The file with the new version
        new: PathBuf,
        /// The direction
        #[arg(long, value_enum, default_value = "backward")]
        mode: Direction,
        /// Assume that payloads have no property that their own schema does not declare
        ///
        /// A schema without "additionalProperties": false allows any value in a property that it does not declare, so
        /// that a new optional property is incompatible with it. With this flag it is compatible.
        #[arg(long)]
        declared_only: bool,
    },
}

/// The direction of a comparison.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Direction {
    /// A consumer with NEW can read what was written with OLD
    Backward,
    /// A consumer with OLD can read what is written with NEW
    Forward,
    /// Both
    Full,
}

pub(crate) fn run(command: &Command, output: Output) -> anyhow::Result<ExitCode> {
    let Command::Check { old, new, mode, declared_only } = command;
    let mode = match mode {
        Direction::Backward => Mode::Backward,
        Direction::Forward => Mode::Forward,
        Direction::Full => Mode::Full,
    };
    let compared = compare(&read(old)?, &read(new)?, mode, *declared_only);
    let Comparison { differences } = compared.map_err(|error| Misuse(error.to_string()))?;
    let is_compatible = differences.is_empty();
    let answer = json!({ "compatible": is_compatible, "mode": mode, "differences": differences });
    output.answer(&answer, || if is_compatible { compatible(mode).to_owned() } else { incompatible(&differences) })?;
    Ok(if is_compatible { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn read(path: &Path) -> Result<Value, Misuse> {
    let file = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| Misuse(format!("{file} cannot be read: {error}")))?;
    serde_json::from_str(&text).map_err(|error| Misuse(format!("{file} is not JSON: {error}")))
}

fn compatible(mode: Mode) -> &'static str {
    match mode {
        Mode::Backward => "compatible: a consumer with NEW can read what was written with OLD",
        Mode::Forward => "compatible: a consumer with OLD can read what is written with NEW",
        Mode::Full => "compatible: consumers with OLD and with NEW can read what either version wrote",
    }
}

fn incompatible(differences: &[Difference]) -> String {
    let mut text = format!("incompatible: {}\n", count(differences.len() as u64, "difference"));
    for Difference { direction, path, what, certain } in differences {
        let direction = if *direction == Mode::Forward { "forward" } else { "backward" };
        let doubt = if *certain { "" } else { "cannot tell: " };
        text.push_str(&format!("{direction}  {path}: {doubt}{what}\n"));
    }
    text
}
