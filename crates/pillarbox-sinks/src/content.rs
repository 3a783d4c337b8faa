//! What a message carries: the payload, or a CloudEvents 1.0 envelope (structured), or the payload with CloudEvents attributes
//! in the headers (binary). The same for every kind of destination. Pure.

mod envelope;

use std::borrow::Cow;

use pillarbox::event::{JSON, Opaque, PAYLOAD_CONTENT_TYPE};
use pillarbox::sink::test_event;
use pillarbox::trace::TRACEPARENT;
use pillarbox::{Headers, Message, SendError};

use crate::config::Section;
use crate::config::shown::{Key, chosen, text};
use crate::registry::EventParts;

/// How an event is written: `format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// The payload, byte for byte as the database returns it, or the bytes of an opaque one.
    #[default]
    Payload,
    /// A CloudEvents 1.0 envelope in structured mode, with the payload as its `data`.
    CloudEvents,
    /// The payload, with the attributes of CloudEvents 1.0 as headers.
    CloudEventsBinary,
}

const FORMATS: [(&str, Format); 3] = [
    ("payload", Format::Payload),
    ("cloudevents", Format::CloudEvents),
    ("cloudevents-binary", Format::CloudEventsBinary),
];
const SOURCE: &str = "/pillarbox";
/// The prefix of Pillarbox's own headers. An event's own headers cannot begin with it.
const OWN_PREFIX: &str = "pillarbox-";
/// The header with the type of the body.
pub const CONTENT_TYPE: &str = "content-type";
/// The header with the event's id, for receivers that remember what they have seen.
pub const EVENT_ID: &str = "pillarbox-event-id";
/// The header with the event's type.
pub const EVENT_TYPE: &str = "pillarbox-event-type";
/// The header with the aggregate's type.
pub const AGGREGATE_TYPE: &str = "pillarbox-aggregate-type";
/// The header with the aggregate's id.
pub const AGGREGATE_ID: &str = "pillarbox-aggregate-id";

/// The format of messages, and the source that CloudEvents name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// How an event is written.
    pub format: Format,
    /// The CloudEvents `source`, a URI reference that names the application: `/shop`, `https://shop.example/orders`.
    pub source: String,
}

impl Default for Content {
    fn default() -> Self {
        Self::new(Format::default())
    }
}

impl Content {
    /// Returns this format, with the source `/pillarbox`.
    #[must_use]
    pub fn new(format: Format) -> Self {
        Self { format, source: SOURCE.to_owned() }
    }

    /// Sets the source of CloudEvents.
    #[must_use]
    pub fn source(mut self, source: impl Into<String>) -> Self {
        self.source = source.into();
        self
    }

    /// Takes the keys `format` and `source`.
    pub fn read(section: &mut Section<'_>) -> Self {
        let format = section.choose("format", &FORMATS).unwrap_or_default();
        let refused = |source: &str| format!("is {source:?}, which {REFUSED}");
        let check = |source: &String| check_source(source).map_err(|_| refused(source));
        Self { format, source: section.take_checked("source", check).unwrap_or_else(|| SOURCE.to_owned()) }
    }

    /// Returns the keys `format` and `source`.
    #[must_use]
    pub fn shown(&self) -> [Key; 2] {
        [("format", chosen(&FORMATS, self.format)), ("source", text(&self.source))]
    }

