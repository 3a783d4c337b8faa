//! The configuration: found, read, overridden by the environment, and lowered once into the [`Settings`] that the program
//! uses. The rest of the program reads no file and no environment variable for its settings.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use pillarbox::{Pattern, RelaySettings, Route};
use pillarbox_sinks::DestinationSettings;
use pillarbox_sinks::celery::{BROKER_VARIABLE, KIND as CELERY};
pub(crate) use pillarbox_sinks::config::{ConfigError, duration, suggestion};
use pillarbox_sinks::config::{Report, Section};

use self::admin::AdminSettings;
use self::database::Database;
pub(crate) use self::environment::Environment;
pub(crate) use self::log::LogFormat;
use self::metrics::MetricsSettings;
use self::schemas::SchemaSettings;
use self::source::{SourceKind, SourceSettings};
use self::tracing::TracingSettings;

pub(crate) mod admin;
pub(crate) mod database;
pub(crate) mod destination;
mod digest;
mod environment;
mod log;
pub(crate) mod metrics;
mod relay;
mod route;
pub(crate) mod schemas;
pub(crate) mod show;
pub(crate) mod source;
pub(crate) mod tracing;

/// The commented configuration with every key at its default: the documentation of the keys.
pub(crate) const DEFAULT_FILE: &str = include_str!("../pillarbox.default.toml");
/// The path of the configuration without `--config`.
pub(crate) const USUAL_FILE: &str = "pillarbox.toml";

/// All settings of the program, checked.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The file that was read; `None` if there was none.
    pub(crate) file: Option<PathBuf>,
    pub(crate) database: Database,
    pub(crate) source: SourceSettings,
    pub(crate) relay: RelaySettings,
    /// The file that is touched whenever the relay's loop completes a claim.
    pub(crate) liveness_file: Option<PathBuf>,
    pub(crate) metrics: MetricsSettings,
    pub(crate) tracing: TracingSettings,
    pub(crate) log: LogFormat,
    pub(crate) destinations: Vec<DestinationSettings>,
    pub(crate) routes: Vec<Route>,
    pub(crate) schemas: Vec<SchemaSettings>,
    pub(crate) admin: AdminSettings,
}

impl Settings {
    /// Reads `--config FILE`, or else `./pillarbox.toml` if it exists, or else only the environment.
    pub(crate) fn load(asked_for: Option<&Path>, environment: &Environment) -> Result<Self, ConfigError> {
        let path = asked_for.unwrap_or(Path::new(USUAL_FILE));
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text, Some(path), environment),
            Err(error) if asked_for.is_none() && error.kind() == ErrorKind::NotFound => {
                Self::parse("", None, environment)
            }
            Err(error) => {
                let file = path.display();
                let what = format!("{file}: the configuration cannot be read: {error}; check --config");
                Err(ConfigError::new(what))
            }
        }
    }

    /// Lowers the text of a configuration. Reports all problems at once.
    pub(crate) fn parse(text: &str, file: Option<&Path>, environment: &Environment) -> Result<Self, ConfigError> {
        let table = text.parse().map_err(|error| ConfigError::syntax(file, text, &error))?;
        let report = Report::new(file);
        let mut top = Section::new("", table, &report);
        let database = Database::lower(top.overridable("database", environment), environment);
        let source = source::lower(top.overridable("source", environment), environment);
        let (relay, liveness_file) = relay::lower(top.overridable("relay", environment), source.kind);
        let metrics = metrics::lower(top.overridable("metrics", environment), source.kind);
        let tracing = tracing::lower(top.overridable("tracing", environment), environment);
        let log = log::lower(top.overridable("log", environment));
        let destinations = destination::registry().read(top.section("destinations"), &relay, environment);
        let mut routes = route::lower(top.sections("routes"), &destinations);
        if routes.is_empty() {
            routes.extend(implied_route(source.kind, &destinations));
        }
        let schemas = schemas::lower(top.sections("schemas"));
        let admin = admin::lower(top.overridable("admin", environment));
        top.finish();
        report.into_result()?;
        let file = file.map(Path::to_owned);
        Ok(Self {
            file,
            database,
            source,
            relay,
            liveness_file,
            metrics,
            tracing,
            log,
            destinations,
            routes,
            schemas,
            admin,
        })
    }
}

impl Settings {
    /// Returns a destination by its name. The error suggests the nearest name.
    pub(crate) fn destination(&self, name: &str) -> Result<&DestinationSettings, ConfigError> {
        self.destinations.iter().find(|destination| destination.name == name).ok_or_else(|| {
            let nearest = suggestion(name, self.destinations.iter().map(|destination| destination.name.as_str()));
            ConfigError::new(format!("there is no destination {name:?} in the configuration{nearest}"))
        })
    }

    /// Checks that tasks of django-celery-outbox have a route. Without one they would wait, with no place to show the
    /// reason.
    pub(crate) fn check_source(&self) -> Result<(), ConfigError> {
        if self.source.kind != SourceKind::DjangoCeleryOutbox || !self.routes.is_empty() {
            return Ok(());
        }
        let brokers = self.destinations.iter().filter(|destination| destination.kind() == CELERY).count();
        Err(ConfigError::new(match brokers {
            0 => format!(
                "there is no destination of kind \"celery\" for the tasks of django-celery-outbox; add [destinations.celery] \
                 with its broker, or set {BROKER_VARIABLE}"
            ),
            several => {
                format!("there are {several} destinations of kind \"celery\" and no [[routes]] between them; add them")
            }
        }))
    }
}

/// Returns the route of Celery's tasks if there is exactly one broker.
fn implied_route(source: SourceKind, destinations: &[DestinationSettings]) -> Option<Route> {
    let mut brokers = destinations.iter().filter(|destination| destination.kind() == CELERY);
    let (Some(only), None) = (brokers.next(), brokers.next()) else { return None };
    let aggregates = match source {
        SourceKind::DjangoCeleryOutbox => "*",
        SourceKind::OutboxEvent | SourceKind::Wal => "celery",
    };
    let mut route = Route::new("*", [only.name.clone()]);
    route.aggregates = Pattern::new(aggregates);
    Some(route)
}

#[cfg(test)]
mod tests;
