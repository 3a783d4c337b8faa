//! What is in flight: claimed and not yet settled, in events and bytes. The relay claims ahead only as far as it allows.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::watch;

use crate::observe::Observers;

/// Events and bytes of payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Weight {
    pub(super) events: usize,
    pub(super) bytes: usize,
}

/// The sum of all permits that live.
#[derive(Debug, Clone)]
pub(super) struct Load(Arc<watch::Sender<Weight>>);

impl Load {
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Weight::default())))
    }

    pub(super) fn now(&self) -> Weight {
        *self.0.borrow()
    }

    pub(super) fn admit(&self, bytes: usize) -> Permit {
        self.0.send_modify(|load| {
            load.events += 1;
            load.bytes += bytes;
        });
        Permit { load: self.clone(), bytes, batch: None }
    }

    /// Until there is no more than this in flight.
    pub(super) async fn at_most(&self, most: Weight) {
        // The sender lives in self, so the channel cannot be closed.
        let _ = self.0.subscribe().wait_for(|load| load.events <= most.events && load.bytes <= most.bytes).await;
    }
}

/// One event's part of the load, given back when it is dropped.
pub(super) struct Permit {
    load: Load,
    bytes: usize,
    batch: Option<Arc<Batch>>,
}

impl Permit {
    /// Of an event that was claimed with others.
    pub(super) fn of(mut self, batch: &Arc<Batch>) -> Self {
        self.batch = Some(Arc::clone(batch));
        self
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // Before the load is less: who waits for that finds the batch finished.
        self.batch = None;
        self.load.0.send_modify(|load| {
            load.events -= 1;
            load.bytes -= self.bytes;
        });
    }
}

/// The events of one claim. When the last of their permits is given back, the observers hear of it.
pub(super) struct Batch {
    observers: Observers,
    events: usize,
    began: Instant,
}

impl Batch {
    pub(super) fn new(observers: &Observers, events: usize) -> Arc<Self> {
        Arc::new(Self { observers: observers.clone(), events, began: Instant::now() })
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let took = self.began.elapsed();
        self.observers.tell("finished", |observer| observer.finished(self.events, took));
    }
}

/// What a panic elsewhere left in a lock is still true here: no lock is held across anything that can fail half-way.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
