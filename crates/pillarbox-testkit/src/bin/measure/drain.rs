//! How fast one relay drains a backlog: into nothing (what the database and the relay allow) and over HTTP.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pillarbox_testkit::Receiver;

use crate::say;
use crate::scene::{Scene, destination};

const EVENTS: usize = 100_000;
const DISCARD: &str = "[destinations.nowhere]\nkind = \"discard\"\n[[routes]]\nevents = \"*\"\nto = [\"nowhere\"]\n";

pub(crate) async fn measure() -> Result<()> {
    for on_delivered in ["keep", "delete"] {
        let relay = format!("[relay]\non_delivered = \"{on_delivered}\"\n");
        say(format!("drain: discard, {on_delivered}: {:.0} events/s", drain(&format!("{relay}{DISCARD}")).await?));
        let receiver = Receiver::start_counting().await;
        let http = destination("receiver", "*", &receiver.url("events"));
        say(format!("drain: http, {on_delivered}: {:.0} events/s", drain(&format!("{relay}{http}")).await?));
    }
    Ok(())
}

/// From the first event that is gone to the last, so that the program's start does not count.
async fn drain(configuration: &str) -> Result<f64> {
    let scene = Scene::set().await?;
    scene.emit("order.placed", EVENTS).await?;
    sqlx::query("VACUUM ANALYZE outbox_event").execute(scene.store.pool()).await?;
    let mut relay = scene.relay(configuration)?;
    let mut began = None;
    let started = Instant::now();
    let rate = loop {
        let left: i64 = sqlx::query_scalar("SELECT count(*) FROM outbox_event WHERE status = 'pending'")
            .fetch_one(scene.store.pool())
            .await?;
        let left = usize::try_from(left)?;
        match began {
            None if left < EVENTS => began = Some((Instant::now(), left)),
            Some((at, first)) if left == 0 => break first as f64 / Instant::elapsed(&at).as_secs_f64(),
            _ => {}
        }
        ensure!(started.elapsed() < Duration::from_secs(120), "{left} events are left");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    relay.terminate(Duration::from_secs(10)).await?;
    scene.strike().await;
    Ok(rate)
}
