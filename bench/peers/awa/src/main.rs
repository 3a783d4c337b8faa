//! awa as a contender: fills its queue storage by COPY, and drains it with a handler that does nothing.
//!
//!     awa-peer fill URL COUNT
//!     awa-peer drain URL COUNT     COUNT jobs are there; another process may take some of them

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{bail, Context, Result};
use awa::model::insert::params_with;
use awa::{Client, InsertOpts, JobArgs, JobResult, QueueConfig, QueueStorage, QueueStorageConfig};
use serde::{Deserialize, Serialize};
use sqlx::postgres::{PgPool, PgPoolOptions};

const QUEUE: &str = "orders";
const MAX_WORKERS: u32 = 2048;
/// While jobs come in nobody asks the database whether some are left: its exact count is dear.
const QUIET: Duration = Duration::from_millis(500);

#[derive(Debug, Serialize, Deserialize, JobArgs)]
struct Order {
    order: i64,
    filler: String,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [command, url, count] = arguments.as_slice() else { bail!("awa-peer fill|drain URL COUNT") };
    let pool = PgPoolOptions::new().max_connections(20).connect(url).await?;
    let count: i64 = count.parse().context("COUNT is not a number")?;
    match command.as_str() {
        "fill" => fill(&pool, count).await,
        "drain" => drain(&pool, count).await,
        _ => bail!("awa-peer fill|drain URL COUNT"),
    }
}

async fn fill(pool: &PgPool, count: i64) -> Result<()> {
    awa::migrations::run(pool).await?;
    sqlx::query("SELECT awa.storage_auto_finalize_if_fresh('awa')").execute(pool).await?;
    let storage = QueueStorage::new(QueueStorageConfig::default())?;
    for from in (0..count).step_by(5_000) {
        let jobs = (from..count.min(from + 5_000))
            .map(|order| params_with(&Order { order, filler: "x".repeat(464) }, options()))
            .collect::<Result<Vec<_>, _>>()?;
        storage.enqueue_params_copy(pool, &jobs).await?;
    }
    Ok(())
}

fn options() -> InsertOpts {
    InsertOpts { queue: QUEUE.into(), ..InsertOpts::default() }
}

async fn drain(pool: &PgPool, count: i64) -> Result<()> {
    let handled = Arc::new(AtomicI64::new(0));
    let first = Arc::new(OnceLock::new());
    let settings = QueueConfig {
        max_workers: setting("AWA_PEER_WORKERS", MAX_WORKERS),
        claimers: setting("AWA_PEER_CLAIMERS", 1),
        poll_interval: Duration::from_millis(50),
        deadline_duration: Duration::ZERO,
        ..QueueConfig::default()
    };
    let client = {
        let (handled, first) = (Arc::clone(&handled), Arc::clone(&first));
        Client::builder(pool.clone())
            .queue(QUEUE, settings)
            .register::<Order, _, _>(move |_order, _context| {
                first.get_or_init(SystemTime::now);
                handled.fetch_add(1, Ordering::Relaxed);
                async { Ok(JobResult::Completed) }
            })
            .build()?
    };
    client.start().await?;
    let last = completed(pool, count, &handled).await?;
    let settled = handled.load(Ordering::Relaxed);
    let first = first.get().copied().unwrap_or(last);
    println!(r#"{{"settled":{settled},"first_at":{},"last_at":{}}}"#, since_1970(first)?, since_1970(last)?);
    client.shutdown(Duration::from_secs(5)).await;
    Ok(())
}

/// When the database has all of them as completed.
async fn completed(pool: &PgPool, count: i64, handled: &AtomicI64) -> Result<SystemTime> {
    let storage = QueueStorage::new(QueueStorageConfig::default())?;
    let mut before = -1;
    loop {
        let now = handled.load(Ordering::Relaxed);
        if now < count && now != before {
            before = now;
            quiet(count, handled).await;
            continue;
        }
        let asked = SystemTime::now();
        if storage.queue_counts(pool, QUEUE).await?.terminal >= count {
            return Ok(asked);
        }
        // Another process has jobs to complete, too, and asking costs.
        tokio::time::sleep(Duration::from_millis(if now < count { 50 } else { 10 })).await;
    }
}

/// Until a while has passed, or all are handled.
async fn quiet(count: i64, handled: &AtomicI64) {
    let until = Instant::now() + QUIET;
    while Instant::now() < until && handled.load(Ordering::Relaxed) < count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn setting<Number: std::str::FromStr>(name: &str, otherwise: Number) -> Number {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

fn since_1970(moment: SystemTime) -> Result<f64> {
    Ok(moment.duration_since(SystemTime::UNIX_EPOCH)?.as_secs_f64())
}
