//! Opaque payloads: bytes of any content type (Avro, Protobuf, an image). The row holds their base64 as a JSON string, and a header
//! holds their content type. So every driver, database and replay handles them like any other payload. Pure.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::value::RawValue;

use super::{Event, Headers, InvalidEvent, StoredEvent};

/// The header that marks an opaque payload and holds its content type. It is stored with the event; receivers get the content type
/// where their protocol has a place for it.
pub const PAYLOAD_CONTENT_TYPE: &str = "pillarbox-content-type";
/// The content type of a payload that is not opaque.
pub const JSON: &str = "application/json";
/// The longest content type, in characters.
const CONTENT_TYPE_LIMIT: usize = 255;

/// An opaque payload of an event that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opaque<'a> {
    /// Its content type, such as `application/x-protobuf`.
    pub content_type: &'a str,
    /// The bytes that receivers get.
    pub bytes: Vec<u8>,
}

/// The reason why an opaque payload cannot be read. Emit refuses such an event, so another program wrote the row.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidOpaque {
    /// The header is not a content type.
    #[error(
        "the header {PAYLOAD_CONTENT_TYPE} is {given:?}, which is not a content type; write it like application/x-protobuf"
    )]
    ContentType {
        /// The header's value.
        given: String,
    },
    /// The payload is not a JSON string that holds base64.
    #[error(
        "the event has the header {PAYLOAD_CONTENT_TYPE}, but its payload is not base64 in a JSON string ({why}); emit bytes with \
         payload_bytes, or write the row without that header"
    )]
    Payload {
        /// The problem.
        why: String,
    },
}

impl<'a> Opaque<'a> {
    /// Reads a stored payload. Returns `None` for ordinary JSON.
    ///
    /// # Errors
    /// Fails if the header marks the payload as opaque, and it is not base64.
    pub fn of(payload: &RawValue, headers: &'a Headers) -> Result<Option<Self>, InvalidOpaque> {
        let Some(content_type) = headers.get(PAYLOAD_CONTENT_TYPE) else { return Ok(None) };
        check_content_type(content_type)?;
        Ok(Some(Self { content_type, bytes: decode(payload.get())? }))
    }

    /// Returns the bytes as base64 on one line, for receivers that take text only.
    #[must_use]
    pub fn base64(&self) -> String {
        BASE64_STANDARD.encode(&self.bytes)
    }
}

/// Decodes base64 in a JSON string. Line breaks and spaces are allowed: `encode()` of PostgreSQL and `TO_BASE64()` of MariaDB write
/// lines of 76 characters.
fn decode(json: &str) -> Result<Vec<u8>, InvalidOpaque> {
    let refused = |why: String| InvalidOpaque::Payload { why };
    let text: Cow<'_, str> = match serde_json::from_str::<String>(json) {
        Ok(text) => text.into(),
        Err(_) => return Err(refused("it is not a string".to_owned())),
    };
    let is_space = |letter: char| matches!(letter, '\n' | '\r' | ' ' | '\t');
    let text: Cow<'_, str> = if text.contains(is_space) { text.replace(is_space, "").into() } else { text };
    BASE64_STANDARD.decode(&*text).map_err(|error| refused(error.to_string()))
}

/// Checks the form `type/subtype; name=value`. A content type becomes a header of many protocols.
fn check_content_type(given: &str) -> Result<(), InvalidOpaque> {
    let is_token = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
    let (essence, parameters) = given.split_once(';').unwrap_or((given, ""));
    let is_type =
        essence.trim_end_matches(' ').split_once('/').is_some_and(|(kind, sub)| is_token(kind) && is_token(sub));
    let is_printable = parameters.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if is_type && is_printable && given.len() <= CONTENT_TYPE_LIMIT {
        return Ok(());
    }
    Err(InvalidOpaque::ContentType { given: given.chars().take(CONTENT_TYPE_LIMIT).collect() })
}

impl Event {
    /// Sets an opaque payload: bytes that receivers get as they are, with this content type.
    ///
    /// The row holds them as base64, which is a third larger. [`PAYLOAD_LIMIT`](super::PAYLOAD_LIMIT) counts what is stored: 1 MiB of
    /// base64 is 768 KiB of bytes.
    ///
    /// ```
    /// use pillarbox::Event;
    /// let event = Event::new("Order", 42, "order.placed").payload_bytes("application/x-protobuf", [8, 42]);
    /// assert_eq!(event.prepare().unwrap().payload, r#""CCo=""#);
    /// ```
    #[must_use]
    pub fn payload_bytes(mut self, content_type: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        self.payload = Ok(format!("\"{}\"", BASE64_STANDARD.encode(bytes)));
        self.header(PAYLOAD_CONTENT_TYPE, content_type)
    }

