//! Makes a message of an event: subject, headers and body. Knows nothing of connections.

use std::borrow::Cow;
use std::fmt::Write as _;

use async_nats::Subject;
use async_nats::header::{HeaderMap, HeaderName, HeaderValue, NATS_EXPECTED_STREAM, NATS_MESSAGE_ID};
use bytes::Bytes;
use pillarbox::{Message, SendError};

use super::subject;
use crate::content::Content;
use crate::template::Template;

/// The prefix of CloudEvents attributes, as the NATS binding of CloudEvents prescribes it.
const CE: &str = "ce-";
const OWN: &str = "pillarbox-";
/// The prefix of headers that are commands to the server. An event's own headers cannot have it.
const SERVER: &str = "nats-";

/// The parts that all messages of a destination share.
pub(super) struct Parcels {
    pub(super) subject: Template,
    /// The stream that must store the messages.
    pub(super) stream: Option<String>,
    pub(super) content: Content,
    /// Whether JetStream confirms. Its headers are not sent otherwise.
    pub(super) confirm: bool,
}

/// One message, ready to be published.
pub(super) struct Parcel {
    pub(super) subject: Subject,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Parcels {
    /// Returns the message of an event.
    ///
    /// # Errors
    /// Rejects an event with an impossible subject, or one that is larger than `max_payload`, the server's limit.
    pub(super) fn pack(&self, message: &Message, max_payload: usize) -> Result<Parcel, SendError> {
        let subject = self.subject.render(message)?.into_owned();
        subject::check(&subject)?;
        let body = self.body(message)?;
        let headers = self.headers(message);
        let size = size(&headers) + body.len();
        if size > max_payload {
            return Err(SendError::reject(format_args!(
                "message too large: it has {size} bytes with its headers, and the server takes {max_payload} (max_payload)"
            )));
        }
        Ok(Parcel { subject: subject.into(), headers, body })
    }

    fn body(&self, message: &Message) -> Result<Bytes, SendError> {
        Ok(match self.content.body(message)? {
            Cow::Borrowed(_) => Bytes::from_owner(Payload(message.clone())),
            Cow::Owned(body) => Bytes::from(body),
        })
    }

    fn headers(&self, message: &Message) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, text) in self.content.headers(message, CE) {
            match header(&name, &text) {
                Ok((name, value)) => headers.insert(name, value),
                Err(reason) => tracing::debug!(event = %message.id, header = %name, reason, "event header not sent"),
            }
        }
        if self.confirm {
            headers.insert(NATS_MESSAGE_ID, message.id.to_string());
            if let Some(stream) = &self.stream {
                headers.insert(NATS_EXPECTED_STREAM, stream.as_str());
            }
        }
        headers
    }
}

/// Returns a header of a message. Names that Pillarbox writes are encoded, because each message must carry them. An event's own
/// header is left out when NATS cannot carry it.
fn header(name: &str, text: &str) -> Result<(HeaderName, HeaderValue), &'static str> {
    let begins = |prefix: &str| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    if begins(SERVER) {
        return Err("headers that begin with Nats- are commands to the server");
    }
    let is_ours = begins(OWN) || begins(CE);
    let text = if is_ours { encoded(text) } else { Cow::Borrowed(text) };
    if text.contains(char::is_control) {
        return Err("its value contains control characters");
    }
    let name = HeaderName::try_from(name).map_err(|_| "its name is not a valid NATS header name")?;
    let value = text.parse().map_err(|_| "its value contains control characters")?;
    Ok((name, value))
}

