//! The operations of people on an outbox: inspect, count, retry.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::emit::Emitted;
use crate::error::StoreError;
use crate::event::{Event, Headers, Status, StoredEvent};
use crate::route::Subject;
use crate::store::act::{Entry, Marked, Replayed, Retried, Selection};
use crate::store::dead_letters::DeadLetters;
use crate::store::examine::Finding;
use crate::store::list::{Filter, Page, Paging, ToDestination};
use crate::store::log::LogView;
use crate::store::metrics::{LaneView, Minute};
use crate::store::search::Found;

/// The state of an event as people ask for it: finer than [`Status`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Not delivered and not failed, whether due, scheduled, sending or parked.
    Pending,
    /// Due, and not held by a relay.
    Due,
    /// Due later: a delayed event or a retry.
    Scheduled,
    /// Held by a relay.
    Sending,
    /// Waiting for a destination or a route.
    Parked,
    /// Delivered to all destinations.
    Delivered,
    /// A dead letter.
    Failed,
}

impl State {
    /// All states, for help texts.
    pub const ALL: [Self; 7] =
        [Self::Pending, Self::Due, Self::Scheduled, Self::Sending, Self::Parked, Self::Delivered, Self::Failed];

    /// Returns the state's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Due => "due",
            Self::Scheduled => "scheduled",
            Self::Sending => "sending",
            Self::Parked => "parked",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }

    /// Returns the status of events in this state.
    #[must_use]
    pub fn status(self) -> Status {
        match self {
            Self::Pending | Self::Due | Self::Scheduled | Self::Sending | Self::Parked => Status::Pending,
            Self::Delivered => Status::Delivered,
            Self::Failed => Status::Failed,
        }
    }

    /// Parses a state's name. Returns `None` when there is no such state.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// An event in a list.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the columns of outbox_event")]
pub struct EventView {
    pub id: Uuid,
    pub seq: i64,
    pub aggregate_type: String,
    pub aggregate_id: String,
    pub event_type: String,
    pub status: Status,
    /// The state, which is finer than the status.
    pub state: State,
    pub idempotency_key: String,
    pub attempts: u32,
    pub max_attempts: Option<u32>,
    pub claims: u32,
    pub next_attempt_at: Option<DateTime<Utc>>,
    pub parked_on: Option<String>,
    pub delivered_at: Option<DateTime<Utc>>,
    pub error_message: String,
    /// The destination on which a dead letter failed.
    pub failed_on: Option<String>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// One event with all its details.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct EventDetail {
    /// The event's row.
    #[serde(flatten)]
    pub event: EventView,
    /// The payload as the database returns it.
    pub payload: Box<RawValue>,
    /// The trace context and custom headers.
    pub headers: Headers,
    /// The deliveries of a fan-out that did not succeed at once.
    pub deliveries: Vec<DeliveryView>,
    /// The failed attempts that are kept, oldest first.
    pub failed_attempts: Vec<AttemptView>,
    /// The successful attempts that are kept, oldest first. There are none unless the relay records them.
    pub delivered_attempts: Vec<AttemptView>,
}

impl<'a> From<&'a EventDetail> for Subject<'a> {
    fn from(detail: &'a EventDetail) -> Self {
        Self {
            event_type: &detail.event.event_type,
            aggregate_type: &detail.event.aggregate_type,
            payload: &detail.payload,
            headers: &detail.headers,
        }
    }
}

impl EventDetail {
    /// Returns the attempts that are kept, failed and successful, in their order.
    #[must_use]
    pub fn attempts(&self) -> Vec<&AttemptView> {
        let mut attempts: Vec<&AttemptView> = self.failed_attempts.iter().chain(&self.delivered_attempts).collect();
        attempts.sort_by_key(|attempt| attempt.number);
        attempts
    }
}