    /// Refuses a payload that is marked as opaque and is not. Such an event could never be sent.
    pub(super) fn check_opaque(headers: &Headers, payload: &str) -> Result<(), InvalidEvent> {
        let Some(content_type) = headers.get(PAYLOAD_CONTENT_TYPE) else { return Ok(()) };
        check_content_type(content_type).and_then(|()| decode(payload).map(drop)).map_err(InvalidEvent::Opaque)
    }
}

impl StoredEvent {
    /// Returns the content type of the payload: `application/json`, unless it is opaque.
    #[must_use]
    pub fn content_type(&self) -> &str {
        self.headers.get(PAYLOAD_CONTENT_TYPE).map_or(JSON, String::as_str)
    }

    /// Returns whether the payload is opaque: bytes of another content type, stored as base64.
    #[must_use]
    pub fn is_opaque(&self) -> bool {
        self.headers.contains_key(PAYLOAD_CONTENT_TYPE)
    }

    /// Returns the payload as receivers get it: the bytes of an opaque payload, otherwise the text of the JSON.
    ///
    /// # Errors
    /// Fails if the row is marked as opaque and holds no base64.
    pub fn payload_bytes(&self) -> Result<Cow<'_, [u8]>, InvalidOpaque> {
        let opaque = Opaque::of(&self.payload, &self.headers)?;
        Ok(opaque.map_or_else(|| Cow::Borrowed(self.payload.get().as_bytes()), |opaque| Cow::Owned(opaque.bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(payload: &str, content_type: Option<&str>) -> StoredEvent {
        let mut event = StoredEvent::for_tests("order.placed", payload);
        event.headers.extend(content_type.map(|kind| (PAYLOAD_CONTENT_TYPE.to_owned(), kind.to_owned())));
        event
    }

    #[test]
    fn bytes_come_back_as_they_were() {
        for bytes in [Vec::new(), vec![0], vec![0xff, 0xfe, 0], (0..=255).collect::<Vec<u8>>()] {
            let new = Event::new("Order", 1, "t").payload_bytes("avro/binary", &bytes).prepare().unwrap();
            let event = stored(&new.payload, Some("avro/binary"));
            assert_eq!(event.payload_bytes().unwrap(), bytes);
            assert_eq!((event.content_type(), event.is_opaque()), ("avro/binary", true));
        }
        let event = stored(r#"{"total": 1}"#, None);
        assert_eq!(&*event.payload_bytes().unwrap(), br#"{"total": 1}"#);
        assert_eq!((event.content_type(), event.is_opaque()), (JSON, false));
    }

    #[test]
    fn lines_of_base64_are_read() {
        let lines = serde_json::to_string("AAAA\r\nAAA=\n").unwrap();
        assert_eq!(&*stored(&lines, Some("a/b")).payload_bytes().unwrap(), [0; 5]);
    }

    #[test]
    fn what_is_marked_and_is_no_base64_is_an_error_that_says_so() {
        for payload in ["{}", "null", r#""CCo""#, r#""C-_=""#, r#""é""#, "42"] {
            let error = stored(payload, Some("a/b")).payload_bytes().unwrap_err().to_string();
            assert!(error.contains("its payload is not base64 in a JSON string ("), "{payload}: {error}");
        }
        let error = stored(r#""CCo=""#, Some("a/b\r\nhost: c")).payload_bytes().unwrap_err();
        assert!(matches!(error, InvalidOpaque::ContentType { .. }), "{error}");
    }

    #[test]
    fn emit_refuses_what_could_never_be_sent() {
        let event = || Event::new("Order", 1, "t");
        for wrong in ["", "protobuf", "a/", "/b", "a b/c", "a/b\n", "a/b; \u{e9}", &format!("a/{}", "b".repeat(255))] {
            let error = event().payload_bytes(wrong, b"x").prepare().unwrap_err().to_string();
            assert!(error.contains("which is not a content type"), "{wrong:?}: {error}");
        }
        for right in ["application/x-protobuf", "text/plain; charset=utf-8", "application/vnd.a.b+avro;v=\"1\""] {
            event().payload_bytes(right, b"x").prepare().unwrap();
        }
        let marked = event().payload("no base64!").header(PAYLOAD_CONTENT_TYPE, "a/b");
        assert!(marked.prepare().unwrap_err().to_string().contains("not base64"));
        assert!(event().payload_bytes("a/b", b"x").payload(1).prepare().unwrap().headers.is_none(), "JSON again");
    }

    #[test]
    fn the_limit_counts_what_is_stored() {
        let fits = super::super::PAYLOAD_LIMIT / 4 * 3 - 3;
        assert!(Event::new("a", 1, "t").payload_bytes("a/b", vec![0; fits]).prepare().is_ok());
        let error = Event::new("a", 1, "t").payload_bytes("a/b", vec![0; fits + 3]).prepare().unwrap_err();
        assert!(error.to_string().contains("has 1048578 bytes of JSON, the limit is 1048576"), "{error}");
    }
}
