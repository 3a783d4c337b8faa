//! Opens the configured outbox. This is the one place of the program that names the concrete stores.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use pillarbox::source::wal::{WalSettings, WalStore};
use pillarbox::store::celery_outbox::{CeleryOutboxSettings, CeleryOutboxStore};
use pillarbox::store::mysql::{MysqlSettings, MysqlStore};
use pillarbox::store::postgres::{PostgresSettings, PostgresStore};
use pillarbox::store::sqlite::SqliteStore;
use pillarbox::store::{AdminStore, Migration, Role, Waiting};
use pillarbox::{Fleet, Inspect, Store, StoreError};

use crate::config::database::Database;
use crate::config::source::{DJANGO_CELERY_OUTBOX, SourceKind, WAL};
use crate::config::{ConfigError, Settings};
use crate::output::Output;

/// The tables that a relay delivers from.
pub(crate) enum Source {
    /// Pillarbox's own tables.
    Own(Opened),
    /// Pillarbox's own tables and PostgreSQL's write-ahead log.
    Log(Opened, WalStore),
    /// The tables of django-celery-outbox.
    Adopted(CeleryOutboxStore),
}

/// The numbers of waiting events, for the metrics.
#[derive(Debug, Clone, Default)]
pub(crate) struct Depth {
    /// Due, and not claimed.
    pub(crate) due: u64,
    /// Due later, including retries.
    pub(crate) scheduled: u64,
    /// Claimed by a relay, with a lease.
    pub(crate) leased: u64,
    /// Waiting for a destination or a route.
    pub(crate) parked: u64,
    /// Dead letters.
    pub(crate) dead: u64,
    /// How long the oldest due event has been due.
    pub(crate) oldest: Option<Duration>,
    /// The events that are parked on each destination, or have no route.
    pub(crate) waiting: Vec<Waiting>,
}

impl Depth {
    /// Returns the number of events that are neither delivered nor dead letters.
    pub(crate) fn pending(&self) -> u64 {
        self.due + self.scheduled + self.leased + self.parked
    }
}

impl Source {
    /// Opens the configured tables, and refuses a schema that this program cannot work on.
    pub(crate) async fn checked(settings: &Settings, missing: Missing) -> anyhow::Result<Self> {
        match settings.source.kind {
            SourceKind::OutboxEvent => Ok(Self::Own(Opened::checked(&settings.database, missing).await?)),
            SourceKind::Wal => {
                let opened = Opened::checked(&settings.database, missing).await?;
                let Opened::Postgres(store) = &opened else {
                    return Err(ConfigError::new(format!(
                        "database.url is {}, but source.kind {WAL:?} reads the write-ahead log of PostgreSQL; set it, or \
                         PILLARBOX_DATABASE_URL, to postgres://USER:PASSWORD@HOST/DATABASE, or leave source.kind out",
                        settings.database.shown()
                    ))
                    .into());
                };
                let url = settings.source.url.as_ref().map(|url| url.expose().to_owned());
                let (lease, table) = (settings.source.lease, settings.source.outbox_table().cloned());
                let accept_failover_loss = settings.source.accept_failover_loss;
                let log = WalStore::new(store.clone(), WalSettings { url, lease, table, accept_failover_loss });
                Ok(Self::Log(opened, log))
            }
            SourceKind::DjangoCeleryOutbox => {
                let store = adopt(settings).await?;
                store.check().await?;
                Ok(Self::Adopted(store))
            }
        }
    }

