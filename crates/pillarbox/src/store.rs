//! The two store traits, split by who uses them, and the claim, which is a value.
//!
//! A [`Claim`] carries its events. Settling one consumes it, so that nobody can settle what somebody else owns, and one
//! that is dropped unsettled gives itself back. Each store chooses how it holds a claim: by leases, or by locks for a moment.
//! Stores know no sinks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::delivery::{Change, Delivery, Verdict};
use crate::error::StoreError;
use crate::event::StoredEvent;
use crate::relay::wake::Waker;
use crate::trace::SpanContext;

mod act;
#[cfg(feature = "postgres")]
pub mod celery_outbox;
mod dead_letters;
mod examine;
mod figures;
mod fold;
mod inspect;
mod list;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod migrate;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod row;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod walk;

pub use act::{Entry, Marked, REPLAY_OF, Replayed, Retried, Selection};
pub use dead_letters::{DeadLetters, Group};
pub use examine::{Finding, Level};
pub use figures::{LaneView, Latency, Minute, Told};
pub use fold::fold_error;
pub use inspect::{
    AttemptView, AuditView, Counts, DeliveryView, Depth, EventDetail, EventView, Inspect, Parked, PausedView,
    RelayView, State,
};
pub use list::{BadCursor, Cursor, Filter, Page, ToDestination, Turn};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub use migrate::{Migration, Role};

/// An event whose lease ran out this often is claimed alone: it may be what kills its relays.
pub const LOSSES_BEFORE_ALONE: u32 = 2;
/// An event whose lease ran out this often, the last three times while it was claimed alone, is failed.
pub const LOSSES_BEFORE_FAILED: u32 = LOSSES_BEFORE_ALONE + 3;

// sweep.sql and its index, outbox_event_suspect, know this number.
const _: () = assert!(LOSSES_BEFORE_FAILED == 5);

/// In which order events are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// As soon as they can be.
    #[default]
    None,
    /// Those of one aggregate one after another, by `seq`; those of different aggregates as soon as they can be.
    Aggregate(OnFailed),
}

/// What a failed event means for those of its aggregate that come after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailed {
    /// They wait until people have retried or deleted it.
    #[default]
    Block,
    /// They are sent without it.
    Skip,
}

/// How a claim is held, on databases where there is a choice: PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClaimBy {
    /// By locks, for a moment, and leases for what is slow; by leases alone when a relay has died lately, so that an event
    /// that kills its relays is found out.
    #[default]
    Auto,
    /// By leases: no transaction is open while anything is sent, for two writes instead of one.
    Lease,
    /// As `Auto`, also when relays have died: an event that kills them at once does so for ever.
    Lock,
}

/// What a relay asks for when it claims.
#[derive(Debug, Clone, Copy)]
pub struct Ask {
    /// At most so many events.
    pub limit: usize,
    /// At most about so many bytes of payload, but always one event.
    pub bytes: usize,
    /// How long they are ours.
    pub lease: Duration,
    /// With [`Order::Aggregate`], no event while an earlier one of its aggregate is not delivered, unless that is in the
    /// same claim before it.
    pub order: Order,
    /// Whether an ordered claim looks at everything that is due before it answers that there is nothing to send. One that
    /// does not may leave what has just become free to the next.
    pub whole: bool,
    /// How they are held.
    pub claim_by: ClaimBy,
}

impl Ask {
    /// Without an order.
    #[must_use]
    pub const fn new(limit: usize, bytes: usize, lease: Duration) -> Self {
        Self { limit, bytes, lease, order: Order::None, whole: true, claim_by: ClaimBy::Auto }
    }
}

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
        self.until.saturating_duration_since(Instant::now())
    }

    /// Its lease was renewed until then.
    pub fn renewed(&mut self, until: Instant) {
        self.until = until;
    }

    /// Says what becomes of it. The answer is to be given to [`Store::settle`].
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

/// An event that a sweep has given up.
#[derive(Debug)]
pub struct Swept {
    /// The event.
    pub event: StoredEvent,
    /// Why, as it stands in the table.
    pub error: String,
}

/// How old terminal events must be to be deleted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retention {
    /// Since they were delivered.
    pub delivered_after: Duration,
    /// Since they failed.
    pub failed_after: Duration,
    /// At most so many in one statement.
    pub batch: usize,
}

