//! Emit: what an event costs in the caller's transaction, beside a bare INSERT of the same columns by the same driver in
//! the same transaction: BEGIN, one statement, COMMIT.

use std::time::{Duration, Instant};

use anyhow::Result;
use chrono::{DateTime, TimeDelta, Utc};
use clap::{Args, ValueEnum};
use pillarbox::{Event, emit, emit_all};
use serde_json::{Value, json};
use sqlx::postgres::PgPoolOptions;
use sqlx::{PgPool, PgTransaction};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::fill::payload;
use crate::relay::open;

/// Writes for a while.
#[derive(Args, Clone)]
pub(crate) struct Emit {
    #[arg(long)]
    database: String,
    #[arg(long, value_enum)]
    mode: Mode,
    #[arg(long, default_value_t = 1)]
    writers: u32,
    #[arg(long, default_value_t = 1)]
    per_transaction: usize,
    #[arg(long)]
    seconds: f64,
    /// The events are due so many seconds from now.
    #[arg(long)]
    due_in: Option<i64>,
}

/// Who writes the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// A prepared INSERT.
    Bare,
    /// The library.
    Emit,
}

const ONE: &str = "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, idempotency_key, \
    next_attempt_at) VALUES ($1, $2, $3, $4, $5::text::jsonb, $6, coalesce($7, clock_timestamp()))";
const MANY: &str = "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, idempotency_key, \
    next_attempt_at) SELECT id, aggregate_type, aggregate_id, event_type, payload::jsonb, key, \
    coalesce(due, clock_timestamp()) FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], \
    $7::timestamptz[]) AS event (id, aggregate_type, aggregate_id, event_type, payload, key, due)";

/// What one writer did.
#[derive(Default)]
struct Written {
    commits: u64,
    /// In the statement alone, without BEGIN and COMMIT.
    writing: Duration,
}

impl Emit {
    pub(crate) async fn run(self) -> Result<Value> {
        open(&self.database).await?;
        let pool = PgPoolOptions::new()
            .max_connections(self.writers)
            .min_connections(self.writers)
            .connect(&self.database)
            .await?;
        // A relay that sleeps is awake when the clock starts, whoever writes then.
        let mut tx = pool.begin().await?;
        emit(&mut tx, Event::new(AGGREGATE, 42, TYPE).repeatable()).await?;
        tx.commit().await?;
        let began = Instant::now();
        let mut writers = JoinSet::new();
        for _ in 0..self.writers {
            writers.spawn(self.clone().write(pool.clone(), began + Duration::from_secs_f64(self.seconds)));
        }
        let mut all = Written::default();
        while let Some(written) = writers.join_next().await {
            let written = written??;
            all.commits += written.commits;
            all.writing += written.writing;
        }
        let seconds = began.elapsed().as_secs_f64();
        let events = (all.commits * self.per_transaction as u64) as f64;
        Ok(json!({
            "commits": all.commits as f64 / seconds,
            "events": events / seconds,
            "micros_per_event": seconds * f64::from(self.writers) * 1e6 / events,
            "statement_micros_per_event": all.writing.as_secs_f64() * 1e6 / events,
        }))
    }

    async fn write(self, pool: PgPool, end: Instant) -> Result<Written> {
        let content = payload(490);
        let mut written = Written::default();
        while Instant::now() < end {
            let due = self.due_in.map(|seconds| Utc::now() + TimeDelta::seconds(seconds));
            let mut tx = pool.begin().await?;
            let began = Instant::now();
            match self.mode {
                Mode::Emit => self.emit(&mut tx, &content, due).await?,
                Mode::Bare if self.per_transaction == 1 => bare(&mut tx, &content, due).await?,
                Mode::Bare => bare_many(&mut tx, &content, due, self.per_transaction).await?,
            }
            written.writing += began.elapsed();
            tx.commit().await?;
            written.commits += 1;
        }
        Ok(written)
    }

    async fn emit(&self, tx: &mut PgTransaction<'_>, content: &Value, due: Option<DateTime<Utc>>) -> Result<()> {
        let event = || {
            let event = Event::new(AGGREGATE, 42, TYPE).repeatable().payload(content);
            due.into_iter().fold(event, Event::deliver_at)
        };
        if self.per_transaction == 1 {
            emit(tx, event()).await?;
        } else {
            emit_all(tx, (0..self.per_transaction).map(|_| event())).await?;
        }
        Ok(())
    }
}

const AGGREGATE: &str = "Order";
const TYPE: &str = "order.placed";

async fn bare(tx: &mut PgTransaction<'_>, content: &Value, due: Option<DateTime<Utc>>) -> Result<()> {
    let id = Uuid::now_v7();
    sqlx::query(ONE)
        .bind(id)
        .bind(AGGREGATE)
        .bind("42")
        .bind(TYPE)
        .bind(serde_json::to_string(content)?)
        .bind(id.to_string())
        .bind(due)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

async fn bare_many(tx: &mut PgTransaction<'_>, content: &Value, due: Option<DateTime<Utc>>, many: usize) -> Result<()> {
    let ids: Vec<Uuid> = (0..many).map(|_| Uuid::now_v7()).collect();
    let payloads = ids.iter().map(|_| serde_json::to_string(content)).collect::<Result<Vec<_>, _>>()?;
    let keys: Vec<String> = ids.iter().map(Uuid::to_string).collect();
    sqlx::query(MANY)
        .bind(ids)
        .bind(vec![AGGREGATE; many])
        .bind(vec!["42"; many])
        .bind(vec![TYPE; many])
        .bind(payloads)
        .bind(keys)
        .bind(vec![due; many])
        .execute(&mut **tx)
        .await?;
    Ok(())
}
