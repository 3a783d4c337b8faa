//! The claim, as a value: events that belong to whoever has it. Settling one consumes it, and one that is dropped unsettled
//! gives itself back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use uuid::Uuid;

use super::LOSSES_BEFORE_ALONE;
use crate::clock;
use crate::delivery::{Change, Delivery, Verdict};
use crate::event::StoredEvent;
use crate::trace::SpanContext;

/// Which event, and the token of the lease it is held by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// The event.
    pub id: Uuid,
    /// Stands in the row as long as the lease is ours.
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
    /// Of these events.
    #[must_use]
    pub fn new(events: Vec<Claimed>) -> Self {
        Self { events, together: None, trace: None }
    }

    /// For stores: these are best settled all at once, if it is known within so long what became of them; later, what is
    /// known by then.
    #[must_use]
    pub fn settled_together(mut self, patience: Duration) -> Self {
        self.together = Some(patience);
        self
    }

    /// How long to wait with settling, so that these are settled at once; `None`: there is no use in waiting.
    #[must_use]
    pub fn together(&self) -> Option<Duration> {
        self.together
    }

    /// Its span, if somebody follows it.
    pub(crate) fn trace(&self) -> Option<SpanContext> {
        self.trace
    }

    pub(crate) fn set_trace(&mut self, span: Option<SpanContext>) {
        self.trace = span;
    }

    /// How many events there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Nothing was due.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Whether this is an event that must be sent while nothing else is: see [`LOSSES_BEFORE_ALONE`].
    #[must_use]
    pub fn is_alone(&self) -> bool {
        matches!(self.events.as_slice(), [only] if only.event.claims >= LOSSES_BEFORE_ALONE)
    }

    /// The event that must be sent alone, if this is one, and how often it has lost its lease.
    pub(crate) fn suspect(&self) -> Option<(Ticket, u32)> {
        let only = self.events.first().filter(|_| self.is_alone())?;
        Some((only.ticket, only.event.claims))
    }

    /// The events, to look at.
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

/// One claimed event. It can be settled once, and gives itself back when it is dropped.
#[derive(Debug)]
pub struct Claimed {
    event: Arc<StoredEvent>,
    deliveries: Vec<Delivery>,
    ticket: Ticket,
    until: Instant,
    fresh: bool,
    give_back: Option<mpsc::UnboundedSender<Ticket>>,
}

impl Claimed {
    /// For stores: an event held by a lease until that moment of the monotonic clock, which must have been started
    /// before the database was asked. `give_back` hears of it when it is dropped unsettled.
    #[must_use]
    pub fn new(
        event: StoredEvent,
        deliveries: Vec<Delivery>,
        token: Uuid,
        until: Instant,
        give_back: mpsc::UnboundedSender<Ticket>,
    ) -> Self {
        let ticket = Ticket { id: event.id, token };
        Self { event: Arc::new(event), deliveries, ticket, until, fresh: false, give_back: Some(give_back) }
    }

    /// For stores: whether nothing was written about it since it was emitted.
    #[must_use]
    pub fn fresh(mut self, fresh: bool) -> Self {
        self.fresh = fresh;
        self
    }

    /// The event.
    #[must_use]
    pub fn event(&self) -> &Arc<StoredEvent> {
        &self.event
    }

    /// What is kept of its destinations; empty in the common case.
    #[must_use]
    pub fn deliveries(&self) -> &[Delivery] {
        &self.deliveries
    }

    /// To renew its lease with.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// How much of its lease is left.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(clock::now())
    }

    /// Its lease was renewed until then.
    pub fn renewed(&mut self, until: Instant) {
        self.until = until;
    }

    /// Says what becomes of it. The answer is to be given to [`Store::settle`](super::Store::settle).
    #[must_use]
    pub fn settle(mut self, verdict: Verdict) -> Settlement {
        self.give_back = None;
        Settlement { event: Arc::clone(&self.event), ticket: self.ticket, fresh: self.fresh, verdict }
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        if let Some(give_back) = &self.give_back {
            // A closed channel means that the store is gone: then the lease runs out by itself.
            let _ = give_back.send(self.ticket);
        }
    }
}

/// What becomes of a claimed event. Only [`Claimed::settle`] makes one.
#[derive(Debug)]
pub struct Settlement {
    event: Arc<StoredEvent>,
    ticket: Ticket,
    fresh: bool,
    verdict: Verdict,
}

impl Settlement {
    /// The event.
    #[must_use]
    pub fn event(&self) -> &Arc<StoredEvent> {
        &self.event
    }

    /// The lease it must still be held by.
    #[must_use]
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// What is to be written.
    #[must_use]
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// It was delivered at the first try, and nothing else is kept of it.
    pub(crate) fn is_plain_delivery(&self) -> bool {
        self.is_plain() && self.verdict.change == Change::Deliver
    }

    /// It was parked without a try, and nothing else is kept of it: on what, and why.
    pub(crate) fn plain_park(&self) -> Option<(&str, &str)> {
        match &self.verdict.change {
            Change::Park { on, error } if self.is_plain() => Some((on, error)),
            _ => None,
        }
    }

    /// Nothing was written of it before, and nothing is to be but what its row becomes.
    fn is_plain(&self) -> bool {
        let Verdict { change: _, attempts, deliveries, failures } = &self.verdict;
        self.fresh && *attempts == 0 && deliveries.is_empty() && failures.is_empty()
    }
}
