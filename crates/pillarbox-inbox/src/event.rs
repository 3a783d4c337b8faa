//! An event as a handler receives it.

use http::HeaderMap;
use serde::de::DeserializeOwned;

/// The header of a test event of Pillarbox.
const TEST: &str = "pillarbox-test";
/// The beginning of the id of a test event, which the signature covers. No other event of Pillarbox has such an id.
const TEST_ID: &str = "70696c6c-7465-8";

/// A verified event. The signature covers the id, the timestamp and the body, and none of the other headers.
#[derive(Debug, Clone)]
pub struct Event {
    pub(crate) id: String,
    pub(crate) timestamp: i64,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Event {
    /// Returns the value of `webhook-id`. It is the same in each attempt.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns when this attempt was signed, in seconds since 1970.
    pub fn timestamp(&self) -> i64 {
        self.timestamp
    }

    /// Returns the type of the event, such as `order.placed`.
    pub fn event_type(&self) -> String {
        self.name("pillarbox-event-type")
    }

    /// Returns the type of the aggregate that the event is about, such as `Order`.
    pub fn aggregate_type(&self) -> String {
        self.name("pillarbox-aggregate-type")
    }

    /// Returns the id of the aggregate that the event is about.
    pub fn aggregate_id(&self) -> String {
        self.name("pillarbox-aggregate-id")
    }

    /// Returns whether this is a test event of Pillarbox, which a person has sent to see whether the receiver works. An inbox answers it
    /// without the handler.
    ///
    /// The header alone would not do: the signature does not cover it.
    pub fn is_test(&self) -> bool {
        self.id.starts_with(TEST_ID) && self.headers.get(TEST).is_some_and(|value| value == "true")
    }

    /// Returns the headers of the request.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Returns the body as it arrived.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Parses the body.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.body)
    }

    /// Returns a header's value without its percent-encoding, or no text.
    fn name(&self, header: &str) -> String {
        let value = self.headers.get(header).map(http::HeaderValue::as_bytes).unwrap_or_default();
        let (mut bytes, mut rest) = (Vec::with_capacity(value.len()), value);
        while let [first, more @ ..] = rest {
            let digits = more.get(..2).filter(|_| *first == b'%').and_then(|digits| str::from_utf8(digits).ok());
            match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                Some(byte) => (bytes.push(byte), rest = &more[2..]),
                None => (bytes.push(*first), rest = more),
            };
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_decoded() {
        let headers = [("pillarbox-event-type", "caf%C3%A9.100%25"), ("pillarbox-aggregate-id", "4%2")];
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        let event = Event { id: "a".into(), timestamp: 1, headers, body: b"{}".into() };
        assert_eq!(event.event_type(), "caf\u{e9}.100%");
        assert_eq!((event.aggregate_type().as_str(), event.aggregate_id().as_str()), ("", "4%2"));
    }
}
