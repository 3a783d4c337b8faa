//! The outbox of one test on MariaDB.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, NaiveDateTime, Utc};
use pillarbox::store::mysql::MysqlStore;
use pillarbox::{Emitted, Event, Inspect, Store, StoreError, emit_all};
use sqlx::mysql::MySqlPool;
use sqlx::{AssertSqlSafe, Executor};
use uuid::Uuid;

use super::Outbox;
use crate::TestMysql;

/// A database of its own.
#[derive(Debug)]
pub struct MysqlOutbox {
    store: MysqlStore,
    pool: MySqlPool,
    database: TestMysql,
}

impl MysqlOutbox {
    /// Creates the database and migrates it.
    ///
    /// # Panics
    /// When there is no server.
    pub async fn create() -> Self {
        let database = TestMysql::create().await;
        let store = MysqlStore::connect(&database.url()).await.expect("a connection");
        store.migrate().await.expect("a migration");
        let pool = MySqlPool::connect_lazy(&database.url()).expect("a URL");
        Self { store, pool, database }
    }

    /// Returns the database's URL.
    pub fn url(&self) -> String {
        self.database.url()
    }

    /// Returns the store itself.
    pub fn mysql(&self) -> &MysqlStore {
        &self.store
    }

    /// Returns a pool of the application's own, with the server's default isolation, for transactions.
    pub fn pool(&self) -> &MySqlPool {
        &self.pool
    }

    /// Runs statements without values.
    ///
    /// # Panics
    /// When the database returns an error.
    pub async fn execute(&self, statements: &str) {
        self.pool.execute(sqlx::raw_sql(AssertSqlSafe(statements.to_owned()))).await.expect("statements that work");
    }
}

#[async_trait]
impl Outbox for MysqlOutbox {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn inspect(&self) -> Arc<dyn Inspect> {
        Arc::new(self.store.clone())
    }

    async fn another(&self) -> Arc<dyn Store> {
        Arc::new(MysqlStore::connect(&self.url()).await.expect("a connection"))
    }

    async fn emit(&self, events: Vec<Event>) -> Vec<Emitted> {
        let mut tx = self.pool.begin().await.expect("a transaction");
        let emitted = emit_all(&mut tx, events).await.expect("events that can be emitted");
        tx.commit().await.expect("a commit");
        emitted
    }

    async fn emit_and_roll_back(&self, events: Vec<Event>) -> Vec<Emitted> {
        let mut tx = self.pool.begin().await.expect("a transaction");
        let emitted = emit_all(&mut tx, events).await.expect("events that can be emitted");
        tx.rollback().await.expect("a rollback");
        emitted
    }

    async fn now(&self) -> DateTime<Utc> {
        let now: NaiveDateTime =
            sqlx::query_scalar("SELECT utc_timestamp(6)").fetch_one(&self.pool).await.expect("the time");
        now.and_utc()
    }

    async fn age(&self, event: Uuid, by: Duration) {
        let by = i64::try_from(by.as_micros()).expect("a span that a column holds");
        sqlx::query(
            "UPDATE outbox_event SET created_at = created_at - INTERVAL ? MICROSECOND, \
             updated_at = updated_at - INTERVAL ? MICROSECOND, delivered_at = delivered_at - INTERVAL ? MICROSECOND, \
             next_attempt_at = next_attempt_at - INTERVAL ? MICROSECOND WHERE id = ?",
        )
        .bind(by)
        .bind(by)
        .bind(by)
        .bind(by)
        .bind(event)
        .execute(&self.pool)
        .await
        .expect("an event made older");
        sqlx::query(
            "UPDATE outbox_delivery SET next_attempt_at = next_attempt_at - INTERVAL ? MICROSECOND WHERE event_id = ?",
        )
        .bind(by)
        .bind(event)
        .execute(&self.pool)
        .await
        .expect("deliveries made older");
    }

    async fn rename(&self, event: Uuid, id: Uuid) {
        let rename = sqlx::query("UPDATE outbox_event SET id = ? WHERE id = ?").bind(id).bind(event);
        rename.execute(&self.pool).await.expect("an event with another id");
    }

    async fn age_relay(&self, relay: Uuid, by: Duration) {
        sqlx::query("UPDATE outbox_relay SET heartbeat_at = heartbeat_at - INTERVAL ? MICROSECOND WHERE id = ?")
            .bind(i64::try_from(by.as_micros()).expect("a span that a column holds"))
            .bind(relay)
            .execute(&self.pool)
            .await
            .expect("a heartbeat made older");
    }

    async fn rows(&self, table: &str) -> u64 {
        let count = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        sqlx::query_scalar::<_, i64>(count).fetch_one(&self.pool).await.expect("a count").unsigned_abs()
    }

    async fn forget_schema(&self) {
        self.execute(
            "DROP TABLE outbox_event, outbox_delivery, outbox_attempt, outbox_relay, outbox_lane, outbox_figure, \
             outbox_paused, outbox_audit, outbox_job, outbox_session, outbox_migration",
        )
        .await;
    }

    async fn migrate(&self) -> Result<usize, StoreError> {
        let store = MysqlStore::connect(&self.url()).await?;
        store.migrate().await.map(|made| made.len())
    }

    async fn pretend_migration(&self, version: i32, least_program: &str) {
        sqlx::query("INSERT INTO outbox_migration (version, name, least_program) VALUES (?, 'later', ?)")
            .bind(version)
            .bind(least_program)
            .execute(&self.pool)
            .await
            .expect("a migration written down");
    }
}
