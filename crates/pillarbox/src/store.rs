//! The store traits, split by their callers, and the claim, which is a value.
//!
//! [`Claims`], [`Parking`] and [`Fleet`] are for relays; together they are [`Store`]. [`Inspect`] is for people, and
//! [`AdminStore`] adds the admin's jobs and sessions. A source that is not a table can implement [`Claims`] alone. Stores
//! on SQL databases share one layer, `store/sql`.
//!
//! A [`Claim`] carries its events. Settling consumes it, so a relay cannot settle an event of another relay. A claim that
//! is dropped unsettled gives its events back. Each store chooses how it holds a claim: by leases, or by locks for a
//! moment. Stores know no sinks.

#![cfg_attr(
    not(any(feature = "mysql", feature = "postgres", feature = "sqlite")),
    allow(dead_code, unused_imports, reason = "a crate that only sends needs the types of stores, and no store")
)]

use std::time::Duration;

use async_trait::async_trait;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::error::StoreError;
use crate::event::{Headers, StoredEvent};
use crate::relay::wake::Waker;

mod act;
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub mod celery_outbox;
mod claim;
mod dead_letters;
mod desk;
mod examine;
mod fold;
mod inspect;
mod list;
mod log;
mod metrics;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod migrate;
#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod row;
mod search;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod sql;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod walk;

pub use act::{Entry, Marked, REPLAY_OF, REPLAY_TO, Replayed, Retried, Selection};
pub use claim::{Claim, Claimed, Settlement, Ticket};
pub use dead_letters::{DeadLetters, Group};
pub use desk::{AdminStore, JobAction, JobLease, JobState, JobStep, JobView, NewJob, SessionLimits};
pub use examine::{Finding, Level};
pub use fold::fold_error;
pub use inspect::{
    AttemptView, AuditView, Counts, DeliveryView, Depth, EventDetail, EventView, Inspect, Parked, PausedView,
    RelayView, State, Waiting,
};
pub use list::{BadCursor, Cursor, Filter, Page, Paging, ToDestination};
pub use log::LogView;
pub use metrics::{LaneView, Latency, Minute, Told};
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use migrate::{Migration, Role};
pub use search::{Found, NamedAggregate, SEARCH_LIMIT, Search, Unseen};

/// The number of lost leases that makes an event a suspect: it may be what kills its relays. A suspect is claimed with other
/// suspects only, and with fewer of them after each further loss.
pub const LOSSES_BEFORE_APART: u32 = 2;
/// The number of lost leases after which an event is claimed alone, and sent while no other event is being sent.
pub const LOSSES_BEFORE_ALONE: u32 = LOSSES_BEFORE_APART + 2;
/// The number of lost leases after which an event is failed. The last three occurred while no other event was being sent.
pub const LOSSES_BEFORE_FAILED: u32 = LOSSES_BEFORE_ALONE + 3;

// The index outbox_event_suspect and sweep.sql contain events with 4 losses or more.
const _: () = assert!(LOSSES_BEFORE_FAILED > 4);

/// The order in which events are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Events are sent as soon as possible.
    #[default]
    None,
    /// Events of one aggregate are sent one after another, by `seq`; events of different aggregates as soon as possible.
    Aggregate(OnFailed),
}

/// The effect of a failed event on later events of its aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnFailed {
    /// Later events wait until a person retries or deletes the failed event.
    #[default]
    Block,
    /// Later events are sent without the failed event.
    Skip,
}

/// How a claim is held, on databases that offer a choice: PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClaimBy {
    /// By locks for a moment, and by leases for slow events. If a relay died recently, by leases only, so that an event that
    /// kills its relays is found.
    #[default]
    Auto,
    /// By leases. No transaction is open while an event is sent, at the cost of two writes instead of one.
    Lease,
    /// As `Auto`, even after relays died. An event that kills its relay at once does so forever.
    Lock,
}

