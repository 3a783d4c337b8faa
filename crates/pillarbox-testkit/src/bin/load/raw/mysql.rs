//! Takes events from the outbox's own table on MariaDB and settles them, by SQL alone: the limit of the database.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use chrono::{DateTime, NaiveDateTime};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection, Row};

/// Takes and settles events.
#[derive(Args)]
pub(crate) struct Mysql {
    #[arg(long)]
    database: String,
    #[arg(long)]
    count: u64,
    #[arg(long, value_enum)]
    design: Design,
    /// Delete the events instead of marking them as delivered.
    #[arg(long)]
    delete: bool,
    /// The number of events per transaction.
    #[arg(long, default_value_t = 1000)]
    batch: usize,
    /// Begin each read where the last one ended.
    #[arg(long)]
    floor: bool,
    /// The maximum time in seconds; the result is the progress until then.
    #[arg(long)]
    seconds: Option<f64>,
}

/// How events are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Design {
    /// Locked and settled in one transaction, which a relay cannot do: it would hold locks while it sends.
    Lock,
    /// Locked and leased in one transaction, and settled in another one.
    Lease,
}

const READ: &str = "SELECT id, seq, next_attempt_at, aggregate_type, aggregate_id, event_type, payload, headers, \
    idempotency_key, attempts, max_attempts, claims, created_at FROM outbox_event FORCE INDEX (outbox_event_due) \
    WHERE parked_on IS NULL AND next_attempt_at <= utc_timestamp(6) \
    AND (next_attempt_at > ? OR (next_attempt_at = ? AND seq > ?)) \
    ORDER BY next_attempt_at, seq LIMIT ? FOR UPDATE SKIP LOCKED";

impl Mysql {
    pub(crate) async fn run(self) -> Result<Value> {
        let mut connection = MySqlConnection::connect(&self.database).await?;
        connection.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
        let began = Instant::now();
        let most = self.seconds.map_or(Duration::MAX, Duration::from_secs_f64);
        let mut taken = 0;
        let mut place = (DateTime::UNIX_EPOCH.naive_utc(), 0_i64);
        while taken < self.count && began.elapsed() < most {
            let seqs = self.take(&mut connection, &mut place).await?;
            ensure!(!seqs.is_empty(), "{taken} events were there, not {}", self.count);
            taken += seqs.len() as u64;
        }
        let seconds = began.elapsed().as_secs_f64();
        Ok(json!({ "count": taken, "seconds": seconds, "rate": taken as f64 / seconds }))
    }

    /// Takes and settles one batch.
    async fn take(&self, connection: &mut MySqlConnection, place: &mut (NaiveDateTime, i64)) -> Result<Vec<i64>> {
        let mut tx = connection.begin().await?;
        let after = if self.floor { *place } else { (DateTime::UNIX_EPOCH.naive_utc(), 0) };
        let read = sqlx::query(READ).bind(after.0).bind(after.0).bind(after.1).bind(self.batch as u64);
        let rows = read.fetch_all(&mut *tx).await?;
        let seqs: Vec<i64> = rows.iter().map(|row| row.get("seq")).collect();
        let Some(last) = rows.last() else { return Ok(seqs) };
        *place = (last.get("next_attempt_at"), last.get("seq"));
        let list = seqs.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
        let settle = if self.delete {
            format!("DELETE FROM outbox_event WHERE seq IN ({list})")
        } else {
            format!(
                "UPDATE outbox_event SET status = 'delivered', delivered_at = utc_timestamp(6), updated_at = utc_timestamp(6), \
                 next_attempt_at = NULL, claimed_by = NULL, claims = 0 WHERE seq IN ({list})"
            )
        };
        if self.design == Design::Lease {
            let lease = format!(
                "UPDATE outbox_event SET claimed_by = unhex('018f0000000070008000000000000000'), updated_at = utc_timestamp(6), \
                 next_attempt_at = utc_timestamp(6) + INTERVAL 30 SECOND WHERE seq IN ({list})"
            );
            (&mut *tx).execute(sqlx::raw_sql(AssertSqlSafe(lease))).await?;
            tx.commit().await?;
            tx = connection.begin().await?;
        }
        (&mut *tx).execute(sqlx::raw_sql(AssertSqlSafe(settle))).await?;
        tx.commit().await?;
        Ok(seqs)
    }
}
