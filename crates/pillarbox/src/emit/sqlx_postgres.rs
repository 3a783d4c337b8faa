//! Emit through a sqlx transaction on PostgreSQL.

use chrono::{DateTime, Utc};
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Connection, Executor, Postgres, Row};

use super::postgres::{Columns, EXISTING, Written, emitted, many, one};
use super::{Emitted, Transaction};
use crate::error::DriverError;
use crate::event::NewEvent;

impl Transaction for sqlx::Transaction<'_, Postgres> {
    async fn insert(&mut self, rows: &[NewEvent]) -> Result<Vec<Emitted>, DriverError> {
        let written = insert(rows, keeps_statements(self)).fetch_all(&mut **self).await?;
        written.iter().map(|row| emitted_of(row, true)).collect()
    }

    async fn insert_one(&mut self, row: &NewEvent) -> Result<Option<(i64, DateTime<Utc>)>, DriverError> {
        let written = insert_one(row, keeps_statements(self)).fetch_optional(&mut **self).await?;
        written.as_ref().map(place_of).transpose()
    }

    async fn find(&mut self, event_type: &str, key: &str) -> Result<Option<Emitted>, DriverError> {
        let row = find(event_type, key, keeps_statements(self)).fetch_optional(&mut **self).await?;
        row.map(|row| emitted_of(&row, false)).transpose()
    }

    async fn run(&mut self, statement: &'static str) -> Result<(), DriverError> {
        self.execute(sqlx::raw_sql(AssertSqlSafe(statement))).await?;
        Ok(())
    }
}

type PgQuery = Query<'static, Postgres, PgArguments>;

/// Returns the statement that writes these rows. [`emitted_of`] reads its rows.
fn insert(rows: &[NewEvent], kept: bool) -> PgQuery {
    let columns = Columns::new(rows);
    sqlx::query(many(rows))
        .persistent(kept)
        .bind(columns.ids)
        .bind(columns.aggregate_types)
        .bind(columns.aggregate_ids)
        .bind(columns.event_types)
        .bind(columns.payloads)
        .bind(columns.headers)
        .bind(columns.keys)
        .bind(columns.max_attempts)
        .bind(columns.deliver_at)
}

/// Returns the statement that writes this row. [`place_of`] reads its row.
fn insert_one(row: &NewEvent, kept: bool) -> PgQuery {
    sqlx::query(one(row))
        .persistent(kept)
        .bind(row.id)
        .bind(&row.aggregate_type)
        .bind(&row.aggregate_id)
        .bind(&row.event_type)
        .bind(&row.payload)
        .bind(&row.headers)
        .bind(&row.idempotency_key)
        .bind(row.max_attempts)
        .bind(row.deliver_at)
}

/// Returns the statement that finds an event by its type and key. [`emitted_of`] reads its row.
fn find(event_type: &str, key: &str, kept: bool) -> PgQuery {
    sqlx::query(EXISTING).persistent(kept).bind(event_type).bind(key)
}

/// Returns whether the connection may keep a statement. Behind a transaction pooler it must keep none: the name of a statement
/// belongs to the server connection, which the pooler shares. sqlx names statements even when its cache has no room for them,
/// so that setting alone does not help.
fn keeps_statements(tx: &sqlx::Transaction<'_, Postgres>) -> bool {
    tx.cached_statements_size() > 0
}

fn emitted_of(row: &PgRow, is_new: bool) -> Result<Emitted, DriverError> {
    emitted(read(row)?, is_new)
}

/// Reads `seq` and `created_at`.
fn place_of(row: &PgRow) -> Result<(i64, DateTime<Utc>), DriverError> {
    Ok((row.try_get(0)?, row.try_get(1)?))
}

fn read(row: &PgRow) -> Result<Written, sqlx::Error> {
    Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?, row.try_get(4)?, row.try_get(5)?))
}
