//! The database of the demo: a temporary SQLite file, or one that a person names. There the demo needs an empty outbox without
//! relays, and removes what it has written.

use std::time::Duration;

use anyhow::{Context, bail};
use pillarbox::StoreError;
use pillarbox::store::Retention;
use sqlx::{MySqlPool, PgPool, SqlitePool};
use tempfile::TempDir;

use crate::config::database::Database;
use crate::output::count;
use crate::store::Opened;

/// The application's own connections, by their driver.
pub(super) enum Pool {
    Sqlite(SqlitePool),
    Postgres(PgPool),
    Mysql(MySqlPool),
}

pub(super) struct Place {
    pub(super) opened: Opened,
    pub(super) pool: Pool,
    /// The URL for people; `None` for the temporary file.
    name: Option<String>,
    /// Whether the demo has created the outbox's tables.
    is_new: bool,
    _directory: Option<TempDir>,
}

impl Place {
    /// Opens the database that was named, or a temporary file.
    pub(super) async fn open(named: Option<&Database>) -> anyhow::Result<Self> {
        match named {
            Some(database) => Self::at(database).await,
            None => Self::temporary().await,
        }
    }

    async fn at(database: &Database) -> anyhow::Result<Self> {
        let (opened, name) = (Opened::bare(database).await?, database.shown());
        let is_new = match opened.store().check().await {
            Ok(()) => false,
            Err(StoreError::NotMigrated { .. }) => true,
            Err(error) => return Err(error.into()),
        };
        if is_new {
            opened.migrate().await?;
        }
        let counts = opened.inspect().counts().await?;
        let events = counts.pending() + counts.delivered + counts.failed;
        if events > 0 {
            bail!("the outbox in {name} has {}; name a database with an empty outbox or none", count(events, "event"));
        }
        if counts.relays.iter().any(|relay| relay.alive) {
            bail!(
                "a relay works on the outbox in {name} and would take the demo's events; stop it, or name another database"
            );
        }
        let pool = match (&opened, database) {
            (Opened::Sqlite(store), _) => Pool::Sqlite(store.pool().clone()),
            (Opened::Postgres(store), _) => Pool::Postgres(store.pool().clone()),
            (Opened::Mysql(_), Database::Mysql { url, .. }) => Pool::Mysql(MySqlPool::connect(url.expose()).await?),
            (Opened::Mysql(_), _) => bail!("the store is not one of {name}"),
        };
        Ok(Self { opened, pool, name: Some(name), is_new, _directory: None })
    }

    async fn temporary() -> anyhow::Result<Self> {
        let directory = tempfile::tempdir().context("creating a temporary directory failed")?;
        let mut place = Self::at(&Database::Sqlite { path: directory.path().join("demo.db") }).await?;
        (place.name, place._directory) = (None, Some(directory));
        Ok(place)
    }

    /// Returns whether the database stays after the demo.
    pub(super) fn stays(&self) -> bool {
        self.name.is_some()
    }

    /// Deletes the demo's events from a database that stays. Returns what is left there, for people.
    pub(super) async fn leave(&self) -> anyhow::Result<Option<String>> {
        let Some(name) = &self.name else { return Ok(None) };
        let now = Retention { delivered_after: Duration::ZERO, failed_after: Duration::ZERO, ..Retention::default() };
        while self.opened.store().cleanup(&now).await?.more {}
        let events = self.opened.inspect().counts().await?.pending();
        let mut left = Vec::new();
        if self.is_new {
            left.push(format!("the outbox's tables, outbox_*, were created in {name} and stay there"));
        }
        if events > 0 {
            left.push(format!("{} of the demo stay in {name}", count(events, "waiting event")));
        }
        Ok((!left.is_empty()).then(|| left.join("; ")))
    }
}
