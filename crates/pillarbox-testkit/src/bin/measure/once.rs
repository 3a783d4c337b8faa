//! Two relays, 20,000 events, nothing fails: each event arrives exactly once.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use pillarbox_testkit::Receiver;

use crate::say;
use crate::scene::{Scene, destination};

const EVENTS: usize = 20_000;

pub(crate) async fn measure() -> Result<()> {
    let scene = Scene::set().await?;
    let receiver = Receiver::start_counting().await;
    scene.emit("order.placed", EVENTS).await?;
    let configuration = destination("receiver", "*", &receiver.url("events"));
    let began = Instant::now();
    let relays = [scene.relay(&configuration)?, scene.relay(&configuration)?];
    receiver.wait_for_distinct(EVENTS, Duration::from_secs(120)).await?;
    let took = began.elapsed();
    scene.delivered(EVENTS as u64, Duration::from_secs(30)).await?;
    let by_id = receiver.requests_by_id();
    let repeated = by_id.values().filter(|count| **count > 1).count();
    say(format!(
        "once: 2 relays, {EVENTS} events committed, {} received, {repeated} more than once; {took:.2?} from the relays' \
         start, {:.0} events/s",
        by_id.len(),
        EVENTS as f64 / took.as_secs_f64()
    ));
    ensure!(by_id.len() == EVENTS && repeated == 0, "not exactly once");
    for mut relay in relays {
        relay.terminate(Duration::from_secs(10)).await?;
    }
    scene.strike().await;
    Ok(())
}
