//! Producers that emit without a break, and the arrival times of events.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use pillarbox::store::postgres::PostgresStore;
use pillarbox::store::{Filter, Paging};
use pillarbox::{Event, Inspect};
use pillarbox_testkit::{Answer, Receiver};
use tokio::task::JoinHandle;
use uuid::Uuid;

const PRODUCERS: usize = 3;
/// The pause between two events of a producer.
const PAUSE: Duration = Duration::from_millis(5);
const LOOK: Duration = Duration::from_millis(5);

pub(crate) struct Producers {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<HashSet<Uuid>>>,
}

impl Producers {
    pub(crate) fn start(store: &PostgresStore) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (0..PRODUCERS).map(|_| tokio::spawn(produce(store.clone(), Arc::clone(&stop)))).collect();
        Self { stop, tasks }
    }

    /// Stops the producers and returns the events whose commit was confirmed.
    pub(crate) async fn stop(self) -> HashSet<Uuid> {
        self.stop.store(true, Ordering::Relaxed);
        let mut confirmed = HashSet::new();
        for task in self.tasks {
            confirmed.extend(task.await.expect("a producer does not panic"));
        }
        confirmed
    }
}

async fn produce(store: PostgresStore, stop: Arc<AtomicBool>) -> HashSet<Uuid> {
    let mut confirmed = HashSet::new();
    while !stop.load(Ordering::Relaxed) {
        if let Ok(emitted) = store.emit(Event::new("Order", 1, "order.placed").repeatable()).await {
            confirmed.insert(emitted.id);
        }
        tokio::time::sleep(PAUSE).await;
    }
    confirmed
}

type Times = HashMap<Uuid, Vec<Instant>>;

/// The time of each event's first successful response.
#[derive(Clone)]
pub(crate) struct Arrivals(Arc<Mutex<Times>>);

impl Arrivals {
    pub(crate) fn of(receiver: &Receiver) -> Self {
        let arrivals = Self(Arc::default());
        let noted = arrivals.clone();
        receiver.answer_with(move |request| {
            if let Some(id) = request.id {
                noted.lock().entry(id).or_default().push(Instant::now());
            }
            Answer::ok()
        });
        arrivals
    }

    pub(crate) fn all(&self) -> Times {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Times> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn wait_for_more(&self, events: usize, patience: Duration) -> Result<()> {
        let wanted = self.lock().len() + events;
        self.look("more events arrive", patience, |times| (times.len() >= wanted).then_some(())).await
    }

    /// Returns when the first event arrived that was emitted after this call.
    pub(crate) async fn first_emitted_after_now(&self, patience: Duration) -> Result<Instant> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        // An id contains its creation time in milliseconds.
        let is_new = |id: &Uuid| {
            let (seconds, nanoseconds) = id.get_timestamp().map_or((0, 0), |made| made.to_unix());
            Duration::new(seconds, nanoseconds).as_millis() > now.as_millis()
        };
        let first = |times: &Times| {
            times.iter().filter(|(id, _)| is_new(id)).filter_map(|(_, times)| times.iter().min()).min().copied()
        };
        self.look("an event arrives that was emitted after the promotion", patience, first).await
    }

    async fn look<T>(&self, what: &str, patience: Duration, find: impl Fn(&Times) -> Option<T>) -> Result<T> {
        let began = Instant::now();
        loop {
            if let Some(found) = find(&self.lock()) {
                return Ok(found);
            }
            if began.elapsed() > patience {
                bail!("timed out after {patience:?}, waiting until {what}");
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

pub(crate) async fn wait_until_settled(outbox: &PostgresStore, patience: Duration) -> Result<()> {
    let began = Instant::now();
    loop {
        match outbox.counts().await {
            Ok(counts) if counts.pending() == 0 => return Ok(()),
            answer if began.elapsed() > patience => {
                bail!("after {patience:?} events are still on their way: {answer:?}")
            }
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Returns the ids of all events in the database.
pub(crate) async fn all_of(outbox: &PostgresStore) -> Result<HashSet<Uuid>> {
    let mut ids = HashSet::new();
    let mut turn = Paging::first(10_000);
    loop {
        let page = outbox.list(&Filter::default(), &turn).await?;
        ids.extend(page.events.iter().map(|event| event.id));
        match page.next {
            Some(next) => turn = turn.after(next),
            None => return Ok(ids),
        }
    }
}
