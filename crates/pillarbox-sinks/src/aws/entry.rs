//! One message of a call: the body, its attributes, and for FIFO its group. Pure.
//!
//! Both systems take at most ten attributes: Pillarbox's own come first, and the event's own headers fill the rest. If they do
//! not fit, or if one of them cannot be an attribute, all of the event's own headers travel as JSON in one attribute.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pillarbox::trace::TRACEPARENT;
use pillarbox::{Message, SendError};
use sha2::{Digest as _, Sha256};

use super::Names;
use crate::content::{CONTENT_TYPE, Content, EVENT_ID, Format};

/// The most attributes of a message.
const ATTRIBUTES: usize = 10;
/// The attribute with all of the event's own headers, as a JSON object.
pub(super) const HEADERS: &str = "pillarbox-headers";
/// The attribute that says that the body is base64.
const TRANSFER_ENCODING: &str = "content-transfer-encoding";
/// The longest name of an attribute.
const NAME: usize = 256;
/// The longest group.
const GROUP: usize = 128;
/// Attributes that do not repeat others, in the format "cloudevents-binary". All of them would be sixteen.
const BINARY: [&str; 9] =
    [TRACEPARENT, EVENT_ID, CONTENT_TYPE, "ce_specversion", "ce_id", "ce_source", "ce_type", "ce_subject", "ce_time"];

/// A name and its value.
type Attribute<'a> = (Cow<'a, str>, Cow<'a, str>);

/// A message as both systems take it.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) body: Cow<'a, str>,
    pub(crate) attributes: Vec<Attribute<'a>>,
    pub(crate) fifo: Option<Fifo>,
    /// The bytes that count for the limits.
    pub(crate) bytes: usize,
}

/// The group and the deduplication id.
#[derive(Debug)]
pub(crate) struct Fifo {
    pub(crate) group: String,
    pub(crate) deduplication: String,
}

impl<'a> Entry<'a> {
    /// The data type of every attribute. Its bytes count.
    pub(crate) const TYPE: &'static str = "String";

    /// # Errors
    /// Rejects a message that is too large, or that has a character that the system cannot carry.
    pub(super) fn new(
        message: &'a Message,
        content: &'a Content,
        is_fifo: bool,
        names: &Names,
    ) -> Result<Self, SendError> {
        let body = content.body(message)?;
        let body = if is_base64(message, content) { BASE64_STANDARD.encode(body).into() } else { text(body)? };
        check_characters("the payload", &body, names)?;
        let attributes = attributes(message, content, names)?;
        let size = |(name, value): &Attribute<'_>| name.len() + Self::TYPE.len() + value.len();
        let bytes = body.len() + attributes.iter().map(size).sum::<usize>();
        if bytes > names.message_bytes {
            return Err(SendError::reject(format_args!(
                "the message has {bytes} bytes with its attributes, but {} takes at most {}",
                names.system, names.message_bytes
            )));
        }
        let fifo = is_fifo.then(|| Fifo { group: group(message), deduplication: message.id.to_string() });
        Ok(Self { body, attributes, fifo, bytes })
    }
}

/// Returns whether the body is sent as base64: both systems carry text only. An envelope of CloudEvents is text in any case.
fn is_base64(message: &Message, content: &Content) -> bool {
    message.is_opaque() && content.format != Format::CloudEvents
}

