//! The program `pillarbox`: relays, inspects and manages a transactional outbox.
//!
//! The command line is parsed first, then the configuration is lowered once, then one command runs. The program has no
//! SQL on the outbox; it uses the outbox only through the library's store traits.

mod admin;
mod asyncapi;
mod cli;
mod commands;
mod config;
mod curl;
mod demo;
mod door;
mod logging;
mod observers;
mod otlp;
mod output;
mod panics;
mod receiver;
mod store;
mod table;
mod terminal;
mod top;
mod web;

use std::process::ExitCode;

use crate::cli::Cli;
use crate::config::ConfigError;
use crate::output::Output;

fn main() -> ExitCode {
    panics::install();
    if let Some(completed) = commands::completions::complete() {
        return completed;
    }
    let cli = match Cli::parse_arguments() {
        Ok(cli) => cli,
        Err(refused) => return refused,
    };
    let output = Output::new(cli.json);
    logging::start(&cli);
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(output, &anyhow::Error::new(error).context("starting the runtime failed")),
    };
    match runtime.block_on(commands::run(cli, output)) {
        Ok(code) => code,
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => fail(output, &error),
    }
}

/// Prints the error. Returns 2 if the command line or the configuration is wrong, 1 otherwise.
fn fail(output: Output, error: &anyhow::Error) -> ExitCode {
    output.error(&told(error));
    let misused = error.chain().any(|cause| cause.is::<ConfigError>() || cause.is::<commands::Misuse>());
    ExitCode::from(if misused { 2 } else { 1 })
}

/// Returns the error and its causes, without causes that its text contains already.
pub(crate) fn told(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| match told.as_str() {
        "" => cause,
        _ if told.contains(&cause) => told,
        _ => format!("{told}: {cause}"),
    })
}
