//! `[database]`: the database that has the outbox.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use pillarbox::store::mysql::MysqlSettings;
use pillarbox::store::postgres::PostgresSettings;
use pillarbox_sinks::config::{SecretRef, Section, some_time};
use pillarbox_sinks::{Secret, redact};

use super::environment::Environment;

/// The database if none is configured.
const DEFAULT_URL: &str = "sqlite://pillarbox.db";
const DEFAULT_SCHEMA: &str = "public";
/// The fewest connections. A relay claims, settles and writes its heartbeat at the same time.
const LEAST_CONNECTIONS: u32 = 3;
const CHOICES: &str =
    "write sqlite://FILE, postgres://USER:PASSWORD@HOST/DATABASE or mysql://USER:PASSWORD@HOST/DATABASE";

/// The database of the outbox. Its `Debug` does not show the URL's password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Database {
    Sqlite { path: PathBuf },
    Postgres { url: Secret, schema: String, settings: PostgresSettings },
    Mysql { url: Secret, settings: MysqlSettings },
}

/// The limits of connections, for people.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) connections: u32,
    pub(crate) deadline: Duration,
    pub(crate) connect_timeout: Duration,
}

/// The limits that are configured.
struct Given {
    connections: Option<u32>,
    deadline: Option<Duration>,
    connect_timeout: Option<Duration>,
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
        let given = lower_limits(&mut section);
        let mut database = parsed.unwrap_or_default();
        match &mut database {
            Self::Sqlite { .. } => {}
            Self::Postgres { schema: name, settings, .. } => {
                *name = schema.unwrap_or_else(|| DEFAULT_SCHEMA.to_owned());
                *settings = PostgresSettings {
                    connections: given.connections.unwrap_or(settings.connections),
                    deadline: given.deadline.unwrap_or(settings.deadline),
                    connect_timeout: given.connect_timeout.unwrap_or(settings.connect_timeout),
                };
            }
            Self::Mysql { settings, .. } => {
                // The default is accepted, because the default file has it.
                if schema.is_some_and(|schema| schema != DEFAULT_SCHEMA) {
                    section.problem(
                        "schema",
                        "is set, but MariaDB and MySQL have no schemas; name the database in database.url",
                    );
                }
                *settings = MysqlSettings {
                    connections: given.connections.unwrap_or(settings.connections),
                    deadline: given.deadline.unwrap_or(settings.deadline),
                    connect_timeout: given.connect_timeout.unwrap_or(settings.connect_timeout),
                };
            }
        }
        section.finish();
        database
    }

    /// Reads a URL, with the default settings.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once(':').ok_or_else(|| format!("is not a URL; {CHOICES}"))?;
        match scheme {
            "sqlite" => sqlite_path(rest).map(|path| Self::Sqlite { path }),
            "postgres" | "postgresql" if rest.starts_with("//") => {
                let settings = PostgresSettings::default();
                Ok(Self::Postgres { url: Secret::new(url), schema: DEFAULT_SCHEMA.to_owned(), settings })
            }
            "mysql" | "mariadb" if rest.starts_with("//") => {
                Ok(Self::Mysql { url: Secret::new(url), settings: MysqlSettings::default() })
            }
            _ => Err(format!("begins with {scheme:?}, which is not a supported database; {CHOICES}")),
        }
    }

    /// Returns the URL for people, without a password.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Sqlite { path } => format!("sqlite://{}", path.display()),
            Self::Postgres { url, .. } | Self::Mysql { url, .. } => redact::without_password(url.expose()),
        }
    }

    /// Returns the limits of connections. SQLite has none and returns PostgreSQL's defaults.
    pub(crate) fn limits(&self) -> Limits {
        match self {
            Self::Sqlite { .. } => Limits::of(PostgresSettings::default()),
            Self::Postgres { settings, .. } => Limits::of(*settings),
            Self::Mysql { settings: MysqlSettings { connections, deadline, connect_timeout }, .. } => {
                Limits { connections: *connections, deadline: *deadline, connect_timeout: *connect_timeout }
            }
        }
    }

    /// Returns the schema. SQLite ignores it and returns the default; MariaDB and MySQL have none.
    pub(crate) fn schema(&self) -> Option<&str> {
        match self {
            Self::Sqlite { .. } => Some(DEFAULT_SCHEMA),
            Self::Postgres { schema, .. } => Some(schema),
            Self::Mysql { .. } => None,
        }
    }
}

impl Limits {
    fn of(PostgresSettings { connections, deadline, connect_timeout }: PostgresSettings) -> Self {
        Self { connections, deadline, connect_timeout }
    }
}

impl Default for Database {
    fn default() -> Self {
        Self::Sqlite { path: PathBuf::from(DEFAULT_URL.trim_start_matches("sqlite://")) }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Database({}, {})", self.shown(), self.schema().unwrap_or("no schema"))
    }
}

fn lower_limits(section: &mut Section<'_>) -> Given {
    let enough = |connections: &u32| match connections {
        0..LEAST_CONNECTIONS => Err(format!("is {connections}, but must be at least {LEAST_CONNECTIONS}")),
        _ => Ok(()),
    };
    let long_enough = |deadline: &Duration| match deadline.as_millis() {
        0..100 => Err("must be at least 100ms; with less, a busy server would count as down".to_owned()),
        _ => Ok(()),
    };
    Given {
        connections: section.take_checked("connections", enough),
        deadline: section.take_checked("deadline", long_enough),
        connect_timeout: section.take_checked("connect_timeout", some_time),
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
            ("mysql://ann:hunter2@db:3306/shop?ssl-mode=REQUIRED", "mysql://ann:***@db:3306/shop?ssl-mode=REQUIRED"),
            ("mariadb://ann:hunter2@db/shop", "mariadb://ann:***@db/shop"),
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
        for url in ["oracle://ann:hunter2@db/shop", "pillarbox.db", "postgres:ann:hunter2@db", "mysql:ann:hunter2@db"] {
            let problem = Database::parse(url).unwrap_err();
            assert!(problem.contains("write sqlite://FILE, postgres://"), "{problem}");
            assert!(!problem.contains("hunter2"), "{problem}");
        }
    }
}
