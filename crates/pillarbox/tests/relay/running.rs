//! The relay's life: it wakes, claims ahead, renews, stops, and gives back; also on PostgreSQL, with others beside it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox::store::postgres::PostgresStore;
use pillarbox::store::{Ask, Claim, Cleaned, EventKind, Heartbeat, Retention, Settlement, State, Ticket, WakeUp};
use pillarbox::{
    Destination, Event, Inspect, Message, Relay, RelaySettings, SendError, Sink, Status, Store, StoreError,
    StoredEvent, Waker, emit, emit_all,
};
use pillarbox_testkit::{TestDatabase, wait_until};
use tokio::sync::{Semaphore, oneshot};
use uuid::Uuid;

use crate::fixture::{Outbox, PATIENCE, Place, all_to, impatient, while_running};

async fn migrated() -> (TestDatabase, PostgresStore) {
    let database = TestDatabase::create().await;
    let store = PostgresStore::connect(&database.url(), "public").await.unwrap();
    store.migrate().await.unwrap();
    (database, store)
}

/// Lets sends wait until the test opens it, and counts those that wait.
#[derive(Clone)]
struct Gate {
    open: Arc<Semaphore>,
    inside: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    done: Arc<AtomicUsize>,
}

impl Gate {
    fn closed() -> Self {
        let zero = || Arc::new(AtomicUsize::new(0));
        Self { open: Arc::new(Semaphore::new(0)), inside: zero(), most: zero(), done: zero() }
    }
}

#[async_trait]
impl Sink for Gate {
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        let permit = self.open.acquire().await.expect("the gate is not closed for ever");
        permit.forget();
        self.inside.fetch_sub(1, Ordering::SeqCst);
        self.done.fetch_add(batch.len(), Ordering::SeqCst);
        vec![Ok(()); batch.len()]
    }
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
async fn a_long_handler_keeps_its_event() {
    let outbox = Outbox::new().await;
    let id = outbox.emit("order.placed", 1).await[0];
    let gate = Gate::closed();
    let lease = Duration::from_millis(200);
    let settings = RelaySettings { lease, ..impatient() };
    let destination = Destination::new("a", gate.clone()).timeout(None);
    let relay = outbox.relay().settings(settings).destination(destination).route(all_to("a")).build().unwrap();
    while_running(&relay, async {
        wait_until("it is inside", PATIENCE, async || gate.inside.load(Ordering::SeqCst) == 1).await;
        let began = std::time::Instant::now();
        wait_until("its lease would have run out three times", PATIENCE, async || {
            let ask = Ask { limit: 1, bytes: 1, lease };
            assert!(outbox.store.claim(ask).await.unwrap().is_empty(), "nobody else gets it");
            began.elapsed() > 3 * lease
        })
        .await;
        gate.open.add_permits(1);
        wait_until("it is delivered", PATIENCE, async || outbox.counts().await.delivered == 1).await;
    })
    .await;
    assert_eq!(gate.done.load(Ordering::SeqCst), 1);
    assert_eq!(outbox.get(id).await.event.claims, 0);
}

