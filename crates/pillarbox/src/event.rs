//! The event as an application emits it, validated before any statement is sent. `event/stored.rs` is the event as it is read
//! from the table.
//!
//! Pure: no database, no tokio, and no clock but the one inside a new UUID.

use std::collections::BTreeMap;
use std::fmt::Display;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;
use uuid::{Timestamp, Uuid};

use crate::celery::AGGREGATE_TYPE;
use crate::check::{Check, Checked, Violation};

mod json;
mod opaque;
mod stored;

pub(crate) use json::unstorable;
pub use opaque::{InvalidOpaque, JSON, Opaque, PAYLOAD_CONTENT_TYPE};
pub use stored::{Status, StoredEvent};
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) use stored::{read_headers, readable};

/// The longest `aggregate_type` and `aggregate_id`, in characters.
pub const AGGREGATE_LIMIT: usize = 100;
/// The longest `event_type` and `idempotency_key`, in characters.
pub const NAME_LIMIT: usize = 255;
/// The largest payload, in bytes of JSON, unless [`Event::payload_limit`] sets another limit.
pub const PAYLOAD_LIMIT: usize = 1024 * 1024;

/// The furthest that [`Event::deliver_at`] can be ahead: a hundred years.
pub const DELIVER_AT_LIMIT: TimeDelta = TimeDelta::days(36_525);

/// Custom headers and trace context of an event.
pub type Headers = BTreeMap<String, String>;

/// An event to emit: something that happened to an aggregate, for the destinations of its route.
///
/// ```
/// use pillarbox::Event;
/// let event = Event::new("Order", 42, "order.placed")
///     .payload(serde_json::json!({ "total": "19.90" }))
///     .header("tenant", "acme");
/// assert_eq!(event.prepare().unwrap().idempotency_key, "Order:42");
/// ```
#[derive(Debug)]
pub struct Event {
    aggregate_type: String,
    aggregate_id: String,
    event_type: String,
    payload: Result<String, serde_json::Error>,
    payload_limit: usize,
    key: Key,
    headers: Headers,
    max_attempts: Option<u32>,
    deliver_at: Option<DateTime<Utc>>,
    /// Whether it carries a Celery message that one of Pillarbox's own producers wrote.
    is_task: bool,
}

/// A payload that knows the type of its event. With the feature `schemas`, a type that also derives `schemars::JsonSchema`
/// has the schema of its payloads: see `pillarbox::schema`.
pub trait EventType: Serialize {
    /// The type of the aggregate, such as `Order`.
    const AGGREGATE_TYPE: &'static str;
    /// The type of the event, such as `order.placed`.
    const EVENT_TYPE: &'static str;
}

#[derive(Debug)]
enum Key {
    Aggregate,
    Given(String),
    Own,
}

impl Event {
    /// Returns an event of `event_type` about the aggregate `aggregate_type` / `aggregate_id`, with an empty payload.
    ///
    /// Its idempotency key is `{aggregate_type}:{aggregate_id}`, so that an event type is emitted once per aggregate. For an
    /// event that may happen again, see [`Event::repeatable`].
    pub fn new(aggregate_type: impl Into<String>, aggregate_id: impl Display, event_type: impl Into<String>) -> Self {
        Self {
            aggregate_type: aggregate_type.into(),
            aggregate_id: aggregate_id.to_string(),
            event_type: event_type.into(),
            payload: Ok("{}".to_owned()),
            payload_limit: PAYLOAD_LIMIT,
            key: Key::Aggregate,
            headers: Headers::new(),
            max_attempts: None,
            deliver_at: None,
            is_task: false,
        }
    }

    /// Returns an event whose payload is of a type that knows its event type. Otherwise as [`Event::new`].
    ///
    /// ```
    /// use pillarbox::{Event, EventType};
    ///
    /// #[derive(serde::Serialize)]
    /// struct OrderPlaced {
    ///     cents: u64,
    /// }
    ///
    /// impl EventType for OrderPlaced {
    ///     const AGGREGATE_TYPE: &'static str = "Order";
    ///     const EVENT_TYPE: &'static str = "order.placed";
    /// }
    ///
    /// let event = Event::of(42, &OrderPlaced { cents: 1990 });
    /// assert_eq!(event.prepare().unwrap().payload, r#"{"cents":1990}"#);
    /// ```
    pub fn of<T: EventType>(aggregate_id: impl Display, payload: &T) -> Self {
        Self::new(T::AGGREGATE_TYPE, aggregate_id, T::EVENT_TYPE).payload(payload)
    }

