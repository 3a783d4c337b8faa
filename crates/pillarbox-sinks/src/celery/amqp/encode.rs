//! A message in AMQP: headers as a field table with the types that py-amqp would choose, and basic properties.

use amq_protocol::protocol::BasicProperties;
use amq_protocol::types::{AMQPValue, FieldArray, FieldTable, LongString, ShortString};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chrono::{DateTime, Utc};
use pillarbox::SendError;
use pillarbox::celery::Fields;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::celery::message::Outgoing;
use crate::celery::moment;
use crate::rabbitmq::LARGEST_HEADERS;

/// The error for a header or property that cannot be sent.
fn refused(name: &str, reason: &str) -> SendError {
    SendError::reject(format!("{name:?} of the Celery message {reason}"))
}

/// Returns everything but the body, the exchange and the routing key.
pub(super) fn properties(
    message: &Outgoing<'_>,
    priority: Option<u8>,
    now: DateTime<Utc>,
) -> Result<BasicProperties, SendError> {
    let recorded = &message.recorded;
    let given = &recorded.properties;
    let mut properties = BasicProperties::default()
        .with_content_type(short("content_type", &recorded.content_type)?)
        .with_content_encoding(short("content_encoding", &recorded.content_encoding)?)
        .with_headers(headers(&recorded.headers)?)
        .with_delivery_mode(delivery_mode(given))
        .with_correlation_id(text(given, "correlation_id")?.unwrap_or(short("id", &message.id)?))
        .with_reply_to(text(given, "reply_to")?.unwrap_or_default());
    // For kombu, None is not 0: workers receive a task without a priority if its producer gave none.
    if let Some(priority) = if message.has_priority { given.read("priority") } else { priority } {
        properties = properties.with_priority(priority);
    }
    let expiration = moment::expiration(&recorded.headers, now);
    let expiration = match expiration {
        Some(expiration) => Some(expiration.into()),
        None => text(given, "expiration")?,
    };
    if let Some(expiration) = expiration {
        properties = properties.with_expiration(expiration);
    }
    for (name, set) in OTHERS {
        if let Some(value) = text(given, name)? {
            properties = set(properties, value);
        }
    }
    if let Some(timestamp) = given.read::<u64>("timestamp") {
        properties = properties.with_timestamp(timestamp);
    }
    Ok(properties)
}

type SetText = fn(BasicProperties, ShortString) -> BasicProperties;

/// Properties that Celery passes on but does not use itself.
const OTHERS: [(&str, SetText); 5] = [
    ("message_id", BasicProperties::with_message_id),
    ("type", BasicProperties::with_type),
    ("user_id", BasicProperties::with_user_id),
    ("app_id", BasicProperties::with_app_id),
    ("cluster_id", BasicProperties::with_cluster_id),
];

/// Returns persistent, unless the producer chose otherwise.
fn delivery_mode(given: &Fields<'_>) -> u8 {
    let transient = given.read::<u8>("delivery_mode") == Some(1)
        || given.text("delivery_mode").is_some_and(|mode| mode == "transient");
    if transient { 1 } else { 2 }
}

fn text(given: &Fields<'_>, name: &str) -> Result<Option<ShortString>, SendError> {
    given.text(name).map(|text| short(name, &text)).transpose()
}

pub(super) fn short(name: &str, text: &str) -> Result<ShortString, SendError> {
    crate::rabbitmq::short(text).ok_or_else(|| refused(name, "is longer than the 255 bytes that AMQP can carry"))
}

fn headers(fields: &Fields<'_>) -> Result<FieldTable, SendError> {
    let mut table = FieldTable::default();
    let mut size = 0;
    for (name, value) in fields.iter() {
        let value = self::value(name, value)?;
        size += 1 + name.len() + self::size(&value);
        table.insert(short(name, name)?, value);
    }
    if size > LARGEST_HEADERS {
        return Err(SendError::reject(format!(
            "the headers of the Celery message have {size} bytes, but RabbitMQ allows {LARGEST_HEADERS}; put large \
             values into the task's arguments"
        )));
    }
    Ok(table)
}

/// Returns the bytes that a value takes in the frame, its type included. Lists of small numbers are larger there than in
/// JSON.
fn size(value: &AMQPValue) -> usize {
    1 + match value {
        AMQPValue::LongString(text) => 4 + text.as_bytes().len(),
        AMQPValue::FieldArray(items) => 4 + items.as_slice().iter().map(size).sum::<usize>(),
        AMQPValue::FieldTable(table) => {
            4 + table.inner().iter().map(|(name, value)| 1 + name.as_str().len() + size(value)).sum::<usize>()
        }
        // Void, booleans, numbers and times.
        _ => 8,
    }
}

/// Returns a header's JSON as AMQP, with the types that py-amqp would choose.
fn value(name: &str, json: &RawValue) -> Result<AMQPValue, SendError> {
    let json = json.get();
    let unreadable = |error: serde_json::Error| refused(name, &format!("cannot be read: {error}"));
    match json.as_bytes().first() {
        Some(b'n') => Ok(AMQPValue::Void),
        Some(b't') => Ok(AMQPValue::Boolean(true)),
        Some(b'f') => Ok(AMQPValue::Boolean(false)),
        Some(b'"') => {
            let text: String = serde_json::from_str(json).map_err(unreadable)?;
            Ok(AMQPValue::LongString(LongString::from(text)))
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(json).map_err(unreadable)?;
            let items = items.into_iter().map(|item| value(name, item)).collect::<Result<Vec<_>, _>>()?;
            Ok(AMQPValue::FieldArray(FieldArray::from(items)))
        }
        Some(b'{') => table(name, &serde_json::from_str(json).map_err(unreadable)?),
        _ => Ok(number(json)),
    }
}

