//! Each kind of broker: events are drained to it plainly, over TLS, in order, while the broker is killed and while the relay is
//! killed. Counts what is lost, what arrives twice and what arrives out of order, beside the sink without a database.

mod kinds;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use pillarbox::{Inspect, Message, Sink, StoredEvent};
use pillarbox_testkit::brokers::{Received, sink};

pub(crate) use self::kinds::Kind;
use crate::say;
use crate::scene::Scene;

const PATIENCE: Duration = Duration::from_secs(300);
/// How long a killed broker stays away.
const AWAY: Duration = Duration::from_secs(2);
/// The sends at once of the sink without a database, as the relay has them by default.
const AT_ONCE: usize = 2;

#[derive(Args)]
pub(crate) struct Options {
    /// The kinds; all if none is named.
    kinds: Vec<Kind>,
    /// The number of events of each case; by default 20,000, and 2,000 for SQS and SNS.
    #[arg(long)]
    events: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Plain,
    Tls,
    /// In order, with events of ten aggregates.
    Ordered,
    BrokerKilled,
    RelayKilled,
}

const CASES: [Case; 5] = [Case::Plain, Case::Tls, Case::Ordered, Case::BrokerKilled, Case::RelayKilled];

pub(crate) async fn measure(options: Options) -> Result<()> {
    let kinds = if options.kinds.is_empty() { Kind::all() } else { options.kinds };
    say("| kind | case | events | lost | twice | out of order | failed | events/s |");
    say("|---|---|---|---|---|---|---|---|");
    for kind in kinds {
        let events = options.events.unwrap_or_else(|| kind.events());
        for case in CASES {
            let drained = drain(kind, case, events).await.with_context(|| format!("{kind:?} {case:?}"))?;
            say(format!("| {kind:?} | {case:?} | {events} | {drained} |"));
        }
        let broker = kind.start(false).await;
        let rate = without_database(sink(&broker.keys()), events).await?;
        say(format!("| {kind:?} | sink alone | {events} | | | | | {rate:.0} |"));
    }
    Ok(())
}

struct Drained {
    lost: usize,
    twice: usize,
    out_of_order: usize,
    failed: u64,
    rate: f64,
}

impl std::fmt::Display for Drained {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { lost, twice, out_of_order, failed, rate } = self;
        write!(f, "{lost} | {twice} | {out_of_order} | {failed} | {rate:.0}")
    }
}

/// Drains to a broker of its own from a database of its own: delivered events of another case would make the database slower.
async fn drain(kind: Kind, case: Case, events: usize) -> Result<Drained> {
    let scene = Scene::set().await?;
    let mut broker = kind.start(case == Case::Tls).await;
    let keys = if case == Case::Tls { broker.keys_over_tls().context("no TLS")? } else { broker.keys() };
    let order = if case == Case::Ordered { "aggregate" } else { "none" };
    let configuration = format!(
        "[relay]\norder = \"{order}\"\nlease = \"15s\"\n[destinations.broker]\ntimeout = \"10s\"\n{keys}\n[[routes]]\nevents = \"*\"\nto = [\"broker\"]\n"
    );
    let aggregates = if case == Case::Ordered { 10 } else { events };
    let emitted = scene.emit_spread(events, aggregates).await?;
    let began = Instant::now();
    let mut relay = scene.relay(&configuration)?;
    match case {
        Case::BrokerKilled => {
            scene.delivered(events as u64 / 4, PATIENCE).await?;
            broker.kill().await;
            tokio::time::sleep(AWAY).await;
            broker.start_again().await;
        }
        Case::RelayKilled => {
            scene.delivered(events as u64 / 4, PATIENCE).await?;
            relay.kill().await;
            relay = scene.relay(&configuration)?;
        }
        Case::Plain | Case::Tls | Case::Ordered => {}
    }
    scene.delivered(events as u64, PATIENCE).await.with_context(|| relay.lines().join("\n"))?;
    let rate = events as f64 / began.elapsed().as_secs_f64();
    relay.terminate(Duration::from_secs(30)).await?;
    let failed = scene.store.counts().await?.failed;
    scene.strike().await;
    let received = broker.received().await;
    let ids: Vec<String> = received.iter().map(Received::id).collect();
    let known: BTreeSet<&String> = ids.iter().collect();
    let lost = emitted.iter().filter(|id| !known.contains(id)).count();
    Ok(Drained { lost, twice: ids.len() - known.len(), out_of_order: out_of_order(&emitted, &received), failed, rate })
}

/// Returns the number of events whose first arrival is after that of a later event of their aggregate.
fn out_of_order(emitted: &[String], received: &[Received]) -> usize {
    let places: BTreeMap<&String, usize> = emitted.iter().enumerate().map(|(place, id)| (id, place)).collect();
    let mut latest: BTreeMap<&String, usize> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut late = 0;
    for message in received {
        let id = message.id();
        let Some(place) = places.get(&id) else { continue };
        if seen.insert(id) {
            let latest = latest.entry(&message.headers["pillarbox-aggregate-id"]).or_default();
            late += usize::from(*latest > *place);
            *latest = (*latest).max(*place);
        }
    }
    late
}

/// Returns how many events a second the sink sends by itself.
async fn without_database(sink: Arc<dyn Sink>, events: usize) -> Result<f64> {
    let payload = format!(r#"{{"filler":"{}"}}"#, "x".repeat(470));
    let messages = (0..events).map(|number| {
        let mut event = StoredEvent::for_tests("order.placed", &payload);
        event.aggregate_id = number.to_string();
        Message::new(Arc::new(event), 1)
    });
    let messages: Arc<Vec<Message>> = Arc::new(messages.collect());
    // The first send connects.
    ensure!(sink.send(&messages[..1]).await.iter().all(Result::is_ok), "the sink cannot send");
    let next = Arc::new(AtomicUsize::new(1));
    let began = Instant::now();
    let send = || {
        let (sink, messages, next) = (Arc::clone(&sink), Arc::clone(&messages), Arc::clone(&next));
        tokio::spawn(async move {
            let size = sink.batch_limit();
            loop {
                let from = next.fetch_add(size, Ordering::Relaxed);
                let Some(batch) = messages.get(from..messages.len().min(from + size)) else { return true };
                if batch.is_empty() {
                    return true;
                }
                if sink.send(batch).await.iter().any(Result::is_err) {
                    return false;
                }
            }
        })
    };
    for sending in (0..AT_ONCE).map(|_| send()).collect::<Vec<_>>() {
        ensure!(sending.await?, "a send failed");
    }
    Ok(events as f64 / began.elapsed().as_secs_f64())
}
