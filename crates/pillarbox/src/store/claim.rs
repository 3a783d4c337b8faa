//! The claim, as a value: events that belong to the owner of the value. Settling an event consumes it. An event that is
//! dropped unsettled is given back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use uuid::Uuid;

use super::LOSSES_BEFORE_ALONE;
use crate::clock;
use crate::delivery::{Change, Delivery, Verdict};
use crate::event::StoredEvent;
use crate::trace::SpanContext;

/// An event's id and the token of its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// The event.
    pub id: Uuid,
    /// The token that the row contains while the lease is held.
    pub token: Uuid,
}

/// Events that belong to the claimer until they are settled, given back, or their lease runs out.
#[derive(Debug, Default)]
pub struct Claim {
    events: Vec<Claimed>,
    together: Option<Duration>,
    trace: Option<SpanContext>,
}

impl Claim {
    /// Creates a claim of these events.
    #[must_use]
    pub fn new(events: Vec<Claimed>) -> Self {
        Self { events, together: None, trace: None }
    }

    /// For stores: asks the relay to settle these events together if their results are known within `patience`. After that,
    /// the relay settles the events whose results are known.
    #[must_use]
    pub fn settled_together(mut self, patience: Duration) -> Self {
        self.together = Some(patience);
        self
    }

    /// Returns how long to wait so that these events are settled together. `None` means that waiting has no benefit.
    #[must_use]
    pub fn together(&self) -> Option<Duration> {
        self.together
    }

    /// Returns the claim's span, if it is traced.
    pub(crate) fn trace(&self) -> Option<SpanContext> {
        self.trace
    }

    pub(crate) fn set_trace(&mut self, span: Option<SpanContext>) {
        self.trace = span;
    }

    /// Returns the number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns whether nothing was due.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Returns whether this is an event that must be sent while no other event is: see [`LOSSES_BEFORE_ALONE`].
    #[must_use]
    pub fn is_alone(&self) -> bool {
        matches!(self.events.as_slice(), [only] if only.event.claims >= LOSSES_BEFORE_ALONE)
    }

    /// Returns the event that must be sent alone, if this is one, and how often it has lost its lease.
    pub(crate) fn sent_alone(&self) -> Option<(Ticket, u32)> {
        let only = self.events.first().filter(|_| self.is_alone())?;
        Some((only.ticket, only.event.claims))
    }

    /// Returns an iterator over the events.
    pub fn iter(&self) -> impl Iterator<Item = &Claimed> {
        self.events.iter()
    }
}

impl IntoIterator for Claim {
    type Item = Claimed;
    type IntoIter = std::vec::IntoIter<Claimed>;

    fn into_iter(self) -> Self::IntoIter {
        self.events.into_iter()
    }
}

/// One claimed event. It can be settled once. It is given back when it is dropped.
#[derive(Debug)]
pub struct Claimed {
    event: Arc<StoredEvent>,
    deliveries: Vec<Delivery>,
    ticket: Ticket,
    until: Instant,
    /// The whole lease, if it is not the relay's: a send without a timeout begins while half of it is left.
    lease: Option<Duration>,
    fresh: bool,
    give_back: Option<mpsc::UnboundedSender<Ticket>>,
}

impl Claimed {
    /// For stores: creates an event that is held by a lease until `until` on the monotonic clock. The lease must be measured
    /// from before the statement was sent. `give_back` receives the ticket when the event is dropped unsettled.
    #[must_use]
    pub fn new(
        event: StoredEvent,
        deliveries: Vec<Delivery>,
        token: Uuid,
        until: Instant,
        give_back: mpsc::UnboundedSender<Ticket>,
    ) -> Self {
        Self::of_shared(Arc::new(event), deliveries, token, until, give_back)
    }