    /// Returns the type of an event's body: of its payload, or of the envelope.
    #[must_use]
    pub fn content_type<'a>(&self, headers: &'a Headers) -> &'a str {
        match self.format {
            Format::Payload | Format::CloudEventsBinary => {
                headers.get(PAYLOAD_CONTENT_TYPE).map_or(JSON, String::as_str)
            }
            Format::CloudEvents => "application/cloudevents+json",
        }
    }

    /// Returns the envelope, or `None` when the body is the payload itself. `traceparent` is the span that the receiver
    /// continues.
    ///
    /// # Errors
    /// Rejects an event that cannot be written.
    pub fn envelope(
        &self,
        event: &EventParts<'_>,
        traceparent: Option<Cow<'_, str>>,
    ) -> Result<Option<Vec<u8>>, SendError> {
        if self.format != Format::CloudEvents {
            return Ok(None);
        }
        let opaque = Opaque::of(event.payload, event.headers).map_err(SendError::reject)?;
        let written = envelope::write(event, opaque, traceparent, &self.source);
        written.map(Some).map_err(|error| {
            SendError::reject(format_args!("the event cannot be written as a CloudEvents envelope: {error}"))
        })
    }

    /// Returns the body of a message. It borrows from the message if the body is the payload's JSON.
    ///
    /// # Errors
    /// Rejects an event that cannot be written: one whose payload is marked as opaque and is not base64.
    pub fn body<'a>(&self, message: &'a Message) -> Result<Cow<'a, [u8]>, SendError> {
        match self.envelope(&EventParts::from(&**message), message.traceparent())? {
            Some(envelope) => Ok(Cow::Owned(envelope)),
            None => message.payload_bytes().map_err(SendError::reject),
        }
    }

    /// Returns the attributes of CloudEvents in binary mode, without a prefix. In other modes there are none.
    #[must_use]
    pub fn attributes<'a>(
        &'a self,
        event: &EventParts<'a>,
        traceparent: Option<Cow<'a, str>>,
    ) -> Vec<(&'static str, Cow<'a, str>)> {
        match self.format {
            Format::Payload | Format::CloudEvents => Vec::new(),
            Format::CloudEventsBinary => envelope::attributes(event, traceparent, &self.source),
        }
    }

    /// Returns the headers of a message to a broker: the event's own, `traceparent`, the event's id, type and aggregate, the
    /// type of the body, the mark of a test event, and in binary mode the attributes of CloudEvents, each with the prefix that the
    /// broker's binding prescribes. Names are unique. Each kind checks what its system cannot carry.
    #[must_use]
    pub fn headers<'a>(&'a self, message: &'a Message, prefix: &str) -> Vec<(Cow<'a, str>, Cow<'a, str>)> {
        let event = EventParts::from(&**message);
        let traceparent = message.traceparent();
        let attributes = self.attributes(&event, traceparent.clone());
        let mut headers: Vec<(Cow<'a, str>, Cow<'a, str>)> =
            Vec::with_capacity(message.headers.len() + attributes.len() + 7);
        let attributes = attributes.into_iter().map(|(name, value)| (Cow::Owned(format!("{prefix}{name}")), value));
        let attributes: Vec<(Cow<'a, str>, _)> = attributes.collect();
        let is_reserved = |name: &str| {
            let has_prefix = name.get(..OWN_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(OWN_PREFIX));
            let is_one_of_ours = [CONTENT_TYPE, TRACEPARENT].iter().any(|own| name.eq_ignore_ascii_case(own));
            has_prefix || is_one_of_ours || attributes.iter().any(|(own, _)| name.eq_ignore_ascii_case(own))
        };
        let own = message.headers.iter().filter(|(name, _)| !is_reserved(name));
        headers.extend(own.map(|(name, value)| (name.into(), value.into())));
        headers.extend(traceparent.map(|span| (TRACEPARENT.into(), span)));
        headers.push((EVENT_ID.into(), message.id.to_string().into()));
        headers.push((EVENT_TYPE.into(), event.event_type.into()));
        headers.push((AGGREGATE_TYPE.into(), event.aggregate_type.into()));
        headers.push((AGGREGATE_ID.into(), event.aggregate_id.into()));
        headers.push((CONTENT_TYPE.into(), self.content_type(event.headers).into()));
        headers.extend(message.is_test().then(|| (test_event::HEADER.into(), "true".into())));
        headers.extend(attributes);
        headers
    }

    /// Checks the source of a format that names it.
    ///
    /// # Errors
    /// Says what a source must be.
    pub fn check(&self) -> Result<(), SourceError> {
        if self.format == Format::Payload { Ok(()) } else { check_source(&self.source) }
    }
}

/// The source is not a URI reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("source is {given:?}, which {REFUSED}")]
pub struct SourceError {
    given: String,
}

const REFUSED: &str = "is not a URI reference; write it like /shop or https://shop.example/orders";

