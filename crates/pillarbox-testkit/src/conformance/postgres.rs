//! The outbox of one test on PostgreSQL.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use pillarbox::store::postgres::PostgresStore;
use pillarbox::{Emitted, Event, Inspect, Store, StoreError, emit_all};
use sqlx::postgres::PgPool;
use sqlx::{AssertSqlSafe, Executor};
use uuid::Uuid;

use super::Outbox;
use crate::TestDatabase;

/// A database of its own, with the outbox in `public`.
#[derive(Debug)]
pub struct PostgresOutbox {
    store: PostgresStore,
    database: TestDatabase,
}

impl PostgresOutbox {
    /// Creates the database and migrates it.
    ///
    /// # Panics
    /// When there is no server.
    pub async fn create() -> Self {
        let database = TestDatabase::create().await;
        let store = PostgresStore::connect(&database.url(), "public").await.expect("a connection");
        store.migrate().await.expect("a migration");
        Self { store, database }
    }

    /// Returns the database's URL.
    pub fn url(&self) -> String {
        self.database.url()
    }

    /// Returns the store itself, for features that only PostgreSQL has.
    pub fn postgres(&self) -> &PostgresStore {
        &self.store
    }

    /// Returns the pool, for transactions.
    pub fn pool(&self) -> &PgPool {
        self.store.pool()
    }

    /// Runs statements without values.
    ///
    /// # Panics
    /// When the database returns an error.
    pub async fn execute(&self, statements: &str) {
        self.pool().execute(sqlx::raw_sql(AssertSqlSafe(statements.to_owned()))).await.expect("statements that work");
    }
}

#[async_trait]
impl Outbox for PostgresOutbox {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn inspect(&self) -> Arc<dyn Inspect> {
        Arc::new(self.store.clone())
    }

    async fn another(&self) -> Arc<dyn Store> {
        Arc::new(PostgresStore::connect(&self.url(), "public").await.expect("a connection"))
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
        sqlx::query_scalar("SELECT clock_timestamp()").fetch_one(self.pool()).await.expect("the time")
    }

    async fn age(&self, event: Uuid, by: Duration) {
        sqlx::query(
            "UPDATE outbox_event SET created_at = created_at - $2 * interval '1 second', \
             updated_at = updated_at - $2 * interval '1 second', delivered_at = delivered_at - $2 * interval '1 second', \
             next_attempt_at = next_attempt_at - $2 * interval '1 second' WHERE id = $1",
        )
        .bind(event)
        .bind(by.as_secs_f64())
        .execute(self.pool())
        .await
        .expect("an event made older");
        sqlx::query("UPDATE outbox_delivery SET next_attempt_at = next_attempt_at - $2 * interval '1 second' WHERE event_id = $1")
            .bind(event)
            .bind(by.as_secs_f64())
            .execute(self.pool())
            .await
            .expect("deliveries made older");
    }

    async fn rename(&self, event: Uuid, id: Uuid) {
        let rename = sqlx::query("UPDATE outbox_event SET id = $2 WHERE id = $1").bind(event).bind(id);
        rename.execute(self.pool()).await.expect("an event with another id");
    }

    async fn age_relay(&self, relay: Uuid, by: Duration) {
        sqlx::query("UPDATE outbox_relay SET heartbeat_at = heartbeat_at - $2 * interval '1 second' WHERE id = $1")
            .bind(relay)
            .bind(by.as_secs_f64())
            .execute(self.pool())
            .await
            .expect("a heartbeat made older");
        sqlx::query("SELECT setval('outbox_idle_until', greatest(last_value - $1, 0)) FROM outbox_idle_until")
            .bind(by.as_secs().cast_signed())
            .execute(self.pool())
            .await
            .expect("its last word made older");
    }

    async fn rows(&self, table: &str) -> u64 {
        let count = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        sqlx::query_scalar::<_, i64>(count).fetch_one(self.pool()).await.expect("a count").unsigned_abs()
    }

    async fn forget_schema(&self) {
        self.execute("DROP SCHEMA public CASCADE").await;
    }

    async fn migrate(&self) -> Result<usize, StoreError> {
        let store = PostgresStore::connect(&self.url(), "public").await?;
        store.migrate().await.map(|made| made.len())
    }

    async fn pretend_migration(&self, version: i32, least_program: &str) {
        sqlx::query("INSERT INTO outbox_migration (version, name, least_program) VALUES ($1, 'later', $2)")
            .bind(version)
            .bind(least_program)
            .execute(self.pool())
            .await
            .expect("a migration written down");
    }
}
