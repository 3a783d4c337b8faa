//! The tables of django-celery-outbox on PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use sqlx::postgres::PgPool;

use super::error::Error;
use super::link::Link;
use super::moment::Moment;
use super::pinned::Pinned;
use super::statement::PgRow;
use super::{Connections, PostgresSettings, Schema, open};
use crate::celery::adopted::AdoptedRow;
use crate::error::{DriverError, StoreError};
use crate::event::StoredEvent;
use crate::store::celery_outbox::tables::{self, Batch, Due, HeldRow, Settled, Staying, Tables};
use crate::store::celery_outbox::{CeleryOutboxSettings, CeleryOutboxStore};
use crate::store::row::kept;
use crate::store::sql::{limit as count, sql_folder};

sql_folder! {
    SQL: Sql = "celery_outbox/postgres" {
        claim, columns, dead_letters, next_due, other_versions, remaining, renew, settle, settle_deliver, settle_fail, sweep,
        unpark,
    }
}

/// Begins a transaction. The tables can grow from empty to millions of rows between two runs of ANALYZE, and the store may not
/// add an index. So its statements are forced to use the existing indexes. A lost claim or settle causes a duplicate, not a
/// loss, so it does not wait for the disk.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL synchronous_commit = off; \
                     SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off; \
                     SET LOCAL jit = off";

#[derive(Debug)]
struct Adopted {
    pool: Pinned,
    schema: Schema,
}

impl CeleryOutboxStore {
    /// Connects to PostgreSQL. The tables are expected in `schema`; [`Fleet::check`](crate::Fleet::check) returns whether they
    /// exist.
    ///
    /// # Errors
    /// When the URL is invalid or the database does not respond.
    pub async fn connect(url: &str, schema: &str, settings: CeleryOutboxSettings) -> Result<Self, StoreError> {
        Self::connect_with(url, schema, settings, PostgresSettings::default()).await
    }

    /// As [`CeleryOutboxStore::connect`], with other connection settings.
    ///
    /// # Errors
    /// As there.
    pub async fn connect_with(
        url: &str,
        schema: &str,
        settings: CeleryOutboxSettings,
        connections: PostgresSettings,
    ) -> Result<Self, StoreError> {
        Self::adopt(open(url, connections).await?, schema, settings)
    }

    /// Creates a store on the database of an application's pool, with connections of its own. Call it within a tokio runtime.
    ///
    /// # Errors
    /// When the schema's name is invalid.
    pub fn new(pool: PgPool, schema: &str, settings: CeleryOutboxSettings) -> Result<Self, StoreError> {
        Self::adopt(Connections::beside(pool)?, schema, settings)
    }

    fn adopt(connections: Arc<Connections>, schema: &str, settings: CeleryOutboxSettings) -> Result<Self, StoreError> {
        let pool = Pinned::beginning_with(connections, BEGIN);
        Ok(Self::over(Box::new(Adopted { pool, schema: Schema::new(schema)? }), settings))
    }
}

#[async_trait]
impl Tables for Adopted {
    fn schema(&self) -> &str {
        self.schema.name()
    }

    async fn ping(&self) -> Result<(), DriverError> {
        self.schema.query("SELECT 1").fetch_one(&self.pool).await?;
        Ok(())
    }

    async fn columns(&self) -> Result<Vec<(String, String, bool)>, DriverError> {
        Ok(self.schema.query_as(SQL.columns).bind(self.schema.name()).fetch_all(&self.pool).await?)
    }

