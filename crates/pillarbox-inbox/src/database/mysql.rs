//! MariaDB and MySQL: the wait is bounded by a variable of the session, which is set back.

use std::error::Error;
use std::time::Duration;

use sqlx::error::DatabaseError;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{Executor as _, MySql, MySqlConnection};

use super::{Database, Trouble};

impl Database for MySql {
    const BEGIN: &'static str = "BEGIN";
    const LOCKS_KEYS: bool = true;

    async fn create(connection: &mut MySqlConnection) -> Result<(), sqlx::Error> {
        connection.execute(sqlx::raw_sql(include_str!("../../sql/mysql/create.sql"))).await?;
        Ok(())
    }

    async fn record(
        connection: &mut MySqlConnection,
        consumer: &str,
        id: &str,
        wait: Duration,
    ) -> Result<Option<String>, sqlx::Error> {
        let seconds = wait.as_millis().div_ceil(1000).clamp(1, 1 << 30) as i64;
        sqlx::query(include_str!("../../sql/mysql/wait.sql")).bind(seconds).execute(&mut *connection).await?;
        let record = sqlx::query(include_str!("../../sql/mysql/record.sql")).bind(consumer).bind(id);
        let recorded = record.execute(&mut *connection).await;
        let restored = sqlx::query(include_str!("../../sql/mysql/restore.sql")).execute(connection).await;
        let rows = recorded?.rows_affected();
        restored?;
        // The session keeps the mark: reading it would cost a round trip.
        Ok((rows == 1).then(String::new))
    }

    async fn confirm(connection: &mut MySqlConnection, consumer: &str, id: &str) -> Result<bool, sqlx::Error> {
        let confirm = sqlx::query(include_str!("../../sql/mysql/confirm.sql")).bind(consumer).bind(id);
        Ok(confirm.fetch_optional(connection).await?.is_some())
    }

    async fn forget(
        connection: &mut MySqlConnection,
        consumer: &str,
        id: &str,
        _mark: &str,
    ) -> Result<bool, sqlx::Error> {
        let committed = sqlx::query(include_str!("../../sql/mysql/committed.sql")).bind(consumer).bind(id);
        if committed.fetch_optional(&mut *connection).await?.is_none() {
            return Ok(false);
        }
        let forget = sqlx::query(include_str!("../../sql/mysql/forget.sql")).bind(consumer).bind(id);
        Ok(forget.execute(connection).await?.rows_affected() == 1)
    }

    async fn cleanup(connection: &mut MySqlConnection, keep: Duration, batch: i64) -> Result<u64, sqlx::Error> {
        let cleanup = sqlx::query(include_str!("../../sql/mysql/cleanup.sql")).bind(keep.as_secs_f64()).bind(batch);
        Ok(cleanup.execute(connection).await?.rows_affected())
    }

    fn explain(error: &(dyn DatabaseError + 'static)) -> Option<Trouble> {
        match error.try_downcast_ref::<MySqlDatabaseError>()?.number() {
            1213 | 1020 => Some(Trouble::Conflict),
            1205 => Some(Trouble::Locked),
            // Killed, shutting down, too many connections, idle for too long.
            1040 | 1053 | 1203 | 1226 | 1927 | 3169 | 4031 => Some(Trouble::Lost),
            // Read-only after a failover; no space.
            1290 | 1792 | 1836 | 1021 | 1114 => Some(Trouble::Down),
            _ => None,
        }
    }

    fn is_cancelled(error: &(dyn DatabaseError + 'static)) -> bool {
        // max_statement_time, KILL QUERY, and MySQL's max_execution_time.
        error.try_downcast_ref::<MySqlDatabaseError>().is_some_and(|error| matches!(error.number(), 1969 | 1317 | 3024))
    }

    fn driver_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn DatabaseError + 'static)> {
        Some(error.downcast_ref::<MySqlDatabaseError>()?)
    }
}
