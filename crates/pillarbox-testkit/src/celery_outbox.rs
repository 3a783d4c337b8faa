//! An outbox of django-celery-outbox: its tables in a database of their own, its tasks, and the rows that its own relay would
//! select.

use std::time::Duration;

use chrono::{DateTime, Utc};
use pillarbox::store::celery_outbox::{CeleryOutboxSettings, CeleryOutboxStore};
use sqlx::postgres::{PgPool, PgPoolOptions, PgRow};
use sqlx::{AssertSqlSafe, Executor, Row};

use crate::TestDatabase;

/// The tables, as its migrations create them.
pub const CELERY_OUTBOX_TABLES: &str = include_str!("celery_outbox.sql");

/// The query of django-celery-outbox's relay (`MessageSelector`), in SQL.
const SELECTED: &str = "
SELECT id FROM celery_outbox
WHERE (updated_at IS NULL OR retry_after <= statement_timestamp()
       OR (updated_at <= statement_timestamp() - $1 * interval '1 second' AND retry_after IS NULL))
  AND schema_version >= 1 AND schema_version <= 1
ORDER BY id
LIMIT $2
FOR UPDATE SKIP LOCKED";

const ADD: &str = "
INSERT INTO celery_outbox (created_at, updated_at, retries, retry_after, task_id, task_name, args, kwargs, options,
                           schema_version)
SELECT clock_timestamp(), NULL, 0, NULL, 'task-' || number, 'orders.process', jsonb_build_array(number), '{}',
       '{\"ignore_result\": false}', 1
FROM generate_series(1, $1) AS number
RETURNING id";

/// One test's outbox.
#[derive(Debug)]
pub struct CeleryOutbox {
    database: TestDatabase,
    pool: PgPool,
}

/// The columns of `celery_outbox` that change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRow {
    /// The row's id.
    pub id: i64,
    /// When the task was claimed or failed.
    pub updated_at: Option<DateTime<Utc>>,
    /// The number of failed attempts.
    pub retries: i16,
    /// When the task is due again.
    pub retry_after: Option<DateTime<Utc>>,
}

impl CeleryOutbox {
    /// Creates the tables in a fresh database.
    ///
    /// # Panics
    /// When there is no server, or it refuses.
    pub async fn create() -> Self {
        let outbox = Self::create_empty().await;
        outbox.execute(CELERY_OUTBOX_TABLES).await;
        outbox
    }

    /// Creates a fresh database without the tables.
    ///
    /// # Panics
    /// When there is no server, or it refuses.
    pub async fn create_empty() -> Self {
        let database = TestDatabase::create().await;
        let pool =
            PgPoolOptions::new().max_connections(8).connect(&database.url()).await.expect("the database answers");
        Self { database, pool }
    }

    /// Returns the database's URL.
    pub fn url(&self) -> String {
        self.database.url()
    }

    /// Returns the pool, for statements of a test.
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Opens a store with its own connections, as another process would.
    ///
    /// # Panics
    /// When the database does not respond.
    pub async fn store(&self, settings: CeleryOutboxSettings) -> CeleryOutboxStore {
        CeleryOutboxStore::connect(&self.url(), "public", settings).await.expect("the store connects")
    }

    /// Runs statements.
    ///
    /// # Panics
    /// When the database refuses them.
    pub async fn execute(&self, statements: &str) {
        self.pool.execute(AssertSqlSafe(statements.to_owned())).await.expect("the statements are right");
    }

    /// Adds tasks, and returns their ids in order.
    ///
    /// # Panics
    /// When the database refuses them.
    pub async fn add(&self, count: i32) -> Vec<i64> {
        let mut ids: Vec<i64> =
            sqlx::query_scalar(ADD).bind(count).fetch_all(&self.pool).await.expect("tasks are added");
        ids.sort_unstable();
        ids
    }

    /// Returns the tasks in the table, in order.
    ///
    /// # Panics
    /// When the database does not respond.
    pub async fn rows(&self) -> Vec<TaskRow> {
        let rows = sqlx::query("SELECT id, updated_at, retries, retry_after FROM celery_outbox ORDER BY id")
            .fetch_all(&self.pool)
            .await
            .expect("the table can be read");
        let row = |row: PgRow| TaskRow {
            id: row.get("id"),
            updated_at: row.get("updated_at"),
            retries: row.get("retries"),
            retry_after: row.get("retry_after"),
        };
        rows.into_iter().map(row).collect()
    }

    /// Returns the ids that the package's own relay would select now.
    ///
    /// # Panics
    /// When the database does not respond.
    pub async fn selected(&self, stale: Duration) -> Vec<i64> {
        let mut ids: Vec<i64> = sqlx::query_scalar(SELECTED)
            .bind(stale.as_secs_f64())
            .bind(i32::MAX)
            .fetch_all(&self.pool)
            .await
            .expect("the table can be read");
        ids.sort_unstable();
        ids
    }

    /// Selects a batch as the package's own relay does, and marks it as in flight.
    ///
    /// # Panics
    /// When the database does not respond.
    pub async fn select_as_its_relay(&self, stale: Duration, limit: i32) -> Vec<i64> {
        let mut tx = self.pool.begin().await.expect("the database answers");
        let ids: Vec<i64> = sqlx::query_scalar(SELECTED)
            .bind(stale.as_secs_f64())
            .bind(limit)
            .fetch_all(&mut *tx)
            .await
            .expect("the table can be read");
        sqlx::query("UPDATE celery_outbox SET updated_at = statement_timestamp() WHERE id = ANY($1)")
            .bind(&ids)
            .execute(&mut *tx)
            .await
            .expect("the table can be written");
        tx.commit().await.expect("the database commits");
        ids
    }

    /// Returns the dead letters: task id, retries, reason.
    ///
    /// # Panics
    /// When the database does not respond.
    pub async fn dead_letters(&self) -> Vec<(String, i16, Option<String>)> {
        sqlx::query_as("SELECT task_id, retries, failure_reason FROM celery_outbox_dead_letter ORDER BY id")
            .fetch_all(&self.pool)
            .await
            .expect("the table can be read")
    }
}