impl EventDetail {
    /// Returns a due event without attempts, for stores that tests provide.
    #[doc(hidden)]
    #[must_use]
    pub fn for_tests(event: &StoredEvent) -> Self {
        let view = EventView {
            id: event.id,
            seq: event.seq,
            aggregate_type: event.aggregate_type.clone(),
            aggregate_id: event.aggregate_id.clone(),
            event_type: event.event_type.clone(),
            status: Status::Pending,
            state: State::Due,
            idempotency_key: event.idempotency_key.clone(),
            attempts: event.attempts,
            max_attempts: event.max_attempts,
            claims: event.claims,
            next_attempt_at: Some(event.created_at),
            parked_on: None,
            delivered_at: None,
            error_message: String::new(),
            failed_on: None,
            created_at: event.created_at,
            updated_at: event.created_at,
        };
        let (payload, headers) = (event.payload.clone(), event.headers.clone());
        Self {
            event: view,
            payload,
            headers,
            deliveries: Vec::new(),
            failed_attempts: Vec::new(),
            delivered_attempts: Vec::new(),
        }
    }
}

/// A row of `outbox_delivery`.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs, reason = "the columns of outbox_delivery")]
pub struct DeliveryView {
    pub destination: String,
    pub status: Status,
    pub attempts: u32,
    pub next_attempt_at: Option<DateTime<Utc>>,
    pub delivered_at: Option<DateTime<Utc>>,
    pub error: String,
}

/// A row of `outbox_attempt`.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs, reason = "the columns of outbox_attempt")]
pub struct AttemptView {
    pub number: u32,
    pub destination: String,
    pub attempted_at: DateTime<Utc>,
    pub took_ms: u64,
    pub status_code: Option<u16>,
    pub error: String,
    pub answer: Option<String>,
    /// Whether the attempt succeeded. Then there is no error.
    pub delivered: bool,
}

/// The number of events that are parked on one name.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub struct Parked {
    /// A destination, or `unrouted`.
    pub on: String,
    /// The number of events.
    pub count: u64,
}

/// The events that wait for one destination or for a route, at a bounded cost.
#[derive(Debug, Clone, Serialize, PartialEq)]
#[non_exhaustive]
pub struct Waiting {
    /// A destination, or `unrouted`.
    pub on: String,
    /// The number of events. An event that other destinations have received counts, too.
    pub count: u64,
    /// Whether the count reached its limit: there are at least this many.
    pub at_least: bool,
    /// The age of the oldest event, since its emit.
    #[serde(serialize_with = "as_seconds", rename = "oldest_seconds")]
    pub oldest: Option<Duration>,
}

impl Waiting {
    /// The most names that are counted.
    pub const NAMES: usize = 100;

    /// Creates the entry of a name, for tests and for stores.
    pub fn new(on: impl Into<String>, count: u64, oldest: Option<Duration>) -> Self {
        Self { on: on.into(), count, at_least: false, oldest }
    }
}

/// A relay that has written a heartbeat.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs, reason = "the columns of outbox_relay")]
pub struct RelayView {
    pub id: Uuid,
    pub host: String,
    pub started_at: DateTime<Utc>,
    pub heartbeat_at: DateTime<Utc>,
    pub in_flight: u64,
    pub idle: bool,
    /// The digest of its routes and destinations; `None` if the relay has none.
    pub configuration: Option<String>,
    /// Whether its heartbeat is recent.
    pub alive: bool,
    /// Its last view of its destinations.
    pub lanes: Vec<LaneView>,
}

impl RelayView {
    /// Returns the word for people: `busy`, `idle`, or `silent` without a recent heartbeat.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match (self.alive, self.idle) {
            (false, _) => "silent",
            (true, true) => "idle",
            (true, false) => "busy",
        }
    }
}

