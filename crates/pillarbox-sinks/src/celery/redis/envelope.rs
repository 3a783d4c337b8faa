//! A message as kombu writes it into Redis: JSON, the body in base64. Recorded JSON is copied, not parsed.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chrono::{DateTime, Utc};
use pillarbox::SendError;
use pillarbox::celery::Fields;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::celery::message::Outgoing;
use crate::celery::moment;
use crate::celery::route::Target;

/// The highest priority: kombu has lists for 0 to 9.
const HIGHEST_PRIORITY: u64 = 9;

/// Properties that are always written here, even if the producer set them.
const OWN: [&str; 5] = ["priority", "delivery_info", "delivery_tag", "body_encoding", "expiration"];

/// Returns the message's own priority, or else the route's.
pub(super) fn priority(message: &Outgoing<'_>, route: Option<u8>) -> u8 {
    let own = message.recorded.properties.read::<u64>("priority").unwrap_or(0).min(HIGHEST_PRIORITY);
    let own = u8::try_from(own).unwrap_or(0);
    if message.has_priority { own } else { route.map_or(own, |priority| priority.min(9)) }
}

pub(super) fn write(
    message: &Outgoing<'_>,
    target: &Target<'_>,
    priority: u8,
    now: DateTime<Utc>,
) -> Result<Vec<u8>, SendError> {
    envelope(message, target, priority, now)
        .map_err(|error| SendError::reject(format!("the Celery message cannot be written as kombu's JSON: {error}")))
}

fn envelope(
    message: &Outgoing<'_>,
    target: &Target<'_>,
    priority: u8,
    now: DateTime<Utc>,
) -> serde_json::Result<Vec<u8>> {
    let recorded = &message.recorded;
    let body = recorded.body.as_bytes();
    let mut out = Vec::with_capacity(body.len() * 4 / 3 + 2048);
    out.extend_from_slice(b"{\"body\": \"");
    let start = out.len();
    out.resize(start + body.len().div_ceil(3) * 4, 0);
    let written = BASE64_STANDARD.encode_slice(body, &mut out[start..]).map_err(serde::ser::Error::custom)?;
    out.truncate(start + written);
    out.extend_from_slice(b"\", \"content-encoding\": ");
    serde_json::to_writer(&mut out, &*recorded.content_encoding)?;
    out.extend_from_slice(b", \"content-type\": ");
    serde_json::to_writer(&mut out, &*recorded.content_type)?;
    out.extend_from_slice(b", \"headers\": {");
    write_fields(&mut out, &recorded.headers, &[])?;
    out.extend_from_slice(b"}, \"properties\": {");
    if write_fields(&mut out, &recorded.properties, &OWN)? {
        out.extend_from_slice(b", ");
    }
    let expiration =
        moment::expiration(&recorded.headers, now).or_else(|| recorded.properties.text("expiration").map(Into::into));
    if let Some(expiration) = expiration {
        out.extend_from_slice(b"\"expiration\": ");
        serde_json::to_writer(&mut out, &expiration)?;
        out.extend_from_slice(b", ");
    }
    out.extend_from_slice(b"\"delivery_info\": {\"exchange\": ");
    serde_json::to_writer(&mut out, &*target.exchange)?;
    out.extend_from_slice(b", \"routing_key\": ");
    serde_json::to_writer(&mut out, &*target.routing_key)?;
    let tag = Uuid::new_v4();
    let rest = format!("}}, \"priority\": {priority}, \"body_encoding\": \"base64\", \"delivery_tag\": \"{tag}\"}}}}");
    out.extend_from_slice(rest.as_bytes());
    Ok(out)
}

/// Writes the fields, and returns whether there were any.
fn write_fields(out: &mut Vec<u8>, fields: &Fields<'_>, but: &[&str]) -> serde_json::Result<bool> {
    let mut is_first = true;
    for (name, value) in fields.iter().filter(|(name, _)| !but.contains(name)) {
        if !is_first {
            out.extend_from_slice(b", ");
        }
        is_first = false;
        serde_json::to_writer(&mut *out, name)?;
        out.extend_from_slice(b": ");
        write_value(out, value)?;
    }
    Ok(!is_first)
}

/// Writes a value's JSON. A value that JSON has no type for is written in kombu's notation.
fn write_value(out: &mut Vec<u8>, value: &RawValue) -> serde_json::Result<()> {
    let json = value.get();
    if !json.contains("\"$") || json.starts_with('"') {
        out.extend_from_slice(json.as_bytes());
        return Ok(());
    }
    if json.starts_with('[') {
        let items: Vec<&RawValue> = serde_json::from_str(json)?;
        out.push(b'[');
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                out.extend_from_slice(b", ");
            }
            write_value(out, item)?;
        }
        out.push(b']');
        return Ok(());
    }
    let fields: Fields<'_> = serde_json::from_str(json)?;
    if fields.len() == 1 {
        if let Some(encoded) = fields.text("$bytes") {
            let bytes = BASE64_STANDARD.decode(encoded.as_bytes()).map_err(serde::ser::Error::custom)?;
            return match std::str::from_utf8(&bytes) {
                Ok(text) => write_typed(out, "bytes", text),
                Err(_) => write_typed(out, "base64", &encoded),
            };
        }
        if let Some(time) = fields.text("$time") {
            return write_typed(out, "datetime", &time);
        }
    }
    out.push(b'{');
    write_fields(out, &fields, &[])?;
    out.push(b'}');
    Ok(())
}

fn write_typed(out: &mut Vec<u8>, kind: &str, value: &str) -> serde_json::Result<()> {
    serde_json::to_writer(out, &serde_json::json!({ "__type__": kind, "__value__": value }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(json: &str) -> String {
        let mut out = Vec::new();
        write_value(&mut out, &RawValue::from_string(json.to_owned()).unwrap()).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn json_is_copied() {
        for json in ["12345678901234567890123", "{\"a\": [1.50, null]}", "\"$x\\\"$bytes\"", "[]"] {
            assert_eq!(written(json), json);
        }
    }

    #[test]
    fn what_json_has_no_type_for_is_written_for_kombu() {
        assert_eq!(written(r#"{"$bytes": "aGk="}"#), r#"{"__type__":"bytes","__value__":"hi"}"#);
        assert_eq!(written(r#"[1, {"$bytes": "gAX/"}]"#), r#"[1, {"__type__":"base64","__value__":"gAX/"}]"#);
        let time = r#"{"at": {"$time": "2026-01-01T00:00:00+00:00"}, "n": 10000000000000000000000}"#;
        let expected = concat!(
            r#"{"at": {"__type__":"datetime","__value__":"2026-01-01T00:00:00+00:00"}, "#,
            r#""n": 10000000000000000000000}"#
        );
        assert_eq!(written(time), expected);
    }
}
