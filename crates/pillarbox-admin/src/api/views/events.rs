//! Events as the API answers them.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use pillarbox::store::{DeliveryView, EventView, Page};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::asked::StateName;
use crate::desk::{EventStory, Moment, What};

/// A page of events
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EventPage {
    events: Vec<EventSummary>,
    /// `cursor` of the next page; without it this was the last one
    next: Option<String>,
    /// How many events were looked at for this page
    looked_at: u64,
    /// How far that led, in the time by which the list is ordered
    reached: Option<DateTime<Utc>>,
}

/// Events
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Events {
    events: Vec<EventSummary>,
}

/// An event in a list
#[derive(Debug, Serialize, ToSchema)]
struct EventSummary {
    id: Uuid,
    /// In the order of emits
    seq: i64,
    aggregate_type: String,
    aggregate_id: String,
    event_type: String,
    state: StateName,
    idempotency_key: String,
    /// That failed
    attempts: u32,
    /// 0 means no limit; without it the relay's counts
    max_attempts: Option<u32>,
    next_attempt_at: Option<DateTime<Utc>>,
    /// The destination that it waits for, or `unrouted`
    parked_on: Option<String>,
    /// Of a dead letter: the destination that did not get it
    failed_on: Option<String>,
    delivered_at: Option<DateTime<Utc>>,
    /// Empty when there is none
    error: String,
    created_at: DateTime<Utc>,
    updated_at: DateTime<Utc>,
}

impl From<EventView> for EventSummary {
    fn from(event: EventView) -> Self {
        Self {
            id: event.id,
            seq: event.seq,
            aggregate_type: event.aggregate_type,
            aggregate_id: event.aggregate_id,
            event_type: event.event_type,
            state: event.state.into(),
            idempotency_key: event.idempotency_key,
            attempts: event.attempts,
            max_attempts: event.max_attempts,
            next_attempt_at: event.next_attempt_at,
            parked_on: event.parked_on,
            failed_on: event.failed_on,
            delivered_at: event.delivered_at,
            error: event.error_message,
            created_at: event.created_at,
            updated_at: event.updated_at,
        }
    }
}

impl From<Page> for EventPage {
    fn from(page: Page) -> Self {
        Self {
            events: page.events.into_iter().map(EventSummary::from).collect(),
            next: page.next.map(|cursor| cursor.to_string()),
            looked_at: page.looked_at,
            reached: page.reached,
        }
    }
}

impl From<Vec<EventView>> for Events {
    fn from(events: Vec<EventView>) -> Self {
        Self { events: events.into_iter().map(EventSummary::from).collect() }
    }
}

/// An event with all that is known of it
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EventFull {
    event: EventSummary,
    /// As it is stored but for what is masked
    #[schema(value_type = serde_json::Value)]
    payload: Box<RawValue>,
    headers: BTreeMap<String, String>,
    /// The destinations that it is routed to; `null` when no route matches
    goes_to: Option<Vec<String>>,
    /// Of the trace that it was emitted in
    trace_id: Option<String>,
    /// The event that it repeats
    replay_of: Option<String>,
    /// Of a fan-out that did not succeed at once
    deliveries: Vec<Delivery>,
    /// What happened to it, the oldest first, and what comes next
    timeline: Vec<Happened>,
    /// Its requests to HTTP destinations as `curl` commands, without secrets
    requests: Vec<CurlCommand>,
}

/// A destination of a fan-out
#[derive(Debug, Serialize, ToSchema)]
struct Delivery {
    destination: String,
    /// `pending`, `delivered` or `failed`
    status: String,
    attempts: u32,
    next_attempt_at: Option<DateTime<Utc>>,
    delivered_at: Option<DateTime<Utc>>,
    /// Empty when there is none
    error: String,
}

/// A request that can be tried by hand
#[derive(Debug, Serialize, ToSchema)]
struct CurlCommand {
    destination: String,
    command: String,
}

/// Something that happened to an event, or will
#[derive(Debug, Serialize, ToSchema)]
struct Happened {
    at: DateTime<Utc>,
    what: HappenedName,
    destination: Option<String>,
    /// Of the attempt
    number: Option<u32>,
    took_ms: Option<u64>,
    status_code: Option<u16>,
    error: Option<String>,
    /// A piece of what the receiver answered
    answer: Option<String>,
}

#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum HappenedName {
    /// Its transaction was committed
    Committed,
    /// An attempt failed
    Failed,
    /// One of its destinations has it
    DeliveredTo,
    /// All of its destinations have it
    Delivered,
    /// It is a dead letter
    GivenUp,
    /// It waits for a destination or a route
    Parked,
    /// When it is tried next
    Next,
}

impl From<Moment> for Happened {
    fn from(Moment { at, what }: Moment) -> Self {
        let bare = |what| Self {
            at,
            what,
            destination: None,
            number: None,
            took_ms: None,
            status_code: None,
            error: None,
            answer: None,
        };
        match what {
            What::Committed => bare(HappenedName::Committed),
            What::Delivered => bare(HappenedName::Delivered),
            What::Next => bare(HappenedName::Next),
            What::GivenUp { error } => Self { error: Some(error), ..bare(HappenedName::GivenUp) },
            What::DeliveredTo { destination } => {
                Self { destination: Some(destination), ..bare(HappenedName::DeliveredTo) }
            }
            What::Parked { on, error } => {
                Self { destination: Some(on), error: Some(error), ..bare(HappenedName::Parked) }
            }
            What::Failed { number, destination, took_ms, status_code, error, answer } => Self {
                destination: Some(destination),
                number: Some(number),
                took_ms: Some(took_ms),
                status_code,
                error: Some(error),
                answer,
                ..bare(HappenedName::Failed)
            },
        }
    }
}

impl From<EventStory> for EventFull {
    fn from(shown: EventStory) -> Self {
        let delivery = |delivery: DeliveryView| Delivery {
            destination: delivery.destination,
            status: delivery.status.to_string(),
            attempts: delivery.attempts,
            next_attempt_at: delivery.next_attempt_at,
            delivered_at: delivery.delivered_at,
            error: delivery.error,
        };
        let requests = shown.requests.into_iter();
        Self {
            event: shown.detail.event.into(),
            payload: shown.detail.payload,
            headers: shown.detail.headers,
            goes_to: shown.goes_to,
            trace_id: shown.trace_id,
            replay_of: shown.replay_of,
            deliveries: shown.detail.deliveries.into_iter().map(delivery).collect(),
            timeline: shown.timeline.into_iter().map(Happened::from).collect(),
            requests: requests
                .map(|request| CurlCommand { destination: request.destination, command: request.command })
                .collect(),
        }
    }
}