    /// Returns the store for a relay.
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Own(opened) => opened.store(),
            Self::Log(_, log) => Arc::new(log.clone()),
            Self::Adopted(store) => Arc::new(store.clone()),
        }
    }

    pub(crate) async fn depth(&self) -> Result<Depth, StoreError> {
        match self {
            Self::Own(opened) | Self::Log(opened, _) => {
                let (depth, waiting) = tokio::try_join!(opened.inspect().depth(), opened.inspect().waiting())?;
                let pillarbox::store::Depth { due, scheduled, sending, parked, failed, oldest_due, .. } = depth;
                Ok(Depth { due, scheduled, leased: sending, parked, dead: failed, oldest: oldest_due, waiting })
            }
            Self::Adopted(store) => {
                let depth = store.depth().await?;
                let (due, dead, oldest) = (depth.due, depth.dead_letters, depth.oldest);
                Ok(Depth { due, dead, oldest, ..Depth::default() })
            }
        }
    }
}

async fn adopt(settings: &Settings) -> anyhow::Result<CeleryOutboxStore> {
    let adopted =
        CeleryOutboxSettings { cooldown: settings.source.cooldown, max_retries: settings.relay.retry.max_attempts };
    match &settings.database {
        Database::Postgres { url, schema, settings } => {
            Ok(CeleryOutboxStore::connect_with(url.expose(), schema, adopted, *settings).await?)
        }
        Database::Mysql { url, settings } => {
            Ok(CeleryOutboxStore::connect_mysql_with(url.expose(), adopted, *settings).await?)
        }
        Database::Sqlite { .. } => Err(ConfigError::new(format!(
            "database.url is {}, but source.kind {DJANGO_CELERY_OUTBOX:?} needs the database of the Django project, PostgreSQL, \
             MariaDB or MySQL; set it, or PILLARBOX_DATABASE_URL, to postgres://USER:PASSWORD@HOST/DATABASE or \
             mysql://USER:PASSWORD@HOST/DATABASE",
            settings.database.shown()
        ))
        .into()),
    }
}

/// What to do if the SQLite file does not exist. On a server a person runs `pillarbox migrate`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Missing {
    /// Create an outbox there, and say so: for commands with which people begin.
    Create(Output),
    /// Fail: a command that only reads would show an empty outbox, created in a wrong directory.
    Refuse,
}

/// The size of the connection pool for the admin pages of a relay.
const CONNECTIONS_BESIDE: u32 = 4;

/// An open outbox.
pub(crate) enum Opened {
    Sqlite(SqliteStore),
    Postgres(PostgresStore),
    Mysql(MysqlStore),
}

impl Opened {
    /// Opens the outbox without any check.
    pub(crate) async fn bare(database: &Database) -> anyhow::Result<Self> {
        match database {
            Database::Sqlite { path } => Ok(Self::Sqlite(open_file(path).await?)),
            Database::Postgres { url, schema, settings } => {
                Ok(Self::Postgres(PostgresStore::connect_with(url.expose(), schema, *settings).await?))
            }
            Database::Mysql { url, settings } => {
                Ok(Self::Mysql(MysqlStore::connect_with(url.expose(), *settings).await?))
            }
        }
    }

    /// Opens the outbox with a separate connection pool for people, so that the relay does not wait for their connections.
    pub(crate) async fn beside(database: &Database) -> anyhow::Result<Self> {
        match database {
            Database::Sqlite { path } => Ok(Self::Sqlite(open_file(path).await?)),
            Database::Postgres { url, schema, settings } => {
                let settings = PostgresSettings { connections: CONNECTIONS_BESIDE, ..*settings };
                Ok(Self::Postgres(PostgresStore::connect_with(url.expose(), schema, settings).await?))
            }
            Database::Mysql { url, settings } => {
                let settings = MysqlSettings { connections: CONNECTIONS_BESIDE, ..*settings };
                Ok(Self::Mysql(MysqlStore::connect_with(url.expose(), settings).await?))
            }
        }
    }

