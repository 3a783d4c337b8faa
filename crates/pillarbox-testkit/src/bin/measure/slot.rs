//! An endpoint is down while events come in through the write-ahead log: how much of the log is not confirmed, how much the server
//! keeps, the memory of the relay, and whether everything arrives afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use pillarbox::store::postgres::LogSettings;
use pillarbox::{Event, Inspect, emit_all};
use pillarbox_testkit::{Program, Receiver, wait_until};
use tokio::task::JoinSet;

use crate::memory::{Megabytes, peak};
use crate::say;
use crate::scene::{Scene, destination};

/// The length of the outage and the load meanwhile.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Options {
    /// How long the endpoint is down, in minutes
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Events per second, ten in a transaction
    #[arg(long, default_value_t = 2000)]
    rate: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { minutes: 10.0, rate: 2000 }
    }
}

const WRITERS: u32 = 4;
const PER_TRANSACTION: u32 = 10;
/// The limits: of what is not confirmed, and of the relay's memory.
const MOST_LAG: u64 = 64 * 1024 * 1024;
const MOST_MEMORY: u64 = 100 * 1024 * 1024;

pub(crate) async fn measure(options: Options) -> Result<()> {
    let scene = Scene::set_logical().await?;
    scene.store.log_enable(&LogSettings::default(), &mut |_| {}).await?;
    let receiver = Receiver::start_counting().await;
    let configuration = format!(
        "[source]\nkind = \"wal\"\n[relay]\non_delivered = \"delete\"\n{}",
        destination("receiver", "*", &receiver.url("events"))
    );
    let mut relay = scene.relay(&configuration)?;
    wait_until("the gate is open", Duration::from_secs(60), async || {
        scene.store.log_status().await.is_ok_and(|status| status.is_some_and(|status| status.is_open))
    })
    .await;
    scene.emit("order.placed", 1000).await?;
    receiver.wait_for_distinct(1000, Duration::from_secs(60)).await?;
    receiver.stop().await;

    let written = Arc::new(Written::default());
    let watching = Arc::new(AtomicBool::new(true));
    let looks = async {
        let mut most = Most::default();
        while watching.load(Ordering::Relaxed) {
            most.look(&scene, &relay).await?;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        anyhow::Ok(most)
    };
    let load = async {
        let loaded = load(&scene, options, &written).await;
        watching.store(false, Ordering::Relaxed);
        loaded
    };
    let (seconds, most) = tokio::try_join!(load, looks)?;
    let (total, logged) = (written.events.load(Ordering::Relaxed), written.logged.load(Ordering::Relaxed));
    say(format!(
        "slot: down for {seconds:.0} s under {:.0} events/s, {:.1} % of them in the log; not confirmed at most {}; kept by \
         the server at most {}; relay's memory at most {}; gate closed in {} of {} looks",
        total as f64 / seconds,
        logged as f64 / total.max(1) as f64 * 100.0,
        Megabytes(most.lag),
        Megabytes(most.retained),
        Megabytes(most.memory),
        most.closed,
        most.looks,
    ));

    receiver.restart().await;
    let (back, wanted) = (Instant::now(), usize::try_from(total)? + 1000);
    receiver.wait_for_distinct(wanted, Duration::from_secs(3600)).await?;
    let took = back.elapsed();
    // The last sends may be settled a moment later.
    while scene.store.counts().await?.pending() > 0 {
        ensure!(back.elapsed() < Duration::from_secs(3600), "events are left: {:?}", scene.store.counts().await?);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let requests = receiver.requests_by_id();
    let twice = requests.values().filter(|count| **count > 1).count();
    let failed = scene.store.counts().await?.failed;
    say(format!(
        "slot: back; all {} delivered {took:.1?} later, {twice} twice, {} invented, {failed} failed; relay's memory then {}",
        requests.len(),
        requests.len() - wanted,
        Megabytes(peak(&relay)?),
    ));
    relay.terminate(Duration::from_secs(40)).await?;
    ensure!(failed == 0 && requests.len() == wanted, "every event must arrive, and nothing else");
    ensure!(most.lag < MOST_LAG, "{} were not confirmed", Megabytes(most.lag));
    ensure!(most.memory < MOST_MEMORY, "the relay had {}", Megabytes(most.memory));
    scene.strike().await;
    Ok(())
}

/// What was committed, and how much of it into the log.
#[derive(Debug, Default)]
struct Written {
    events: AtomicU64,
    logged: AtomicU64,
}

/// Emits at the rate. Returns the seconds that it took.
async fn load(scene: &Scene, options: Options, written: &Arc<Written>) -> Result<f64> {
    let began = Instant::now();
    let end = began + Duration::from_secs_f64(options.minutes * 60.0);
    let apart = Duration::from_secs_f64(f64::from(WRITERS * PER_TRANSACTION) / f64::from(options.rate.max(1)));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (pool, written) = (scene.store.pool().clone(), Arc::clone(written));
        writers.spawn(async move {
            let payload = serde_json::json!({ "filler": "x".repeat(470) });
            let mut due = began + apart * writer / WRITERS;
            while due.max(Instant::now()) < end {
                tokio::time::sleep_until(due.into()).await;
                let event = |number| Event::new("Order", number, "order.placed").repeatable().payload(&payload);
                let mut tx = pool.begin().await?;
                let emitted = emit_all(&mut tx, (0..PER_TRANSACTION).map(event)).await?;
                tx.commit().await?;
                written.events.fetch_add(emitted.len() as u64, Ordering::Relaxed);
                let logged = emitted.iter().filter(|emitted| emitted.seq.is_none()).count();
                written.logged.fetch_add(logged as u64, Ordering::Relaxed);
                due += apart;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = writers.join_next().await {
        ended??;
    }
    Ok(began.elapsed().as_secs_f64())
}

/// The most that was seen.
#[derive(Debug, Default)]
struct Most {
    lag: u64,
    retained: u64,
    memory: u64,
    looks: u32,
    closed: u32,
}

impl Most {
    async fn look(&mut self, scene: &Scene, relay: &Program) -> Result<()> {
        let status = scene.store.log_status().await?.context("the log is enabled")?;
        let bytes = |bytes: Option<i64>| u64::try_from(bytes.unwrap_or_default()).unwrap_or_default();
        self.lag = self.lag.max(bytes(status.undelivered_bytes));
        self.retained = self.retained.max(bytes(status.retained_bytes));
        self.memory = self.memory.max(peak(relay)?);
        self.looks += 1;
        self.closed += u32::from(!status.is_open);
        Ok(())
    }
}