    async fn claim(
        &self,
        due: Due,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<(StoredEvent, DateTime<Utc>)>, DriverError> {
        let query = self.schema.query(SQL.claim).bind(count(limit)).bind(count(bytes));
        let rows = query.bind(due.stale).bind(due.max_retries).fetch_all(&self.pool).await?;
        let claimed = |row: &PgRow| {
            let held_since = row.try_get("updated_at")?;
            Ok((event(row, held_since)?, held_since))
        };
        rows.iter().map(claimed).collect()
    }

    async fn settle(&self, batch: &Batch<'_>) -> Result<Settled, DriverError> {
        let mut tx = self.pool.begin().await?;
        let mut settled = Settled::new();
        if !batch.delivered.is_empty() {
            let (ids, since) = columns(&batch.delivered);
            let deliver = self.schema.query_scalar(SQL.settle_deliver);
            let gone: Vec<i64> = deliver.bind(ids).bind(since).fetch_all(&mut *tx).await?;
            settled.extend(gone.into_iter().map(|id| (id, None)));
        }
        if !batch.failed.is_empty() {
            let (ids, since) = columns(batch.failed.iter().map(|(held, _)| held));
            let errors: Vec<_> = batch.failed.iter().map(|(_, error)| kept(error)).collect();
            let fail = self.schema.query_scalar(SQL.settle_fail);
            let dead: Vec<i64> = fail.bind(ids).bind(since).bind(errors).fetch_all(&mut *tx).await?;
            settled.extend(dead.into_iter().map(|id| (id, None)));
        }
        settled.extend(self.settle_staying(&mut tx, &batch.staying).await?);
        tx.commit().await?;
        Ok(settled)
    }

    async fn renew(&self, held: &[HeldRow]) -> Result<Vec<HeldRow>, DriverError> {
        let (ids, since) = columns(held);
        Ok(self.schema.query_as(SQL.renew).bind(ids).bind(since).fetch_all(&self.pool).await?)
    }

    async fn unpark(&self, parked: &[HeldRow]) -> Result<u64, DriverError> {
        let (ids, since) = columns(parked);
        Ok(self.schema.query(SQL.unpark).bind(ids).bind(since).execute(&self.pool).await?)
    }

    async fn sweep(&self, due: Due, error: &str, most: i64) -> Result<Vec<StoredEvent>, DriverError> {
        let query = self.schema.query(SQL.sweep).bind(due.stale).bind(due.max_retries);
        let rows = query.bind(error).bind(most).fetch_all(&self.pool).await?;
        Ok(rows.iter().map(|row| event(row, Utc::now())).collect::<Result<_, _>>()?)
    }

    async fn next_due(&self, due: Due) -> Result<Option<f64>, DriverError> {
        let query = self.schema.query_scalar(SQL.next_due).bind(due.stale).bind(due.max_retries);
        Ok(query.fetch_one(&self.pool).await?)
    }

    async fn remaining(&self, stale: f64) -> Result<(i64, Option<f64>), DriverError> {
        Ok(self.schema.query_as(SQL.remaining).bind(stale).fetch_one(&self.pool).await?)
    }

    async fn dead_letters(&self) -> Result<i64, DriverError> {
        Ok(self.schema.query_scalar(SQL.dead_letters).fetch_one(&self.pool).await?)
    }

    async fn other_versions(&self, most: i64) -> Result<(i64, Option<i64>), DriverError> {
        let query = self.schema.query_as(SQL.other_versions).bind(most);
        let (count, highest): (i64, Option<i16>) = query.fetch_one(&self.pool).await?;
        Ok((count, highest.map(i64::from)))
    }
}

impl Adopted {
    async fn settle_staying(&self, connection: &mut Link, staying: &[Staying]) -> Result<Settled, Error> {
        if staying.is_empty() {
            return Ok(Settled::new());
        }
        let (ids, since) = columns(staying.iter().map(|row| &row.held));
        let rows: Vec<(i64, Option<DateTime<Utc>>)> = self
            .schema
            .query_as(SQL.settle)
            .bind(ids)
            .bind(since)
            .bind(staying.iter().map(|row| row.change).collect::<Vec<_>>())
            .bind(staying.iter().map(|row| row.attempts).collect::<Vec<_>>())
            .bind(staying.iter().map(|row| row.after).collect::<Vec<_>>())
            .fetch_all(connection)
            .await?;
        Ok(rows.into_iter().collect())
    }
}

fn columns<'a>(held: impl IntoIterator<Item = &'a HeldRow>) -> (Vec<i64>, Vec<DateTime<Utc>>) {
    held.into_iter().copied().unzip()
}

/// Reads an event. Relative times in it count from `now`.
fn event(row: &PgRow, now: DateTime<Utc>) -> Result<StoredEvent, Error> {
    let adopted = AdoptedRow {
        task_id: row.try_get("task_id")?,
        task_name: row.try_get("task_name")?,
        args: row.try_get("args")?,
        kwargs: row.try_get("kwargs")?,
        options: row.try_get("options")?,
        sentry_trace_id: row.try_get("sentry_trace_id")?,
        sentry_baggage: row.try_get("sentry_baggage")?,
        structlog_context: row.try_get("structlog_context")?,
    };
    let retries: i16 = row.try_get("retries")?;
    let created_at = row.try_get::<_, Moment>("created_at")?.shown();
    Ok(tables::event(row.try_get("id")?, retries.into(), created_at, &adopted, now))
}
