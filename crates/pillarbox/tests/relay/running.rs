//! The relay's life: it wakes, claims ahead, renews, stops, and gives back; also on PostgreSQL, with others beside it.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox::store::postgres::PostgresStore;
use pillarbox::store::{Retention, State};
use pillarbox::{Destination, Event, Inspect, Message, Relay, RelaySettings, SendError, Sink, emit, emit_all};
use pillarbox_testkit::{TestDatabase, wait_until};
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::fixture::{Gate, Outbox, PATIENCE, Place, all_to, impatient, while_running};

async fn migrated() -> (TestDatabase, PostgresStore) {
    let database = TestDatabase::create().await;
    let store = PostgresStore::connect(&database.url(), "public").await.unwrap();
    store.migrate().await.unwrap();
    (database, store)
}

#[tokio::test]
async fn no_more_sends_run_at_once_than_the_destination_allows() {
    let outbox = Outbox::new().await;
    outbox.emit("order.placed", 20).await;
    let gate = Gate::closed();
    let destination = Destination::new("a", gate.clone()).concurrency(3);
    let relay = outbox.relay().destination(destination).route(all_to("a")).build().unwrap();
    while_running(&relay, async {
        wait_until("three are inside", PATIENCE, async || gate.inside.load(Ordering::SeqCst) == 3).await;
        gate.open.add_permits(20);
        wait_until("all are delivered", PATIENCE, async || outbox.counts().await.delivered == 20).await;
    })
    .await;
    assert_eq!(gate.most.load(Ordering::SeqCst), 3);
}

/// A destination that takes many at once.
struct Wide(Gate);

#[async_trait]
impl Sink for Wide {
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        self.0.send(batch).await
    }

    fn batch_limit(&self) -> usize {
        100
    }
}

#[tokio::test]
async fn as_much_is_claimed_as_a_destination_that_takes_batches_can_send_at_once() {
    let outbox = Outbox::new().await;
    outbox.emit("order.placed", 200).await;
    let gate = Gate::closed();
    let settings = RelaySettings { batch_size: 10, ..impatient() };
    let destination = Destination::new("a", Wide(gate.clone())).concurrency(2);
    let relay = outbox.relay().settings(settings).destination(destination).route(all_to("a")).build().unwrap();
    while_running(&relay, async {
        wait_until("all are claimed", PATIENCE, async || outbox.counts().await.sending == 200).await;
        gate.open.add_permits(200);
        wait_until("all are delivered", PATIENCE, async || outbox.counts().await.delivered == 200).await;
    })
    .await;
}

#[tokio::test]
async fn a_relay_that_stops_finishes_what_it_sends_and_gives_the_rest_back_at_once() {
    let outbox = Outbox::new().await;
    outbox.emit("order.placed", 20).await;
    let gate = Gate::closed();
    let destination = Destination::new("a", gate.clone()).concurrency(3);
    let relay = outbox.relay().destination(destination).route(all_to("a")).build().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let test = async {
        wait_until("three are inside", PATIENCE, async || gate.inside.load(Ordering::SeqCst) == 3).await;
        stop.send(()).unwrap();
        wait_until("seventeen are given back", PATIENCE, async || outbox.counts().await.due == 17).await;
        gate.open.add_permits(3);
    };
    let (ended, ()) = tokio::join!(relay.run(async { stopped.await.unwrap() }), test);
    ended.unwrap();
    let counts = outbox.counts().await;
    assert_eq!((counts.delivered, counts.due, counts.sending), (3, 17, 0));
    assert_eq!(counts.relays.len(), 0, "it has said that it is gone");
}

#[tokio::test]
async fn what_takes_longer_than_the_shutdown_timeout_is_given_back() {
    let outbox = Outbox::new().await;
    let id = outbox.emit("order.placed", 1).await[0];
    let gate = Gate::closed();
    let settings = RelaySettings { shutdown_timeout: Duration::from_millis(50), ..impatient() };
    let destination = Destination::new("a", gate.clone());
    let relay = outbox.relay().settings(settings).destination(destination).route(all_to("a")).build().unwrap();
    while_running(&relay, async {
        wait_until("it is inside", PATIENCE, async || gate.inside.load(Ordering::SeqCst) == 1).await;
    })
    .await;
    let event = outbox.get(id).await.event;
    assert_eq!((event.state, event.attempts), (State::Due, 0));
}