fn text(body: Cow<'_, [u8]>) -> Result<Cow<'_, str>, SendError> {
    let text = match body {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
        Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
    };
    text.ok_or_else(|| SendError::reject("the body is not UTF-8 text"))
}

fn attributes<'a>(message: &'a Message, content: &'a Content, names: &Names) -> Result<Vec<Attribute<'a>>, SendError> {
    let mut own = content.headers(message, "ce_");
    // The event's own headers come first, and none of them has the name of ours.
    let first = own.iter().position(|(name, _)| name == TRACEPARENT || name == EVENT_ID).unwrap_or(own.len());
    let mut attributes = own.split_off(first);
    if content.format == Format::CloudEventsBinary {
        attributes.retain(|(name, _)| BINARY.contains(&&**name));
    }
    if is_base64(message, content) {
        // It takes the place of an attribute that CloudEvents do not require.
        attributes.retain(|(name, _)| name != "ce_time");
        attributes.push((TRANSFER_ENCODING.into(), "base64".into()));
    }
    for (name, value) in &attributes {
        check_characters(name, value, names)?;
    }
    let fits = own.len() + attributes.len() <= ATTRIBUTES;
    if fits && own.iter().all(|(name, value)| is_name(name) && !value.is_empty() && value.chars().all(is_allowed)) {
        attributes.append(&mut own);
    } else {
        attributes.push((HEADERS.into(), json(&own).into()));
    }
    Ok(attributes)
}

/// Returns the headers as a JSON object. The two characters that JSON may have and the systems do not take are escaped.
fn json(headers: &[Attribute<'_>]) -> String {
    let headers: BTreeMap<&str, &str> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    let json = serde_json::to_string(&headers).unwrap_or_default();
    json.replace('\u{fffe}', "\\ufffe").replace('\u{ffff}', "\\uffff")
}

fn is_name(name: &str) -> bool {
    let starts = |prefix: &str| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let has_lonely_dot = name.starts_with('.') || name.ends_with('.') || name.contains("..");
    !name.is_empty()
        && name.len() <= NAME
        && name.bytes().all(allowed)
        && !has_lonely_dot
        && !starts("aws.")
        && !starts("amazon.")
}

/// The characters of XML 1.0, which both systems take.
fn is_allowed(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
}

fn check_characters(what: &str, text: &str, names: &Names) -> Result<(), SendError> {
    match text.chars().find(|character| !is_allowed(*character)) {
        None => Ok(()),
        Some(character) => Err(SendError::reject(format_args!(
            "{what} has the character U+{:04X}, which {} does not take",
            u32::from(character),
            names.system
        ))),
    }
}

/// Returns the group of the event's aggregate. A group that would be too long or would have other characters than visible ASCII is
/// replaced by its hash.
fn group(message: &Message) -> String {
    let group = format!("{}:{}", message.aggregate_type, message.aggregate_id);
    if group.len() <= GROUP && group.bytes().all(|byte| byte.is_ascii_graphic()) {
        return group;
    }
    let digest = Sha256::digest(group.as_bytes());
    digest.iter().fold("sha256:".to_owned(), |hash, byte| format!("{hash}{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pillarbox::{SendErrorKind, StoredEvent};

    use super::*;

    const NAMES: Names = Names {
        system: "SQS",
        target: "queue",
        key: "queue_url",
        send: "",
        look_up: "",
        message_bytes: 1000,
        call_bytes: 1000,
    };

    fn message(payload: &str, headers: &[(&str, &str)]) -> Message {
        let mut event = StoredEvent::for_tests("order.placed", payload);
        event.headers.extend(headers.iter().map(|(name, value)| (name.to_string(), value.to_string())));
        Message::new(Arc::new(event), 1)
    }

    fn names_of(message: &Message, format: Format) -> Vec<String> {
        let content = Content::new(format);
        let entry = Entry::new(message, &content, false, &NAMES).unwrap();
        entry.attributes.iter().map(|(name, _)| name.to_string()).collect()
    }

    fn carried(headers: &[(&str, &str)]) -> String {
        let (message, content) = (message("{}", headers), Content::default());
        let entry = Entry::new(&message, &content, false, &NAMES).unwrap();
        let found = entry.attributes.iter().find(|(name, _)| name == HEADERS);
        found.map(|(_, value)| value.to_string()).unwrap_or_default()
    }

    #[test]
    fn own_headers_are_attributes_as_long_as_all_of_them_fit() {
        let four = [("traceparent", "00-1-2-01"), ("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")];
        assert_eq!(names_of(&message("{}", &four), Format::Payload).len(), ATTRIBUTES);
        assert_eq!(carried(&four), "");
        let five = [&four[..], &[("e", "5")]].concat();
        assert_eq!(carried(&five), r#"{"a":"1","b":"2","c":"3","d":"4","e":"5"}"#);
        assert_eq!(names_of(&message("{}", &five), Format::Payload).len(), 7);
    }

    #[test]
    fn headers_that_cannot_be_attributes_travel_as_json() {
        for name in ["with space", "é", "AWS.x", "amazon.x", ".a", "a.", "a..b", &"n".repeat(257)] {
            assert_eq!(carried(&[(name, "1")]), format!("{{{name:?}:\"1\"}}"), "{name}");
        }
        assert_eq!(carried(&[("a", "")]), r#"{"a":""}"#);
        assert_eq!(carried(&[("a", "\u{7}\u{ffff}")]), r#"{"a":"\u0007\uffff"}"#);
        assert_eq!(carried(&[("a-b_c.D", "1")]), "");
    }

    #[test]
    fn binary_cloudevents_have_at_most_ten_attributes_and_the_events_id() {
        let headers = [("traceparent", "00-1-2-01"), ("tracestate", "x"), ("a", "1"), ("b", "2")];
        let names = names_of(&message("{}", &headers), Format::CloudEventsBinary);
        assert_eq!(names.len(), ATTRIBUTES, "{names:?}");
        for name in BINARY.into_iter().chain([HEADERS]) {
            assert!(names.iter().any(|other| other == name), "{name} in {names:?}");
        }
    }

    #[test]
    fn an_opaque_payload_is_base64_and_an_attribute_says_so() {
        let kind = (pillarbox::event::PAYLOAD_CONTENT_TYPE, "application/x-protobuf");
        let message = message("\"CC\\no=\"", &[("traceparent", "00-1-2-01"), ("tracestate", "x"), ("a", "1"), kind]);
        for format in [Format::Payload, Format::CloudEventsBinary] {
            let content = Content::new(format);
            let entry = Entry::new(&message, &content, false, &NAMES).unwrap();
            assert_eq!(entry.body, "CCo=");
            let value =
                |wanted: &str| entry.attributes.iter().find(|(name, _)| name == wanted).map(|(_, value)| &**value);
            assert_eq!(value(CONTENT_TYPE), Some("application/x-protobuf"), "{format:?}");
            assert_eq!(value(TRANSFER_ENCODING), Some("base64"), "{format:?}");
            assert!(entry.attributes.len() <= ATTRIBUTES, "{:?}", entry.attributes);
        }
        let content = Content::new(Format::CloudEvents);
        let entry = Entry::new(&message, &content, false, &NAMES).unwrap();
        assert!(entry.body.contains(r#""data_base64":"CCo=""#), "{}", entry.body);
        assert!(entry.attributes.iter().all(|(name, _)| name != TRANSFER_ENCODING));
    }

    #[test]
    fn a_message_is_rejected_with_its_size_or_its_character() {
        let content = Content::default();
        let refusal = |message: &Message| Entry::new(message, &content, false, &NAMES).unwrap_err();
        let error = refusal(&message(&format!("{:?}", "x".repeat(1000)), &[]));
        assert_eq!(error.kind, SendErrorKind::Reject);
        assert!(error.message.contains("bytes with its attributes, but SQS takes at most 1000"), "{error}");
        let error = refusal(&message("\"\u{fffe}\"", &[]));
        assert_eq!(error.message, "the payload has the character U+FFFE, which SQS does not take");
        let mut event = StoredEvent::for_tests("order.placed", "{}");
        event.aggregate_id = "\u{1}".to_owned();
        let error = refusal(&Message::new(Arc::new(event), 1));
        assert_eq!(error.message, "pillarbox-aggregate-id has the character U+0001, which SQS does not take");
    }

    #[test]
    fn the_group_is_the_aggregate_or_its_hash() {
        let group = |id: &str| {
            let mut event = StoredEvent::for_tests("order.placed", "{}");
            event.aggregate_id = id.to_owned();
            group(&Message::new(Arc::new(event), 1))
        };
        assert_eq!(group("42"), "Order:42");
        assert_eq!(group(&"9".repeat(122)).len(), GROUP);
        for id in [&"9".repeat(123), "with space", "é"] {
            let group = group(id);
            assert!(group.starts_with("sha256:") && group.len() == 71, "{group}");
        }
        assert_ne!(group("a b"), group("a c"));
    }
}
