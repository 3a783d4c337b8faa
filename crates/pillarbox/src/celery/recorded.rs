//! The stored form of a Celery message, in the payload of its event. All producers, in any language, write this one form. It
//! has a version, so that a relay never guesses.
//!
//! The body is text that is never serialised again, so that a database can neither reorder nor round its contents. Headers and
//! properties keep their JSON.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use super::AGGREGATE_TYPE;
use super::fields::{Fields, Object, Text, text};
use crate::event::StoredEvent;

/// The version of the form that this program writes and reads.
pub const VERSION: u32 = 1;

/// A message for a Celery worker as a producer recorded it, complete except for parts that depend on the time of sending.
///
/// ```
/// use pillarbox::celery::{Body, Recorded};
/// let mut message = Recorded::new(Body::Text(r#"[[42], {}, {}]"#.into()));
/// message.headers.set("task", "orders.process").unwrap();
/// message.queue = Some("orders".into());
/// let payload = serde_json::value::to_raw_value(&message).unwrap();
/// let read = Recorded::read(&payload).expect("a Celery message").expect("a whole one");
/// assert_eq!(read.headers.text("task").unwrap(), "orders.process");
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Recorded<'a> {
    /// The body as the serializer wrote it.
    pub body: Body<'a>,
    /// The content type. The default is `application/json`.
    pub content_type: Cow<'a, str>,
    /// The content encoding. The default is `utf-8`; `binary` is for pickle and the like.
    pub content_encoding: Cow<'a, str>,
    /// The headers of protocol 2 and custom ones. Values that JSON does not have are `{"$bytes": "base64"}` or
    /// `{"$time": "ISO 8601"}`.
    pub headers: Fields<'a>,
    /// AMQP's basic properties by kombu's names. An `expiration` that follows from the header `expires` is not among them.
    pub properties: Fields<'a>,
    /// The exchange, if the producer knew it.
    pub exchange: Option<Cow<'a, str>>,
    /// The routing key, if the producer knew it.
    pub routing_key: Option<Cow<'a, str>>,
    /// The queue, if the producer knew it.
    pub queue: Option<Cow<'a, str>>,
    /// The name that the relay's routes match instead of the task's name (Celery's `route_name`).
    pub route_name: Option<Cow<'a, str>>,
    /// The queues to declare before publishing, by a destination that declares.
    pub declare: Vec<Declaration>,
    /// Whether to publish to the exchange of Celery's native delayed delivery, until the header `eta`.
    pub delayed: bool,
}

/// The body of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body<'a> {
    /// Text, as the serializer wrote it.
    Text(Cow<'a, str>),
    /// Bytes that are not text: pickle, msgpack, or compressed data.
    Binary(Vec<u8>),
}

impl Body<'_> {
    /// Returns the bytes that are sent.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Binary(bytes) => bytes,
        }
    }

    fn into_owned(self) -> Body<'static> {
        match self {
            Self::Text(text) => Body::Text(Cow::Owned(text.into_owned())),
            Self::Binary(bytes) => Body::Binary(bytes),
        }
    }
}

/// A queue as a producer's Celery would have declared it: the queue, its exchange and the binding between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    /// The name of the queue.
    pub queue: String,
    /// Whether queue and exchange survive a restart of the broker.
    #[serde(default = "durable")]
    pub durable: bool,
    /// The arguments of the queue, such as `x-queue-type`.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub arguments: serde_json::Map<String, serde_json::Value>,
    /// The exchange. If empty, it is the default exchange, and nothing is declared or bound.
    #[serde(default)]
    pub exchange: String,
    /// The type of the exchange: `direct`, `topic` or `fanout`.
    #[serde(default = "direct")]
    pub exchange_type: String,
    /// The routing key of the binding.
    #[serde(default)]
    pub routing_key: String,
}

fn durable() -> bool {
    true
}

fn direct() -> String {
    "direct".to_owned()
}

