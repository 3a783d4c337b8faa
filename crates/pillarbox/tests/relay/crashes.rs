//! Order under crashes: relays die at any moment while their destination fails, hangs and is away; what arrives of each
//! aggregate for the first time arrives in the order of `seq`, and everything arrives.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox::store::postgres::PostgresStore;
use pillarbox::store::sqlite::SqliteStore;
use pillarbox::{
    Destination, Event, Inspect, Message, OnFailed, Relay, RelaySettings, RetryPolicy, SendError, Sink, Store,
};
use pillarbox_testkit::{TestDatabase, wait_until};
use rand::RngExt;
use uuid::Uuid;

use crate::fixture::all_to;
use crate::order::ordered;

const AGGREGATES: usize = 12;
const EVENTS: usize = 240;
const RELAYS: usize = 3;
const KILLS: usize = 12;
/// Short, because what a dead relay had comes back after it.
const LEASE: Duration = Duration::from_millis(400);
const PATIENCE: Duration = Duration::from_secs(60);

/// A receiver that all relays send to: moody until it is told to be calm. It remembers what it has confirmed.
#[derive(Clone, Default)]
struct Receiver {
    got: Arc<Mutex<Vec<(String, Uuid)>>>,
    calm: Arc<AtomicBool>,
}

#[async_trait]
impl Sink for Receiver {
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        let mut answers = Vec::new();
        for message in batch {
            answers.push(self.answer(message).await);
        }
        answers
    }

    fn batch_limit(&self) -> usize {
        3
    }
}

impl Receiver {
    async fn answer(&self, message: &Message) -> Result<(), SendError> {
        let mood = if self.calm.load(Ordering::SeqCst) { 99 } else { rand::rng().random_range(0..100) };
        match mood {
            0..8 => return Err(SendError::retry("not now")),
            8..12 => return Err(SendError::unavailable("away")),
            12..13 => std::future::pending::<()>().await,
            13..40 => tokio::time::sleep(Duration::from_millis(mood)).await,
            _ => {}
        }
        self.got.lock().unwrap().push((message.aggregate_id.clone(), message.id));
        // It has it, and whoever sent it does not hear of that.
        if mood == 40 { Err(SendError::retry("lost on the way back")) } else { Ok(()) }
    }
}

/// A relay in a runtime of its own, which ends as a killed process does: nothing is settled or given back.
struct Process(Option<tokio::runtime::Runtime>);

impl Process {
    fn start<S>(store: impl Future<Output = S> + Send + 'static, receiver: &Receiver) -> Self
    where
        S: Store,
    {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let destination = Destination::new("a", receiver.clone()).timeout(Duration::from_millis(200)).concurrency(8);
        runtime.spawn(async move {
            let retry = RetryPolicy { base: Duration::from_millis(5), max_attempts: 0, ..RetryPolicy::default() };
            let settings = RelaySettings { lease: LEASE, batch_size: 40, retry, ..ordered(OnFailed::Block) };
            let relay = Relay::builder(Arc::new(store.await)).settings(settings);
            let relay = relay.destination(destination).route(all_to("a")).build().unwrap();
            relay.run(std::future::pending()).await.unwrap();
        });
        Self(Some(runtime))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Kills one relay after another while the events are sent, then lets them finish.
async fn torture<S: Store + Inspect, F>(people: S, open: impl Fn() -> F)
where
    F: Future<Output = S> + Send + 'static,
{
    let mut emitted: BTreeMap<String, Vec<Uuid>> = BTreeMap::new();
    let receiver = Receiver::default();
    let mut relays: Vec<Process> = (0..RELAYS).map(|_| Process::start(open(), &receiver)).collect();
    for number in 0..EVENTS {
        let aggregate = (number % AGGREGATES).to_string();
        let event = Event::new("Account", &aggregate, "account.changed").repeatable();
        emitted.entry(aggregate).or_default().push(people.emit(event).await.unwrap().id);
        if number % (EVENTS / KILLS) == 0 {
            // Some of what was emitted has come through, so that relays die in the middle of things.
            let enough = number / 2;
            wait_until("some arrive", PATIENCE, async || receiver.got.lock().unwrap().len() >= enough).await;
            relays[number % RELAYS] = Process::start(open(), &receiver);
        }
    }
    receiver.calm.store(true, Ordering::SeqCst);
    wait_until("all are delivered", PATIENCE, async || {
        people.counts().await.unwrap().delivered == u64::try_from(EVENTS).unwrap()
    })
    .await;
    drop(relays);
    let got = receiver.got.lock().unwrap().clone();
    for (aggregate, expected) in emitted {
        let mut seen = HashSet::new();
        let first: Vec<Uuid> =
            got.iter().filter(|(of, id)| *of == aggregate && seen.insert(*id)).map(|(_, id)| *id).collect();
        assert_eq!(first, expected, "aggregate {aggregate}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_survives_crashes_on_postgresql() {
    let database = TestDatabase::create().await;
    let url = database.url();
    let store = PostgresStore::connect(&url, "public").await.unwrap();
    store.migrate().await.unwrap();
    torture(store, || {
        let url = url.clone();
        async move { PostgresStore::connect(&url, "public").await.unwrap() }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_survives_crashes_on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("outbox.db");
    let store = SqliteStore::open(&file).await.unwrap();
    store.migrate().await.unwrap();
    torture(store, || {
        let file = file.clone();
        async move { SqliteStore::open(&file).await.unwrap() }
    })
    .await;
}
