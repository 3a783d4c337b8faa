//! Emit through a sqlx transaction on PostgreSQL.

use chrono::{DateTime, Utc};
use sqlx::{AssertSqlSafe, Connection, Executor, Postgres, Row};

use super::postgres::{Columns, EXISTING, Written, emitted, many, one};
use super::{Emitted, Transaction};
use crate::error::DriverError;
use crate::event::NewEvent;

impl Transaction for sqlx::Transaction<'_, Postgres> {
    async fn insert(&mut self, rows: &[NewEvent]) -> Result<Vec<Emitted>, DriverError> {
        let columns = Columns::new(rows);
        let written = sqlx::query(many(rows))
            .persistent(keeps_statements(self))
            .bind(columns.ids)
            .bind(columns.aggregate_types)
            .bind(columns.aggregate_ids)
            .bind(columns.event_types)
            .bind(columns.payloads)
            .bind(columns.headers)
            .bind(columns.keys)
            .bind(columns.max_attempts)
            .bind(columns.deliver_at)
            .fetch_all(&mut **self)
            .await?;
        written.iter().map(|row| emitted(read(row)?, true)).collect()
    }

    async fn insert_one(&mut self, row: &NewEvent) -> Result<Option<(i64, DateTime<Utc>)>, DriverError> {
        let written = sqlx::query(one(row))
            .persistent(keeps_statements(self))
            .bind(row.id)
            .bind(&row.aggregate_type)
            .bind(&row.aggregate_id)
            .bind(&row.event_type)
            .bind(&row.payload)
            .bind(&row.headers)
            .bind(&row.idempotency_key)
            .bind(row.max_attempts)
            .bind(row.deliver_at)
            .fetch_optional(&mut **self)
            .await?;
        written.map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).transpose()
    }

    async fn find(&mut self, event_type: &str, key: &str) -> Result<Option<Emitted>, DriverError> {
        let row = sqlx::query(EXISTING)
            .persistent(keeps_statements(self))
            .bind(event_type)
            .bind(key)
            .fetch_optional(&mut **self)
            .await?;
        row.map(|row| emitted(read(&row)?, false)).transpose()
    }

    async fn run(&mut self, statement: &'static str) -> Result<(), DriverError> {
        self.execute(sqlx::raw_sql(AssertSqlSafe(statement))).await?;
        Ok(())
    }
}

/// Whether the application has let this connection keep a statement. One behind a transaction pooler must keep none:
/// a statement's name belongs to the server connection, which the pooler gives to others. sqlx names statements even when
/// its cache has no room for them, so that setting alone does not help.
fn keeps_statements(tx: &sqlx::Transaction<'_, Postgres>) -> bool {
    tx.cached_statements_size() > 0
}

fn read(row: &sqlx::postgres::PgRow) -> Result<Written, sqlx::Error> {
    Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?, row.try_get(4)?, row.try_get(5)?))
}