/// Checks that a URI reference is not empty and has only the characters that RFC 3986 allows.
fn check_source(source: &str) -> Result<(), SourceError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&byte);
    if source.is_empty() || !source.bytes().all(allowed) {
        return Err(SourceError { given: source.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pillarbox::StoredEvent;

    use super::*;

    fn message(headers: &[(&str, &str)]) -> Message {
        let mut event = StoredEvent::for_tests("order.placed", r#"{"total":1}"#);
        event.headers.extend(headers.iter().map(|(name, value)| (name.to_string(), value.to_string())));
        Message::new(Arc::new(event), 1)
    }

    fn named<'a>(headers: &'a [(Cow<'_, str>, Cow<'_, str>)], name: &str) -> Vec<&'a str> {
        headers.iter().filter(|(one, _)| one.eq_ignore_ascii_case(name)).map(|(_, value)| &**value).collect()
    }

    #[test]
    fn an_events_own_headers_travel_and_cannot_replace_ours() {
        let message = message(&[
            ("tenant", "acme"),
            ("traceparent", "00-1-2-01"),
            ("Pillarbox-Event-Id", "forged"),
            ("Content-Type", "forged"),
            ("CE_ID", "forged"),
            ("pillarbox-test", "forged"),
        ]);
        let content = Content::new(Format::CloudEventsBinary);
        let headers = content.headers(&message, "ce_");
        assert!(headers.iter().all(|(_, value)| value != "forged"), "{headers:?}");
        assert_eq!(named(&headers, "tenant"), ["acme"]);
        assert_eq!(named(&headers, "traceparent"), ["00-1-2-01"]);
        assert_eq!(named(&headers, EVENT_ID), [message.id.to_string()]);
        assert_eq!(named(&headers, "ce_id"), [message.id.to_string()]);
        assert_eq!(named(&headers, "ce_type"), ["order.placed"]);
        assert_eq!(named(&headers, "ce_source"), ["/pillarbox"]);
        assert_eq!(named(&headers, "ce_specversion"), ["1.0"]);
        assert_eq!(named(&headers, "ce_subject"), ["Order/42"]);
    }

    #[test]
    fn only_a_test_event_is_marked_as_one() {
        let content = Content::default();
        let test = Message::test("orders");
        assert_eq!(named(&content.headers(&test, "ce_"), "pillarbox-test"), ["true"]);
        assert!(named(&content.headers(&message(&[("pillarbox-test", "true")]), "ce_"), "pillarbox-test").is_empty());
    }

    #[test]
    fn the_format_decides_the_body_and_its_type() {
        let message = message(&[]);
        for (format, begins, kind) in [
            (Format::Payload, r#"{"total""#, "application/json"),
            (Format::CloudEventsBinary, r#"{"total""#, "application/json"),
            (Format::CloudEvents, r#"{"specversion":"1.0""#, "application/cloudevents+json"),
        ] {
            let content = Content::new(format);
            let body = content.body(&message).unwrap();
            assert!(body.starts_with(begins.as_bytes()), "{format:?}");
            assert_eq!(named(&content.headers(&message, "ce_"), CONTENT_TYPE), [kind]);
        }
        let plain = Content::default();
        assert!(plain.headers(&message, "ce_").iter().all(|(name, _)| !name.starts_with("ce_")));
    }

    /// An event with the bytes 08 2a, and how its row marks them.
    fn opaque(payload: &str) -> Message {
        let mut event = StoredEvent::for_tests("order.placed", payload);
        event.headers.insert(PAYLOAD_CONTENT_TYPE.to_owned(), "application/x-protobuf".to_owned());
        Message::new(Arc::new(event), 1)
    }

    #[test]
    fn an_opaque_payload_is_its_bytes_with_its_content_type() {
        let message = opaque(r#""CCo=""#);
        for format in [Format::Payload, Format::CloudEventsBinary] {
            let content = Content::new(format);
            assert_eq!(&*content.body(&message).unwrap(), [8, 42], "{format:?}");
            let headers = content.headers(&message, "ce_");
            assert_eq!(named(&headers, CONTENT_TYPE), ["application/x-protobuf"]);
            assert!(named(&headers, PAYLOAD_CONTENT_TYPE).is_empty(), "the mark is not sent");
        }
        let content = Content::new(Format::CloudEvents);
        let envelope: serde_json::Value = serde_json::from_slice(&content.body(&message).unwrap()).unwrap();
        assert_eq!(envelope["datacontenttype"], "application/x-protobuf");
        assert_eq!(envelope["data_base64"], "CCo=");
        assert!(envelope.get("data").is_none());
        assert_eq!(named(&content.headers(&message, "ce_"), CONTENT_TYPE), ["application/cloudevents+json"]);
    }

    #[test]
    fn what_is_marked_as_opaque_and_is_no_base64_is_rejected() {
        for payload in ["{}", r#""%""#] {
            for format in [Format::Payload, Format::CloudEventsBinary, Format::CloudEvents] {
                let error = Content::new(format).body(&opaque(payload)).unwrap_err();
                assert_eq!(error.kind, pillarbox::SendErrorKind::Reject);
                assert!(error.message.contains("is not base64 in a JSON string"), "{error}");
            }
        }
    }

    #[test]
    fn a_source_is_a_uri_reference() {
        for source in ["/shop", "https://shop.example/orders?x=1#y", "urn:uuid:0", "shop"] {
            assert!(check_source(source).is_ok(), "{source}");
        }
        for source in ["", "the shop", "/shop/{aggregate_type}", "/bücher", "/shop\n"] {
            assert!(check_source(source).is_err(), "{source}");
        }
    }
}
