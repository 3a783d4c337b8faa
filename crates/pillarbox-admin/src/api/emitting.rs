//! Emit through the API: as `pillarbox emit`, in a transaction of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{AppendHeaders, IntoResponse, Response};
use chrono::{DateTime, Utc};
use pillarbox::Event;
use pillarbox::event::PAYLOAD_CONTENT_TYPE;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use uuid::Uuid;

use super::problem::Undone;
use crate::access::Operator;
use crate::asked::Body;
use crate::desk::Desk;
use crate::refusal::Refusal;

/// An event to emit
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewEvent {
    /// The type of the aggregate: `Order`
    #[schema(min_length = 1, max_length = 100)]
    aggregate_type: String,
    /// The id of the aggregate: `42`
    #[schema(min_length = 1, max_length = 100)]
    aggregate_id: String,
    /// The type of the event: `order.placed`
    #[schema(min_length = 1, max_length = 255)]
    event_type: String,
    /// The payload, as JSON; `{}` by default
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = serde_json::Value)]
    payload: Option<Box<RawValue>>,
    /// Instead of `payload`: bytes as base64, which receivers get as they are. Needs `content_type`
    payload_base64: Option<String>,
    /// The type of the bytes: `application/x-protobuf`
    #[schema(min_length = 3, max_length = 255)]
    content_type: Option<String>,
    /// Headers that are sent with the event
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Unique per event type; by default `AGGREGATE_TYPE:AGGREGATE_ID`
    #[schema(min_length = 1, max_length = 255)]
    idempotency_key: Option<String>,
    /// Whether the event may happen again to the same aggregate: the idempotency key is then the event's own id
    #[serde(default)]
    repeatable: bool,
    /// Whether an existing event with this key is returned instead of an error
    #[serde(default)]
    once: bool,
    /// The number of failed attempts after which the event becomes a dead letter; 0 means no limit
    #[schema(maximum = 2147483647)]
    max_attempts: Option<u32>,
    /// The earliest time of delivery
    deliver_at: Option<DateTime<Utc>>,
}

/// Reads JSON that was given, `null` included.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    <Box<RawValue>>::deserialize(deserializer).map(Some)
}

impl NewEvent {
    fn into_event(self) -> Result<Event, Refusal> {
        if self.repeatable && (self.once || self.idempotency_key.is_some()) {
            let what = "repeatable cannot be combined with idempotency_key or once; leave them out, or repeatable";
            return Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, what));
        }
        let event = Event::new(self.aggregate_type, self.aggregate_id, self.event_type);
        let mut event = match (self.payload, self.payload_base64, self.content_type) {
            (None, None, None) => event,
            (Some(payload), None, None) => event.payload(payload),
            // Emit checks both the base64 and the content type.
            (None, Some(base64), Some(kind)) => event.payload(base64).header(PAYLOAD_CONTENT_TYPE, kind),
            _ => {
                let what = "give payload alone, or payload_base64 and content_type together";
                return Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, what));
            }
        };
        if let Some(key) = self.idempotency_key {
            event = event.idempotency_key(key);
        }
        if self.repeatable {
            event = event.repeatable();
        }
        for (name, value) in self.headers {
            event = event.header(name, value);
        }
        if let Some(attempts) = self.max_attempts {
            event = event.max_attempts(attempts);
        }
        if let Some(moment) = self.deliver_at {
            event = event.deliver_at(moment);
        }
        Ok(event)
    }
}

/// The event that was emitted
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EmittedEvent {
    id: Uuid,
    /// Missing for an event in PostgreSQL's write-ahead log, which has no row
    seq: Option<i64>,
    event_type: String,
    idempotency_key: String,
    created_at: DateTime<Utc>,
    /// Whether the event is new; otherwise it existed already
    is_new: bool,
}

/// Emit one event
#[utoipa::path(
    post, path = "/events", tag = "events", request_body = NewEvent,
    responses(
        (status = 201, body = EmittedEvent, description = "Emitted"),
        (status = 200, body = EmittedEvent, description = "With `once`: the event existed already"),
        Undone
    )
)]
pub(super) async fn emit(
    Operator(who): Operator,
    State(desk): State<Arc<Desk>>,
    Body(body): Body<NewEvent>,
) -> Result<Response, Refusal> {
    let once = body.once;
    let emitted = desk.emit(body.into_event()?, once, &who.name).await?;
    let view = EmittedEvent {
        id: emitted.id,
        seq: emitted.seq,
        event_type: emitted.event_type,
        idempotency_key: emitted.idempotency_key,
        created_at: emitted.created_at,
        is_new: emitted.is_new,
    };
    if !view.is_new {
        return Ok(Json(view).into_response());
    }
    // An event in the write-ahead log has no page.
    let place = view.seq.map(|_| [(LOCATION, format!("{}/events/{}", super::BASE, view.id))]);
    Ok((StatusCode::CREATED, place.map(AppendHeaders), Json(view)).into_response())
}
