//! Fill: rows as producers leave them. The library creates the events. On PostgreSQL only the way into the table is shorter: COPY.
//! On MariaDB they are emitted.

use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use chrono::{DateTime, TimeDelta, Utc};
use clap::{Args, ValueEnum};
use pillarbox::Event;
use pillarbox::celery::Task;
use serde_json::{Value, json};
use sqlx::postgres::{PgPool, PgPoolCopyExt};
use tokio::task::JoinSet;

use crate::database::Database;
use crate::order::order;

/// Writes events.
#[derive(Args)]
pub(crate) struct Fill {
    /// postgres://… or mysql://…; missing tables are created.
    #[arg(long)]
    database: String,
    #[arg(long)]
    count: u64,
    /// The number of aggregates, used in turn; by default each event has its own.
    #[arg(long)]
    aggregates: Option<u64>,
    #[arg(long, value_enum, default_value = "plain")]
    form: Form,
    /// The types of plain events, used in turn.
    #[arg(long, value_delimiter = ',', default_value = "order.placed")]
    types: Vec<String>,
    /// The approximate number of bytes of JSON.
    #[arg(long, default_value_t = 490)]
    payload: usize,
    /// The events have failed once and are due this many seconds from now.
    #[arg(long)]
    due_in: Option<i64>,
    /// The number of connections that write at once; with `--aggregates` it is one.
    #[arg(long, default_value_t = 2)]
    writers: u32,
    /// Emit this many events per transaction, instead of copying rows into the table. They go into the write-ahead log if its gate is open.
    #[arg(long)]
    emit: Option<u64>,
}

/// The content of the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// Plain JSON of an application.
    Plain,
    /// An order with nested objects, for the schema check.
    Order,
    /// The stored form of a Celery message.
    Celery,
}

/// The number of rows of one COPY, which is one transaction.
const BATCH: u64 = 10_000;
/// The number of rows of one emit.
const FEW: u64 = 1_000;
/// The number of events that share one time, like events of one transaction.
const SAME_MOMENT: i64 = 10;
const COPY: &str = "COPY outbox_event (id, aggregate_type, aggregate_id, event_type, payload, idempotency_key, attempts, \
                    next_attempt_at, created_at, updated_at) FROM STDIN";

impl Fill {
    pub(crate) async fn run(self) -> Result<Value> {
        ensure!(!self.types.is_empty() && self.aggregates != Some(0), "there must be a type and an aggregate");
        let database = Database::open(&self.database).await?;
        ensure!(self.emit != Some(0), "--emit must be at least 1");
        ensure!(self.due_in.is_none() || self.emit.is_none(), "--due-in is for rows that are copied");
        ensure!(self.due_in.is_none() || matches!(database, Database::Postgres(_)), "--due-in needs PostgreSQL");
        let began = Instant::now();
        let (fill, next) = (Arc::new(self), Arc::new(AtomicU64::new(0)));
        let mut writers = JoinSet::new();
        // With aggregates, one writer keeps the order of their events.
        let count = if fill.aggregates.is_some() { 1 } else { fill.writers };
        for _ in 0..count {
            writers.spawn(Arc::clone(&fill).write(database.clone(), Arc::clone(&next)));
        }
        while let Some(written) = writers.join_next().await {
            written??;
        }
        let seconds = began.elapsed().as_secs_f64();
        Ok(json!({ "count": fill.count, "seconds": seconds, "rate": fill.count as f64 / seconds }))
    }

    /// Writes batches until there are no more.
    async fn write(self: Arc<Self>, database: Database, next: Arc<AtomicU64>) -> Result<()> {
        loop {
            let from = next.fetch_add(BATCH, Ordering::Relaxed);
            if from >= self.count {
                return Ok(());
            }
            let numbers = from..self.count.min(from + BATCH);
            let transaction = self.emit.unwrap_or(FEW);
            if self.emit.is_none()
                && let Database::Postgres(store) = &database
            {
                self.copy(store.pool(), numbers).await?;
                continue;
            }
            for first in numbers.clone().step_by(usize::try_from(transaction)?) {
                let events = (first..numbers.end.min(first + transaction)).map(|number| self.event(number));
                database.emit(events.collect::<Result<_>>()?).await?;
            }
        }
    }

    async fn copy(&self, pool: &PgPool, numbers: Range<u64>) -> Result<()> {
        let now: DateTime<Utc> = sqlx::query_scalar("SELECT clock_timestamp()").fetch_one(pool).await?;
        let rows = self.rows(numbers, now)?;
        let mut copy = pool.copy_in_raw(COPY).await?;
        copy.send(rows.into_bytes()).await?;
        copy.finish().await?;
        Ok(())
    }

    /// Returns rows in COPY's text format. Their times end a little before the commit: writing takes longer than they span.
    fn rows(&self, numbers: Range<u64>, now: DateTime<Utc>) -> Result<String> {
        let mut rows = String::with_capacity(BATCH as usize * (self.payload + 300));
        for (position, number) in (0_i64..).zip(numbers) {
            let event = self.event(number)?.prepare()?;
            let created = now + TimeDelta::microseconds(position / SAME_MOMENT);
            let due = created + TimeDelta::seconds(self.due_in.unwrap_or(0));
            let attempts = i32::from(self.due_in.is_some());
            // Only the payload can contain a backslash; tabs and line ends are escaped in JSON.
            writeln!(
                rows,
                "{}\t{}\t{}\t{}\t{}\t{}\t{attempts}\t{due}\t{created}\t{created}",
                event.id,
                event.aggregate_type,
                event.aggregate_id,
                event.event_type,
                event.payload.replace('\\', "\\\\"),
                event.idempotency_key,
            )?;
        }
        Ok(rows)
    }

    fn event(&self, number: u64) -> Result<Event> {
        let aggregate = self.aggregates.map_or(number, |aggregates| number % aggregates);
        Ok(match self.form {
            Form::Plain | Form::Order => {
                let event_type = &self.types[number as usize % self.types.len()];
                let payload = if self.form == Form::Order { order(self.payload) } else { payload(self.payload) };
                Event::new("Order", aggregate, event_type).repeatable().payload(payload)
            }
            Form::Celery => task(self.payload).into_event()?.1,
        })
    }
}

/// Returns a payload of about this many bytes of JSON.
pub(crate) fn payload(bytes: usize) -> Value {
    json!({ "order": 42, "filler": "x".repeat(bytes.saturating_sub(26)) })
}

/// Returns a task whose argument has about this many bytes of JSON.
pub(crate) fn task(bytes: usize) -> Task {
    Task::new("shop.process").arg(payload(bytes))
}
