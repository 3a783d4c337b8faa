//! The store on the tables of django-celery-outbox, as its own migrations create them. The relay replaces that package's
//! own relay, or runs beside it.
//!
//! A claim there is a row with a fresh `updated_at` and no `retry_after`. So `updated_at` is the token of the lease, every
//! settle is fenced by it, and a lease is as long as that relay's stale timeout. Delivered tasks are deleted. Failed tasks
//! move to the table of dead letters with their error. It knows no sinks, and returns each task as an event
//! whose payload is the recorded Celery message. The statements are in `sql/celery_outbox`; each database runs its own, behind
//! `Tables`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::row::seconds;
use super::sql::database;
use super::{
    Ask, Claim, Claimed, Claims, Cleaned, EventKind, Fleet, ParkedEvent, ParkedPlace, Retention, Settlement, Swept,
    Ticket, WakeUp,
};
use crate::error::StoreError;
use crate::relay::wake::Waker;

mod fence;
mod parking;
mod schema;
mod settle;
pub(super) mod tables;

use fence::Fences;
use parking::Parking;
use tables::{Due, Tables};

/// Settings that correspond to flags of django-celery-outbox's relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CeleryOutboxSettings {
    /// How long a task is delayed when its broker is down (`--broker-outage-cooldown`). When this relay finds the broker up
    /// again, its own tasks do not wait for the end of the delay.
    pub cooldown: Duration,
    /// The number of failed attempts after which a task is not sent any more (`--max-retries`); 0 means no limit. Set the
    /// relay's retry policy to the same number.
    pub max_retries: u32,
}

impl Default for CeleryOutboxSettings {
    fn default() -> Self {
        Self { cooldown: Duration::from_secs(30), max_retries: 5 }
    }
}

/// The number of waiting tasks, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueDepth {
    /// The number of due tasks that no relay holds.
    pub due: u64,
    /// How long the oldest of them has been waiting.
    pub oldest: Option<Duration>,
    /// The number of dead letters.
    pub dead_letters: u64,
}

/// An outbox that django-celery-outbox created.
#[derive(Debug, Clone)]
pub struct CeleryOutboxStore {
    outbox: Arc<Outbox>,
    give_back: mpsc::UnboundedSender<Ticket>,
}

#[derive(Debug)]
struct Outbox {
    tables: Box<dyn Tables>,
    settings: CeleryOutboxSettings,
    fences: Fences,
    parking: Mutex<Parking>,
    /// The stale timeout in microseconds: the lease of the last claim.
    stale: AtomicU64,
    /// When tasks of another schema_version were last reported.
    told_at: Mutex<Option<Instant>>,
}

impl CeleryOutboxStore {
    /// Creates a store. Each database has constructors that call it.
    pub(super) fn over(tables: Box<dyn Tables>, settings: CeleryOutboxSettings) -> Self {
        let outbox = Arc::new(Outbox {
            tables,
            settings,
            fences: Fences::default(),
            parking: Mutex::default(),
            stale: AtomicU64::new(micros(Duration::from_secs(300))),
            told_at: Mutex::default(),
        });
        let (give_back, dropped) = mpsc::unbounded_channel();
        tokio::spawn(settle::give_back_dropped(Arc::clone(&outbox), dropped));
        Self { outbox, give_back }
    }

