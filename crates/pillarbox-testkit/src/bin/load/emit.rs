//! Emit: the cost of an event in the caller's transaction, compared to a bare INSERT of the same columns by the same driver in
//! the same transaction: BEGIN, one statement, COMMIT. The two alternate on the same connections, a slice of time each, so
//! that other load on the machine affects both.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use chrono::{DateTime, TimeDelta, Utc};
use clap::{Args, ValueEnum};
use pillarbox::Event;
use serde_json::{Map, Value, json};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use uuid::Uuid;

use self::writer::Writer;
use crate::database::Database;
use crate::fill::payload;

mod writer;

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
        let database = Database::open(&self.database).await?;
        // Wakes a sleeping relay before the clock starts, whichever mode writes first.
        database.emit(vec![Event::new(AGGREGATE, 42, TYPE).repeatable()]).await?;
        Writer::connect(&self.database).await?.create_data().await?;
        let barrier = Arc::new(Barrier::new(self.writers as usize));
        let mut writers = JoinSet::new();
        for _ in 0..self.writers {
            writers.spawn(self.clone().write(Arc::clone(&barrier)));
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

    async fn write(self, barrier: Arc<Barrier>) -> Result<Vec<Paging>> {
        let content = payload(490);
        let mut writer = Writer::connect(&self.database).await?;
        // A real application has written data of its own on that connection, with a statement that it keeps. Emit keeps its
        // statement only where others are kept, because a pooler may be in between.
        writer.write_own().await?;
        let mut turns = Vec::new();
        for turn in 0..self.turns() {
            barrier.wait().await;
            let start = Instant::now();
            let (mut commits, mut writing) = (0, Duration::ZERO);
            while start.elapsed() < TURN {
                writing += self.transaction(&mut writer, self.modes[turn % self.modes.len()], &content).await?;
                commits += 1;
            }
            barrier.wait().await;
            turns.push(Paging { commits, length: start.elapsed(), writing });
        }
        Ok(turns)
    }

    /// Runs one transaction and returns how long the statement took.
    async fn transaction(&self, writer: &mut Writer, mode: Mode, content: &Value) -> Result<Duration> {
        let due = self.due_in.map(|seconds| Utc::now() + TimeDelta::seconds(seconds));
        match mode {
            Mode::Emit => {
                let events = (0..self.per_transaction).map(|_| self.event(content, due)).collect();
                writer.emit(events).await
            }
            Mode::Bare => writer.bare(content, due, self.per_transaction).await,
        }
    }

    fn event(&self, content: &Value, due: Option<DateTime<Utc>>) -> Event {
        let event = Event::new(AGGREGATE, 42, TYPE).payload(content);
        let event = if self.keyed { event.idempotency_key(Uuid::now_v7()) } else { event.repeatable() };
        due.into_iter().fold(event, Event::deliver_at)
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

const AGGREGATE: &str = "Order";
const TYPE: &str = "order.placed";