impl Default for Retention {
    fn default() -> Self {
        const HOUR: u64 = 3600;
        Self {
            delivered_after: Duration::from_secs(168 * HOUR),
            failed_after: Duration::from_secs(720 * HOUR),
            batch: 1000,
        }
    }
}

/// What one batch of cleanup did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cleaned {
    /// Events deleted.
    pub deleted: u64,
    /// Events old enough that are still there.
    pub remaining: u64,
    /// Nothing was done because another relay is cleaning up.
    pub elsewhere: bool,
}

/// What a relay says of itself.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    /// The relay.
    pub id: Uuid,
    /// Where it runs.
    pub host: String,
    /// Claimed and not yet settled.
    pub in_flight: usize,
    /// It wants to be woken.
    pub idle: bool,
}

/// The types of an event, as routes see them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventKind {
    /// `order.placed`
    pub event_type: String,
    /// `Order`
    pub aggregate_type: String,
}

/// Whether the database tells the relay of new events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeUp {
    /// It does; this was tried.
    Tested,
    /// It should, but what was sent did not arrive: something between (a transaction pooler, say) eats it.
    Eaten,
    /// This database has no such thing.
    Polling,
}

/// The relay's side of an outbox.
///
/// Every method may be called again after an error, and may be cancelled: what it had not committed did not happen.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Refuses a schema that this program cannot work on, with the command that fixes it.
    async fn check(&self) -> Result<(), StoreError>;

    /// Whether its claims can be asked for [`Order::Aggregate`]; what is asked of others is ignored.
    fn can_order(&self) -> bool {
        false
    }

    /// Claims due events, oldest first: an empty claim when there are none. Never an event that another claim holds.
    /// One that must go alone comes alone.
    async fn claim(&self, ask: Ask) -> Result<Claim, StoreError>;

    /// Writes what became of claimed events, all or none of those claimed at once, each only if it is still ours. Answers
    /// those that were not ours any more; nothing was changed for them. With `delete` what was delivered is deleted.
    async fn settle(&self, settlements: &[Settlement], delete: bool) -> Result<Vec<Ticket>, StoreError>;

    /// Makes leases last this long from now. Answers those that are still ours.
    async fn renew(&self, tickets: &[Ticket], lease: Duration) -> Result<Vec<Ticket>, StoreError>;

    /// Makes failed what has killed its relay too often, and forgets relays that are long dead. Answers the events.
    async fn sweep(&self) -> Result<Vec<Swept>, StoreError>;

    /// What events are parked on, each once.
    async fn parked_on(&self) -> Result<Vec<String>, StoreError>;

    /// Destinations that people have paused.
    async fn paused(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    /// The kinds of the events parked on this, each once.
    async fn parked_kinds(&self, on: &str) -> Result<Vec<EventKind>, StoreError>;

    /// Makes events parked on this due, those first that wait longest, at most `limit`, with `kind` only those of it.
    /// Answers how many.
    async fn unpark(&self, on: &str, kind: Option<&EventKind>, limit: usize) -> Result<u64, StoreError>;

    /// As [`Store::unpark`], of the events parked on this those that wait for that destination, too.
    async fn unpark_shared(&self, on: &str, with: &str, limit: usize) -> Result<u64, StoreError> {
        let _ = (on, with, limit);
        Ok(0)
    }

    /// Deletes one batch of old terminal events, never pending ones, unless another relay is doing so.
    async fn cleanup(&self, retention: &Retention) -> Result<Cleaned, StoreError>;

    /// How long until the next event is due: a retry, a delayed one, or one whose lease runs out. Zero: now.
    async fn next_due(&self) -> Result<Option<Duration>, StoreError>;

    /// Due events that nobody holds.
    async fn remaining(&self) -> Result<u64, StoreError>;

    /// Says that this relay lives.
    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<(), StoreError>;

    /// Writes down for people what this relay does. Stores that have no place for it forget it.
    async fn tell(&self, told: Told<'_>) -> Result<(), StoreError> {
        let _ = told;
        Ok(())
    }

    /// Says that this relay is gone.
    async fn farewell(&self, relay: Uuid) -> Result<(), StoreError>;

    /// Wakes the waker whenever the database says that something was emitted, until the waker's relay is gone, and
    /// answers whether that works.
    async fn wake(&self, waker: Waker) -> Result<WakeUp, StoreError>;
}