/// The reason why a payload that is marked as a Celery message cannot be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRecord {
    /// The form has another version.
    #[error(
        "the Celery message is recorded in version {found}, but this program supports version {VERSION}; if a newer \
         pillarbox wrote it, upgrade the relay"
    )]
    Version {
        /// The version as it is written.
        found: String,
    },
    /// The message could not be recorded.
    #[error("{why}")]
    Refused {
        /// The reason, for people.
        why: String,
    },
    /// A required key is missing.
    #[error("the recorded Celery message has no {key:?}; its producer must write both \"body\" and \"headers\"")]
    Missing {
        /// The name of the key.
        key: &'static str,
    },
    /// A key has a value of the wrong type.
    #[error("{key:?} of the recorded Celery message is not {expected}: {why}")]
    Malformed {
        /// The name of the key.
        key: &'static str,
        /// The expected type.
        expected: &'static str,
        /// What is wrong with the value.
        why: String,
    },
    /// The message has a key that version 1 does not define.
    #[error("the recorded Celery message has an unknown key {key:?}; the keys are: {}", KEYS.join(", "))]
    UnknownKey {
        /// The name of the key.
        key: String,
    },
}

const KEYS: [&str; 12] = [
    "celery",
    "body",
    "content_type",
    "content_encoding",
    "headers",
    "properties",
    "exchange",
    "routing_key",
    "queue",
    "route_name",
    "declare",
    "delayed",
];

const JSON_TYPE: &str = "application/json";
const JSON_ENCODING: &str = "utf-8";

impl<'a> Recorded<'a> {
    /// Returns a JSON message with this body and no headers. The relay chooses where it goes.
    #[must_use]
    pub fn new(body: Body<'a>) -> Self {
        Self {
            body,
            content_type: Cow::Borrowed(JSON_TYPE),
            content_encoding: Cow::Borrowed(JSON_ENCODING),
            headers: Fields::new(),
            properties: Fields::new(),
            exchange: None,
            routing_key: None,
            queue: None,
            route_name: None,
            declare: Vec::new(),
            delayed: false,
        }
    }

    /// Returns the payload of an event that cannot be a message. [`Recorded::read`] and the sink return this error for it.
    ///
    /// # Panics
    /// Never: text is always JSON.
    #[must_use]
    pub fn refused(why: &str) -> Box<RawValue> {
        let payload = serde_json::json!({ "celery": VERSION, "refused": why }).to_string();
        RawValue::from_string(payload).expect("what serde_json writes is JSON")
    }

    /// Reads the message that an event carries. Returns `None` for an ordinary event, with any payload. Only events of
    /// [`AGGREGATE_TYPE`], which no ordinary emit can write, carry messages: a message chooses its task, queue and exchange.
    ///
    /// # Errors
    /// As [`Recorded::read`].
    #[must_use]
    pub fn of(event: &'a StoredEvent) -> Option<Result<Self, InvalidRecord>> {
        if event.aggregate_type == AGGREGATE_TYPE { Self::read(&event.payload) } else { None }
    }

    /// Reads the message in a payload. Returns `None` if the payload is something else. If the writer of the payload is not
    /// trusted, use [`Recorded::of`].
    ///
    /// # Errors
    /// If the payload is marked as a Celery message (it has a key `celery`) but cannot be sent as one.
    #[must_use]
    pub fn read(payload: &'a RawValue) -> Option<Result<Self, InvalidRecord>> {
        if !payload.get().starts_with('{') {
            return None;
        }
        let mut keys: Object<'a> = serde_json::from_str(payload.get()).ok()?;
        let version = keys.0.remove("celery")?;
        Some(if version.get() == "1" {
            Self::from_keys(keys)
        } else {
            Err(InvalidRecord::Version { found: version.get().to_owned() })
        })
    }

