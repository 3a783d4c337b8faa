//! Cost: the CPU time of the server for an event, without the commit: a bare INSERT, the library's emit and the function `outbox_emit`
//! take turns on one connection, each with many statements in one transaction. Whether events go into the table or into the
//! write-ahead log is the gate's affair.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use clap::Args;
use pillarbox::{Event, emit, emit_all};
use serde_json::{Value, json};
use sqlx::{Connection, Executor, PgConnection, PgTransaction};
use uuid::Uuid;

use crate::fill::payload;

/// Writes events and reads what that took.
#[derive(Args)]
pub(crate) struct Cost {
    /// postgres://…
    #[arg(long)]
    database: String,
    /// The number of events that one statement writes.
    #[arg(long, default_value_t = 1)]
    per_statement: usize,
    /// The number of statements in a transaction.
    #[arg(long, default_value_t = 200)]
    statements: usize,
    /// The number of turns of each mode; the median counts.
    #[arg(long, default_value_t = 15)]
    turns: usize,
}

/// The writer of the events.
#[derive(Debug, Clone, Copy)]
enum Mode {
    /// A statement that does nothing: the round trip.
    Nothing,
    /// A prepared INSERT.
    Bare,
    /// The library.
    Emit,
    /// The function `outbox_emit`.
    Function,
}

const MODES: [Mode; 4] = [Mode::Nothing, Mode::Bare, Mode::Emit, Mode::Function];
const BARE: &str = "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, idempotency_key) \
    SELECT id, 'Order', '42', 'order.placed', payload::jsonb, key FROM unnest($1::uuid[], $2::text[], $3::text[]) \
    AS event (id, payload, key)";
const BARE_ONE: &str = "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, idempotency_key) \
    VALUES ($1, 'Order', '42', 'order.placed', $2::text::jsonb, $3)";
const FUNCTION: &str = "SELECT count(outbox_emit('Order', '42', 'order.placed', given.payload::jsonb, repeatable => true)) \
    FROM unnest($1::text[]) AS given (payload)";
const FUNCTION_ONE: &str = "SELECT outbox_emit('Order', '42', 'order.placed', $1::text::jsonb, repeatable => true)";

impl Cost {
    pub(crate) async fn run(self) -> Result<Value> {
        ensure!(self.per_statement * self.statements * self.turns > 0, "every count must be at least 1");
        let mut connection = PgConnection::connect(&self.database).await?;
        // Emit keeps its statement only where others are kept: see `load emit`.
        connection.execute("CREATE TEMPORARY TABLE application_data (name text)").await?;
        sqlx::query("INSERT INTO application_data VALUES ($1)").bind("42").execute(&mut connection).await?;
        let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut connection).await?;
        let content = payload(490);
        let mut took: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        // The first turn fills caches.
        for turn in 0..=self.turns {
            for mode in MODES {
                let mut tx = connection.begin().await?;
                let before = cpu(pid)?;
                for _ in 0..self.statements {
                    self.write(&mut tx, mode, &content).await?;
                }
                let nanos = cpu(pid)? - before;
                tx.commit().await?;
                if turn > 0 {
                    let events = (self.statements * self.per_statement) as f64;
                    took.entry(name(mode)).or_default().push(nanos as f64 / 1e3 / events);
                }
            }
        }
        let mut report = json!({});
        for (mode, mut each) in took {
            each.sort_by(f64::total_cmp);
            report[mode] = json!({ "micros": each[each.len() / 2], "least": each[0], "most": each[each.len() - 1] });
        }
        Ok(report)
    }

    async fn write(&self, tx: &mut PgTransaction<'_>, mode: Mode, content: &Value) -> Result<()> {
        let text = || serde_json::to_string(content);
        let texts = || (0..self.per_statement).map(|_| text()).collect::<Result<Vec<_>, _>>();
        let event = |_| Event::new("Order", 42, "order.placed").payload(content).repeatable();
        match mode {
            Mode::Nothing => {
                sqlx::query("SELECT 1").execute(&mut **tx).await?;
            }
            Mode::Bare if self.per_statement == 1 => {
                let id = Uuid::now_v7();
                let insert = sqlx::query(BARE_ONE).bind(id).bind(text()?).bind(id.to_string());
                insert.execute(&mut **tx).await?;
            }
            Mode::Bare => {
                let ids: Vec<Uuid> = (0..self.per_statement).map(|_| Uuid::now_v7()).collect();
                let keys: Vec<String> = ids.iter().map(Uuid::to_string).collect();
                sqlx::query(BARE).bind(ids).bind(texts()?).bind(keys).execute(&mut **tx).await?;
            }
            Mode::Emit if self.per_statement == 1 => {
                emit(tx, event(0)).await?;
            }
            Mode::Emit => {
                emit_all(tx, (0..self.per_statement).map(event)).await?;
            }
            Mode::Function if self.per_statement == 1 => {
                sqlx::query(FUNCTION_ONE).bind(text()?).execute(&mut **tx).await?;
            }
            Mode::Function => {
                sqlx::query(FUNCTION).bind(texts()?).execute(&mut **tx).await?;
            }
        }
        Ok(())
    }
}

fn name(mode: Mode) -> &'static str {
    match mode {
        Mode::Nothing => "nothing",
        Mode::Bare => "bare",
        Mode::Emit => "emit",
        Mode::Function => "function",
    }
}

/// Returns the CPU time of a process on this host, in nanoseconds.
fn cpu(pid: i32) -> Result<u64> {
    let path = format!("/proc/{pid}/schedstat");
    let times = std::fs::read_to_string(&path).with_context(|| format!("{path}: is the server on this host?"))?;
    Ok(times.split_whitespace().next().context("no time in schedstat")?.parse()?)
}
