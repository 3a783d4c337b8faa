//! The store traits, split by their callers, and the claim, which is a value.
//!
//! [`Claims`], [`Parking`] and [`Fleet`] are the relay's side, together [`Store`]; [`Inspect`] is people's side,
//! and [`AdminStore`] adds the admin's jobs and sessions. A source
//! that is not a table can implement [`Claims`] alone. Stores on SQL databases share one layer, `store/sql`.
//!
//! A [`Claim`] carries its events. Settling consumes it, so that nobody settles an event of another relay, and a claim
//! that is dropped unsettled gives its events back. Each store chooses how it holds a claim: by leases, or by locks for a
//! moment. Stores know no sinks.

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use crate::error::StoreError;
use crate::event::StoredEvent;
use crate::relay::wake::Waker;

mod act;
#[cfg(feature = "postgres")]
pub mod celery_outbox;
mod claim;
mod dead_letters;
mod desk;
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
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod walk;

pub use act::{Entry, Marked, REPLAY_OF, Replayed, Retried, Selection};
pub use claim::{Claim, Claimed, Settlement, Ticket};
pub use dead_letters::{DeadLetters, Group};
pub use desk::{AdminStore, JobAction, JobLease, JobState, JobStep, JobView, NewJob, SessionLimits};
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

/// An event whose lease ran out this often is a suspect: it may be what kills its relays. It is claimed with other suspects
/// only, and with fewer of them after each further loss.
pub const LOSSES_BEFORE_APART: u32 = 2;
/// An event whose lease ran out this often is claimed alone, and sent while nothing else is.
pub const LOSSES_BEFORE_ALONE: u32 = LOSSES_BEFORE_APART + 2;
/// An event whose lease ran out this often, the last three times while nothing else was sent, is failed.
pub const LOSSES_BEFORE_FAILED: u32 = LOSSES_BEFORE_ALONE + 3;

// The index outbox_event_suspect, and sweep.sql with it, holds what has lost as often as this.
const _: () = assert!(LOSSES_BEFORE_FAILED > 4);

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
    /// Whether an event may come that must be sent alone. Without it such events wait.
    pub alone: bool,
}

impl Ask {
    /// How often the events may have lost their leases, at most: what has more is failed by the sweep, or not asked for.
    #[must_use]
    pub const fn losses_below(&self) -> u32 {
        if self.alone { LOSSES_BEFORE_FAILED } else { LOSSES_BEFORE_ALONE }
    }

    /// Without an order.
    #[must_use]
    pub const fn new(limit: usize, bytes: usize, lease: Duration) -> Self {
        Self { limit, bytes, lease, order: Order::None, whole: true, claim_by: ClaimBy::Auto, alone: true }
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
    /// Whether events that are old enough are still there.
    pub more: bool,
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

/// The relay's side of an outbox: everything that a relay needs of its database.
///
/// Every method may be called again after an error, and may be cancelled: what it had not committed did not happen.
pub trait Store: Claims + Parking + Fleet {}

impl<T: Claims + Parking + Fleet> Store for T {}

/// Where claims come from. The methods may be called again and cancelled as those of every [`Store`].
#[async_trait]
pub trait Claims: Send + Sync + 'static {
    /// Returns whether claims can be asked for [`Order::Aggregate`]. Other stores ignore the order.
    fn can_order(&self) -> bool {
        false
    }

    /// Claims due events, oldest first: an empty claim when there are none. Never an event that another claim holds.
    /// An event that must go alone comes alone.
    async fn claim(&self, ask: Ask) -> Result<Claim, StoreError>;

    /// Writes what became of claimed events, all or none of those claimed at once, each only if it is still ours. Returns
    /// those that were not ours any more; nothing was changed for them. With `delete`, delivered events are deleted.
    async fn settle(&self, settlements: &[Settlement], delete: bool) -> Result<Vec<Ticket>, StoreError>;

    /// Makes leases last this long from now. Returns those that are still ours.
    async fn renew(&self, tickets: &[Ticket], lease: Duration) -> Result<Vec<Ticket>, StoreError>;

    /// Writes how many losses count against a leased event; one more is counted if the lease is lost. A claim counts the loss
    /// of an event that goes alone only after this says so.
    async fn blame(&self, ticket: Ticket, losses: u32) -> Result<(), StoreError> {
        let _ = (ticket, losses);
        Ok(())
    }

    /// Returns how long it is until the next event is due: a retry, a delayed one, or one whose lease runs out. Zero: now.
    async fn next_due(&self) -> Result<Option<Duration>, StoreError>;

    /// Returns the number of due events that no relay holds.
    async fn remaining(&self) -> Result<u64, StoreError>;

    /// Wakes the waker whenever the database says that something was emitted, until the waker's relay is gone, and
    /// returns whether that works now. A store for which that may change tells the waker by [`Waker::set_notified`], also
    /// after it has returned an error.
    async fn wake(&self, waker: Waker) -> Result<WakeUp, StoreError>;
}

/// Events and deliveries that wait for a destination or a route.
#[async_trait]
pub trait Parking: Send + Sync + 'static {
    /// Returns what events and deliveries of fan-outs are parked on, each once.
    async fn parked_on(&self) -> Result<Vec<String>, StoreError>;

    /// Returns the destinations that people have paused.
    async fn paused(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    /// Returns the kinds of the events parked on this, each once.
    async fn parked_kinds(&self, on: &str) -> Result<Vec<EventKind>, StoreError>;

    /// Makes events parked on this due, the longest parked first, at most `limit`, with `kind` only events of that kind.
    /// Without a kind also events of which one delivery is parked on this, whatever the others wait for. Returns how many.
    async fn unpark(&self, on: &str, kind: Option<&EventKind>, limit: usize) -> Result<u64, StoreError>;
}

/// What the relays of one database do together: heartbeats, metrics, sweeps and cleanup.
#[async_trait]
pub trait Fleet: Send + Sync + 'static {
    /// Refuses a schema that this program cannot work on, with the command that fixes it.
    async fn check(&self) -> Result<(), StoreError>;

    /// Writes a relay's heartbeat. Stores that have no table for it do nothing.
    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<(), StoreError> {
        let _ = heartbeat;
        Ok(())
    }

    /// Writes a relay's metrics for people. Stores that have no table for it do nothing.
    async fn tell(&self, told: Told<'_>) -> Result<(), StoreError> {
        let _ = told;
        Ok(())
    }

    /// Removes the heartbeat of a relay that has stopped.
    async fn farewell(&self, relay: Uuid) -> Result<(), StoreError> {
        let _ = relay;
        Ok(())
    }

    /// Makes failed the events that have killed their relays too often, and forgets relays that died long ago. Returns the
    /// events.
    async fn sweep(&self) -> Result<Vec<Swept>, StoreError>;

    /// Deletes one batch of old terminal events, never pending ones, unless another relay is doing so.
    async fn cleanup(&self, retention: &Retention) -> Result<Cleaned, StoreError>;
}
