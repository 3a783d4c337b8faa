//! The outbox of one test on SQLite.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use pillarbox::store::sqlite::SqliteStore;
use pillarbox::{Emitted, Event, Inspect, Store, StoreError, emit_all};
use sqlx::sqlite::SqlitePool;
use sqlx::{AssertSqlSafe, Executor};
use tempfile::TempDir;
use uuid::Uuid;

use super::Outbox;

/// A file of its own.
#[derive(Debug)]
pub struct SqliteOutbox {
    store: SqliteStore,
    directory: TempDir,
}

impl SqliteOutbox {
    /// Creates the file and migrates it.
    ///
    /// # Panics
    /// When no temporary directory can be created.
    pub async fn create() -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let store = SqliteStore::open(directory.path().join("outbox.db")).await.expect("a file that can be opened");
        store.migrate().await.expect("a migration");
        Self { store, directory }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("outbox.db")
    }

    /// Returns the pool, for transactions.
    pub fn pool(&self) -> &SqlitePool {
        self.store.pool()
    }

    /// Runs statements without values.
    ///
    /// # Panics
    /// When the database returns an error.
    pub async fn execute(&self, statements: &str) {
        self.pool().execute(sqlx::raw_sql(AssertSqlSafe(statements.to_owned()))).await.expect("statements that work");
    }

    async fn shift(&self, statement: &'static str, id: Uuid, by: Duration) {
        sqlx::query(statement)
            .bind(id.hyphenated())
            .bind(format!("-{:.3} seconds", by.as_secs_f64()))
            .execute(self.pool())
            .await
            .expect("times made older");
    }
}

#[async_trait]
impl Outbox for SqliteOutbox {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn inspect(&self) -> Arc<dyn Inspect> {
        Arc::new(self.store.clone())
    }

    async fn another(&self) -> Arc<dyn Store> {
        Arc::new(SqliteStore::open(self.path()).await.expect("a file that can be opened"))
    }

    async fn emit(&self, events: Vec<Event>) -> Vec<Emitted> {
        let mut tx = self.pool().begin().await.expect("a transaction");
        let emitted = emit_all(&mut tx, events).await.expect("events that can be emitted");
        tx.commit().await.expect("a commit");
        emitted
    }

    async fn emit_and_roll_back(&self, events: Vec<Event>) -> Vec<Emitted> {
        let mut tx = self.pool().begin().await.expect("a transaction");
        let emitted = emit_all(&mut tx, events).await.expect("events that can be emitted");
        tx.rollback().await.expect("a rollback");
        emitted
    }

    async fn now(&self) -> DateTime<Utc> {
        let now: String = sqlx::query_scalar("SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now')")
            .fetch_one(self.pool())
            .await
            .expect("the time");
        now.parse().expect("a moment")
    }

    async fn age(&self, event: Uuid, by: Duration) {
        let events = "UPDATE outbox_event SET created_at = strftime('%Y-%m-%dT%H:%M:%fZ', created_at, ?2), \
             updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', updated_at, ?2), \
             delivered_at = strftime('%Y-%m-%dT%H:%M:%fZ', delivered_at, ?2), \
             next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', next_attempt_at, ?2) WHERE id = ?1";
        let deliveries = "UPDATE outbox_delivery \
             SET next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', next_attempt_at, ?2) WHERE event_id = ?1";
        self.shift(events, event, by).await;
        self.shift(deliveries, event, by).await;
    }

    async fn rename(&self, event: Uuid, id: Uuid) {
        let rename = sqlx::query("UPDATE outbox_event SET id = ?2 WHERE id = ?1");
        let rename = rename.bind(event.hyphenated()).bind(id.hyphenated());
        rename.execute(self.pool()).await.expect("an event with another id");
    }

    async fn age_relay(&self, relay: Uuid, by: Duration) {
        let relays =
            "UPDATE outbox_relay SET heartbeat_at = strftime('%Y-%m-%dT%H:%M:%fZ', heartbeat_at, ?2) WHERE id = ?1";
        self.shift(relays, relay, by).await;
    }

    async fn rows(&self, table: &str) -> u64 {
        let count = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        sqlx::query_scalar::<_, i64>(count).fetch_one(self.pool()).await.expect("a count").unsigned_abs()
    }

    async fn forget_schema(&self) {
        self.execute(
            "DROP TABLE outbox_event; DROP TABLE outbox_delivery; DROP TABLE outbox_attempt; DROP TABLE outbox_relay; \
             DROP TABLE outbox_lane; DROP TABLE outbox_figure; DROP TABLE outbox_paused; DROP TABLE outbox_audit; \
             DROP TABLE outbox_job; DROP TABLE outbox_session; DROP TABLE outbox_migration",
        )
        .await;
    }

    async fn migrate(&self) -> Result<usize, StoreError> {
        let store = SqliteStore::open(self.path()).await?;
        store.migrate().await.map(|made| made.len())
    }

    async fn pretend_migration(&self, version: i32, least_program: &str) {
        sqlx::query("INSERT INTO outbox_migration (version, name, least_program) VALUES (?1, 'later', ?2)")
            .bind(version)
            .bind(least_program)
            .execute(self.pool())
            .await
            .expect("a migration written down");
    }
}
