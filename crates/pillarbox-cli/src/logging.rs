//! Logs go to standard error, so that standard output is the answer and nothing else.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::cli::{Cli, Command, LogFormat};

/// The client of RabbitMQ. What it has to say is in our errors, and it would log whole messages, masked values and all.
const TOO_TALKATIVE: &str = "lapin";

/// `RUST_LOG` decides; without it whatever serves tells what it does, and the other commands only of trouble.
pub(crate) fn start(cli: &Cli) {
    let usual = match cli.command {
        Command::Relay(_) | Command::CeleryRelay(_) | Command::Admin(_) => "info",
        // The demo shows its trouble itself.
        Command::Demo(_) => "off",
        _ => "warn",
    };
    let asked = std::env::var(EnvFilter::DEFAULT_ENV).unwrap_or_default();
    let filter = EnvFilter::try_new(&asked).ok().filter(|_| !asked.is_empty()).unwrap_or_else(|| EnvFilter::new(usual));
    // Who names it wants to hear it.
    let silent = format!("{TOO_TALKATIVE}=off").parse().ok().filter(|_| !asked.contains(TOO_TALKATIVE));
    let filter = silent.into_iter().fold(filter, EnvFilter::add_directive);
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    match cli.log_format {
        LogFormat::Text => logs.init(),
        LogFormat::Json => logs.json().flatten_event(true).init(),
    }
}