/// The number of events per state, and the relays.
#[derive(Debug, Clone, Serialize, Default)]
#[non_exhaustive]
pub struct Counts {
    /// The number of due events that no relay holds.
    pub due: u64,
    /// The number of events that are due later.
    pub scheduled: u64,
    /// The number of events that a relay holds.
    pub sending: u64,
    /// The number of parked events, by the destination or route that they wait for.
    pub parked: Vec<Parked>,
    /// The number of delivered events that are not yet cleaned up.
    pub delivered: u64,
    /// The number of dead letters.
    pub failed: u64,
    /// How long the oldest due event has been due.
    #[serde(serialize_with = "as_seconds", rename = "oldest_due_seconds")]
    pub oldest_due: Option<Duration>,
    /// The relays that have written a heartbeat.
    pub relays: Vec<RelayView>,
}

impl Counts {
    /// Returns the number of pending events, whatever they wait for.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.due + self.scheduled + self.sending + self.parked.iter().map(|parked| parked.count).sum::<u64>()
    }
}

/// The number of waiting events, at a bounded cost. It is meant for metrics that are read all the time.
#[derive(Debug, Clone, Copy, Serialize, Default, PartialEq)]
#[non_exhaustive]
pub struct Depth {
    /// The number of due events that no relay holds, or that a relay holds by a lock.
    pub due: u64,
    /// The number of events that are due later.
    pub scheduled: u64,
    /// The number of events that a relay holds by a lease.
    pub sending: u64,
    /// The number of events that wait for a destination or a route.
    pub parked: u64,
    /// The number of dead letters.
    pub failed: u64,
    /// How long the oldest due event has been due.
    #[serde(serialize_with = "as_seconds", rename = "oldest_due_seconds")]
    pub oldest_due: Option<Duration>,
}

impl Depth {
    /// The limit up to which each count is exact. A larger count is at least this, and is the database's last estimate.
    pub const EXACT: u64 = 10_000;

    /// Combines an exact count and the database's last estimate.
    pub(crate) fn told(counted: u64, once: f64) -> u64 {
        // A count that reached its limit is only a lower bound.
        if counted < Self::EXACT { counted } else { counted.max(once.max(0.0) as u64) }
    }
}

fn as_seconds<S: serde::Serializer>(duration: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    duration.map(|duration| duration.as_secs_f64()).serialize(to)
}

/// A destination that people have paused.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
#[allow(missing_docs, reason = "the columns of outbox_paused")]
pub struct PausedView {
    pub destination: String,
    pub paused_at: DateTime<Utc>,
    pub paused_by: String,
}

/// An action of a person.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
#[allow(missing_docs, reason = "the columns of outbox_audit")]
pub struct AuditView {
    pub id: i64,
    pub done_at: DateTime<Utc>,
    pub who: String,
    pub what: String,
    pub target: String,
    pub events: Option<u64>,
}

