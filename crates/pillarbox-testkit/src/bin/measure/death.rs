//! A relay that holds claims dies: measures how soon the other relay delivers its events.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use pillarbox::Inspect;
use pillarbox_testkit::{Answer, Receiver, Signal, wait_until};

use crate::say;
use crate::scene::{Scene, destination};

const EVENTS: u64 = 200;
const LEASE: Duration = Duration::from_secs(5);

pub(crate) async fn measure() -> Result<()> {
    for signal in [Signal::Kill, Signal::Terminate] {
        let took = die_by(signal).await?;
        say(format!(
            "death: {signal:?} to a relay that holds {EVENTS} claims, lease {LEASE:?}: the other has delivered all after \
             {took:.2?}"
        ));
    }
    Ok(())
}

async fn die_by(signal: Signal) -> Result<Duration> {
    let scene = Scene::set().await?;
    let receiver = Receiver::start_counting().await;
    let silent = Arc::new(AtomicBool::new(true));
    let is_silent = Arc::clone(&silent);
    receiver.answer_with(move |_| if is_silent.load(Ordering::SeqCst) { Answer::Hang } else { Answer::ok() });
    scene.emit("order.placed", EVENTS as usize).await?;
    let relay = format!(
        "[relay]\nlease = \"{}s\"\nconcurrency = 8\nshutdown_timeout = \"100ms\"\n{}",
        LEASE.as_secs(),
        destination("receiver", "*", &receiver.url("events"))
    );
    let mut dying = scene.relay(&relay)?;
    let sending = async || scene.store.counts().await.is_ok_and(|counts| counts.sending == EVENTS);
    wait_until("the relay holds all events", Duration::from_secs(10), sending).await;
    let other = scene.relay(&relay)?;
    let two = async || scene.store.counts().await.is_ok_and(|counts| counts.relays.len() == 2);
    wait_until("the other relay is there", Duration::from_secs(10), two).await;
    silent.store(false, Ordering::SeqCst);
    let died = Instant::now();
    dying.signal(signal);
    scene.delivered(EVENTS, Duration::from_secs(30)).await?;
    let took = died.elapsed();
    dying.wait(Duration::from_secs(10)).await?;
    drop(other);
    scene.strike().await;
    Ok(took)
}
