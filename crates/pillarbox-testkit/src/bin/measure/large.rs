//! Large transactions through the write-ahead log: gigabytes that are not the outbox's, and a million events in one. Counts what
//! arrives, and looks at the relay's memory.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pillarbox::Inspect;
use pillarbox::store::postgres::LogSettings;
use pillarbox_testkit::{Program, Receiver, wait_until};

use crate::memory::{Megabytes, peak};
use crate::say;
use crate::scene::{Scene, destination};

const EVENTS: usize = 1_000_000;
/// Written in one transaction to a table that is nobody's outbox: about three gigabytes.
const UNRELATED: &str =
    "CREATE TABLE unrelated AS SELECT repeat(md5(number::text), 31) AS text FROM generate_series(1, 2700000) AS number";
const MOST_MEMORY: u64 = 100 * 1024 * 1024;
const PATIENCE: Duration = Duration::from_secs(1800);

pub(crate) async fn measure() -> Result<()> {
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

    let began = Instant::now();
    sqlx::raw_sql(UNRELATED).execute(scene.store.pool()).await?;
    let written = began.elapsed();
    let bytes: i64 = sqlx::query_scalar("SELECT pg_table_size('unrelated')").fetch_one(scene.store.pool()).await?;
    let began = Instant::now();
    scene.emit("order.placed", 1000).await?;
    receiver.wait_for_distinct(1000, PATIENCE).await?;
    say(format!(
        "large: {} of others in one transaction, written in {written:.1?}; events committed behind it arrived within {:.1?}; \
         relay's memory at most {}",
        Megabytes(bytes.unsigned_abs()),
        began.elapsed(),
        Megabytes(peak(&relay)?),
    ));

    let began = Instant::now();
    scene.emit_at_once("order.placed", EVENTS).await?;
    let committed = began.elapsed();
    let began = Instant::now();
    receiver.wait_for_distinct(1000 + EVENTS, PATIENCE).await?;
    let took = began.elapsed();
    while scene.store.counts().await?.pending() > 0 {
        ensure!(began.elapsed() < PATIENCE, "events are left: {:?}", scene.store.counts().await?);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    report(&scene, &receiver, &relay, committed, took).await?;
    relay.terminate(Duration::from_secs(40)).await?;
    scene.strike().await;
    Ok(())
}

async fn report(
    scene: &Scene,
    receiver: &Receiver,
    relay: &Program,
    committed: Duration,
    took: Duration,
) -> Result<()> {
    let requests = receiver.requests_by_id();
    let twice = requests.values().filter(|count| **count > 1).count();
    let failed = scene.store.counts().await?.failed;
    let memory = peak(relay)?;
    say(format!(
        "large: {EVENTS} events in one transaction, committed in {committed:.1?}; all delivered {took:.1?} later, {twice} twice, \
         {failed} failed; relay's memory at most {}",
        Megabytes(memory)
    ));
    ensure!(failed == 0 && requests.len() == 1000 + EVENTS, "every event must arrive, and nothing else");
    ensure!(memory < MOST_MEMORY, "the relay had {}", Megabytes(memory));
    Ok(())
}