    fn from_keys(mut keys: Object<'a>) -> Result<Self, InvalidRecord> {
        if let Some(why) = keys.take_text("refused")? {
            return Err(InvalidRecord::Refused { why: why.into_owned() });
        }
        let body = keys.0.remove("body").ok_or(InvalidRecord::Missing { key: "body" })?;
        let mut message = Self::new(read_body(body)?);
        message.headers = keys.take("headers", "an object")?.ok_or(InvalidRecord::Missing { key: "headers" })?;
        message.properties = keys.take("properties", "an object")?.unwrap_or_default();
        message.declare = keys.take("declare", "a list of queues")?.unwrap_or_default();
        message.delayed = keys.take("delayed", "true or false")?.unwrap_or_default();
        message.content_type = keys.take_text("content_type")?.unwrap_or(message.content_type);
        message.content_encoding = keys.take_text("content_encoding")?.unwrap_or(message.content_encoding);
        message.exchange = keys.take_text("exchange")?;
        message.routing_key = keys.take_text("routing_key")?;
        message.queue = keys.take_text("queue")?;
        message.route_name = keys.take_text("route_name")?;
        match keys.0.into_keys().next() {
            Some(key) => Err(InvalidRecord::UnknownKey { key: key.into_owned() }),
            None => Ok(message),
        }
    }

    /// Returns a copy that borrows nothing.
    #[must_use]
    pub fn into_owned(self) -> Recorded<'static> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Recorded {
            body: self.body.into_owned(),
            content_type: owned(self.content_type),
            content_encoding: owned(self.content_encoding),
            headers: self.headers.into_owned(),
            properties: self.properties.into_owned(),
            exchange: self.exchange.map(owned),
            routing_key: self.routing_key.map(owned),
            queue: self.queue.map(owned),
            route_name: self.route_name.map(owned),
            declare: self.declare,
            delayed: self.delayed,
        }
    }
}

impl<'a> Object<'a> {
    /// Takes an optional key. `null` means that it is missing.
    fn take<T: Deserialize<'a>>(
        &mut self,
        key: &'static str,
        expected: &'static str,
    ) -> Result<Option<T>, InvalidRecord> {
        let Some(value) = self.0.remove(key) else { return Ok(None) };
        serde_json::from_str(value.get()).map_err(malformed(key, expected))
    }

    fn take_text(&mut self, key: &'static str) -> Result<Option<Cow<'a, str>>, InvalidRecord> {
        Ok(self.take::<Text<'a>>(key, "text")?.map(|text| text.0))
    }
}

fn malformed<E: ToString>(key: &'static str, expected: &'static str) -> impl Fn(E) -> InvalidRecord {
    move |error| InvalidRecord::Malformed { key, expected, why: error.to_string() }
}

/// A binary body: `{"base64": "…"}`
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Encoded<'a> {
    #[serde(borrow)]
    base64: Cow<'a, str>,
}

fn read_body(body: &RawValue) -> Result<Body<'_>, InvalidRecord> {
    let malformed = |why: &dyn ToString| malformed("body", r#"text or {"base64": "…"}"#)(why.to_string());
    if body.get().starts_with('"') {
        return text(body).map(Body::Text).map_err(|error| malformed(&error));
    }
    let encoded: Encoded<'_> = serde_json::from_str(body.get()).map_err(|error| malformed(&error))?;
    BASE64_STANDARD.decode(encoded.base64.as_bytes()).map(Body::Binary).map_err(|error| malformed(&error))
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Binary(bytes) => Encoded { base64: BASE64_STANDARD.encode(bytes).into() }.serialize(serializer),
        }
    }
}

impl Serialize for Recorded<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("celery", &VERSION)?;
        map.serialize_entry("body", &self.body)?;
        if self.content_type != JSON_TYPE {
            map.serialize_entry("content_type", &self.content_type)?;
        }
        if self.content_encoding != JSON_ENCODING {
            map.serialize_entry("content_encoding", &self.content_encoding)?;
        }
        map.serialize_entry("headers", &self.headers)?;
        if !self.properties.is_empty() {
            map.serialize_entry("properties", &self.properties)?;
        }
        for (key, value) in [
            ("exchange", &self.exchange),
            ("routing_key", &self.routing_key),
            ("queue", &self.queue),
            ("route_name", &self.route_name),
        ] {
            if let Some(value) = value {
                map.serialize_entry(key, value)?;
            }
        }
        if !self.declare.is_empty() {
            map.serialize_entry("declare", &self.declare)?;
        }
        if self.delayed {
            map.serialize_entry("delayed", &true)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
