//! The CloudEvents 1.0 envelope, structured mode: <https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md>.
//! Pure.

use std::borrow::Cow;
use std::fmt::{self, Display};

use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::settings::HttpError;
use crate::registry::EventParts;

#[derive(Serialize)]
struct Envelope<'a> {
    specversion: &'static str,
    id: String,
    source: &'a str,
    #[serde(rename = "type")]
    event_type: &'a str,
    subject: Subject<'a>,
    time: &'a DateTime<Utc>,
    datacontenttype: &'static str,
    // Names of extension attributes have no underscores. These repeat the subject, so that receivers need not split it.
    aggregatetype: &'a str,
    aggregateid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracestate: Option<&'a String>,
    data: &'a RawValue,
}

/// `Order/42`
struct Subject<'a>(&'a EventParts<'a>);

impl Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0.aggregate_type, self.0.aggregate_id)
    }
}

impl Serialize for Subject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Writes the envelope's JSON, with the payload unchanged. `traceparent` is the span that the receiver continues.
pub(super) fn write(
    event: &EventParts<'_>,
    traceparent: Option<Cow<'_, str>>,
    source: &str,
) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&Envelope {
        specversion: "1.0",
        id: event.id.to_string(),
        source,
        event_type: event.event_type,
        subject: Subject(event),
        time: &event.created_at,
        datacontenttype: "application/json",
        aggregatetype: event.aggregate_type,
        aggregateid: event.aggregate_id,
        traceparent,
        tracestate: event.headers.get("tracestate"),
        data: event.payload,
    })
}

/// Checks that a URI reference is not empty and has only the characters that RFC 3986 allows.
pub(super) fn check_source(source: &str) -> Result<(), HttpError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&byte);
    if source.is_empty() || !source.bytes().all(allowed) {
        return Err(HttpError::Source { given: source.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pillarbox::StoredEvent;

    use super::*;

    #[test]
    fn the_payload_is_embedded_byte_for_byte() {
        let payload = r#"{"b": 1.10, "a":"\u00e9"}"#;
        let event = StoredEvent::for_tests("order.placed", payload);
        let text = String::from_utf8(write(&EventParts::from(&event), None, "/shop").unwrap()).unwrap();
        assert!(text.ends_with(&format!(r#""data":{payload}}}"#)), "{text}");
        assert!(!text.contains("trace"), "{text}");
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
