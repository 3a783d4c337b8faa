//! SQLite: any writer locks the whole database, and the pool's `busy_timeout` bounds the wait.

use std::error::Error;
use std::time::Duration;

use sqlx::error::DatabaseError;
use sqlx::sqlite::SqliteError;
use sqlx::{Executor as _, Sqlite, SqliteConnection};

use super::{Database, Trouble};

const BUSY_SNAPSHOT: i64 = 517;

impl Database for Sqlite {
    /// A lock that begins as a read cannot wait.
    const BEGIN: &'static str = "BEGIN IMMEDIATE";
    const LOCKS_KEYS: bool = false;

    async fn create(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        connection.execute(sqlx::raw_sql(include_str!("../../sql/sqlite/create.sql"))).await?;
        Ok(())
    }

    async fn record(
        connection: &mut SqliteConnection,
        consumer: &str,
        id: &str,
        _wait: Duration,
    ) -> Result<Option<String>, sqlx::Error> {
        let record = sqlx::query(include_str!("../../sql/sqlite/record.sql")).bind(consumer).bind(id);
        if record.execute(&mut *connection).await?.rows_affected() == 0 {
            return Ok(None);
        }
        let mark = sqlx::query_scalar(include_str!("../../sql/sqlite/mark.sql")).bind(consumer).bind(id);
        mark.fetch_one(connection).await.map(Some)
    }

    async fn confirm(connection: &mut SqliteConnection, consumer: &str, id: &str) -> Result<bool, sqlx::Error> {
        let confirm = sqlx::query(include_str!("../../sql/sqlite/confirm.sql")).bind(consumer).bind(id);
        Ok(confirm.fetch_optional(connection).await?.is_some())
    }

    async fn forget(
        connection: &mut SqliteConnection,
        consumer: &str,
        id: &str,
        mark: &str,
    ) -> Result<bool, sqlx::Error> {
        let committed = sqlx::query(include_str!("../../sql/sqlite/committed.sql")).bind(consumer).bind(id).bind(mark);
        if committed.fetch_optional(&mut *connection).await?.is_none() {
            return Ok(false);
        }
        let forget = sqlx::query(include_str!("../../sql/sqlite/forget.sql")).bind(consumer).bind(id).bind(mark);
        Ok(forget.execute(connection).await?.rows_affected() == 1)
    }

    async fn cleanup(connection: &mut SqliteConnection, keep: Duration, batch: i64) -> Result<u64, sqlx::Error> {
        let cleanup = sqlx::query(include_str!("../../sql/sqlite/cleanup.sql")).bind(keep.as_secs_f64()).bind(batch);
        Ok(cleanup.execute(connection).await?.rows_affected())
    }

    fn explain(error: &(dyn DatabaseError + 'static)) -> Option<Trouble> {
        let code: i64 = error.code()?.parse().ok()?;
        match code & 0xff {
            _ if code == BUSY_SNAPSHOT => Some(Trouble::Conflict),
            5 | 6 => Some(Trouble::Locked),
            // Read-only, I/O error, corrupt, full, cannot open, not a database.
            8 | 10 | 11 | 13 | 14 | 26 => Some(Trouble::Down),
            _ => None,
        }
    }

    fn is_cancelled(_error: &(dyn DatabaseError + 'static)) -> bool {
        false
    }

    fn driver_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn DatabaseError + 'static)> {
        Some(error.downcast_ref::<SqliteError>()?)
    }
}
