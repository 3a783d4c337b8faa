//! The load: events that are claimed and not yet settled, and their bytes. It limits how far the relay claims ahead.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::gauge::Gauge;
use super::log::Named;
use super::order::Place;
use crate::clock;
use crate::delivery::Change;
use crate::observe::Observers;
use crate::trace::SpanContext;

/// A number of events, and the bytes of their payloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Weight {
    pub(super) events: usize,
    pub(super) bytes: usize,
}

impl Weight {
    fn take(&mut self, less: Self) {
        self.events -= less.events;
        self.bytes -= less.bytes;
    }
}

/// The sum of all live permits.
#[derive(Debug, Clone)]
pub(super) struct Load(Arc<Gauge<Weight>>);

impl Load {
    pub(super) fn new() -> Self {
        Self(Arc::new(Gauge::new(Weight::default())))
    }

    pub(super) fn now(&self) -> Weight {
        self.0.get()
    }

    pub(super) fn admit(&self, bytes: usize) -> Permit {
        self.0.change(|load| {
            load.events += 1;
            load.bytes += bytes;
        });
        Permit { load: self.clone(), bytes, batch: None, place: None, counted: true }
    }

    /// Admits the events of one claim with a single change, because each change wakes the waiting tasks.
    pub(super) fn admit_all(&self, bytes: impl Iterator<Item = usize>, batch: &Arc<Batch>) -> Vec<Permit> {
        let permit =
            |bytes| Permit { load: self.clone(), bytes, batch: Some(Arc::clone(batch)), place: None, counted: true };
        let permits: Vec<Permit> = bytes.map(permit).collect();
        self.0.change(|load| {
            load.events += permits.len();
            load.bytes += permits.iter().map(|permit| permit.bytes).sum::<usize>();
        });
        permits
    }

    /// Releases permits with a single change. Permits of another load release themselves.
    pub(super) fn release(&self, permits: impl Iterator<Item = Permit>) {
        let mut less = Weight::default();
        for mut permit in permits.filter(|permit| Arc::ptr_eq(&permit.load.0, &self.0)) {
            permit.counted = false;
            less.events += 1;
            less.bytes += permit.bytes;
        }
        self.0.change(|load| load.take(less));
    }

    /// Waits until no more than this is in flight.
    pub(super) async fn at_most(&self, most: Weight) {
        self.0.wait_for(|load| load.events <= most.events && load.bytes <= most.bytes).await;
    }
}

/// One event's part of the load. Dropping it releases that part.
pub(super) struct Permit {
    load: Load,
    bytes: usize,
    batch: Option<Arc<Batch>>,
    /// The event's place in the line of its aggregate, if order is kept.
    place: Option<Place>,
    /// Whether the load counts this permit.
    counted: bool,
}

impl Permit {
    /// Returns the span of the claim that the event came with.
    pub(super) fn claim_span(&self) -> Option<SpanContext> {
        self.batch.as_ref()?.span
    }

    /// Keeps the place until the event is settled.
    pub(super) fn keep(&mut self, place: Place) {
        self.place = Some(place);
    }

    /// Takes the place of a permit that this one replaces.
    pub(super) fn take_place(&mut self, before: &mut Self) {
        self.place = before.place.take();
    }

    /// Returns when the event was claimed.
    pub(super) fn claimed_at(&self) -> Instant {
        self.batch.as_ref().map_or_else(clock::now, |batch| batch.began)
    }

    /// Counts the verdict of the event, now that it is in the table.
    pub(super) fn settled(&self, change: &Change) {
        if let Some(batch) = &self.batch {
            batch.outcome.count(change);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // Before the load decreases, so that tasks that wait for it find the batch finished.
        self.batch = None;
        if self.counted {
            self.load.0.change(|load| load.take(Weight { events: 1, bytes: self.bytes }));
        }
    }
}

/// The events of one claim. When the last of their permits is dropped, the batch is logged and the observers are called.
pub(super) struct Batch {
    observers: Observers,
    events: usize,
    began: Instant,
    span: Option<SpanContext>,
    /// The name of the log line.
    name: Named,
    outcome: Outcome,
}

/// The numbers of a claim's events by verdict.
#[derive(Default)]
struct Outcome {
    delivered: AtomicUsize,
    retried: AtomicUsize,
    given_up: AtomicUsize,
    parked: AtomicUsize,
    released: AtomicUsize,
}

impl Outcome {
    fn count(&self, change: &Change) {
        let counter = match change {
            Change::Deliver => &self.delivered,
            Change::Retry { .. } => &self.retried,
            Change::Fail { .. } => &self.given_up,
            Change::Park { .. } => &self.parked,
            Change::Release { .. } => &self.released,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Batch {
    pub(super) fn new(observers: &Observers, events: usize, span: Option<SpanContext>, name: Named) -> Arc<Self> {
        let (observers, began, outcome) = (observers.clone(), clock::now(), Outcome::default());
        Arc::new(Self { observers, events, began, span, name, outcome })
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let took = clock::since(self.began);
        let Outcome { delivered, retried, given_up, parked, released } = &mut self.outcome;
        tracing::info!(
            event = %self.name,
            events = self.events,
            delivered = *delivered.get_mut(),
            retried = *retried.get_mut(),
            given_up = *given_up.get_mut(),
            parked = *parked.get_mut(),
            released = *released.get_mut(),
            ?took,
            "batch processed"
        );
        self.observers.tell("finished", |observer| observer.finished(self.events, took));
    }
}

/// Locks a mutex and ignores poisoning. The value is valid after a panic: no lock is held across code that can fail half-way.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_at_once_is_counted_where_it_was_admitted() {
        let (load, probes) = (Load::new(), Load::new());
        let mut permits = load.admit_all(
            [1, 20, 300].into_iter(),
            &Batch::new(&Observers::default(), 3, None, Named::new("pillarbox", "batch_processed")),
        );
        assert_eq!(load.now(), Weight { events: 3, bytes: 321 });
        drop(permits.pop());
        permits.push(probes.admit(7));
        load.release(permits.into_iter());
        assert_eq!((load.now(), probes.now()), (Weight::default(), Weight::default()));
    }
}
