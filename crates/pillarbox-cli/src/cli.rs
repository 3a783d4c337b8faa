//! The command line, parsed and not yet acted on.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::commands::{
    admin, celery_relay, check_config, cleanup, completions, dead_letters, demo, destinations, emit, events, health,
    man, migrate, relay, sweep,
};
use crate::config::LogFormat;
use crate::output::Output;
use crate::top;

const AFTER_HELP: &str = "\
Without a configuration the outbox is in pillarbox.db, a SQLite file in the current directory.
`pillarbox check-config --default` prints every setting with its default.
Variables like PILLARBOX_DATABASE_URL and PILLARBOX_RELAY_BATCH_SIZE override the file.

Exit codes: 0 all is well, 1 it failed, 2 the command line or the configuration is wrong.";

/// A transactional outbox: what a database transaction committed is delivered, at least once
#[derive(Debug, Parser)]
#[command(name = "pillarbox", version, after_help = AFTER_HELP, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    /// The configuration; without it ./pillarbox.toml, if it is there
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Answer with one JSON value on standard output, and errors as {"error": …} on standard error
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// How to log to standard error; without it as log.format of the configuration says. RUST_LOG says how much
    #[arg(long, global = true, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See it work: a shop commits orders, a receiver fails now and then, and everything arrives
    Demo(demo::Arguments),
    /// Create or upgrade the outbox's tables, and give database roles their rights
    Migrate(migrate::Arguments),
    /// Emit one event
    Emit(emit::Arguments),
    /// Deliver events until SIGTERM or SIGINT
    Relay(relay::Arguments),
    /// Deliver the tasks of django-celery-outbox, in place of `manage.py celery_outbox_relay`
    CeleryRelay(celery_relay::Arguments),
    /// Deliver what is due once, and answer how much was processed and how much remains
    Sweep(sweep::Arguments),
    /// Look at events, and try failed ones again
    #[command(subcommand)]
    Events(events::Command),
    /// Look at destinations, pause and resume them
    #[command(subcommand)]
    Destinations(destinations::Command),
    /// Delete old delivered and failed events
    Cleanup(cleanup::Arguments),
    /// Failed events by what they have in common; retry many of them at once
    DeadLetters(dead_letters::Arguments),
    /// The outbox live: what waits, what destinations do, which relays live
    Top(top::Arguments),
    /// The outbox in numbers
    Stats,
    /// Look for what may be wrong with the database and the configuration; ends with 1 when something is
    Doctor,
    /// Ask a running relay how it is; ends with 1 when it is not well
    Health(health::Arguments),
    /// Serve the admin pages and the API until SIGTERM or SIGINT, or make what their users log in with
    Admin(admin::Arguments),
    /// A script that completes commands and flags in a shell
    Completions(completions::Arguments),
    /// The manual page
    Man(man::Arguments),
    /// Check the configuration and show what is in force
    CheckConfig(check_config::Arguments),
}

impl Cli {
    /// What was asked for, or the exit code of what has been answered already: help, or what was wrong.
    pub(crate) fn parse_arguments() -> Result<Self, ExitCode> {
        Self::try_parse().map_err(|error| {
            let json = std::env::args_os().any(|argument| argument == "--json");
            if json && error.use_stderr() {
                Output::new(true).error(error.to_string().trim_start_matches("error: ").trim_end());
            } else if error.print().is_err() {
                return ExitCode::FAILURE;
            }
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_flags_of_every_command_fit_together() {
        Cli::command().debug_assert();
    }
}
