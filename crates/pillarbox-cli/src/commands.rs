//! The commands, one file each: what was asked for, done through the library, and answered.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use crate::cli::{Cli, Command};
use crate::config::{Environment, Settings};
use crate::output::Output;
use crate::store::{Opened, Source};

pub(crate) mod check_config;
pub(crate) mod cleanup;
pub(crate) mod demo;
pub(crate) mod emit;
pub(crate) mod events;
pub(crate) mod migrate;
pub(crate) mod relay;
mod stats;
pub(crate) mod sweep;

/// What every command but the demo works with.
pub(crate) struct Session {
    settings: Settings,
    environment: Environment,
    output: Output,
}

impl Session {
    fn start(config: Option<&Path>, output: Output) -> anyhow::Result<Self> {
        let environment = Environment::of_process();
        let settings = Settings::load(config, &environment)?;
        Ok(Self { settings, environment, output })
    }

    /// The outbox, fit to be worked on.
    async fn open(&self) -> anyhow::Result<Opened> {
        Opened::checked(&self.settings.database, self.output).await
    }

    /// What a relay delivers from, fit to be worked on.
    async fn source(&self) -> anyhow::Result<Source> {
        Ok(Source::Own(self.open().await?))
    }
}

/// Runs the command that was asked for.
pub(crate) async fn run(cli: Cli, output: Output) -> anyhow::Result<ExitCode> {
    let session = || Session::start(cli.config.as_deref(), output);
    match cli.command {
        Command::Demo(arguments) => return demo::run(&arguments, output).await,
        Command::Migrate(arguments) => migrate::run(&arguments, &session()?).await?,
        Command::Emit(arguments) => emit::run(arguments, &session()?).await?,
        Command::Relay(arguments) => relay::run(&arguments, &session()?).await?,
        Command::Sweep(arguments) => sweep::run(&arguments, &session()?).await?,
        Command::Events(command) => return events::run(command, &session()?).await,
        Command::Cleanup(arguments) => cleanup::run(&arguments, &session()?).await?,
        Command::Stats => stats::run(&session()?).await?,
        Command::CheckConfig(arguments) if arguments.default => check_config::print_default(output)?,
        Command::CheckConfig(_) => check_config::run(&session()?)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A command line that cannot be followed. The program ends with exit code 2.
#[derive(Debug)]
pub(crate) struct Misuse(pub(crate) String);

impl std::error::Error for Misuse {}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
