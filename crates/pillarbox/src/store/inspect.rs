//! People's side of an outbox: look, count, retry.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::emit::Emitted;
use crate::error::StoreError;
use crate::event::{Event, Headers, Status, StoredEvent};
use crate::store::act::{Entry, Marked, Replayed, Retried, Selection};
use crate::store::dead_letters::DeadLetters;
use crate::store::examine::Finding;
use crate::store::figures::{LaneView, Minute};
use crate::store::list::{Filter, Page, Turn};

/// Where an event is, as people ask for it: finer than [`Status`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Not delivered, for whatever reason.
    Pending,
    /// Due, and nobody has it yet.
    Due,
    /// To be sent later: a delayed event or a retry.
    Scheduled,
    /// A relay has it.
    Sending,
    /// It waits for a destination, or for a route.
    Parked,
    /// All destinations have it.
    Delivered,
    /// A dead letter.
    Failed,
}

impl State {
    /// All of them, for help texts.
    pub const ALL: [Self; 7] =
        [Self::Pending, Self::Due, Self::Scheduled, Self::Sending, Self::Parked, Self::Delivered, Self::Failed];

    /// As people write it.
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

    /// The status of events in this state.
    #[must_use]
    pub fn status(self) -> Status {
        match self {
            Self::Pending | Self::Due | Self::Scheduled | Self::Sending | Self::Parked => Status::Pending,
            Self::Delivered => Status::Delivered,
            Self::Failed => Status::Failed,
        }
    }

    /// `None` when there is no such state.
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
    /// Finer than the status.
    pub state: State,
    pub idempotency_key: String,
    pub attempts: u32,
    pub max_attempts: Option<u32>,
    pub claims: u32,
    pub next_attempt_at: Option<DateTime<Utc>>,
    pub parked_on: Option<String>,
    pub delivered_at: Option<DateTime<Utc>>,
    pub error_message: String,
    /// Of a dead letter: the destination that did not get it.
    pub failed_on: Option<String>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

/// Everything there is to know of one event.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct EventDetail {
    /// Its row.
    #[serde(flatten)]
    pub event: EventView,
    /// As the database gives it.
    pub payload: Box<RawValue>,
    /// Trace context and custom headers.
    pub headers: Headers,
    /// Its destinations, if it is a fan-out that did not succeed at once.
    pub deliveries: Vec<DeliveryView>,
    /// Its failed attempts, oldest first, as far as they are kept.
    pub failed_attempts: Vec<AttemptView>,
}

impl EventDetail {
    /// An event that is due and was never tried: for stores that tests bring along.
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
        Self { event: view, payload, headers, deliveries: Vec::new(), failed_attempts: Vec::new() }
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
}

/// How many wait for what.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub struct Parked {
    /// A destination, or `unrouted`.
    pub on: String,
    /// Events.
    pub count: u64,
}

/// A relay that has said that it lives.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs, reason = "the columns of outbox_relay")]
pub struct RelayView {
    pub id: Uuid,
    pub host: String,
    pub started_at: DateTime<Utc>,
    pub heartbeat_at: DateTime<Utc>,
    pub in_flight: u64,
    pub idle: bool,
    /// Its heartbeat is recent.
    pub alive: bool,
    /// Its destinations, as it found them last.
    pub lanes: Vec<LaneView>,
}

/// The outbox in numbers.
#[derive(Debug, Clone, Serialize, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Due, and nobody has them.
    pub due: u64,
    /// To be sent later.
    pub scheduled: u64,
    /// A relay has them.
    pub sending: u64,
    /// Waiting for a destination or a route, by what for.
    pub parked: Vec<Parked>,
    /// Delivered and not yet cleaned up.
    pub delivered: u64,
    /// Dead letters.
    pub failed: u64,
    /// How long the oldest due event has been due.
    #[serde(serialize_with = "as_seconds", rename = "oldest_due_seconds")]
    pub oldest_due: Option<Duration>,
    /// Those that have said that they live.
    pub relays: Vec<RelayView>,
}

impl Counts {
    /// Not delivered yet, whatever they wait for.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.due + self.scheduled + self.sending + self.parked.iter().map(|parked| parked.count).sum::<u64>()
    }
}

/// What waits, as far as that can be told at once however much it is: for figures that are looked at all the time.
#[derive(Debug, Clone, Copy, Serialize, Default, PartialEq)]
#[non_exhaustive]
pub struct Depth {
    /// Due, and nobody has them, or only by a lock.
    pub due: u64,
    /// To be sent later.
    pub scheduled: u64,
    /// A relay has them, by a lease.
    pub sending: u64,
    /// Waiting for a destination or a route.
    pub parked: u64,
    /// Dead letters.
    pub failed: u64,
    /// How long the oldest due event has been due.
    #[serde(serialize_with = "as_seconds", rename = "oldest_due_seconds")]
    pub oldest_due: Option<Duration>,
}

