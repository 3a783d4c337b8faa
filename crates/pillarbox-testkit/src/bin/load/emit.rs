//! Emit: the cost of an event in the caller's transaction, compared to a bare INSERT of the same columns by the same driver in
//! the same transaction: BEGIN, one statement, COMMIT. The two alternate on the same connections, a slice of time each, so
//! that other load on the machine affects both.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use chrono::{DateTime, TimeDelta, Utc};
use clap::{Args, ValueEnum};
use pillarbox::{Event, emit, emit_all};
use serde_json::{Map, Value, json};
use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection, PgConnection, PgPool, PgTransaction};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::fill::payload;
use crate::relay::open;

/// Emits for a while.
#[derive(Args, Clone)]
pub(crate) struct Emit {
    #[arg(long)]
    database: String,
    /// The modes that alternate.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "bare,emit")]
    modes: Vec<Mode>,
    #[arg(long, default_value_t = 1)]
    writers: u32,
    #[arg(long, default_value_t = 1)]
    per_transaction: usize,
    /// Events have explicit keys, for which emit checks duplicates, instead of their own ids.
    #[arg(long)]
    keyed: bool,
    #[arg(long)]
    seconds: f64,
    /// Events are due this many seconds from now.
    #[arg(long)]
    due_in: Option<i64>,
}

/// The writer of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// A prepared INSERT.
    Bare,
    /// The library.
    Emit,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Emit => "emit",
        }
    }
}

/// How long one mode writes before the next one begins; a transaction that has begun is awaited.
const TURN: Duration = Duration::from_millis(100);

const ONE: &str = "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, idempotency_key, \
    next_attempt_at) VALUES ($1, $2, $3, $4, $5::text::jsonb, $6, coalesce($7, clock_timestamp()))";
const MANY: &str = "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, idempotency_key, \
    next_attempt_at) SELECT id, aggregate_type, aggregate_id, event_type, payload::jsonb, key, \
    coalesce(due, clock_timestamp()) FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], \
    $7::timestamptz[]) AS event (id, aggregate_type, aggregate_id, event_type, payload, key, due)";

/// The results of one writer in one turn.
struct Paging {
    commits: u64,
    /// The time until the last writer was done.
    length: Duration,
    /// The time in the statement alone, without BEGIN and COMMIT.
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
        // Wakes a sleeping relay before the clock starts, whichever mode writes first.
        let mut tx = pool.begin().await?;
        emit(&mut tx, Event::new(AGGREGATE, 42, TYPE).repeatable()).await?;
        tx.commit().await?;
        sqlx::query(DATA).execute(&pool).await?;
        let barrier = Arc::new(Barrier::new(self.writers as usize));
        let mut writers = JoinSet::new();
        for _ in 0..self.writers {
            writers.spawn(self.clone().write(pool.clone(), Arc::clone(&barrier)));
        }
        let written = writers.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
        let mut report: Map<String, Value> = self
            .modes
            .iter()
            .enumerate()
            .map(|(place, mode)| (mode.name().to_owned(), self.report(place, &written)))
            .collect();
        if let [Mode::Bare, Mode::Emit] = self.modes[..] {
            let cost = median(self.rates(0, &written)) / median(self.rates(1, &written));
            report.insert("cost".to_owned(), json!(cost));
        }
        Ok(report.into())
    }

    /// Returns the medians of a mode's turns.
    fn report(&self, place: usize, written: &[Vec<Paging>]) -> Value {
        let rate = median(self.rates(place, written));
        let own = || written.iter().flat_map(|turns| turns.iter().skip(place).step_by(self.modes.len()));
        let events = own().map(|turn| turn.commits).sum::<u64>() as f64 * self.per_transaction as f64;
        json!({
            "events": rate,
            "micros_per_event": f64::from(self.writers) * 1e6 / rate,
            "statement_micros_per_event": own().map(|turn| turn.writing).sum::<Duration>().as_secs_f64() * 1e6 / events,
        })
    }

    /// Returns the events per second of each turn of a mode.
    fn rates(&self, place: usize, written: &[Vec<Paging>]) -> Vec<f64> {
        let turns = (place..self.turns()).step_by(self.modes.len());
        let rate = |turn: usize| {
            let commits: f64 =
                written.iter().map(|turns| turns[turn].commits as f64 / turns[turn].length.as_secs_f64()).sum();
            commits * self.per_transaction as f64
        };
        turns.map(rate).collect()
    }

    fn turns(&self) -> usize {
        (self.seconds / TURN.as_secs_f64()).ceil() as usize * self.modes.len()
    }

    async fn write(self, pool: PgPool, barrier: Arc<Barrier>) -> Result<Vec<Paging>> {
        let content = payload(490);
        let mut connection = pool.acquire().await?;
        // A real application has written data of its own on that connection, with a statement that it keeps. Emit keeps its
        // statement only where others are kept, because a pooler may be in between.
        sqlx::query(OWN).bind("42").execute(&mut *connection).await?;
        let mut turns = Vec::new();
        for turn in 0..self.turns() {
            barrier.wait().await;
            let start = Instant::now();
            let (mut commits, mut writing) = (0, Duration::ZERO);
            while start.elapsed() < TURN {
                writing += self.transaction(&mut connection, self.modes[turn % self.modes.len()], &content).await?;
                commits += 1;
            }
            barrier.wait().await;
            turns.push(Paging { commits, length: start.elapsed(), writing });
        }
        Ok(turns)
    }

    /// Runs one transaction and returns how long the statement took.
    async fn transaction(&self, connection: &mut PgConnection, mode: Mode, content: &Value) -> Result<Duration> {
        let due = self.due_in.map(|seconds| Utc::now() + TimeDelta::seconds(seconds));
        let mut tx = connection.begin().await?;
        let began = Instant::now();
        match mode {
            Mode::Emit => self.emit(&mut tx, content, due).await?,
            Mode::Bare if self.per_transaction == 1 => bare(&mut tx, content, due).await?,
            Mode::Bare => bare_many(&mut tx, content, due, self.per_transaction).await?,
        }
        let writing = began.elapsed();
        tx.commit().await?;
        Ok(writing)
    }

    async fn emit(&self, tx: &mut PgTransaction<'_>, content: &Value, due: Option<DateTime<Utc>>) -> Result<()> {
        let event = || {
            let event = Event::new(AGGREGATE, 42, TYPE).payload(content);
            let event = if self.keyed { event.idempotency_key(Uuid::now_v7()) } else { event.repeatable() };
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

/// The application's own data, beside which events are emitted.
const DATA: &str = "CREATE TABLE IF NOT EXISTS application_data (id bigint GENERATED ALWAYS AS IDENTITY, name text)";
const OWN: &str = "INSERT INTO application_data (name) VALUES ($1)";

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
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
