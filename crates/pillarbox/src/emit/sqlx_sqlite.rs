//! Emit through a sqlx transaction on SQLite.

use sqlx::{AssertSqlSafe, Executor, Sqlite};

use super::sqlite::{EMIT, EXISTING, Written, emitted, rows_as_json};
use super::{Emitted, Transaction};
use crate::error::DriverError;
use crate::event::NewEvent;

impl Transaction for sqlx::Transaction<'_, Sqlite> {
    async fn insert(&mut self, rows: &[NewEvent]) -> Result<Vec<Emitted>, DriverError> {
        let written: Vec<Written> = sqlx::query_as(EMIT).bind(rows_as_json(rows)).fetch_all(&mut **self).await?;
        written.into_iter().map(|row| emitted(row, true)).collect()
    }

    async fn find(&mut self, event_type: &str, key: &str) -> Result<Option<Emitted>, DriverError> {
        let row: Option<Written> =
            sqlx::query_as(EXISTING).bind(event_type).bind(key).fetch_optional(&mut **self).await?;
        row.map(|row| emitted(row, false)).transpose()
    }

    async fn run(&mut self, statement: &'static str) -> Result<(), DriverError> {
        self.execute(sqlx::raw_sql(AssertSqlSafe(statement))).await?;
        Ok(())
    }
}
