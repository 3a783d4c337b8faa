//! The commands, one file each: each calls the library and prints the result.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

use crate::cli::{Cli, Command};
use crate::config::source::{DJANGO_CELERY_OUTBOX, SourceKind};
use crate::config::{Environment, Settings};
use crate::output::Output;
use crate::store::{Missing, Opened, Source};
use crate::top;

pub(crate) mod admin;
pub(crate) mod asyncapi;
pub(crate) mod celery_relay;
pub(crate) mod check_config;
pub(crate) mod cleanup;
pub(crate) mod completions;
pub(crate) mod dead_letters;
pub(crate) mod demo;
pub(crate) mod destinations;
pub(crate) mod dev;
mod doctor;
pub(crate) mod emit;
pub(crate) mod events;
mod fleet;
pub(crate) mod health;
pub(crate) mod keys;
pub(crate) mod man;
pub(crate) mod migrate;
pub(crate) mod relay;
pub(crate) mod route;
pub(crate) mod schemas;
mod stats;
pub(crate) mod sweep;
pub(crate) mod wal;

/// The settings and the output of every command except the demo.
pub(crate) struct Session {
    pub(crate) settings: Settings,
    environment: Environment,
    pub(crate) output: Output,
}

impl Session {
    fn start(config: Option<&Path>, environment: Environment, output: Output) -> anyhow::Result<Self> {
        let settings = Settings::load(config, &environment)?;
        Ok(Self { settings, environment, output })
    }

    /// Opens the outbox's own tables, which must exist, and checks their schema.
    pub(crate) async fn open(&self) -> anyhow::Result<Opened> {
        Opened::checked(&self.settings.database, Missing::Refuse).await
    }

    /// Refuses the tables of django-celery-outbox, and says what to use instead.
    pub(crate) fn own(&self, instead: &str) -> Result<(), Misuse> {
        match self.settings.source.kind {
            SourceKind::OutboxEvent | SourceKind::Wal => Ok(()),
            SourceKind::DjangoCeleryOutbox => Err(Misuse(format!(
                "source.kind is {DJANGO_CELERY_OUTBOX:?}, and this command works only on Pillarbox's own tables; {instead}"
            ))),
        }
    }

    /// Returns the name of a log event, with the configured prefix.
    fn log_name(&self, name: &str) -> String {
        format!("{}_{name}", self.settings.relay.log_prefix)
    }

    /// Opens the tables that a relay delivers from and checks their schema.
    async fn source(&self, missing: Missing) -> anyhow::Result<Source> {
        Source::checked(&self.settings, missing).await
    }
}

/// Runs the given command.
pub(crate) async fn run(cli: Cli, output: Output) -> anyhow::Result<ExitCode> {
    let config = cli.config.as_deref();
    let session = || Session::start(config, Environment::of_process(), output);
    match cli.command {
        Command::Demo(arguments) => return demo::run(&arguments, output).await,
        Command::Dev(arguments) => dev::run(&arguments, config, output).await?,
        Command::Migrate(arguments) => migrate::run(&arguments, &session()?).await?,
        Command::Emit(arguments) => emit::run(arguments, &session()?).await?,
        Command::Relay(arguments) => relay::run(&arguments, &session()?).await?,
        Command::CeleryRelay(arguments) => {
            let mut environment = Environment::of_process();
            arguments.override_configuration(&mut environment);
            relay::run(&arguments.relay, &Session::start(config, environment, output)?).await?;
        }
        Command::Admin(arguments) => match arguments.command {
            Some(command) => admin::prepare(command, output)?,
            None => {
                let mut environment = Environment::of_process();
                arguments.override_configuration(&mut environment);
                admin::run(&Session::start(config, environment, output)?).await?;
            }
        },
        Command::Route(arguments) => return route::run(&arguments, &session()?),
        Command::Sweep(arguments) => sweep::run(&arguments, &session()?).await?,
        Command::Events(command) => return events::run(command, &session()?).await,
        Command::Destinations(command) => return destinations::run(&command, &session()?).await,
        Command::Keys(arguments) => match arguments.command {
            Some(keys::Command::New { kind }) => keys::make(kind, output)?,
            command => keys::run(command, &session()?)?,
        },
        Command::Cleanup(arguments) => cleanup::run(&arguments, &session()?).await?,
        Command::DeadLetters(arguments) => dead_letters::run(&arguments, &session()?).await?,
        Command::Top(arguments) => top::run(&arguments, &session()?).await?,
        Command::Wal(command) => wal::run(&command, &session()?).await?,
        Command::Schemas(command) => return schemas::run(&command, output),
        Command::Asyncapi(arguments) => asyncapi::run(&arguments, &session()?)?,
        Command::Completions(arguments) => completions::run(&arguments, output)?,
        Command::Man(arguments) => man::run(&arguments, output)?,
        Command::Stats => stats::run(&session()?).await?,
        Command::Doctor => return doctor::run(&session()?).await,
        Command::Health(arguments) => return health::run(&arguments, &session()?).await,
        Command::CheckConfig(arguments) if arguments.default => check_config::print_default(output)?,
        Command::CheckConfig(_) => check_config::run(&session()?).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A command line that cannot be executed. The program exits with code 2.
#[derive(Debug)]
pub(crate) struct Misuse(pub(crate) String);

impl std::error::Error for Misuse {}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