    /// Checks the event before it is emitted, without a database. The error is the one of a refused emit.
    ///
    /// # Errors
    /// [`InvalidEvent::Violation`], or the reason why the payload has no JSON.
    pub fn check(&self, check: &dyn Check) -> Result<(), InvalidEvent> {
        let payload = self.payload.as_ref().map_err(|error| {
            // The error has no copy, and it is needed again by `prepare`.
            InvalidEvent::Unserializable(serde::ser::Error::custom(error))
        })?;
        let parts = Checked::new(&self.aggregate_type, &self.aggregate_id, &self.event_type, payload)
            .opaque(self.headers.contains_key(PAYLOAD_CONTENT_TYPE));
        check.check(&parts).map_err(InvalidEvent::Violation)
    }

    /// Returns an event that carries a Celery message. Only such events have [`AGGREGATE_TYPE`](crate::celery::AGGREGATE_TYPE).
    pub(crate) fn task(aggregate_id: String, event_type: String) -> Self {
        Self { is_task: true, ..Self::new(AGGREGATE_TYPE, aggregate_id, event_type).repeatable() }
    }

    /// Sets the payload that receivers get: any value that serialises to JSON. If it does not, `emit` fails.
    #[must_use]
    pub fn payload(mut self, payload: impl Serialize) -> Self {
        self.payload = serde_json::to_string(&payload);
        self.headers.remove(PAYLOAD_CONTENT_TYPE);
        self
    }

    /// Sets the idempotency key, instead of `{aggregate_type}:{aggregate_id}`. It is unique together with the event type.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.key = Key::Given(key.into());
        self
    }

    /// Allows this event type again for the same aggregate: the key is the event's own id, so that no two are duplicates.
    #[must_use]
    pub fn repeatable(mut self) -> Self {
        self.key = Key::Own;
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Sets after how many failed attempts the event is a dead letter; 0 means never. The default is the relay's setting.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// Sets the earliest delivery, by the database's clock. It is at most [`DELIVER_AT_LIMIT`] ahead. A time in the past means
    /// now.
    #[must_use]
    pub fn deliver_at(mut self, moment: DateTime<Utc>) -> Self {
        self.deliver_at = Some(moment);
        self
    }

    /// Sets the limit of this event's payload, in bytes of JSON, instead of [`PAYLOAD_LIMIT`].
    #[must_use]
    pub fn payload_limit(mut self, bytes: usize) -> Self {
        self.payload_limit = bytes;
        self
    }

    /// Checks everything that a database would refuse, and returns the row to write.
    ///
    /// # Errors
    /// Names the invalid field, the reason, and what to do. Nothing has been sent to the database.
    pub fn prepare(self) -> Result<NewEvent, InvalidEvent> {
        let id = Uuid::now_v7();
        let payload = self.payload.map_err(InvalidEvent::Unserializable)?;
        let idempotency_key = match self.key {
            Key::Aggregate => format!("{}:{}", self.aggregate_type, self.aggregate_id),
            Key::Given(key) => key,
            Key::Own => id.to_string(),
        };
        check_text("aggregate_type", &self.aggregate_type, AGGREGATE_LIMIT)?;
        check_text("aggregate_id", &self.aggregate_id, AGGREGATE_LIMIT)?;
        if self.aggregate_type == AGGREGATE_TYPE && !self.is_task {
            return Err(InvalidEvent::Reserved);
        }
        check_text("event_type", &self.event_type, NAME_LIMIT)?;
        check_text("idempotency_key", &idempotency_key, NAME_LIMIT)?;
        if payload.len() > self.payload_limit {
            return Err(InvalidEvent::PayloadTooLarge { bytes: payload.len(), limit: self.payload_limit });
        }
        check_json("payload", &payload)?;
        Self::check_opaque(&self.headers, &payload)?;
        let max_attempts = self
            .max_attempts
            .map(|attempts| i32::try_from(attempts).map_err(|_| InvalidEvent::TooManyAttempts { attempts }))
            .transpose()?;
        let deliver_at = self.deliver_at.map(|moment| check_moment(moment, id)).transpose()?;
        let headers = with_trace_context(self.headers);
        let headers = if headers.is_empty() {
            None
        } else {
            let text = serde_json::to_string(&headers).map_err(InvalidEvent::Unserializable)?;
            check_json("headers", &text)?;
            Some(text)
        };
        Ok(NewEvent {
            id,
            aggregate_type: self.aggregate_type,
            aggregate_id: self.aggregate_id,
            event_type: self.event_type,
            payload,
            headers,
            idempotency_key,
            max_attempts,
            deliver_at,
        })
    }
}