/// The operations of people on an outbox. Writes are on disk when a method returns.
#[async_trait]
pub trait Inspect: Send + Sync + 'static {
    /// Returns a page of the events that the filter matches. Its cost is bounded, however many events there are.
    async fn list(&self, filter: &Filter, paging: &Paging) -> Result<Page, StoreError>;

    /// Returns the events that a text names, the newest first: the event with this id, the events with this idempotency key, and
    /// the newest [`SEARCH_LIMIT`](super::SEARCH_LIMIT) events of the aggregates that it may name, delivered ones too. An
    /// aggregate is named by its id (`42`) or by its type and id (`Order 42`, `Order:42`); see [`Search`](super::Search). The
    /// case of the type does not matter. The result says which events were not searched.
    async fn find(&self, text: &str) -> Result<Found, StoreError>;

    /// Returns events of the same aggregate around this event, without it, in the order of `seq`: at most ten of each kind
    /// before and after it. Of delivered events, it returns the ones emitted shortly before or after it.
    async fn neighbours(&self, id: Uuid) -> Result<Vec<EventView>, StoreError>;

    /// Returns the dead letters since `oldest`, by destination and error. It ignores the filter's state.
    async fn dead_letters(&self, filter: &Filter, oldest: DateTime<Utc>) -> Result<DeadLetters, StoreError>;

    /// Returns one event with all its details.
    async fn get(&self, id: Uuid) -> Result<Option<EventDetail>, StoreError>;

    /// Returns the number of events per state, and the relays.
    async fn counts(&self) -> Result<Counts, StoreError>;

    /// Returns the number of waiting events, at a cost that does not grow with it.
    async fn depth(&self) -> Result<Depth, StoreError>;

    /// Returns the events that wait for each destination, and for a route, at a bounded cost: up to [`Waiting::NAMES`] names.
    async fn waiting(&self) -> Result<Vec<Waiting>, StoreError>;

    /// Returns the results of destinations since then, per minute, merged over all relays. They are kept for a day.
    async fn minutes(&self, since: DateTime<Utc>) -> Result<Vec<Minute>, StoreError>;

    /// Returns the relays that have written a heartbeat, and their views of their destinations.
    async fn relays(&self) -> Result<Vec<RelayView>, StoreError>;

    /// Resets attempts, losses and error, and makes the events due now. An event that is being sent is refused. A destination
    /// that has already received an event does not receive it again.
    async fn retry(&self, selection: &Selection, entry: Entry<'_>) -> Result<Vec<(Uuid, Retried)>, StoreError>;

    /// Turns pending events into dead letters, with this reason. An event that is being sent is refused.
    async fn fail(&self, ids: &[Uuid], reason: &str, entry: Entry<'_>) -> Result<Vec<(Uuid, Marked)>, StoreError>;

    /// Emits delivered and failed events again. Each becomes a new event that is due now, with the next replay number in its
    /// key and the header [`REPLAY_OF`](super::REPLAY_OF). It is sent to all its destinations, or to `only` one of them; then it
    /// also has the header [`REPLAY_TO`](super::REPLAY_TO).
    async fn replay(
        &self,
        ids: &[Uuid],
        only: Option<&ToDestination>,
        entry: Entry<'_>,
    ) -> Result<Vec<(Uuid, Replayed)>, StoreError>;

    /// Begins an audit entry for an action in batches. Returns its id for [`Entry::Adding`]. `what` is the verb.
    async fn open_entry(&self, who: &str, what: &str, target: &str) -> Result<i64, StoreError>;

    /// Pauses a destination: no event is sent to it until it is resumed. Relays see the pause within a second. Returns whether
    /// the pause is new.
    async fn pause(&self, destination: &str, who: &str) -> Result<bool, StoreError>;

    /// Ends a pause. Returns whether there was one.
    async fn resume(&self, destination: &str, who: &str) -> Result<bool, StoreError>;

    /// Returns the destinations that people have paused.
    async fn pauses(&self) -> Result<Vec<PausedView>, StoreError>;

    /// Returns the actions of people, the newest first. With `before`, only entries with a lower id.
    async fn audit(&self, before: Option<i64>, limit: usize) -> Result<Vec<AuditView>, StoreError>;

    /// Returns the state of the write-ahead log as the outbox; `None` if it is not enabled, and for stores that have none.
    async fn log(&self) -> Result<Option<LogView>, StoreError> {
        Ok(None)
    }

    /// Returns problems of the database and their fixes.
    async fn examine(&self) -> Result<Vec<Finding>, StoreError>;

    /// Emits in a transaction of its own, for people at a terminal. Applications emit in their own transactions.
    async fn emit(&self, event: Event) -> Result<Emitted, StoreError>;

    /// As [`Inspect::emit`], but returns an existing event with the same type and key (then `is_new` is false).
    async fn emit_once(&self, event: Event) -> Result<Emitted, StoreError>;

    /// As [`Inspect::emit`] or, with `once`, [`Inspect::emit_once`]. A new event gets an audit entry.
    async fn emit_by(&self, who: &str, event: Event, once: bool) -> Result<Emitted, StoreError>;
}
