//! `[database]`: the database that has the outbox.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use pillarbox::store::postgres::PostgresSettings;
use pillarbox_sinks::config::{SecretRef, Section, some_time};
use pillarbox_sinks::{Secret, redact};

use super::environment::Environment;

/// The database if none is configured.
const DEFAULT_URL: &str = "sqlite://pillarbox.db";
const DEFAULT_SCHEMA: &str = "public";
/// The fewest connections. A relay claims, settles and writes its heartbeat at the same time.
const LEAST_CONNECTIONS: u32 = 3;
const CHOICES: &str = "write sqlite://FILE or postgres://USER:PASSWORD@HOST/DATABASE";

/// The database of the outbox. Its `Debug` does not show the URL's password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Database {
    Sqlite { path: PathBuf },
    Postgres { url: Secret, schema: String, settings: PostgresSettings },
}

impl Database {
    pub(super) fn lower(mut section: Section<'_>, environment: &Environment) -> Self {
        let mut parsed = None;
        let parse = |given: &SecretRef| {
            parsed = Some(Self::parse(given.resolve(environment)?.expose())?);
            Ok(())
        };
        section.take_checked("url", parse);
        let schema: Option<String> = section.take_checked("schema", |name: &String| check_schema(name));
        let given = lower_settings(&mut section);
        section.finish();
        let mut database = parsed.unwrap_or_default();
        if let Self::Postgres { schema: name, settings, .. } = &mut database {
            *name = schema.unwrap_or_else(|| DEFAULT_SCHEMA.to_owned());
            *settings = given;
        }
        database
    }

    fn parse(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once(':').ok_or_else(|| format!("is not a URL; {CHOICES}"))?;
        match scheme {
            "sqlite" => sqlite_path(rest).map(|path| Self::Sqlite { path }),
            "postgres" | "postgresql" if rest.starts_with("//") => {
                let settings = PostgresSettings::default();
                Ok(Self::Postgres { url: Secret::new(url), schema: DEFAULT_SCHEMA.to_owned(), settings })
            }
            _ => Err(format!("begins with {scheme:?}, which is not a supported database; {CHOICES}")),
        }
    }

    /// Returns the URL for people, without a password.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Sqlite { path } => format!("sqlite://{}", path.display()),
            Self::Postgres { url, .. } => redact::without_password(url.expose()),
        }
    }

    /// Returns the connection settings. SQLite has none and returns the defaults.
    pub(crate) fn settings(&self) -> PostgresSettings {
        match self {
            Self::Sqlite { .. } => PostgresSettings::default(),
            Self::Postgres { settings, .. } => *settings,
        }
    }

    /// Returns the schema. SQLite has none and returns the default.
    pub(crate) fn schema(&self) -> &str {
        match self {
            Self::Sqlite { .. } => DEFAULT_SCHEMA,
            Self::Postgres { schema, .. } => schema,
        }
    }
}

impl Default for Database {
    fn default() -> Self {
        Self::Sqlite { path: PathBuf::from(DEFAULT_URL.trim_start_matches("sqlite://")) }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({}, {})", self.shown(), self.schema())
    }
}

fn lower_settings(section: &mut Section<'_>) -> PostgresSettings {
    let default = PostgresSettings::default();
    let enough = |connections: &u32| match connections {
        0..LEAST_CONNECTIONS => Err(format!("is {connections}, but must be at least {LEAST_CONNECTIONS}")),
        _ => Ok(()),
    };
    let long_enough = |deadline: &Duration| match deadline.as_millis() {
        0..100 => Err("must be at least 100ms; with less, a busy server would count as down".to_owned()),
        _ => Ok(()),
    };
    PostgresSettings {
        connections: section.take_checked("connections", enough).unwrap_or(default.connections),
        deadline: section.take_checked("deadline", long_enough).unwrap_or(default.deadline),
        connect_timeout: section.take_checked("connect_timeout", some_time).unwrap_or(default.connect_timeout),
    }
}

/// Reads `sqlite://path` and `sqlite:path`. The parameter `mode=rwc`, which other programs use, is accepted and has no
/// effect.
fn sqlite_path(rest: &str) -> Result<PathBuf, String> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    let (path, parameters) = path.split_once('?').unwrap_or((path, ""));
    if !matches!(parameters, "" | "mode=rwc") {
        return Err(format!("has the parameters {parameters:?}, which are not supported; write sqlite://FILE"));
    }
    if path.is_empty() || path == ":memory:" {
        return Err("names no file, and an outbox that is not on disk loses events; write sqlite://FILE".to_owned());
    }
    Ok(PathBuf::from(path))
}

/// Checks the schema's name. The store checks it again, but here the error can name the key.
fn check_schema(name: &str) -> Result<(), String> {
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let goes_well = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if starts_well && goes_well && name.len() <= 63 {
        Ok(())
    } else {
        Err(format!("is {name:?}, but must be at most 63 letters, digits and underscores, not starting with a digit"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        for (url, shown) in [
            ("postgres://ann:hunter2@db/shop", "postgres://ann:***@db/shop"),
            ("postgres://ann:hun@ter2@db/shop?a=b", "postgres://ann:***@db/shop?a=b"),
            ("postgres://ann@db/shop?sslmode=require", "postgres://ann@db/shop?sslmode=require"),
            ("postgres://db/shop?user=ann&password=hunter2", "postgres://db/shop?user=ann&password=***"),
            ("postgres://ann:hun?ter2@db/shop", "postgres://ann:***@db/shop"),
        ] {
            let database = Database::parse(url).unwrap();
            assert_eq!(database.shown(), shown);
            assert!(!format!("{database:?}").contains("ter2"));
        }
    }

    #[test]
    fn sqlite_urls_name_files() {
        for (url, path) in [
            ("sqlite://pillarbox.db", "pillarbox.db"),
            ("sqlite:pillarbox.db", "pillarbox.db"),
            ("sqlite:///var/lib/pillarbox.db", "/var/lib/pillarbox.db"),
            ("sqlite://shop.db?mode=rwc", "shop.db"),
        ] {
            assert_eq!(Database::parse(url), Ok(Database::Sqlite { path: PathBuf::from(path) }));
        }
        assert!(Database::parse("sqlite::memory:").unwrap_err().contains("loses events"));
        assert!(Database::parse("sqlite://a.db?cache=shared").unwrap_err().contains("cache=shared"));
    }

    #[test]
    fn other_databases_are_refused_with_the_choices() {
        for url in ["mysql://ann:hunter2@db/shop", "pillarbox.db", "postgres:ann:hunter2@db"] {
            let problem = Database::parse(url).unwrap_err();
            assert!(problem.contains("write sqlite://FILE or postgres://"), "{problem}");
            assert!(!problem.contains("hunter2"), "{problem}");
        }
    }
}