/// A validated event, column by column, ready to be written by any driver.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NewEvent {
    /// A UUID v7, generated by [`Event::prepare`].
    pub id: Uuid,
    /// At most [`AGGREGATE_LIMIT`] characters.
    pub aggregate_type: String,
    /// At most [`AGGREGATE_LIMIT`] characters.
    pub aggregate_id: String,
    /// At most [`NAME_LIMIT`] characters.
    pub event_type: String,
    /// JSON text.
    pub payload: String,
    /// JSON text of an object, if there are headers.
    pub headers: Option<String>,
    /// Unique together with the event type.
    pub idempotency_key: String,
    /// `None` means the relay's setting.
    pub max_attempts: Option<i32>,
    /// `None` means at once.
    pub deliver_at: Option<DateTime<Utc>>,
}

/// The reason why an event is invalid. No database was asked to store it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidEvent {
    /// The payload's `Serialize` failed.
    #[error("the payload cannot be written as JSON: {0}")]
    Unserializable(#[source] serde_json::Error),
    /// A required field is empty.
    #[error("{field} is empty; give it at least one character")]
    Empty {
        /// The name of the field.
        field: &'static str,
    },
    /// A field is too long for its column.
    #[error("{field} has {length} characters, the limit is {limit}; shorten it")]
    TooLong {
        /// The name of the field.
        field: &'static str,
        /// The length in characters.
        length: usize,
        /// The limit in characters.
        limit: usize,
    },
    /// The payload is larger than its limit.
    #[error(
        "the payload has {bytes} bytes of JSON, the limit is {limit}; store the bulk elsewhere and send a reference, or raise Event::payload_limit"
    )]
    PayloadTooLarge {
        /// The size in bytes of JSON.
        bytes: usize,
        /// The limit that applies.
        limit: usize,
    },
    /// A field contains something that a database's text or JSON cannot store.
    #[error("{field} contains {what}, which the database cannot store; remove or encode it (base64, for example)")]
    Unstorable {
        /// The name of the field.
        field: &'static str,
        /// The part that cannot be stored.
        what: &'static str,
    },
    /// The payload is marked as opaque, and is not.
    #[error(transparent)]
    Opaque(InvalidOpaque),
    /// `max_attempts` does not fit its column.
    #[error("max_attempts is {attempts}, the limit is {}; 0 means never give up", i32::MAX)]
    TooManyAttempts {
        /// The requested number.
        attempts: u32,
    },
    /// An ordinary event has the `aggregate_type` of Celery tasks. Its payload could choose the task that workers run.
    #[error(
        "aggregate_type is \"celery\", which is reserved for recorded Celery tasks; choose another, or send a task \
         (pillarbox::celery::send_task in Rust, OutboxCelery in Django)"
    )]
    Reserved,
    /// The event violates a check: see [`Event::check`].
    #[error(transparent)]
    Violation(Violation),
    /// `deliver_at` is further ahead than [`DELIVER_AT_LIMIT`].
    #[error("deliver_at is {deliver_at}, the limit is 100 years from now; choose an earlier moment")]
    TooFarAhead {
        /// The requested time.
        deliver_at: DateTime<Utc>,
    },
    /// A Celery task that no worker could run.
    #[error("the Celery task {task:?} cannot be sent: {why}")]
    Task {
        /// The name of the task; empty when a workflow is empty.
        task: String,
        /// What is wrong with the task, and what to do.
        why: String,
    },
}

fn check_text(field: &'static str, text: &str, limit: usize) -> Result<(), InvalidEvent> {
    let length = text.chars().count();
    if length == 0 {
        Err(InvalidEvent::Empty { field })
    } else if length > limit {
        Err(InvalidEvent::TooLong { field, length, limit })
    } else if text.contains('\0') {
        Err(InvalidEvent::Unstorable { field, what: "a NUL character (U+0000)" })
    } else {
        Ok(())
    }
}

/// Checks `deliver_at` against the clock in the event's id. A time in the past is clamped, because databases refuse some.
fn check_moment(deliver_at: DateTime<Utc>, id: Uuid) -> Result<DateTime<Utc>, InvalidEvent> {
    let (seconds, _) = id.get_timestamp().unwrap_or(Timestamp::from_unix_time(0, 0, 0, 0)).to_unix();
    let now = DateTime::from_timestamp(seconds.cast_signed(), 0).unwrap_or_default();
    if deliver_at.signed_duration_since(now) > DELIVER_AT_LIMIT {
        return Err(InvalidEvent::TooFarAhead { deliver_at });
    }
    Ok(deliver_at.max(DateTime::UNIX_EPOCH))
}

fn check_json(field: &'static str, text: &str) -> Result<(), InvalidEvent> {
    match unstorable(text) {
        Some(what) => Err(InvalidEvent::Unstorable { field, what }),
        None => Ok(()),
    }
}

