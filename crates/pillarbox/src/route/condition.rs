//! Conditions of routes on the payload of an event. Pure.

use std::cell::OnceCell;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::event::{Headers, PAYLOAD_CONTENT_TYPE, StoredEvent};

/// A condition of a route on the payload of an event. It has a text for people, by which relays also compare their routes.
///
/// ```
/// use pillarbox::route::Condition;
/// use pillarbox::Route;
///
/// let large = Condition::new("total > 100", |payload| payload["total"].as_f64().is_some_and(|total| total > 100.0));
/// let route = Route::new("order.*", ["audit"]).when(large);
/// ```
#[derive(Clone)]
pub struct Condition {
    text: Arc<str>,
    holds: Arc<dyn Fn(&Value) -> bool + Send + Sync>,
}

impl Condition {
    /// Returns a condition with this text. The function must be pure: the same payload always gives the same answer, in every
    /// relay.
    pub fn new(text: impl Into<Arc<str>>, holds: impl Fn(&Value) -> bool + Send + Sync + 'static) -> Self {
        Self { text: text.into(), holds: Arc::new(holds) }
    }

    /// Returns the condition as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether the condition holds for this payload.
    #[must_use]
    pub fn holds(&self, payload: &Value) -> bool {
        (self.holds)(payload)
    }
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Condition").field(&self.text).finish()
    }
}

/// The parts of an event by which routes decide.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// `order.placed`
    pub event_type: &'a str,
    /// `Order`
    pub aggregate_type: &'a str,
    /// The payload as it is stored.
    pub payload: &'a RawValue,
    /// The headers, which mark an opaque payload.
    pub headers: &'a Headers,
}

impl<'a> From<&'a StoredEvent> for Subject<'a> {
    fn from(event: &'a StoredEvent) -> Self {
        Self {
            event_type: &event.event_type,
            aggregate_type: &event.aggregate_type,
            payload: &event.payload,
            headers: &event.headers,
        }
    }
}

/// An event while routes are tried. Its payload is parsed once, and only if a condition asks for it.
pub(super) struct Tried<'a> {
    pub(super) subject: Subject<'a>,
    payload: OnceCell<Option<Value>>,
}

impl<'a> Tried<'a> {
    pub(super) fn new(subject: Subject<'a>) -> Self {
        Self { subject, payload: OnceCell::new() }
    }

    /// Returns whether a condition holds. None holds for an opaque payload, or for JSON that cannot be parsed (it is nested too
    /// deeply, or a number is too large).
    pub(super) fn meets(&self, condition: &Condition) -> bool {
        let parse = || {
            let is_opaque = self.subject.headers.contains_key(PAYLOAD_CONTENT_TYPE);
            if is_opaque { None } else { serde_json::from_str(self.subject.payload.get()).ok() }
        };
        self.payload.get_or_init(parse).as_ref().is_some_and(|payload| condition.holds(payload))
    }
}