    /// Returns the number of waiting tasks. It reads all due tasks.
    ///
    /// # Errors
    /// When the database returns an error.
    pub async fn depth(&self) -> Result<QueueDepth, StoreError> {
        let (due, oldest) = self.outbox.due().await?;
        let dead_letters = self.outbox.tables.dead_letters().await.map_err(database("counting dead letters"))?;
        Ok(QueueDepth { due, oldest, dead_letters: dead_letters.unsigned_abs() })
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Locks a mutex. Its content is still valid after a panic in another task.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Outbox {
    /// Returns the number of seconds after which a claim is stale.
    fn stale(&self) -> f64 {
        Duration::from_micros(self.stale.load(Ordering::Relaxed)).as_secs_f64()
    }

    fn which(&self) -> Due {
        Due { stale: self.stale(), max_retries: i32::try_from(self.settings.max_retries).unwrap_or(i32::MAX) }
    }

    async fn due(&self) -> Result<(u64, Option<Duration>), StoreError> {
        let (count, oldest) = self.tables.remaining(self.stale()).await.map_err(database("counting due tasks"))?;
        Ok((count.unsigned_abs(), oldest.map(seconds)))
    }
}

#[async_trait]
impl Claims for CeleryOutboxStore {
    /// While the broker is down nothing is claimed; otherwise every cooldown would claim and park the whole table. The
    /// database is queried nevertheless, because the relay's monitoring depends on the result.
    async fn claim(&self, ask: Ask<'_>) -> Result<Claim, StoreError> {
        let outbox = &self.outbox;
        outbox.stale.store(micros(ask.lease), Ordering::Relaxed);
        let room = lock(&outbox.parking).room(ask.limit);
        if room == 0 {
            outbox.tables.ping().await.map_err(database("claiming tasks"))?;
            return Ok(Claim::default());
        }
        let until = Instant::now() + ask.lease;
        let tasks = outbox.tables.claim(outbox.which(), room, ask.bytes).await.map_err(database("claiming tasks"))?;
        let claimed = |(event, held_since)| {
            Claimed::new(event, Vec::new(), fence::token(held_since), until, self.give_back.clone())
        };
        let mut claimed: Vec<Claimed> = tasks.into_iter().map(claimed).collect();
        claimed.sort_by_key(|claimed| claimed.event().seq);
        lock(&outbox.parking).claimed(claimed.iter().map(|claimed| claimed.event().seq));
        Ok(Claim::new(claimed))
    }

    async fn settle(&self, settlements: &[Settlement], _delete: bool) -> Result<Vec<Ticket>, StoreError> {
        self.outbox.settle(settlements).await.map_err(database("settling tasks"))
    }

    /// Runs in a task of its own. A renewal that is cancelled half-way would change the row's fence unnoticed.
    async fn renew(&self, tickets: &[Ticket], lease: Duration) -> Result<Vec<Ticket>, StoreError> {
        let (outbox, tickets) = (Arc::clone(&self.outbox), tickets.to_vec());
        let renewal = tokio::spawn(async move { outbox.renew(&tickets, lease).await });
        renewal.await.map_err(database("renewing claims"))?.map_err(database("renewing claims"))
    }

    async fn next_due(&self) -> Result<Option<Duration>, StoreError> {
        if lock(&self.outbox.parking).room(1) == 0 {
            return Ok(None);
        }
        let due = self.outbox.tables.next_due(self.outbox.which()).await;
        let due = due.map_err(database("reading the next due time"))?;
        Ok(due.map(seconds))
    }

    async fn remaining(&self) -> Result<u64, StoreError> {
        Ok(self.outbox.due().await?.0)
    }

    /// The producers send no notifications, and no trigger may be added to the tables.
    async fn wake(&self, _waker: Waker) -> Result<WakeUp, StoreError> {
        Ok(WakeUp::Polling)
    }
}

#[async_trait]
impl super::Parking for CeleryOutboxStore {
    async fn parked_on(&self) -> Result<Vec<String>, StoreError> {
        Ok(lock(&self.outbox.parking).on().map(str::to_owned).into_iter().collect())
    }

    /// A row does not contain what it waits for.
    async fn parked_kinds(&self, _on: &str) -> Result<Vec<EventKind>, StoreError> {
        Ok(Vec::new())
    }

    async fn parked_events(
        &self,
        _on: &str,
        _kind: &EventKind,
        _after: &ParkedPlace,
        _limit: usize,
    ) -> Result<Vec<ParkedEvent>, StoreError> {
        Ok(Vec::new())
    }

    async fn unpark_these(&self, _on: &str, _ids: &[Uuid]) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// Allows this many claims. As many tasks that were parked here need not wait for the end of their cooldown. Returns at
    /// least one, so that the relay claims at once: tasks that were never claimed may be due.
    async fn unpark(&self, on: &str, _kind: Option<&EventKind>, limit: usize) -> Result<u64, StoreError> {
        let Some(rows) = lock(&self.outbox.parking).unpark(on, limit) else { return Ok(0) };
        if rows.is_empty() {
            return Ok(1);
        }
        let done = self.outbox.tables.unpark(&rows).await.map_err(database("unparking tasks"))?;
        Ok(done.max(1))
    }
}

/// There is no table for heartbeats.
#[async_trait]
impl Fleet for CeleryOutboxStore {
    async fn check(&self) -> Result<(), StoreError> {
        self.outbox.check_columns().await?;
        self.outbox.tell_of_other_versions().await
    }

    async fn sweep(&self) -> Result<Vec<Swept>, StoreError> {
        self.outbox.tell_of_other_versions().await?;
        self.outbox.sweep().await
    }

    /// Delivered tasks are deleted by the settle. Dead letters are purged by django-celery-outbox's own commands.
    async fn cleanup(&self, _retention: &Retention) -> Result<Cleaned, StoreError> {
        Ok(Cleaned::default())
    }
}