/// Adds the current trace context to the headers, unless they have one.
#[cfg(feature = "opentelemetry")]
pub(crate) fn with_trace_context(mut headers: Headers) -> Headers {
    use opentelemetry::Context;
    use opentelemetry::trace::TraceContextExt;

    let context = Context::current();
    let span = context.span();
    let span = span.span_context();
    if span.is_valid() && !headers.contains_key("traceparent") {
        let flags = span.trace_flags().to_u8();
        headers.insert("traceparent".to_owned(), format!("00-{}-{}-{flags:02x}", span.trace_id(), span.span_id()));
        let state = span.trace_state().header();
        if !state.is_empty() {
            headers.insert("tracestate".to_owned(), state);
        }
    }
    headers
}

#[cfg(not(feature = "opentelemetry"))]
pub(crate) fn with_trace_context(headers: Headers) -> Headers {
    headers
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    fn refusal(event: Event) -> String {
        event.prepare().unwrap_err().to_string()
    }

    #[test]
    fn the_default_key_names_the_aggregate_and_repeatable_uses_the_id() {
        let event = Event::new("Order", 42, "order.placed").prepare().unwrap();
        assert_eq!(event.idempotency_key, "Order:42");
        assert_eq!(event.payload, "{}");
        assert_eq!(event.id.get_version_num(), 7);
        let event = Event::new("Order", 42, "order.updated").repeatable().prepare().unwrap();
        assert_eq!(event.idempotency_key, event.id.to_string());
    }

    #[test]
    fn lengths_are_counted_in_characters() {
        assert!(Event::new("é".repeat(100), 1, "t").prepare().is_ok());
        assert_eq!(
            refusal(Event::new("é".repeat(101), 1, "t")),
            "aggregate_type has 101 characters, the limit is 100; shorten it"
        );
        assert!(refusal(Event::new("a", 1, "t".repeat(256))).starts_with("event_type has 256"));
        assert!(
            refusal(Event::new("a", 1, "t").idempotency_key("k".repeat(256))).starts_with("idempotency_key has 256")
        );
        assert!(refusal(Event::new("a", "", "t")).starts_with("aggregate_id is empty"));
    }

    #[test]
    fn a_payload_over_the_limit_says_both_sizes() {
        let event = || Event::new("a", 1, "t").payload("x".repeat(PAYLOAD_LIMIT));
        assert!(refusal(event()).contains("has 1048578 bytes of JSON, the limit is 1048576"));
        assert!(event().payload_limit(PAYLOAD_LIMIT + 2).prepare().is_ok());
    }

    #[test]
    fn the_type_of_tasks_is_reserved_for_them() {
        assert!(refusal(Event::new("celery", 1, "t")).contains("reserved for recorded Celery tasks"));
        assert!(Event::new("Celery", 1, "t").prepare().is_ok());
        assert_eq!(Event::task("1".to_owned(), "t".to_owned()).prepare().unwrap().aggregate_type, "celery");
    }

    #[test]
    fn a_moment_that_is_too_far_ahead_is_refused_and_any_past_is_now() {
        let event = |moment| Event::new("a", 1, "t").deliver_at(moment);
        let refused = refusal(event(DateTime::<Utc>::MAX_UTC));
        assert!(refused.contains("the limit is 100 years from now"), "{refused}");
        assert!(event(Utc::now() + DELIVER_AT_LIMIT + TimeDelta::days(1)).prepare().is_err());
        assert!(event(Utc::now() + DELIVER_AT_LIMIT - TimeDelta::days(1)).prepare().is_ok());
        let past = event(DateTime::<Utc>::MIN_UTC).prepare().unwrap();
        assert_eq!(past.deliver_at, Some(DateTime::UNIX_EPOCH));
    }

    #[test]
    fn what_jsonb_cannot_hold_is_refused() {
        assert!(refusal(Event::new("a", 1, "t").payload("a\0b")).contains("payload contains a NUL"));
        assert!(refusal(Event::new("a", 1, "t").payload([("k\0", 1)])).contains("payload contains a NUL"));
        assert!(refusal(Event::new("a", 1, "t").header("h", "\0")).contains("headers contains a NUL"));
        assert!(refusal(Event::new("a\0", 1, "t")).contains("aggregate_type contains a NUL"));
        let raw = |text: &str| Event::new("a", 1, "t").payload(RawValue::from_string(text.to_owned()).unwrap());
        assert!(refusal(raw(r#""\ud800""#)).contains("half of a surrogate pair"));
        assert!(raw(r#""\ud83d\ude00 \\u0000 \u00e9""#).prepare().is_ok());
    }

    #[test]
    fn a_payload_that_does_not_serialise_is_an_error_of_emit() {
        let by_pair = BTreeMap::from([((1, 2), "tuples are no JSON keys")]);
        assert!(refusal(Event::new("a", 1, "t").payload(by_pair)).starts_with("the payload cannot be written as JSON"));
    }
}