/// Percent-encodes control characters and the percent sign. Other characters stay as they are: NATS headers are UTF-8.
fn encoded(text: &str) -> Cow<'_, str> {
    let plain = |c: char| !c.is_control() && c != '%';
    if text.chars().all(plain) {
        return Cow::Borrowed(text);
    }
    let mut encoded = String::with_capacity(text.len() + 16);
    let mut bytes = [0; 4];
    for c in text.chars() {
        if plain(c) {
            encoded.push(c);
        } else {
            for byte in c.encode_utf8(&mut bytes).bytes() {
                // Writing to a String does not fail.
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    Cow::Owned(encoded)
}

/// Returns the size of the headers on the wire. The server's limit counts them too.
fn size(headers: &HeaderMap) -> usize {
    const FRAME: usize = "NATS/1.0\r\n\r\n".len();
    let line = |name: &HeaderName, value: &HeaderValue| {
        AsRef::<[u8]>::as_ref(name).len() + value.as_str().len() + ": \r\n".len()
    };
    let lines = headers.iter().flat_map(|(name, values)| values.iter().map(move |value| line(name, value)));
    FRAME + lines.sum::<usize>()
}

/// A payload that is sent from the claim's memory, without a copy.
struct Payload(Message);

impl AsRef<[u8]> for Payload {
    fn as_ref(&self) -> &[u8] {
        self.0.payload.get().as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pillarbox::{SendErrorKind, StoredEvent};

    use super::*;

    fn parcels(stream: Option<&str>) -> Parcels {
        let subject = "orders.{aggregate_id}".parse().unwrap();
        Parcels { subject, stream: stream.map(str::to_owned), content: Content::default(), confirm: true }
    }

    fn message(aggregate: &str, headers: &[(&str, &str)]) -> Message {
        let mut event = StoredEvent::for_tests("order.placed", r#"{"total":1}"#);
        aggregate.clone_into(&mut event.aggregate_id);
        event.headers.extend(headers.iter().map(|(name, value)| (name.to_string(), value.to_string())));
        Message::new(Arc::new(event), 1)
    }

    fn value<'a>(parcel: &'a Parcel, name: &str) -> Option<&'a str> {
        let (_, values) = parcel.headers.iter().find(|(one, _)| AsRef::<str>::as_ref(*one) == name)?;
        values.first().map(HeaderValue::as_str)
    }

    #[test]
    fn a_message_carries_its_id_and_the_expected_stream() {
        let message = message("42", &[("tenant", "acme")]);
        let parcel = parcels(Some("ORDERS")).pack(&message, 1 << 20).unwrap();
        assert_eq!(&*parcel.subject, "orders.42");
        assert_eq!(parcel.body, r#"{"total":1}"#);
        assert_eq!(value(&parcel, "Nats-Msg-Id"), Some(message.id.to_string().as_str()));
        assert_eq!(value(&parcel, "Nats-Expected-Stream"), Some("ORDERS"));
        assert_eq!(value(&parcel, "tenant"), Some("acme"));
    }

    #[test]
    fn an_events_own_headers_cannot_command_the_server_or_break_lines() {
        let message = message(
            "42",
            &[("Nats-Rollup", "all"), ("nats-msg-id", "1"), ("note", "a\r\nb"), ("two words", "x"), ("city", "Köln")],
        );
        let parcel = parcels(None).pack(&message, 1 << 20).unwrap();
        for name in ["Nats-Rollup", "nats-msg-id", "note", "two words", "Nats-Expected-Stream"] {
            assert_eq!(value(&parcel, name), None, "{name}");
        }
        assert_eq!(value(&parcel, "city"), Some("Köln"));
    }

    #[test]
    fn names_that_a_header_cannot_hold_are_encoded() {
        assert_eq!(encoded("Köln 1"), "Köln 1");
        assert_eq!(encoded("a\r\n100%"), "a%0D%0A100%25");
    }

    #[test]
    fn a_message_over_the_servers_limit_is_rejected_with_both_sizes() {
        let message = message("42", &[]);
        let parcel = parcels(None).pack(&message, 1 << 20).unwrap();
        let whole = size(&parcel.headers) + parcel.body.len();
        assert!(parcels(None).pack(&message, whole).is_ok());
        let error = parcels(None).pack(&message, whole - 1).err().unwrap();
        assert_eq!(error.kind, SendErrorKind::Reject);
        assert!(
            error.message.contains(&whole.to_string()) && error.message.contains(&(whole - 1).to_string()),
            "{error}"
        );
    }
}