#[tokio::test]
async fn a_commit_wakes_an_idle_relay_on_postgresql() {
    let (database, store) = migrated().await;
    let place = Place::fine();
    let settings = RelaySettings { poll_interval: Duration::from_secs(3600), ..impatient() };
    let relay = Relay::builder(Arc::new(store.clone()))
        .settings(settings)
        .destination(place.as_destination("a"))
        .route(all_to("a"))
        .build()
        .unwrap();
    while_running(&relay, async {
        wait_until("it is idle", PATIENCE, async || store.counts().await.unwrap().relays.iter().any(|r| r.idle)).await;
        for number in 0..3 {
            let mut tx = store.pool().begin().await.unwrap();
            emit(&mut tx, Event::new("Order", number, "order.placed")).await.unwrap();
            tx.commit().await.unwrap();
            wait_until("it is delivered", PATIENCE, async || place.got().len() == number + 1).await;
        }
        sqlx::query("SELECT outbox_emit('Order', 'sql', 'order.placed')").execute(store.pool()).await.unwrap();
        wait_until("what SQL emitted is delivered", PATIENCE, async || place.got().len() == 4).await;
    })
    .await;
    store.pool().close().await;
    database.close().await;
}

#[tokio::test]
async fn two_relays_on_postgresql_send_each_event_once() {
    let (database, store) = migrated().await;
    let counts: Arc<Mutex<HashMap<Uuid, usize>>> = Arc::default();
    let relay = |store: PostgresStore| {
        let counts = Arc::clone(&counts);
        Relay::builder(Arc::new(store))
            .settings(RelaySettings { batch_size: 50, ..impatient() })
            .handler("*", move |message: Message| {
                *counts.lock().unwrap().entry(message.id).or_default() += 1;
                async { Ok::<(), String>(()) }
            })
            .build()
            .unwrap()
    };
    let (one, two) = (relay(store.clone()), relay(PostgresStore::connect(&database.url(), "public").await.unwrap()));
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let until = || {
        let mut stopped = stopped.clone();
        async move { drop(stopped.wait_for(|stop| *stop).await) }
    };
    let test = async {
        for batch in 0..10 {
            let mut tx = store.pool().begin().await.unwrap();
            emit_all(&mut tx, (0..200).map(|n| Event::new("Order", batch * 200 + n, "order.placed"))).await.unwrap();
            tx.commit().await.unwrap();
        }
        wait_until("all are delivered", PATIENCE, async || store.counts().await.unwrap().delivered == 2000).await;
        stop.send(true).unwrap();
    };
    let (first, second, ()) = tokio::join!(one.run(until()), two.run(until()), test);
    first.unwrap();
    second.unwrap();
    let counts = counts.lock().unwrap().clone();
    assert_eq!(counts.len(), 2000);
    assert!(counts.values().all(|count| *count == 1));
    store.pool().close().await;
}

#[tokio::test]
async fn old_events_are_cleaned_up_while_it_runs() {
    let outbox = Outbox::new().await;
    outbox.emit("order.placed", 25).await;
    let retention = Retention { delivered_after: Duration::ZERO, batch: 10, ..Retention::default() };
    let settings = RelaySettings { cleanup_every: Some(Duration::from_millis(20)), retention, ..impatient() };
    let place = Place::fine();
    let relay =
        outbox.relay().settings(settings).destination(place.as_destination("a")).route(all_to("a")).build().unwrap();
    while_running(&relay, async {
        wait_until("all are sent and gone", PATIENCE, async || {
            let counts = outbox.counts().await;
            place.got().len() == 25 && counts.delivered == 0 && counts.pending() == 0
        })
        .await;
    })
    .await;
}
