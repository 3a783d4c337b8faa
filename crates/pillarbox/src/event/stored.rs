//! The event as it is read from the table: routes, sinks and handlers see this form. Pure, like the event that is emitted.

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::Headers;

/// The status of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// To be delivered now, later, or when its destination is back.
    Pending,
    /// Every destination has confirmed it.
    Delivered,
    /// A dead letter. Only a person makes it due again.
    Failed,
}

impl Status {
    /// Returns the status as it is written in the table.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }
}

impl Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Status {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Pending, Self::Delivered, Self::Failed]
            .into_iter()
            .find(|status| status.as_str() == text)
            .ok_or_else(|| format!("{text:?} is not a status; choose one of: pending, delivered, failed"))
    }
}

/// The event as a claim reads it from the table. Routes, sinks and handlers see this form.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct StoredEvent {
    /// The id that receivers get with every delivery.
    pub id: Uuid,
    /// The database's order of insertion.
    pub seq: i64,
    /// The type of the aggregate, such as `Order`.
    pub aggregate_type: String,
    /// The id of the aggregate, such as `42`.
    pub aggregate_id: String,
    /// The type of the event, such as `order.placed`.
    pub event_type: String,
    /// JSON, as the database returns it.
    pub payload: Box<RawValue>,
    /// Trace context and custom headers.
    pub headers: Headers,
    /// Unique together with the event type.
    pub idempotency_key: String,
    /// The number of failed attempts so far.
    pub attempts: u32,
    /// `None` means the relay's setting, 0 means no limit.
    pub max_attempts: Option<u32>,
    /// The number of lost claims.
    pub claims: u32,
    /// When it was emitted, by the database's clock.
    pub created_at: DateTime<Utc>,
}

impl StoredEvent {
    /// Returns an event about `Order` / `42` that was never in a table, for tests of sinks.
    ///
    /// # Panics
    /// If the payload is not JSON.
    #[doc(hidden)]
    #[must_use]
    pub fn for_tests(event_type: &str, payload: &str) -> Self {
        Self {
            id: Uuid::now_v7(),
            seq: 1,
            aggregate_type: "Order".to_owned(),
            aggregate_id: "42".to_owned(),
            event_type: event_type.to_owned(),
            payload: RawValue::from_string(payload.to_owned()).expect("a test's payload is JSON"),
            headers: Headers::new(),
            idempotency_key: "Order:42".to_owned(),
            attempts: 0,
            max_attempts: None,
            claims: 0,
            created_at: Utc::now(),
        }
    }

    /// Returns a recorded Celery message as it would be claimed, for tests of sinks.
    #[doc(hidden)]
    #[must_use]
    pub fn task_for_tests(event_type: &str, payload: &str) -> Self {
        Self { aggregate_type: crate::celery::AGGREGATE_TYPE.to_owned(), ..Self::for_tests(event_type, payload) }
    }

    /// Deserialises the payload.
    ///
    /// # Errors
    /// If the JSON does not fit the type.
    pub fn payload_as<'a, T: serde::Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.payload.get())
    }
}

/// Reads headers from the table. A value that is not text, written by another language, stays as its JSON.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) fn read_headers(text: Option<&str>) -> Headers {
    let object: BTreeMap<String, serde_json::Value> =
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    object
        .into_iter()
        .map(|(name, value)| match value {
            serde_json::Value::String(text) => (name, text),
            other => (name, other.to_string()),
        })
        .collect()
}

/// Clamps a time to the years 1 to 9999, which every reader of RFC 3339 can read.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) fn readable(moment: DateTime<Utc>) -> DateTime<Utc> {
    const YEARS_1_TO_9999: (i64, i64) = (-62_135_596_800, 253_402_300_799);
    let (first, last) = YEARS_1_TO_9999;
    DateTime::from_timestamp(moment.timestamp().clamp(first, last), moment.timestamp_subsec_nanos()).unwrap_or_default()
}