impl Depth {
    /// What is counted exactly, each; beyond that it is about as much as the database last knew of, and at least this.
    pub const EXACT: u64 = 10_000;

    /// So many were counted, and so many were there once.
    pub(crate) fn told(counted: u64, once: f64) -> u64 {
        // A count that ran into its limit says no more than that.
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

/// Something that people did.
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

/// People's side of an outbox. What it writes is on disk when it answers.
#[async_trait]
pub trait Inspect: Send + Sync + 'static {
    /// A page of what the filter finds. Its cost has a bound, however many events there are.
    async fn list(&self, filter: &Filter, turn: &Turn) -> Result<Page, StoreError>;

    /// Events with exactly this id, idempotency key or aggregate id, the newest first. Of an aggregate, what is not delivered, and
    /// what was, as far as it is among the newest.
    async fn find(&self, text: &str) -> Result<Vec<EventView>, StoreError>;

    /// Events of the same aggregate around this one, itself left out, in the order of `seq`: ten at most of each kind before and
    /// behind it, and of what was delivered those that were emitted not long before or after it.
    async fn neighbours(&self, id: Uuid) -> Result<Vec<EventView>, StoreError>;

    /// What failed at this moment or later, by destination and error; whatever state the filter says, they are failed ones.
    async fn dead_letters(&self, filter: &Filter, oldest: DateTime<Utc>) -> Result<DeadLetters, StoreError>;

    /// One event with all that is kept of it.
    async fn get(&self, id: Uuid) -> Result<Option<EventDetail>, StoreError>;

    /// The outbox in numbers.
    async fn counts(&self) -> Result<Counts, StoreError>;

    /// What waits, at a cost that does not grow with it.
    async fn depth(&self) -> Result<Depth, StoreError>;

    /// What destinations did since then, minute by minute, all relays together; kept for a day.
    async fn minutes(&self, since: DateTime<Utc>) -> Result<Vec<Minute>, StoreError>;

    /// The relays that have said that they live, and how they find their destinations.
    async fn relays(&self) -> Result<Vec<RelayView>, StoreError>;

    /// Sets attempts, losses and error back and makes the events due now. One that is being sent is refused, and a
    /// destination that has an event already does not get it again.
    async fn retry(&self, selection: &Selection, entry: Entry<'_>) -> Result<Vec<(Uuid, Retried)>, StoreError>;

    /// Makes dead letters of pending events, for this reason. One that is being sent is refused.
    async fn fail(&self, ids: &[Uuid], reason: &str, entry: Entry<'_>) -> Result<Vec<(Uuid, Marked)>, StoreError>;

    /// Emits delivered and failed events once more: each as a new event that is due now, of the next generation of its key, and
    /// with the header [`REPLAY_OF`](super::REPLAY_OF). All its destinations get it.
    async fn replay(&self, ids: &[Uuid], entry: Entry<'_>) -> Result<Vec<(Uuid, Replayed)>, StoreError>;

    /// Begins a line of the audit for what is done in batches, and answers its id for [`Entry::Adding`]. `what` is the verb.
    async fn open_entry(&self, who: &str, what: &str, target: &str) -> Result<i64, StoreError>;

    /// Nothing is sent to this destination until it is resumed; relays heed it within a second. Answers whether that is
    /// new.
    async fn pause(&self, destination: &str, who: &str) -> Result<bool, StoreError>;

    /// Ends a pause. Answers whether there was one.
    async fn resume(&self, destination: &str, who: &str) -> Result<bool, StoreError>;

    /// What people have paused.
    async fn pauses(&self) -> Result<Vec<PausedView>, StoreError>;

    /// What people did, the newest first, before an id if one is given.
    async fn audit(&self, before: Option<i64>, limit: usize) -> Result<Vec<AuditView>, StoreError>;

    /// What may be wrong with the database, and what to do about it.
    async fn examine(&self) -> Result<Vec<Finding>, StoreError>;

    /// Emits in a transaction of its own: for people at a terminal. Applications emit in theirs.
    async fn emit(&self, event: Event) -> Result<Emitted, StoreError>;

    /// As [`Inspect::emit`], or answers the event with its type and key that exists already (`is_new` is false then).
    async fn emit_once(&self, event: Event) -> Result<Emitted, StoreError>;

    /// As [`Inspect::emit`] or, with `once`, [`Inspect::emit_once`], with a line of the audit for an event that is new.
    async fn emit_by(&self, who: &str, event: Event, once: bool) -> Result<Emitted, StoreError>;
}