#[tokio::test]
async fn an_event_that_may_kill_relays_is_sent_while_nothing_else_is() {
    let outbox = Outbox::new().await;
    outbox.emit("suspect", 3).await;
    for _ in 0..2 {
        let claim = outbox.store.claim(Ask { limit: 10, bytes: usize::MAX, lease: Duration::ZERO }).await.unwrap();
        assert_eq!(claim.len(), 3);
        std::mem::forget(claim);
    }
    outbox.emit("order.placed", 10).await;
    let gate = Gate::closed();
    let destination = Destination::new("a", gate.clone()).concurrency(8);
    let relay = outbox.relay().destination(destination).route(all_to("a")).build().unwrap();
    while_running(&relay, async {
        for done in 0..3 {
            wait_until("one is inside", PATIENCE, async || gate.inside.load(Ordering::SeqCst) == 1).await;
            assert_eq!(gate.done.load(Ordering::SeqCst), done);
            assert_eq!(outbox.counts().await.sending, 1);
            gate.open.add_permits(1);
            wait_until("it is out", PATIENCE, async || gate.done.load(Ordering::SeqCst) == done + 1).await;
        }
        gate.open.add_permits(10);
        wait_until("all are delivered", PATIENCE, async || outbox.counts().await.delivered == 13).await;
    })
    .await;
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

/// A store whose settles fail while the test says so.
struct Flaky {
    store: Arc<dyn Store>,
    fails: Arc<AtomicUsize>,
    claims: Arc<AtomicUsize>,
}

#[async_trait]
impl Store for Flaky {
    async fn check(&self) -> Result<(), StoreError> {
        self.store.check().await
    }
    async fn claim(&self, ask: Ask) -> Result<Claim, StoreError> {
        self.claims.fetch_add(1, Ordering::SeqCst);
        self.store.claim(ask).await
    }
    async fn settle(&self, settlements: &[Settlement], delete: bool) -> Result<Vec<Ticket>, StoreError> {
        let left = self.fails.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left.is_ok() {
            return Err(StoreError::Database { doing: "settling events", source: "on purpose".into() });
        }
        self.store.settle(settlements, delete).await
    }
    async fn renew(&self, tickets: &[Ticket], lease: Duration) -> Result<Vec<Ticket>, StoreError> {
        self.store.renew(tickets, lease).await
    }
    async fn sweep(&self) -> Result<Vec<StoredEvent>, StoreError> {
        self.store.sweep().await
    }
    async fn parked_on(&self) -> Result<Vec<String>, StoreError> {
        self.store.parked_on().await
    }
    async fn parked_kinds(&self, on: &str) -> Result<Vec<EventKind>, StoreError> {
        self.store.parked_kinds(on).await
    }
    async fn unpark(&self, on: &str, kind: Option<&EventKind>, limit: usize) -> Result<u64, StoreError> {
        self.store.unpark(on, kind, limit).await
    }
    async fn cleanup(&self, retention: &Retention) -> Result<Cleaned, StoreError> {
        self.store.cleanup(retention).await
    }
    async fn next_due(&self) -> Result<Option<Duration>, StoreError> {
        self.store.next_due().await
    }
    async fn remaining(&self) -> Result<u64, StoreError> {
        self.store.remaining().await
    }
    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<(), StoreError> {
        self.store.heartbeat(heartbeat).await
    }
    async fn farewell(&self, relay: Uuid) -> Result<(), StoreError> {
        self.store.farewell(relay).await
    }
    async fn wake(&self, waker: Waker) -> Result<WakeUp, StoreError> {
        self.store.wake(waker).await
    }
}

#[tokio::test]
async fn a_settle_that_fails_is_kept_and_nothing_is_claimed_meanwhile() {
    let outbox = Outbox::new().await;
    let id = outbox.emit("order.placed", 1).await[0];
    let (fails, claims) = (Arc::new(AtomicUsize::new(4)), Arc::new(AtomicUsize::new(0)));
    let store = Flaky {
        store: Arc::clone(&outbox.store) as Arc<dyn Store>,
        fails: Arc::clone(&fails),
        claims: Arc::clone(&claims),
    };
    let place = Place::fine();
    let relay = Relay::builder(Arc::new(store))
        .settings(impatient())
        .destination(place.as_destination("a"))
        .route(all_to("a"))
        .build()
        .unwrap();
    while_running(&relay, async {
        wait_until("the settle has failed", PATIENCE, async || fails.load(Ordering::SeqCst) < 4).await;
        let before = claims.load(Ordering::SeqCst);
        wait_until("it has failed again and again", PATIENCE, async || fails.load(Ordering::SeqCst) == 0).await;
        // At most the claim that was under way when the first settle failed.
        assert!(claims.load(Ordering::SeqCst) <= before + 1);
        wait_until("it is settled", PATIENCE, async || outbox.counts().await.delivered == 1).await;
    })
    .await;
    assert_eq!(place.got(), [id]);
    assert_eq!(outbox.get(id).await.event.status, Status::Delivered);
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
