//! Events in the API's responses.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use pillarbox::store::{DeliveryView, EventView, Found, Page};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::asked::StateName;
use crate::desk::{EventStory, Kept, Moment, What};

/// A page of events
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EventPage {
    events: Vec<EventSummary>,
    /// `cursor` of the next page; missing on the last page
    next: Option<String>,
    /// `before` of the previous page; missing on the first page
    previous: Option<String>,
    /// The number of events that were searched for this page
    looked_at: u64,
    /// The time that the search reached, in the list's order
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
    /// The position in the order of emits
    seq: i64,
    aggregate_type: String,
    aggregate_id: String,
    event_type: String,
    state: StateName,
    idempotency_key: String,
    /// The number of failed attempts; kept when the event is delivered
    attempts: u32,
    /// 0 means no limit; without it, the relay's setting counts
    max_attempts: Option<u32>,
    next_attempt_at: Option<DateTime<Utc>>,
    /// The destination that the event waits for, or `unrouted`
    parked_on: Option<String>,
    /// For a dead letter: the destination that the delivery failed on
    failed_on: Option<String>,
    delivered_at: Option<DateTime<Utc>>,
    /// The last error; empty if there is none
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
            previous: page.previous.map(|cursor| cursor.to_string()),
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

/// The events that a text names
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FoundEvents {
    events: Vec<EventSummary>,
    /// Of delivered events emitted before this time, only those with a matching id or idempotency key were found; `null` if
    /// all events were searched
    unseen_before: Option<DateTime<Utc>>,
    /// The seconds for which delivered events are kept, and can be found; 0 if they are deleted on delivery, `null` if unknown
    delivered_kept_seconds: Option<u64>,
}

impl FoundEvents {
    pub(crate) fn new(found: Found, kept: Option<Kept>) -> Self {
        Self {
            events: found.events.into_iter().map(EventSummary::from).collect(),
            unseen_before: found.unseen.map(|unseen| unseen.delivered_before),
            delivered_kept_seconds: kept.map(|kept| match kept {
                Kept::For(kept) => kept.as_secs(),
                Kept::UntilDelivered => 0,
            }),
        }
    }
}

/// An event with all details
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EventFull {
    event: EventSummary,
    /// The payload as it is stored, with masked values hidden; `null` if it is opaque
    #[schema(value_type = serde_json::Value)]
    payload: Box<RawValue>,
    /// The payload, if it is opaque: bytes that are not shown as JSON
    #[serde(skip_serializing_if = "Option::is_none")]
    opaque_payload: Option<OpaquePayload>,
    headers: BTreeMap<String, String>,
    /// The destinations that the event is routed to; `null` if no route matches
    goes_to: Option<Vec<String>>,
    /// The id of the trace in which the event was emitted
    trace_id: Option<String>,
    /// The event of which this is a replay
    replay_of: Option<String>,
    /// The only destination of this replay; missing if it is for all
    replay_to: Option<String>,
    /// The deliveries of a fan-out that did not succeed at once
    deliveries: Vec<Delivery>,
    /// The history, oldest first, and the next step
    timeline: Vec<Happened>,
    /// The requests to HTTP destinations as `curl` commands, without secrets
    requests: Vec<CurlCommand>,
}

/// A payload of bytes. `/events/{id}/payload` returns all of them
#[derive(Debug, Serialize, ToSchema)]
struct OpaquePayload {
    /// `application/x-protobuf`
    content_type: String,
    /// The number of bytes; missing if the payload cannot be read
    size: Option<usize>,
    /// The first 256 bytes as a hexadecimal dump; missing if values of payloads are masked
    hex: Option<String>,
    /// The reason why the payload cannot be read
    problem: Option<String>,
}

/// One delivery of a fan-out
#[derive(Debug, Serialize, ToSchema)]
struct Delivery {
    destination: String,
    /// `pending`, `delivered` or `failed`
    status: String,
    attempts: u32,
    next_attempt_at: Option<DateTime<Utc>>,
    delivered_at: Option<DateTime<Utc>>,
    /// The last error; empty if there is none
    error: String,
}

/// A request to try by hand
#[derive(Debug, Serialize, ToSchema)]
struct CurlCommand {
    destination: String,
    command: String,
}

/// One step of an event's history, or the next one
#[derive(Debug, Serialize, ToSchema)]
struct Happened {
    at: DateTime<Utc>,
    what: HappenedName,
    destination: Option<String>,
    /// The number of the attempt
    number: Option<u32>,
    took_ms: Option<u64>,
    status_code: Option<u16>,
    error: Option<String>,
    /// The beginning of the receiver's response
    answer: Option<String>,
}

#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum HappenedName {
    /// The application's transaction was committed
    Committed,
    /// An attempt failed
    Failed,
    /// An attempt succeeded. Recorded with `relay.record_attempts = "all"` only
    Succeeded,
    /// One of several destinations received it
    DeliveredTo,
    /// All destinations received it
    Delivered,
    /// It became a dead letter
    GivenUp,
    /// It waits for a destination or a route
    Parked,
    /// The time of the next attempt
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
            What::Succeeded { number, destination, took_ms, status_code } => Self {
                destination: Some(destination),
                number: Some(number),
                took_ms: Some(took_ms),
                status_code,
                ..bare(HappenedName::Succeeded)
            },
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
            payload: if shown.opaque.is_some() { Box::default() } else { shown.detail.payload },
            opaque_payload: shown.opaque.map(|opaque| OpaquePayload {
                content_type: opaque.content_type,
                size: opaque.size,
                hex: opaque.hex,
                problem: opaque.problem,
            }),
            headers: shown.detail.headers,
            goes_to: shown.goes_to,
            trace_id: shown.trace_id,
            replay_of: shown.replay_of,
            replay_to: shown.replay_to,
            deliveries: shown.detail.deliveries.into_iter().map(delivery).collect(),
            timeline: shown.timeline.into_iter().map(Happened::from).collect(),
            requests: requests
                .map(|request| CurlCommand { destination: request.destination, command: request.command })
                .collect(),
        }
    }
}