    /// For stores that keep the event, too: as [`Claimed::new`].
    pub(crate) fn of_shared(
        event: Arc<StoredEvent>,
        deliveries: Vec<Delivery>,
        token: Uuid,
        until: Instant,
        give_back: mpsc::UnboundedSender<Ticket>,
    ) -> Self {
        let ticket = Ticket { id: event.id, token };
        Self { event, deliveries, ticket, until, lease: None, fresh: false, give_back: Some(give_back) }
    }

    /// For stores: sets whether nothing was written about the event since it was emitted.
    #[must_use]
    pub fn fresh(mut self, fresh: bool) -> Self {
        self.fresh = fresh;
        self
    }

    /// For stores: sets the whole length of the lease, if it is another than the relay asked for.
    #[must_use]
    pub fn leased_for(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Returns the whole length of the lease, if it is another than the relay asked for.
    pub(crate) fn own_lease(&self) -> Option<Duration> {
        self.lease
    }

    /// Returns the event.
    #[must_use]
    pub fn event(&self) -> &Arc<StoredEvent> {
        &self.event
    }

    /// Returns the stored deliveries of the event; empty in the common case.
    #[must_use]
    pub fn deliveries(&self) -> &[Delivery] {
        &self.deliveries
    }

    /// Returns the ticket, with which the lease is renewed.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Returns how much of the lease is left.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(clock::now())
    }

    /// Records that the lease was renewed until `until`.
    pub fn renewed(&mut self, until: Instant) {
        self.until = until;
        self.lease = None;
    }

    /// Decides the event. Pass the result to [`Claims::settle`](super::Claims::settle).
    #[must_use]
    pub fn settle(mut self, verdict: Verdict) -> Settlement {
        self.give_back = None;
        Settlement { event: Arc::clone(&self.event), ticket: self.ticket, fresh: self.fresh, verdict }
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        if let Some(give_back) = &self.give_back {
            // A closed channel means that the store is gone. Then the lease expires by itself.
            let _ = give_back.send(self.ticket);
        }
    }
}

/// The verdict on a claimed event. Only [`Claimed::settle`] creates one.
#[derive(Debug)]
pub struct Settlement {
    event: Arc<StoredEvent>,
    ticket: Ticket,
    fresh: bool,
    verdict: Verdict,
}

impl Settlement {
    /// Returns the verdict on an event that no relay holds: one that a store read and does not hand out.
    #[cfg(feature = "wal")]
    pub(crate) fn of(event: Arc<StoredEvent>, ticket: Ticket, verdict: Verdict) -> Self {
        Self { event, ticket, fresh: true, verdict }
    }

    /// Returns the same settlement again, for a store that writes it later.
    #[cfg(feature = "wal")]
    pub(crate) fn copy(&self) -> Self {
        let Self { event, ticket, fresh, verdict } = self;
        Self { event: Arc::clone(event), ticket: *ticket, fresh: *fresh, verdict: verdict.clone() }
    }

    /// Returns the event.
    #[must_use]
    pub fn event(&self) -> &Arc<StoredEvent> {
        &self.event
    }

    /// Returns the lease that must still hold the event.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Returns the verdict to write.
    #[must_use]
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// Returns whether the event was delivered at the first attempt, and nothing else is stored about it.
    pub(crate) fn is_plain_delivery(&self) -> bool {
        self.is_plain() && self.verdict.change == Change::Deliver
    }

    /// Returns what the event was parked on and why, if it was parked without an attempt and nothing else is stored about it.
    pub(crate) fn plain_park(&self) -> Option<(&str, &str)> {
        match &self.verdict.change {
            Change::Park { on, error } if self.is_plain() => Some((on, error)),
            _ => None,
        }
    }

    /// Returns whether nothing was written about the event before, and only its row is to be written now.
    fn is_plain(&self) -> bool {
        let Verdict { change: _, attempts, deliveries, failures, successes } = &self.verdict;
        self.fresh && *attempts == 0 && deliveries.is_empty() && failures.is_empty() && successes.is_empty()
    }
}