/// The parameters of a claim.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The maximum number of events.
    pub limit: usize,
    /// The approximate maximum of payload bytes. A claim may always have one event.
    pub bytes: usize,
    /// How long the lease lasts.
    pub lease: Duration,
    /// The order. With [`Order::Aggregate`], an event is claimed only if all earlier events of its aggregate are delivered,
    /// precede it in the same claim, or are among `behind`.
    pub order: Order,
    /// The `seq` of events that the caller holds already and sends first, or has delivered without having settled them.
    pub behind: &'a [i64],
    /// Whether an ordered claim examines every due event before it returns an empty claim. If not, it may leave events that
    /// have just become free to the next claim.
    pub whole: bool,
    /// How the events are held.
    pub claim_by: ClaimBy,
    /// Whether the claim may return an event that must be sent alone. If not, such events wait.
    pub alone: bool,
}

impl Ask<'_> {
    /// Returns the exclusive limit of losses per event. Events at or above it are failed by the sweep, or not asked for.
    #[must_use]
    pub const fn losses_below(&self) -> u32 {
        if self.alone { LOSSES_BEFORE_FAILED } else { LOSSES_BEFORE_ALONE }
    }

    /// Creates a request without an order.
    #[must_use]
    pub const fn new(limit: usize, bytes: usize, lease: Duration) -> Self {
        Self { limit, bytes, lease, order: Order::None, behind: &[], whole: true, claim_by: ClaimBy::Auto, alone: true }
    }
}

/// An event that a sweep has failed.
#[derive(Debug)]
pub struct Swept {
    /// The event.
    pub event: StoredEvent,
    /// The error in the event's row.
    pub error: String,
}

/// How old terminal events must be to be deleted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retention {
    /// The age since delivery.
    pub delivered_after: Duration,
    /// The age since failure.
    pub failed_after: Duration,
    /// The maximum number of events per statement.
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

/// The result of one cleanup batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cleaned {
    /// The number of deleted events.
    pub deleted: u64,
    /// Whether more events are old enough.
    pub more: bool,
    /// Whether the batch did nothing because another relay is cleaning up.
    pub elsewhere: bool,
}

/// A relay's heartbeat.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    /// The relay.
    pub id: Uuid,
    /// The host that it runs on.
    pub host: String,
    /// The number of events that are claimed and not yet settled.
    pub in_flight: usize,
    /// Whether the relay wants wake-ups.
    pub idle: bool,
    /// The digest of its routes and destinations, at most 64 characters: [`RelaySettings::configuration`].
    ///
    /// [`RelaySettings::configuration`]: crate::RelaySettings::configuration
    pub configuration: Option<String>,
}

/// The types of an event, as routes see them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventKind {
    /// `order.placed`
    pub event_type: String,
    /// `Order`
    pub aggregate_type: String,
}

/// A parked event whose route depends on its payload.
#[derive(Debug, Clone)]
pub struct ParkedEvent {
    /// Its id.
    pub id: Uuid,
    /// The payload as it is stored.
    pub payload: Box<RawValue>,
    /// The headers.
    pub headers: Headers,
    /// Its place among the parked events.
    pub place: ParkedPlace,
}

/// A place among the events that are parked on one name, in the order in which they were parked. The default is before all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParkedPlace {
    /// The time of parking, as the store writes it; empty is before all times.
    pub parked_at: String,
    /// The event's `seq`.
    pub seq: i64,
}

impl Default for ParkedPlace {
    fn default() -> Self {
        Self { parked_at: String::new(), seq: i64::MIN }
    }
}

/// Whether the database notifies the relay of new events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeUp {
    /// Notifications work; a test notification arrived.
    Tested,
    /// A test notification did not arrive. Something in between, such as a transaction pooler, drops it.
    Eaten,
    /// This database has no notifications.
    Polling,
}

/// Everything that a relay needs from its database.
///
/// Every method may be called again after an error. Every method may be cancelled; uncommitted work is then undone.
pub trait Store: Claims + Parking + Fleet {}

impl<T: Claims + Parking + Fleet> Store for T {}

