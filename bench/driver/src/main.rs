//! The claim by lock and its settle, on sqlx and on tokio-postgres: the same statements, the same values, the same rows.
//!
//!     driver URL sqlx|tokio-postgres keep|delete BATCH prepared|pooled
//!
//! Takes everything that is due in batches until nothing is left, and prints one line of JSON: events a second, the time of
//! a cycle from BEGIN to COMMIT (p50, p99), and this process's CPU per event. `pooled` names no statement on the server, as
//! a transaction pooler demands. With a batch of 1 the cycle's time is what a driver adds to the latency of one event.

use std::time::{Duration, Instant};

mod by_sqlx;
mod by_tokio_postgres;

/// How a claim begins, as the relay's does.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL synchronous_commit = off; SET LOCAL enable_seqscan = off; \
    SET LOCAL enable_bitmapscan = off; SET LOCAL jit = off; SET LOCAL plan_cache_mode = force_generic_plan; \
    SET LOCAL statement_timeout = 300000; SET LOCAL idle_in_transaction_session_timeout = 30000";
const CLAIM: &str = include_str!("../../../crates/pillarbox/sql/postgres/hold_light.sql");
const DELIVER: &str = include_str!("../../../crates/pillarbox/sql/postgres/hold_deliver.sql");
const DELETE: &str = include_str!("../../../crates/pillarbox/sql/postgres/hold_delete.sql");
/// A payload is larger only in other experiments.
const SHARE: i64 = 64 * 1024;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What is asked of a driver.
struct Ask {
    url: String,
    batch: i64,
    delete: bool,
    /// Statements have names on the server.
    prepared: bool,
}

impl Ask {
    fn claim(&self) -> String {
        CLAIM.replace("{schema}", "public")
    }

    fn settle(&self) -> String {
        if self.delete { DELETE } else { DELIVER }.replace("{schema}", "public")
    }
}

/// An event as the relay has it.
#[expect(dead_code, reason = "reading it is what is measured")]
struct Event {
    id: uuid::Uuid,
    seq: i64,
    aggregate_type: String,
    aggregate_id: String,
    event_type: String,
    payload: Box<serde_json::value::RawValue>,
    headers: Option<String>,
    idempotency_key: String,
    attempts: i32,
    max_attempts: Option<i32>,
    claims: i32,
    created_at: i64,
    due_at: i64,
    deliveries: Option<String>,
    fresh: bool,
}

/// One driver's way of taking a batch.
trait Driver {
    /// Claims and settles, and returns how many; 0: nothing is due.
    async fn cycle(&mut self, ask: &Ask) -> Result<usize, Failure>;
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let [url, driver, mode, batch, names] = std::env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| {
        "usage: driver URL sqlx|tokio-postgres keep|delete BATCH prepared|pooled"
    })?;
    let ask = Ask { url, batch: batch.parse()?, delete: mode == "delete", prepared: names == "prepared" };
    let line = match driver.as_str() {
        "sqlx" => measure(by_sqlx::Sqlx::connect(&ask).await?, &ask).await?,
        _ => measure(by_tokio_postgres::TokioPostgres::connect(&ask).await?, &ask).await?,
    };
    println!("{line}");
    Ok(())
}

async fn measure(mut driver: impl Driver, ask: &Ask) -> Result<String, Failure> {
    // Statements are prepared and caches are warm.
    for _ in 0..3 {
        driver.cycle(ask).await?;
    }
    let (began, cpu) = (Instant::now(), cpu());
    let (mut events, mut cycles) = (0, Vec::new());
    loop {
        let started = Instant::now();
        let taken = driver.cycle(ask).await?;
        if taken == 0 {
            break;
        }
        cycles.push(started.elapsed());
        events += taken;
    }
    let (took, cpu) = (began.elapsed(), self::cpu() - cpu);
    cycles.sort_unstable();
    let part = |share: f64| cycles.get((cycles.len() as f64 * share) as usize).copied().unwrap_or_default();
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    Ok(format!(
        "{{\"events\": {events}, \"rate\": {:.0}, \"cycle_p50_us\": {:.0}, \"cycle_p99_us\": {:.0}, \"cpu_us_per_event\": {:.2}}}",
        events as f64 / took.as_secs_f64(),
        micros(part(0.5)),
        micros(part(0.99)),
        micros(cpu) / events.max(1) as f64,
    ))
}

/// The CPU time of this process so far: in hundredths of a second.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |place: usize| fields.get(place).and_then(|field| field.parse::<u64>().ok()).unwrap_or_default();
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}
