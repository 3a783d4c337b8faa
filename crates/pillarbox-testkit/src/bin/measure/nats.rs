//! NATS: what order costs, and a cluster of three whose leader is killed every five seconds while a relay drains.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use async_nats::jetstream::stream::Config;
use pillarbox::store::sqlite::SqliteStore;
use pillarbox::{
    Destination, Event, Inspect as _, Message, OnFailed, Order, Relay, RelaySettings, Route, Sink, StoredEvent,
    emit_all,
};
use pillarbox_testkit::brokers::nats::{NatsCluster, NatsServer};
use pillarbox_testkit::brokers::{Broker as _, Received, TIMEOUT, sink};
use pillarbox_testkit::wait_until;
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};

use crate::say;

const SENT: usize = 20_000;
const EVENTS: usize = 20_000;
const KILLS: usize = 12;
const BETWEEN: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(120);

/// Kills the leader while a relay drains, with a stream of each kind.
pub(crate) async fn measure() -> Result<()> {
    let cluster = NatsCluster::start().await;
    kills(cluster, "one by one").await?;
    let cluster = NatsCluster::start_with(batched).await;
    kills(cluster, "fast batches").await
}

fn batched(config: Config) -> Config {
    Config { allow_batch_publish: true, ..config }
}

/// Prints how many messages a second the sink alone gets confirmed, two batches at a time.
pub(crate) async fn order() -> Result<()> {
    let server = NatsServer::start().await;
    let cluster = NatsCluster::start().await;
    let fast = NatsCluster::start_with(batched).await;
    say("messages a second, sink alone, two batches of 500 at a time");
    for (name, keys) in [
        ("one replica", server.keys()),
        ("three replicas", cluster.keys()),
        ("three replicas, allow_batched", fast.keys()),
    ] {
        let sink = sink(&keys);
        let free = rate(&sink, None).await?;
        let mut line = format!("{name}: unordered {free:.0}");
        for aggregates in [500, 100, 10, 1] {
            let ordered = rate(&sink, Some(aggregates)).await?;
            line += &format!(", {aggregates} aggregates {ordered:.0} ({:.0} %)", 100.0 * ordered / free);
        }
        say(line);
    }
    Ok(())
}

/// Sends batches, in runs of this many aggregates if they are ordered.
async fn rate(sink: &Arc<dyn Sink>, aggregates: Option<usize>) -> Result<f64> {
    let size = sink.batch_limit();
    let batches: Vec<Vec<Message>> = (0..SENT / size).map(|number| batch(number, size, aggregates)).collect();
    let (even, odd): (Vec<_>, Vec<_>) = batches.into_iter().enumerate().partition(|(number, _)| number % 2 == 0);
    let started = Instant::now();
    let send = |batches: Vec<(usize, Vec<Message>)>| async move {
        for (_, batch) in batches {
            let results = sink.send(&batch).await;
            ensure!(results.iter().all(Result::is_ok), "{:?}", results.iter().find(|result| result.is_err()));
        }
        Ok(())
    };
    tokio::try_join!(send(even), send(odd))?;
    Ok(SENT as f64 / started.elapsed().as_secs_f64())
}

fn batch(number: usize, size: usize, aggregates: Option<usize>) -> Vec<Message> {
    let length = aggregates.map_or(1, |aggregates| size / aggregates);
    let message = |place: usize| {
        let mut event = StoredEvent::for_tests("order.placed", &json!({ "note": "x".repeat(200) }).to_string());
        event.aggregate_id = format!("{number}-{}", place / length);
        let message = Message::new(Arc::new(event), 1);
        if place.is_multiple_of(length) { message } else { message.following() }
    };
    (0..size).map(message).collect()
}

/// Emits for a minute, kills the leader of the stream every five seconds, and counts what arrived.
async fn kills(mut cluster: NatsCluster, way: &str) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let store = SqliteStore::open(directory.path().join("shop.db")).await?;
    store.migrate().await?;
    let settings = RelaySettings { order: Order::Aggregate(OnFailed::default()), ..RelaySettings::default() };
    let destination = Destination::shared("nats", sink(&cluster.keys())).timeout(TIMEOUT).concurrency(2);
    let relay = Relay::builder(Arc::new(store.clone())).settings(settings).route(Route::new("*", ["nats"]));
    let relay = Arc::new(relay.destination(destination).build()?);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn({
        let relay = Arc::clone(&relay);
        async move { relay.run(async { drop(stopped.await) }).await }
    });
    let emitting = tokio::spawn(emit(store.clone(), Arc::clone(&relay)));
    let started = Instant::now();
    let mut ticks = interval(BETWEEN);
    ticks.tick().await;
    for _ in 0..KILLS {
        ticks.tick().await;
        let leader = cluster.leader().await;
        cluster.kill(leader).await;
        cluster.start_again(leader).await;
    }
    let killed = started.elapsed();
    emitting.await??;
    let depth = store.depth().await?;
    say(format!(
        "{way}: {KILLS} leaders killed in {killed:.1?}, then {} events open",
        depth.due + depth.scheduled + depth.sending + depth.parked
    ));
    wait_until("all events are delivered or failed", PATIENCE, async || {
        let depth = store.depth().await.expect("the store is asked");
        depth.due + depth.scheduled + depth.sending + depth.parked == 0
    })
    .await;
    let (took, failed) = (started.elapsed(), store.depth().await?.failed);
    drop(stop);
    running.await??;
    cluster.whole().await;
    let received = cluster.received().await;
    let unique: HashSet<String> = received.iter().map(Received::id).collect();
    let (lost, twice) = (EVENTS - unique.len(), received.len() - unique.len());
    say(format!(
        "{way}: {EVENTS} events, {KILLS} leaders killed in {killed:.1?}, done after {took:.1?}: lost {lost}, duplicates {twice}, failed {failed}"
    ));
    ensure!(lost == 0 && twice == 0 && failed == 0, "events were lost, repeated or failed");
    Ok(())
}

async fn emit(store: SqliteStore, relay: Arc<Relay>) -> Result<()> {
    let parts = KILLS * BETWEEN.as_secs() as usize;
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut emitted = 0;
    for part in 1..=parts {
        ticks.tick().await;
        let until = EVENTS * part / parts;
        let event = |number: usize| {
            Event::new("Order", number % 1000, "order.placed").payload(json!({ "number": number })).repeatable()
        };
        let mut tx = store.pool().begin().await?;
        emit_all(&mut tx, (emitted..until).map(event)).await?;
        tx.commit().await?;
        relay.waker().wake();
        emitted = until;
    }
    Ok(())
}
