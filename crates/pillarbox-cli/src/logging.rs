//! Logs go to standard error, so that standard output is the answer and nothing else.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::cli::{Cli, Command, LogFormat};

/// `RUST_LOG` decides; without it whatever serves tells what it does, and the other commands only of trouble. The client of RabbitMQ
/// is silent: what it has to say is in our errors, and it would log whole messages.
pub(crate) fn start(cli: &Cli) {
    let usual = match cli.command {
        Command::Relay(_) | Command::CeleryRelay(_) | Command::Admin(_) => "info,lapin=off",
        // The demo shows its trouble itself.
        Command::Demo(_) => "off",
        _ => "warn,lapin=off",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(usual));
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none());
    match cli.log_format {
        LogFormat::Text => logs.init(),
        LogFormat::Json => logs.json().flatten_event(true).init(),
    }
}