    /// Opens the outbox. A new SQLite file gets its tables at once, if it may be created. The schema is not checked,
    /// because a role that only emits has no right to read it.
    pub(crate) async fn unchecked(database: &Database, missing: Missing) -> anyhow::Result<Self> {
        match (database, missing) {
            (Database::Sqlite { path }, Missing::Refuse) => {
                check_directory(path)?;
                if !path.exists() {
                    bail!(no_outbox(path));
                }
                Self::bare(database).await
            }
            (Database::Sqlite { path }, Missing::Create(output)) if is_empty(path) => {
                let opened = Self::bare(database).await?;
                opened.migrate().await?;
                output.note(&format!("created a new outbox in {}", path.display()));
                Ok(opened)
            }
            _ => Self::bare(database).await,
        }
    }

    /// Opens an outbox on PostgreSQL and refuses a schema that this program cannot work on. Returns `None` for other databases.
    pub(crate) async fn postgres(database: &Database) -> anyhow::Result<Option<PostgresStore>> {
        let Database::Postgres { url, schema, settings } = database else { return Ok(None) };
        let store = PostgresStore::connect_with(url.expose(), schema, *settings).await?;
        store.check().await?;
        Ok(Some(store))
    }

    /// As [`Opened::unchecked`], and refuses a schema that this program cannot work on.
    pub(crate) async fn checked(database: &Database, missing: Missing) -> anyhow::Result<Self> {
        let opened = Self::unchecked(database, missing).await?;
        opened.store().check().await?;
        Ok(opened)
    }

    /// Returns the store for a relay.
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Sqlite(store) => Arc::new(store.clone()),
            Self::Postgres(store) => Arc::new(store.clone()),
            Self::Mysql(store) => Arc::new(store.clone()),
        }
    }

    /// Returns the store for people, as an owned value.
    pub(crate) fn people(&self) -> Arc<dyn AdminStore> {
        match self {
            Self::Sqlite(store) => Arc::new(store.clone()),
            Self::Postgres(store) => Arc::new(store.clone()),
            Self::Mysql(store) => Arc::new(store.clone()),
        }
    }

    /// Returns the store for people.
    pub(crate) fn inspect(&self) -> &dyn Inspect {
        match self {
            Self::Sqlite(store) => store,
            Self::Postgres(store) => store,
            Self::Mysql(store) => store,
        }
    }

    pub(crate) async fn migrate(&self) -> anyhow::Result<Vec<Migration>> {
        Ok(match self {
            Self::Sqlite(store) => store.migrate().await?,
            Self::Postgres(store) => store.migrate().await?,
            Self::Mysql(store) => store.migrate().await?,
        })
    }

    /// Returns the statements that grant a role its rights.
    pub(crate) fn grants(&self, kind: Role, role: &str) -> anyhow::Result<String> {
        match self {
            Self::Sqlite(_) => bail!("SQLite has no roles; leave the roles out"),
            Self::Postgres(store) => Ok(store.grants(kind, role)),
            Self::Mysql(store) => Ok(store.grants(kind, role)),
        }
    }

    pub(crate) async fn grant(&self, kind: Role, role: &str) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(store) => Ok(store.grant(kind, role).await?),
            Self::Mysql(store) => Ok(store.grant(kind, role).await?),
        }
    }
}

fn is_empty(path: &Path) -> bool {
    std::fs::metadata(path).map_or(true, |file| file.len() == 0)
}

/// Returns the error for a file that does not exist, with the path at which it was searched.
fn no_outbox(path: &Path) -> String {
    let searched = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    format!(
        "there is no outbox at {}; `pillarbox migrate` creates one there; for an existing outbox, run the command in its \
         directory, name its configuration with --config, or set PILLARBOX_DATABASE_URL",
        searched.display()
    )
}

fn check_directory(path: &Path) -> anyhow::Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    if let Some(directory) = directory.filter(|directory| !directory.is_dir()) {
        bail!("the directory {} for the database file does not exist; create it", directory.display());
    }
    Ok(())
}

async fn open_file(path: &Path) -> anyhow::Result<SqliteStore> {
    check_directory(path)?;
    SqliteStore::open(path).await.with_context(|| path.display().to_string())
}
