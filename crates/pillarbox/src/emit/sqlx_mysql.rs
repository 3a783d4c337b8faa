//! Emit through a sqlx transaction on MariaDB and MySQL. The statements need two round trips per call: the servers have no
//! `INSERT … RETURNING` in common.

use chrono::{DateTime, NaiveDateTime, Utc};
use sqlx::mysql::{MySql, MySqlArguments, MySqlConnection};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Executor};

use super::mysql::{
    EMIT, EMIT_ONE, EXISTING, PLACE, WRITTEN, Written, emitted, ids_as_json, is_denied, is_key, moment, rows_as_json,
};
use super::{Emitted, Transaction};
use crate::error::DriverError;
use crate::event::NewEvent;

impl Transaction for sqlx::Transaction<'_, MySql> {
    async fn insert(&mut self, rows: &[NewEvent]) -> Result<Vec<Emitted>, DriverError> {
        insert(self, rows).await
    }

    async fn insert_one(&mut self, row: &NewEvent) -> Result<Option<(i64, DateTime<Utc>)>, DriverError> {
        insert_one(self, row).await
    }

    async fn find(&mut self, event_type: &str, key: &str) -> Result<Option<Emitted>, DriverError> {
        find(self, event_type, key).await
    }

    async fn run(&mut self, statement: &'static str) -> Result<(), DriverError> {
        run(self, statement).await
    }
}

/// Inserts the rows by one statement with all values. If a key exists, a slower statement finds out which ones do not.
pub(crate) async fn insert(connection: &mut MySqlConnection, rows: &[NewEvent]) -> Result<Vec<Emitted>, DriverError> {
    for some in rows.chunks(MOST) {
        match insert_values(connection, some).await {
            Ok(()) => {}
            // The chunks before this one are among the rows that exist then.
            Err(error) if is_duplicate(&error) => return insert_others(connection, rows).await,
            Err(error) => return Err(error.into()),
        }
    }
    written(connection, rows).await
}

/// The number of rows of one statement. The servers allow 65,535 values.
const MOST: usize = 500;
/// The number of rows up to which a statement is kept by the connection.
const KEPT: usize = 64;

async fn insert_values(connection: &mut MySqlConnection, rows: &[NewEvent]) -> Result<(), sqlx::Error> {
    let mut text = EMIT_ONE.trim_end().to_owned();
    let values = &EMIT_ONE[EMIT_ONE.find("(?, ?").unwrap_or_default()..];
    for _ in 1..rows.len() {
        text.push_str(", ");
        text.push_str(values.trim_end());
    }
    let mut insert = sqlx::query(AssertSqlSafe(text)).persistent(rows.len() <= KEPT);
    for row in rows {
        insert = bind(insert, row);
    }
    insert.execute(connection).await.map(drop)
}

/// Selects the events that were written. Only their ids are passed.
async fn written(connection: &mut MySqlConnection, rows: &[NewEvent]) -> Result<Vec<Emitted>, DriverError> {
    let written: Vec<Written> = sqlx::query_as(WRITTEN).bind(ids_as_json(rows)).fetch_all(connection).await?;
    written.into_iter().map(|row| emitted(row, true)).collect()
}

async fn insert_others(connection: &mut MySqlConnection, rows: &[NewEvent]) -> Result<Vec<Emitted>, DriverError> {
    let json = rows_as_json(rows);
    match sqlx::query(EMIT).bind(&json).execute(&mut *connection).await {
        Err(error) if is_denied(&error.to_string()) => return insert_each(connection, rows).await,
        done => done?,
    };
    written(connection, rows).await
}

/// Inserts one event after another, for an account that may only emit.
async fn insert_each(connection: &mut MySqlConnection, rows: &[NewEvent]) -> Result<Vec<Emitted>, DriverError> {
    let mut written = Vec::with_capacity(rows.len());
    for row in rows {
        let place = insert_one(connection, row).await?;
        written.extend(place.map(|place| super::new(row.clone(), place)));
    }
    Ok(written)
}

pub(crate) async fn insert_one(
    connection: &mut MySqlConnection,
    row: &NewEvent,
) -> Result<Option<(i64, DateTime<Utc>)>, DriverError> {
    match bind(sqlx::query(EMIT_ONE), row).execute(&mut *connection).await {
        Ok(_) => {}
        Err(error) if is_duplicate(&error) => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let (seq, created_at): (i64, NaiveDateTime) = sqlx::query_as(PLACE).fetch_one(connection).await?;
    Ok(Some((seq, created_at.and_utc())))
}

/// Binds the values of a row in the order of the statement.
fn bind<'q>(query: Query<'q, MySql, MySqlArguments>, row: &'q NewEvent) -> Query<'q, MySql, MySqlArguments> {
    query
        .bind(row.id)
        .bind(&row.aggregate_type)
        .bind(&row.aggregate_id)
        .bind(&row.event_type)
        .bind(&row.payload)
        .bind(&row.headers)
        .bind(&row.idempotency_key)
        .bind(row.max_attempts)
        .bind(row.deliver_at.map(moment))
}

pub(crate) async fn find(
    connection: &mut MySqlConnection,
    event_type: &str,
    key: &str,
) -> Result<Option<Emitted>, DriverError> {
    let row: Option<Written> = sqlx::query_as(EXISTING).bind(event_type).bind(key).fetch_optional(connection).await?;
    row.map(|row| emitted(row, false)).transpose()
}

pub(crate) async fn run(connection: &mut MySqlConnection, statement: &'static str) -> Result<(), DriverError> {
    connection.execute(sqlx::raw_sql(AssertSqlSafe(statement))).await?;
    Ok(())
}

fn is_duplicate(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.is_unique_violation() && is_key(error.message()))
}