/// The source of claims. As with every [`Store`], the methods may be called again and may be cancelled.
#[async_trait]
pub trait Claims: Send + Sync + 'static {
    /// Returns whether the store supports [`Order::Aggregate`]. Other stores ignore the order.
    fn can_order(&self) -> bool {
        false
    }

    /// Claims due events, oldest first. The claim is empty when no event is due. It never contains an event that another
    /// claim holds. An event that must be sent alone is claimed alone.
    async fn claim(&self, ask: Ask<'_>) -> Result<Claim, StoreError>;

    /// Writes the verdicts of claimed events. Each event is written only if its claim still holds it. Events that were
    /// claimed together are written together or not at all. Returns the tickets that no longer hold their events; these
    /// events are unchanged. With `delete`, delivered events are deleted.
    async fn settle(&self, settlements: &[Settlement], delete: bool) -> Result<Vec<Ticket>, StoreError>;

    /// Extends leases to last this long from now. Returns the tickets that still hold their events.
    async fn renew(&self, tickets: &[Ticket], lease: Duration) -> Result<Vec<Ticket>, StoreError>;

    /// Writes how many losses count against a leased event. A lost lease adds one. For an event that is sent alone, a loss
    /// counts only after this call.
    async fn blame(&self, ticket: Ticket, losses: u32) -> Result<(), StoreError> {
        let _ = (ticket, losses);
        Ok(())
    }

    /// Returns the time until the next event is due: a retry, a delayed event, or an event whose lease expires. Zero means now.
    async fn next_due(&self) -> Result<Option<Duration>, StoreError>;

    /// Returns the number of due events that no relay holds.
    async fn remaining(&self) -> Result<u64, StoreError>;

    /// Wakes the waker whenever the database notifies of an emit, until the waker's relay is gone. Returns whether
    /// notifications work now. If that can change later, the store calls [`Waker::set_notified`], also after it has returned
    /// an error.
    async fn wake(&self, waker: Waker) -> Result<WakeUp, StoreError>;
}

/// Events and deliveries that wait for a destination or a route.
#[async_trait]
pub trait Parking: Send + Sync + 'static {
    /// Returns the distinct names that events and deliveries of fan-outs are parked on.
    async fn parked_on(&self) -> Result<Vec<String>, StoreError>;

    /// Returns the destinations that people have paused.
    async fn paused(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    /// Returns the distinct kinds of the events parked on `on`.
    async fn parked_kinds(&self, on: &str) -> Result<Vec<EventKind>, StoreError>;

    /// Returns at most `limit` events of a kind that are parked on `on`, the longest parked first, from after a place. Reads
    /// only: an event that stays parked costs no write.
    async fn parked_events(
        &self,
        on: &str,
        kind: &EventKind,
        after: &ParkedPlace,
        limit: usize,
    ) -> Result<Vec<ParkedEvent>, StoreError>;

    /// Makes those of these events due that are still parked on `on`. Returns their number.
    async fn unpark_these(&self, on: &str, ids: &[Uuid]) -> Result<u64, StoreError>;

    /// Makes at most `limit` events parked on `on` due, the longest parked first. With `kind`, only events of that kind.
    /// Without a kind, also events with one delivery parked on `on`, even if others wait for something else. Returns the
    /// number of events.
    async fn unpark(&self, on: &str, kind: Option<&EventKind>, limit: usize) -> Result<u64, StoreError>;
}

/// Tasks that the relays of one database share: heartbeats, metrics, sweeps and cleanup.
#[async_trait]
pub trait Fleet: Send + Sync + 'static {
    /// Rejects a schema that this program cannot work on. The error names the command that fixes it.
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

    /// Fails the events that have killed their relays too often, and deletes relays that died long ago. Returns the failed
    /// events.
    async fn sweep(&self) -> Result<Vec<Swept>, StoreError>;

    /// Deletes one batch of old terminal events, never pending ones, unless another relay is doing so.
    async fn cleanup(&self, retention: &Retention) -> Result<Cleaned, StoreError>;
}
