//! Parses the command line, without acting on it.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::commands::{
    admin, asyncapi, celery_relay, check_config, cleanup, completions, dead_letters, demo, destinations, dev, emit,
    events, health, keys, man, migrate, relay, route, schemas, sweep, wal,
};
use crate::config::LogFormat;
use crate::output::Output;
use crate::top;

const AFTER_HELP: &str = "\
Without a configuration the outbox is in pillarbox.db, a SQLite file in the current directory.
`pillarbox check-config --default` prints every setting with its default.
Variables like PILLARBOX_DATABASE_URL and PILLARBOX_RELAY_BATCH_SIZE override the file.

Exit codes: 0 success, 1 failure, 2 invalid command line or configuration.";

/// A transactional outbox: what a database transaction committed is delivered, at least once
#[derive(Debug, Parser)]
#[command(name = "pillarbox", version, after_help = AFTER_HELP, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    /// The configuration file; by default ./pillarbox.toml, if it exists
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print one JSON value to standard output, and errors as {"error": …} to standard error
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// The format of the log on standard error; by default log.format of the configuration. RUST_LOG sets the level
    #[arg(long, global = true, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See it work: a shop commits orders, a receiver fails now and then, and everything arrives
    Demo(demo::Arguments),
    /// For development: create the tables, deliver with short retries, serve the pages, and print what receivers get
    Dev(dev::Arguments),
    /// Create or upgrade the outbox's tables, and give database roles their rights
    Migrate(migrate::Arguments),
    /// Emit one event
    Emit(emit::Arguments),
    /// Deliver events until SIGTERM or SIGINT
    Relay(relay::Arguments),
    /// Deliver the tasks of django-celery-outbox, in place of `manage.py celery_outbox_relay`
    CeleryRelay(celery_relay::Arguments),
    /// Deliver due events once, and print how many were processed and how many remain
    Sweep(sweep::Arguments),
    /// Look at events, and try failed ones again
    #[command(subcommand)]
    Events(events::Command),
    /// Look at destinations, pause and resume them
    #[command(subcommand)]
    Destinations(destinations::Command),
    /// The keys that sign requests to HTTP destinations, with the public keys for receivers; make and rotate keys
    Keys(keys::Arguments),
    /// Delete old delivered and failed events
    Cleanup(cleanup::Arguments),
    /// Group failed events by destination and error; retry many of them at once
    DeadLetters(dead_letters::Arguments),
    /// Show the outbox live: waiting events, destinations, relays
    Top(top::Arguments),
    /// The outbox in numbers
    Stats,
    /// Check the database and the configuration; exits with 1 if something is wrong
    Doctor,
    /// Ask a running relay for its health; exits with 1 if it is unhealthy
    Health(health::Arguments),
    /// Serve the admin pages and the API until SIGTERM or SIGINT, or make password hashes and tokens for their users
    Admin(admin::Arguments),
    /// PostgreSQL's write-ahead log as the outbox: repeatable events are written into no table
    #[command(subcommand)]
    Wal(wal::Command),
    /// Compare versions of the JSON Schemas of payloads
    #[command(subcommand)]
    Schemas(schemas::Command),
    /// Print an AsyncAPI 3 document of the events, their schemas and destinations, without secrets
    Asyncapi(asyncapi::Arguments),
    /// A script that completes commands and flags in a shell
    Completions(completions::Arguments),
    /// The manual page
    Man(man::Arguments),
    /// Show where the routes of the configuration send an event, and why; exits with 1 if no route matches
    Route(route::Arguments),
    /// Check the configuration and show what is in force
    CheckConfig(check_config::Arguments),
}

impl Cli {
    /// Returns the parsed command line, or the exit code after the help or an error was printed.
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
