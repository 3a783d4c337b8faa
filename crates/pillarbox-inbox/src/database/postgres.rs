//! PostgreSQL: the wait is bounded by `lock_timeout`, for the transaction only.

use std::error::Error;
use std::time::Duration;

use sqlx::error::DatabaseError;
use sqlx::postgres::PgDatabaseError;
use sqlx::{Executor as _, PgConnection, Postgres};

use super::{Database, Trouble};

impl Database for Postgres {
    const BEGIN: &'static str = "BEGIN";
    const LOCKS_KEYS: bool = true;

    async fn create(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        connection.execute(sqlx::raw_sql(include_str!("../../sql/postgres/create.sql"))).await?;
        Ok(())
    }

    async fn record(
        connection: &mut PgConnection,
        consumer: &str,
        id: &str,
        wait: Duration,
    ) -> Result<Option<String>, sqlx::Error> {
        let wait = format!("{}ms", wait.as_millis().clamp(1, i32::MAX.unsigned_abs().into()));
        sqlx::query(include_str!("../../sql/postgres/wait.sql")).bind(wait).execute(&mut *connection).await?;
        let record = sqlx::query_scalar(include_str!("../../sql/postgres/record.sql")).bind(consumer).bind(id);
        let mark = record.fetch_optional(&mut *connection).await?;
        sqlx::query(include_str!("../../sql/postgres/restore.sql")).execute(connection).await?;
        Ok(mark)
    }

    async fn confirm(connection: &mut PgConnection, consumer: &str, id: &str) -> Result<bool, sqlx::Error> {
        let confirm = sqlx::query(include_str!("../../sql/postgres/confirm.sql")).bind(consumer).bind(id);
        Ok(confirm.fetch_optional(connection).await?.is_some())
    }

    async fn forget(connection: &mut PgConnection, consumer: &str, id: &str, mark: &str) -> Result<bool, sqlx::Error> {
        let committed =
            sqlx::query(include_str!("../../sql/postgres/committed.sql")).bind(consumer).bind(id).bind(mark);
        if committed.fetch_optional(&mut *connection).await?.is_none() {
            return Ok(false);
        }
        let forget = sqlx::query(include_str!("../../sql/postgres/forget.sql")).bind(consumer).bind(id).bind(mark);
        Ok(forget.execute(connection).await?.rows_affected() == 1)
    }

    async fn cleanup(connection: &mut PgConnection, keep: Duration, batch: i64) -> Result<u64, sqlx::Error> {
        let cleanup = sqlx::query(include_str!("../../sql/postgres/cleanup.sql")).bind(keep.as_secs_f64()).bind(batch);
        Ok(cleanup.execute(connection).await?.rows_affected())
    }

    fn explain(error: &(dyn DatabaseError + 'static)) -> Option<Trouble> {
        let state = error.code()?;
        match state.as_ref() {
            "40001" | "40P01" => Some(Trouble::Conflict),
            "55P03" => Some(Trouble::Locked),
            // Shutting down, starting, ended by an administrator, idle for too long, too many connections.
            "57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "53300" => Some(Trouble::Lost),
            // Read-only after a failover.
            "25006" => Some(Trouble::Down),
            // Classes: connection, out of resources, system error.
            state => match state.get(..2)? {
                "08" => Some(Trouble::Lost),
                "53" | "58" => Some(Trouble::Down),
                _ => None,
            },
        }
    }

    fn is_cancelled(error: &(dyn DatabaseError + 'static)) -> bool {
        error.code().is_some_and(|state| state == "57014")
    }

    fn driver_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn DatabaseError + 'static)> {
        Some(error.downcast_ref::<PgDatabaseError>()?)
    }
}
