//! CloudEvents 1.0, <https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md>: the envelope of structured mode, and
//! the attributes of binary mode. Pure.

use std::borrow::Cow;
use std::fmt::{self, Display};

use chrono::{DateTime, SecondsFormat, Utc};
use pillarbox::event::{JSON, Opaque};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::registry::EventParts;

const SPECVERSION: &str = "1.0";

#[derive(Serialize)]
struct Envelope<'a> {
    specversion: &'static str,
    id: String,
    source: &'a str,
    #[serde(rename = "type")]
    event_type: &'a str,
    subject: Subject<'a>,
    time: &'a DateTime<Utc>,
    datacontenttype: &'a str,
    // Names of extension attributes have no underscores. These repeat the subject, so that receivers need not split it.
    aggregatetype: &'a str,
    aggregateid: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracestate: Option<&'a String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_base64: Option<String>,
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

/// Writes the envelope's JSON, with the payload unchanged, or with the base64 of an opaque one. `traceparent` is the span that the receiver continues.
pub(super) fn write(
    event: &EventParts<'_>,
    opaque: Option<Opaque<'_>>,
    traceparent: Option<Cow<'_, str>>,
    source: &str,
) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&Envelope {
        specversion: SPECVERSION,
        id: event.id.to_string(),
        source,
        event_type: event.event_type,
        subject: Subject(event),
        time: &event.created_at,
        datacontenttype: opaque.as_ref().map_or(JSON, |opaque| opaque.content_type),
        aggregatetype: event.aggregate_type,
        aggregateid: event.aggregate_id,
        traceparent,
        tracestate: event.headers.get("tracestate"),
        data: opaque.is_none().then_some(event.payload),
        data_base64: opaque.map(|opaque| opaque.base64()),
    })
}

/// Returns the attributes of binary mode.
pub(super) fn attributes<'a>(
    event: &EventParts<'a>,
    traceparent: Option<Cow<'a, str>>,
    source: &'a str,
) -> Vec<(&'static str, Cow<'a, str>)> {
    let mut attributes: Vec<(&'static str, Cow<'a, str>)> = vec![
        ("specversion", SPECVERSION.into()),
        ("id", event.id.to_string().into()),
        ("source", source.into()),
        ("type", event.event_type.into()),
        ("subject", Subject(event).to_string().into()),
        ("time", event.created_at.to_rfc3339_opts(SecondsFormat::Micros, true).into()),
        ("aggregatetype", event.aggregate_type.into()),
        ("aggregateid", event.aggregate_id.into()),
    ];
    attributes.extend(traceparent.map(|span| ("traceparent", span)));
    attributes.extend(event.headers.get("tracestate").map(|state| ("tracestate", state.into())));
    attributes
}

#[cfg(test)]
mod tests {
    use pillarbox::StoredEvent;

    use super::*;

    #[test]
    fn the_payload_is_embedded_byte_for_byte() {
        let payload = r#"{"b": 1.10, "a":"\u00e9"}"#;
        let event = StoredEvent::for_tests("order.placed", payload);
        let text = String::from_utf8(write(&EventParts::from(&event), None, None, "/shop").unwrap()).unwrap();
        assert!(text.ends_with(&format!(r#""data":{payload}}}"#)), "{text}");
        assert!(!text.contains("trace"), "{text}");
    }
}
