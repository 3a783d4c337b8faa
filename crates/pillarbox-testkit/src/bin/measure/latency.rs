//! From just before the commit to the request, with an idle relay and events at random moments.

use std::time::{Duration, Instant};

use anyhow::Result;
use pillarbox::{Event, Inspect, emit};
use pillarbox_testkit::{Receiver, wait_until};
use rand::RngExt;

use crate::say;
use crate::scene::{Scene, destination};

const EVENTS: usize = 200;

pub(crate) async fn measure() -> Result<()> {
    let scene = Scene::set().await?;
    let receiver = Receiver::start().await;
    let mut relay = scene.relay(&destination("receiver", "*", &receiver.url("events")))?;
    let idle = async || scene.store.counts().await.is_ok_and(|counts| counts.relays.iter().any(|relay| relay.idle));
    wait_until("the relay is idle", Duration::from_secs(10), idle).await;
    let mut committed = Vec::with_capacity(EVENTS);
    for number in 0..EVENTS {
        tokio::time::sleep(Duration::from_micros(rand::rng().random_range(20_000..1_200_000))).await;
        let mut tx = scene.store.pool().begin().await?;
        let emitted = emit(&mut tx, Event::new("Order", number, "order.placed").payload([number])).await?;
        let began = Instant::now();
        tx.commit().await?;
        committed.push((emitted.id, began));
        receiver.wait_for_distinct(number + 1, Duration::from_secs(10)).await?;
    }
    let received = receiver.received();
    let mut took: Vec<Duration> = committed
        .iter()
        .filter_map(|(id, began)| {
            received.iter().find(|request| request.id == Some(*id)).map(|request| request.at - *began)
        })
        .collect();
    took.sort();
    say(format!(
        "latency: commit to request received, idle relay, {} events at random moments: p50 {:.2?}, p90 {:.2?}, p99 {:.2?}, \
         most {:.2?}",
        took.len(),
        took[took.len() / 2],
        took[took.len() * 90 / 100],
        took[took.len() * 99 / 100],
        took[took.len() - 1]
    ));
    relay.terminate(Duration::from_secs(10)).await?;
    scene.strike().await;
    Ok(())
}