/// Encodes an object, or a value that JSON has no type for.
fn table(name: &str, fields: &Fields<'_>) -> Result<AMQPValue, SendError> {
    if fields.len() == 1 {
        if let Some(encoded) = fields.text("$bytes") {
            let bytes = BASE64_STANDARD.decode(encoded.as_bytes());
            return bytes
                .map(|bytes| AMQPValue::LongString(LongString::from(bytes)))
                .map_err(|error| refused(name, &format!("has \"$bytes\" that are not base64: {error}")));
        }
        if let Some(time) = fields.text("$time") {
            return moment::read(&time)
                .and_then(|time| u64::try_from(time.timestamp()).ok())
                .map(AMQPValue::Timestamp)
                .ok_or_else(|| refused(name, "has a \"$time\" that is not an ISO 8601 time since 1970"));
        }
    }
    let mut table = FieldTable::default();
    for (key, json) in fields.iter() {
        table.insert(short(name, key)?, value(name, json)?);
    }
    Ok(AMQPValue::FieldTable(table))
}

/// Encodes a number. An integer that AMQP has no type for becomes text, so that no digit is lost.
fn number(json: &str) -> AMQPValue {
    if json.contains(['.', 'e', 'E']) {
        return json.parse().map_or_else(|_| AMQPValue::LongString(json.into()), AMQPValue::Double);
    }
    match json.parse::<i64>() {
        Ok(number) => i32::try_from(number).map_or(AMQPValue::LongLongInt(number), AMQPValue::LongInt),
        Err(_) => AMQPValue::LongString(json.into()),
    }
}

/// Returns the arguments of a queue as AMQP.
pub(super) fn arguments(queue: &str, arguments: &serde_json::Map<String, Value>) -> Result<FieldTable, SendError> {
    let mut table = FieldTable::default();
    for (name, json) in arguments {
        let json = serde_json::value::to_raw_value(json).map_err(SendError::reject)?;
        table.insert(short(queue, name)?, value(queue, &json)?);
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(json: &str) -> AMQPValue {
        value("x", &RawValue::from_string(json.to_owned()).unwrap()).unwrap()
    }

    fn text(text: &str) -> AMQPValue {
        AMQPValue::LongString(text.into())
    }

    #[test]
    fn json_becomes_what_py_amqp_would_write() {
        assert_eq!(encoded("null"), AMQPValue::Void);
        assert_eq!(encoded("true"), AMQPValue::Boolean(true));
        assert_eq!(encoded("false"), AMQPValue::Boolean(false));
        assert_eq!(encoded("-7"), AMQPValue::LongInt(-7));
        assert_eq!(encoded("2147483648"), AMQPValue::LongLongInt(2_147_483_648));
        assert_eq!(encoded("0.5"), AMQPValue::Double(0.5));
        assert_eq!(encoded(r#""h\u00e9""#), text("hé"));
        assert_eq!(encoded("[null, 1]"), AMQPValue::FieldArray(vec![AMQPValue::Void, AMQPValue::LongInt(1)].into()));
        let mut table = FieldTable::default();
        table.insert("a".into(), AMQPValue::FieldArray(FieldArray::default()));
        assert_eq!(encoded(r#"{"a": []}"#), AMQPValue::FieldTable(table));
    }

    #[test]
    fn what_json_or_amqp_has_no_type_for_is_not_lost() {
        assert_eq!(encoded("123456789012345678901234567890"), text("123456789012345678901234567890"));
        assert_eq!(encoded("[18446744073709551616]"), AMQPValue::FieldArray(vec![text("18446744073709551616")].into()));
        assert_eq!(encoded(r#"{"$bytes": "gAX/"}"#), AMQPValue::LongString(vec![0x80, 0x05, 0xff].into()));
        assert_eq!(encoded(r#"{"$time": "2026-01-01T00:00:00+00:00"}"#), AMQPValue::Timestamp(1_767_225_600));
    }

    #[test]
    fn what_cannot_be_sent_is_refused_by_its_name() {
        let refusal = |json: &str| {
            let fields: Fields<'_> = serde_json::from_str(json).unwrap();
            headers(&fields).unwrap_err().to_string()
        };
        assert!(refusal(r#"{"sum": {"$bytes": "?"}}"#).contains("\"sum\" of the Celery message has \"$bytes\""));
        assert!(refusal(r#"{"at": {"$time": "soon"}}"#).contains("\"at\" of the Celery message has a \"$time\""));
        assert!(refusal(&format!(r#"{{"{}": 1}}"#, "x".repeat(256))).contains("longer than the 255 bytes"));
        let large = format!(r#"{{"a": "{0}", "b": "{0}"}}"#, "x".repeat(70_000));
        assert!(refusal(&large).contains("put large values into the task's arguments"));
        let many = format!(r#"{{"a": [{}0]}}"#, "0,".repeat(30_000));
        assert!(refusal(&many).contains("put large values into the task's arguments"), "each takes five bytes");
    }
}
