//! An endpoint is down for longer than all backoffs together, with 100,000 events waiting for it, while another endpoint gets a
//! steady stream.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pillarbox::{Event, Inspect, emit};
use pillarbox_testkit::Receiver;

use crate::say;
use crate::scene::{Scene, destination};

const WAITING: usize = 100_000;
const STEADY: Duration = Duration::from_millis(4);
const WINDOW: Duration = Duration::from_secs(10);
/// 100 ms, 200, 400, 800: an event that used attempts would be a dead letter after 1.5 s.
const RETRY: &str = "[relay]\nretry = { base = \"100ms\", cap = \"1s\", max_attempts = 5 }\n";

pub(crate) async fn measure() -> Result<()> {
    let scene = Scene::set().await?;
    let (fine, down) = (Receiver::start_counting().await, Receiver::start_counting().await);
    down.stop().await;
    let configuration = format!(
        "{RETRY}{}{}",
        destination("fine", "to.fine", &fine.url("events")),
        destination("down", "to.down", &down.url("events"))
    );
    let mut relay = scene.relay(&configuration)?;
    let (before, latency_before) = steady(&scene, &fine).await?;
    scene.emit("to.down", WAITING).await?;
    let began = Instant::now();
    while parked(&scene).await? < WAITING as u64 - 1 {
        ensure!(began.elapsed() < Duration::from_secs(120), "they are not parked: {:?}", scene.store.counts().await?);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    say(format!("outage: {WAITING} events to an endpoint that is down were parked within {:.2?}", began.elapsed()));

    let moment: chrono::DateTime<chrono::Utc> =
        sqlx::query_scalar("SELECT clock_timestamp()").fetch_one(scene.store.pool()).await?;
    let (during, latency_during) = steady(&scene, &fine).await?;
    let rewritten: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM outbox_event WHERE event_type = 'to.down' AND parked_on IS NOT NULL AND updated_at > $1",
    )
    .bind(moment)
    .fetch_one(scene.store.pool())
    .await?;
    let counts = scene.store.counts().await?;
    say(format!(
        "outage: the other endpoint {before:.0} events/s before (p99 {latency_before:.1?}), {during:.0} events/s during \
         (p99 {latency_during:.1?}); waiting rows rewritten in {WINDOW:?}: {rewritten}; failed {}",
        counts.failed
    ));
    ensure!(rewritten == 0 && counts.failed == 0, "rows that wait must be left alone");

    down.restart().await;
    let back = Instant::now();
    down.wait_for_distinct(WAITING, Duration::from_secs(300)).await?;
    let took = back.elapsed();
    let fine_total = fine.distinct() as u64;
    scene.delivered(WAITING as u64 + fine_total, Duration::from_secs(30)).await?;
    let repeated = down.requests_by_id().values().filter(|count| **count > 1).count();
    let attempts: i64 = sqlx::query_scalar("SELECT count(*) FROM outbox_event WHERE attempts > 0")
        .fetch_one(scene.store.pool())
        .await?;
    say(format!(
        "outage: back; all {WAITING} delivered {took:.2?} later, {repeated} twice, failed {}, events with used attempts \
         {attempts}",
        scene.store.counts().await?.failed
    ));
    ensure!(attempts == 0, "an outage must not use attempts");
    relay.terminate(Duration::from_secs(10)).await?;
    scene.strike().await;
    Ok(())
}

async fn parked(scene: &Scene) -> Result<u64> {
    Ok(scene.store.counts().await?.parked.iter().map(|parked| parked.count).sum())
}

/// Sends a steady stream to the healthy endpoint. Returns the arrival rate, and the p99 from commit to request.
async fn steady(scene: &Scene, fine: &Receiver) -> Result<(f64, Duration)> {
    let began = Instant::now();
    let already = fine.distinct();
    let mut sent = 0;
    let mut tick = tokio::time::interval(STEADY);
    let mut took = Vec::new();
    while began.elapsed() < WINDOW {
        tick.tick().await;
        let mut tx = scene.store.pool().begin().await?;
        emit(&mut tx, Event::new("Order", sent, "to.fine").repeatable()).await?;
        let committed = Instant::now();
        tx.commit().await?;
        sent += 1;
        if sent % 20 == 0 {
            fine.wait_for_distinct(already + sent, Duration::from_secs(10)).await?;
            took.push(committed.elapsed());
        }
    }
    fine.wait_for_distinct(already + sent, Duration::from_secs(10)).await?;
    took.sort();
    Ok((sent as f64 / began.elapsed().as_secs_f64(), took[took.len() * 99 / 100]))
}
