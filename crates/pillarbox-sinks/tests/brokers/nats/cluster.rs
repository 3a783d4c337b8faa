//! A cluster of three: fast batches, and a leader that is killed while a relay drains.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::stream::Config;
use pillarbox::store::sqlite::SqliteStore;
use pillarbox::{Event, Inspect as _, OnFailed, Order, Relay, RelaySettings, Route, emit_all};
use pillarbox_testkit::brokers::nats::NatsCluster;
use pillarbox_testkit::brokers::{Received, TIMEOUT, sink};
use pillarbox_testkit::wait_until;

use super::{ids, message, run, send};

const EVENTS: usize = 3000;
const AGGREGATES: usize = 10;
/// A busy machine elects a leader slowly, and the breaker waits longer after each failed probe.
const PATIENCE: Duration = Duration::from_secs(150);

fn batched(config: Config) -> Config {
    Config { allow_batch_publish: true, ..config }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_run_is_one_fast_batch_and_its_repetition_is_stored_once() {
    let cluster = NatsCluster::start_with(batched).await;
    let sink = sink(&cluster.keys());
    let mut broken = run("broken", 6);
    broken[4] = message("broken", &format!("{{\"a\":\"{}\"}}", "x".repeat(1 << 20))).following();
    let runs = [run("a", 100), run("b", 2), run("c", 50)];
    let batch = [runs.concat(), broken.clone()].concat();
    for _ in 0..2 {
        let results = send(&*sink, &batch).await;
        assert!(results[..156].iter().all(Result::is_ok), "{results:?}");
        assert!(results[156].is_err() && results[157].is_err());
    }
    let received = cluster.received().await;
    let of = |aggregate: &str| -> Vec<String> {
        let of_it = received.iter().filter(|one| one.headers["pillarbox-aggregate-id"] == aggregate);
        of_it.map(Received::id).collect()
    };
    for (run, aggregate) in runs.iter().zip(["a", "b", "c"]) {
        assert_eq!(of(aggregate), ids(run));
    }
    assert_eq!(of("broken"), ids(&broken[..4]));
}

/// Drains events through a relay that keeps order while the leader of the stream is killed again and again.
async fn drain(mut cluster: NatsCluster, kills: usize) {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(directory.path().join("shop.db")).await.unwrap();
    store.migrate().await.unwrap();
    let keys = cluster.keys();
    let relay = Relay::builder(Arc::new(store.clone()))
        .settings(RelaySettings { order: Order::Aggregate(OnFailed::default()), ..RelaySettings::default() })
        .route(Route::new("*", ["nats"]))
        .destination(pillarbox::Destination::shared("nats", sink(&keys)).timeout(TIMEOUT).concurrency(2))
        .build()
        .unwrap();
    let relay = Arc::new(relay);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn({
        let relay = Arc::clone(&relay);
        async move { relay.run(async { drop(stopped.await) }).await }
    });
    for kill in 0..kills {
        cluster.whole().await;
        let events = (0..EVENTS / kills).map(|number| {
            let payload = serde_json::json!({ "number": kill * EVENTS + number });
            Event::new("Order", number % AGGREGATES, "order.placed").payload(payload).repeatable()
        });
        let mut tx = store.pool().begin().await.unwrap();
        emit_all(&mut tx, events).await.unwrap();
        tx.commit().await.unwrap();
        relay.waker().wake();
        let leader = cluster.leader().await;
        cluster.kill(leader).await;
        cluster.start_again(leader).await;
    }
    wait_until("all events are delivered", PATIENCE, async || {
        let depth = store.depth().await.unwrap();
        assert_eq!(depth.failed, 0, "an outage is not the fault of an event");
        depth.due + depth.scheduled + depth.sending + depth.parked == 0
    })
    .await;
    drop(stop);
    running.await.unwrap().unwrap();
    let received = cluster.received().await;
    let unique: HashSet<String> = received.iter().map(Received::id).collect();
    assert_eq!((unique.len(), received.len()), (EVENTS, EVENTS), "lost or duplicate");
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for one in &received {
        let body: serde_json::Value = serde_json::from_slice(&one.body).unwrap();
        let number = body["number"].as_u64().unwrap();
        let before = last.insert(&one.headers["pillarbox-aggregate-id"], number);
        assert!(before.is_none_or(|before| before < number), "out of order");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_killed_loses_repeats_and_fails_nothing() {
    drain(NatsCluster::start().await, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_killed_during_fast_batches_loses_repeats_and_fails_nothing() {
    drain(NatsCluster::start_with(batched).await, 1).await;
}
