//! An outbox in a file of its own, a relay's settings for impatient tests, and destinations that do as they are told.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox::relay::BreakerSettings;
use pillarbox::store::sqlite::SqliteStore;
use pillarbox::store::{Counts, EventDetail};
use pillarbox::{
    Destination, Event, Inspect, Message, Relay, RelayBuilder, RelaySettings, RetryPolicy, Route, SendError, Sink,
    Store, emit_all,
};
use tempfile::TempDir;
use tokio::sync::{Semaphore, oneshot};
use tracing::subscriber::DefaultGuard;
use uuid::Uuid;

/// More than enough for anything that is going to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Outbox {
    pub(crate) store: Arc<SqliteStore>,
    _dir: TempDir,
}

impl Outbox {
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(dir.path().join("outbox.db")).await.unwrap();
        store.migrate().await.unwrap();
        Self { store: Arc::new(store), _dir: dir }
    }

    /// Commits so many events of a type; answers their ids.
    pub(crate) async fn emit(&self, event_type: &str, count: usize) -> Vec<Uuid> {
        self.emit_events((0..count).map(|n| Event::new("Order", n, event_type).repeatable())).await
    }

    pub(crate) async fn emit_events(&self, events: impl IntoIterator<Item = Event>) -> Vec<Uuid> {
        let mut tx = self.store.pool().begin().await.unwrap();
        let emitted = emit_all(&mut tx, events).await.unwrap();
        tx.commit().await.unwrap();
        emitted.into_iter().map(|emitted| emitted.id).collect()
    }

    pub(crate) fn relay(&self) -> RelayBuilder {
        Relay::builder(Arc::clone(&self.store) as Arc<dyn Store>).settings(impatient())
    }

    /// A relay of its own store handle, as another process would have it.
    pub(crate) async fn get(&self, id: Uuid) -> EventDetail {
        self.store.get(id).await.unwrap().expect("the event exists")
    }

    pub(crate) async fn counts(&self) -> Counts {
        self.store.counts().await.unwrap()
    }
}

/// Retries at once, probes soon, looks often.
pub(crate) fn impatient() -> RelaySettings {
    RelaySettings {
        retry: RetryPolicy { base: Duration::ZERO, ..RetryPolicy::default() },
        breaker: BreakerSettings {
            threshold: 3,
            base: Duration::from_millis(20),
            cap: Duration::from_millis(20),
            patience: 1000,
        },
        poll_interval: Duration::from_millis(20),
        ..RelaySettings::default()
    }
}

/// A destination whose behaviour the test sets, and which remembers what it got.
#[derive(Clone)]
pub(crate) struct Place(Arc<Inner>);

type Behaviour = dyn Fn(&Message) -> Result<(), SendError> + Send + Sync;

struct Inner {
    behave: Mutex<Arc<Behaviour>>,
    got: Mutex<Vec<Uuid>>,
    asked: AtomicUsize,
}

impl Place {
    pub(crate) fn that(behave: impl Fn(&Message) -> Result<(), SendError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            behave: Mutex::new(Arc::new(behave)),
            got: Mutex::default(),
            asked: AtomicUsize::new(0),
        }))
    }

    pub(crate) fn fine() -> Self {
        Self::that(|_| Ok(()))
    }

    pub(crate) fn down() -> Self {
        Self::that(|_| Err(SendError::unavailable("nobody is there")))
    }

    pub(crate) fn now(&self, behave: impl Fn(&Message) -> Result<(), SendError> + Send + Sync + 'static) {
        *self.0.behave.lock().unwrap() = Arc::new(behave);
    }

    /// What it has confirmed, in order.
    pub(crate) fn got(&self) -> Vec<Uuid> {
        self.0.got.lock().unwrap().clone()
    }

    /// How often it was sent something.
    pub(crate) fn asked(&self) -> usize {
        self.0.asked.load(Ordering::SeqCst)
    }

    pub(crate) fn as_destination(&self, name: &str) -> Destination {
        Destination::new(name, self.clone())
    }
}

#[async_trait]
impl Sink for Place {
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        batch
            .iter()
            .map(|message| {
                self.0.asked.fetch_add(1, Ordering::SeqCst);
                let behave = Arc::clone(&self.0.behave.lock().unwrap());
                behave(message).inspect(|()| self.0.got.lock().unwrap().push(message.id))
            })
            .collect()
    }
}

/// Answers nothing for events of type `silent`, and at once for others.
pub(crate) struct Mute;

#[async_trait]
impl Sink for Mute {
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        if batch.iter().any(|message| message.event_type == "silent") {
            std::future::pending::<()>().await;
        }
        vec![Ok(()); batch.len()]
    }
}

/// Lets sends wait until the test opens it, and counts those that wait.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) open: Arc<Semaphore>,
    pub(crate) inside: Arc<AtomicUsize>,
    pub(crate) most: Arc<AtomicUsize>,
    pub(crate) done: Arc<AtomicUsize>,
}

impl Gate {
    pub(crate) fn closed() -> Self {
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

/// Runs the relay while the test runs.
pub(crate) async fn while_running(relay: &Relay, test: impl Future<Output = ()>) {
    let (stop, stopped) = oneshot::channel::<()>();
    let test = async {
        test.await;
        stop.send(()).unwrap();
    };
    let (ended, ()) = tokio::join!(relay.run(async { stopped.await.unwrap() }), test);
    ended.unwrap();
}

/// Everything to one place.
pub(crate) fn all_to(name: &str) -> Route {
    Route::new("*", [name])
}

pub(crate) fn sorted(mut ids: Vec<Uuid>) -> Vec<Uuid> {
    ids.sort();
    ids
}

/// What is logged from warnings on, in this thread.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// As long as the guard lives.
    pub(crate) fn of_warnings() -> (Self, DefaultGuard) {
        let log = Self::default();
        let logged = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::WARN)
            .with_ansi(false)
            .with_writer(move || logged.clone());
        (log, tracing::subscriber::set_default(subscriber.finish()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
