//! Decode: reads a message of ours into an event. Pure. Only messages with the log's secret in their prefix are ours; everybody who
//! may connect can write others. A message of ours that cannot be read becomes a dead letter, so that nothing is lost in silence.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::event::{AGGREGATE_LIMIT, Headers, NAME_LIMIT, StoredEvent, read_headers, readable, unstorable};
use crate::store::postgres::lsn::Lsn;

/// The format of a message: its first character.
const VERSION: u8 = b'1';
/// The part of an unreadable message that is kept.
pub(super) const KEPT: usize = 64 * 1024;

/// The prefix of our messages.
#[derive(Debug, Clone)]
pub(super) struct Prefix(String);

/// Whose message a prefix is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Ours,
    /// It claims to be ours, but does not know the secret.
    Forged,
    /// Of another program.
    Other,
}

impl Prefix {
    pub(super) fn new(secret: &str) -> Self {
        Self(format!("pillarbox:{secret}"))
    }

    pub(super) fn origin(&self, prefix: &[u8]) -> Origin {
        if prefix == self.0.as_bytes() {
            Origin::Ours
        } else if prefix.starts_with(b"pillarbox:") {
            Origin::Forged
        } else {
            Origin::Other
        }
    }
}

/// The JSON of a message.
#[derive(Deserialize)]
struct Content<'a> {
    id: Uuid,
    aggregate_type: String,
    aggregate_id: String,
    event_type: String,
    #[serde(borrow)]
    payload: &'a RawValue,
    #[serde(borrow, default)]
    headers: Option<&'a RawValue>,
    #[serde(default)]
    max_attempts: Option<i32>,
    created_at: DateTime<Utc>,
}

/// Reads the content of a message of ours.
///
/// # Errors
/// The reason why it is not an event that the table can hold.
pub(super) fn read(content: &[u8]) -> Result<StoredEvent, String> {
    let (version, json) = content.split_first().ok_or("it is empty")?;
    if *version != VERSION {
        return Err(format!(
            "its format is {:?}, this program reads {:?}; a newer program may have written it",
            char::from(*version),
            char::from(VERSION)
        ));
    }
    let text = std::str::from_utf8(json).map_err(|_| "it is not UTF-8")?;
    let content: Content<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    for (field, text, limit) in [
        ("aggregate_type", &content.aggregate_type, AGGREGATE_LIMIT),
        ("aggregate_id", &content.aggregate_id, AGGREGATE_LIMIT),
        ("event_type", &content.event_type, NAME_LIMIT),
    ] {
        let length = text.chars().count();
        if length == 0 || length > limit || text.contains('\0') {
            return Err(format!("{field} has {length} characters, or one that the database cannot store"));
        }
    }
    let max_attempts = content.max_attempts.map(|most| u32::try_from(most).map_err(|_| "max_attempts is negative"));
    Ok(StoredEvent {
        id: content.id,
        // The log has no such numbers. The table gives it one if it is spilled.
        seq: 0,
        aggregate_type: content.aggregate_type,
        aggregate_id: content.aggregate_id,
        event_type: content.event_type,
        payload: storable("payload", content.payload)?.to_owned(),
        headers: headers(content.headers)?,
        idempotency_key: content.id.to_string(),
        attempts: 0,
        max_attempts: max_attempts.transpose()?,
        claims: 0,
        created_at: readable(content.created_at),
    })
}

fn headers(given: Option<&RawValue>) -> Result<Headers, String> {
    let Some(given) = given else { return Ok(Headers::new()) };
    if !given.get().starts_with('{') {
        return Err("headers is not a JSON object".to_owned());
    }
    Ok(read_headers(Some(storable("headers", given)?.get())))
}

pub(super) fn storable<'a>(field: &str, json: &'a RawValue) -> Result<&'a RawValue, String> {
    match unstorable(json.get()) {
        Some(what) => Err(format!("{field} contains {what}, which the database cannot store")),
        None => Ok(json),
    }
}

/// Returns the dead letter for a message that cannot be read.
pub(super) fn dead_letter(commit: Lsn, index: u32, content: &[u8], now: DateTime<Utc>) -> Arc<StoredEvent> {
    let kept = &content[..content.len().min(KEPT)];
    let json = match std::str::from_utf8(kept) {
        Ok(text) if !text.contains('\0') => serde_json::json!({ "content": text }),
        // Also a text that was cut within a character.
        _ => {
            use base64::Engine as _;
            serde_json::json!({ "base64": base64::engine::general_purpose::STANDARD.encode(kept) })
        }
    };
    unreadable(commit, index, &json, now)
}

/// Returns the dead letter for what cannot be read. Its id follows from its position, so that what is read twice is one dead letter.
pub(super) fn unreadable(commit: Lsn, index: u32, kept: &serde_json::Value, now: DateTime<Utc>) -> Arc<StoredEvent> {
    let mut bytes = *b"pillarbox....???";
    bytes[..8].copy_from_slice(&commit.0.to_be_bytes());
    bytes[12..].copy_from_slice(&index.to_be_bytes());
    let id = uuid::Builder::from_custom_bytes(bytes).into_uuid();
    let payload = RawValue::from_string(kept.to_string()).unwrap_or_else(|_| RawValue::NULL.to_owned());
    Arc::new(StoredEvent {
        id,
        seq: 0,
        aggregate_type: "pillarbox".to_owned(),
        aggregate_id: format!("{commit}+{index}"),
        event_type: "unreadable".to_owned(),
        payload,
        headers: Headers::new(),
        idempotency_key: id.to_string(),
        attempts: 0,
        max_attempts: None,
        claims: 0,
        created_at: now,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

    fn message(change: impl FnOnce(&mut serde_json::Value)) -> String {
        let mut json = serde_json::json!({
            "id": ID, "aggregate_type": "Order", "aggregate_id": "42", "event_type": "order.placed",
            "payload": {"a": 1}, "headers": null, "max_attempts": null, "created_at": "2026-01-02T03:04:05.000006Z",
        });
        change(&mut json);
        format!("1{json}")
    }

    #[test]
    fn a_message_is_an_event_whose_key_is_its_id() {
        let event = read(message(|_| {}).as_bytes()).unwrap();
        assert_eq!((event.id.to_string(), event.idempotency_key.as_str()), (ID.to_owned(), ID));
        assert_eq!((event.payload.get(), event.max_attempts, event.headers.len()), (r#"{"a":1}"#, None, 0));
        assert_eq!(event.created_at.timestamp_subsec_micros(), 6);
        let event = read(
            message(|json| {
                json["headers"] = serde_json::json!({"tenant": "a", "n": 1});
                json["max_attempts"] = 0.into();
                json["added_later"] = true.into();
            })
            .as_bytes(),
        )
        .unwrap();
        assert_eq!(
            (event.max_attempts, event.headers["tenant"].as_str(), event.headers["n"].as_str()),
            (Some(0), "a", "1")
        );
    }

    #[test]
    fn what_the_table_cannot_hold_is_not_an_event() {
        let refusal = |text: String| read(text.as_bytes()).unwrap_err();
        assert_eq!(refusal(String::new()), "it is empty");
        assert!(refusal("2{}".to_owned()).contains("its format is '2', this program reads '1'"));
        assert!(refusal("1{".to_owned()).contains("EOF"));
        assert!(refusal("1{}".to_owned()).contains("missing field"));
        assert!(refusal(message(|json| json["event_type"] = "".into())).starts_with("event_type has 0"));
        assert!(
            refusal(message(|json| json["aggregate_id"] = "x".repeat(101).into())).starts_with("aggregate_id has 101")
        );
        assert!(refusal(message(|json| json["max_attempts"] = (-1).into())).contains("negative"));
        assert!(refusal(message(|json| json["headers"] = 1.into())).contains("not a JSON object"));
        assert!(refusal(message(|json| json["payload"] = "a\0".into())).contains("payload contains a NUL"));
        assert_eq!(read(b"1\xff").unwrap_err(), "it is not UTF-8");
    }

    #[test]
    fn only_the_secret_makes_a_message_ours() {
        let prefix = Prefix::new("abc");
        assert_eq!(prefix.origin(b"pillarbox:abc"), Origin::Ours);
        assert_eq!(prefix.origin(b"pillarbox:abd"), Origin::Forged);
        assert_eq!(prefix.origin(b"pillarbox:abcd"), Origin::Forged);
        assert_eq!(prefix.origin(b"debezium"), Origin::Other);
    }

    #[test]
    fn a_dead_letter_is_the_same_when_it_is_read_again() {
        let now = Utc::now();
        let letter = dead_letter(Lsn(0x16_0000_0001), 3, b"1{", now);
        assert_eq!(letter.id, dead_letter(Lsn(0x16_0000_0001), 3, b"1{", now).id);
        assert_ne!(letter.id, dead_letter(Lsn(0x16_0000_0001), 4, b"1{", now).id);
        assert_ne!(letter.id, dead_letter(Lsn(0x16_0000_0002), 3, b"1{", now).id);
        assert_eq!((letter.aggregate_id.as_str(), letter.payload.get()), ("16/1+3", r#"{"content":"1{"}"#));
        let binary = dead_letter(Lsn(1), 0, &[0xff; 100_000], now);
        assert!(binary.payload.get().starts_with(r#"{"base64":"#) && binary.payload.get().len() < 90_000);
    }

    proptest::proptest! {
        #[test]
        fn any_content_is_an_event_or_a_dead_letter(content in proptest::collection::vec(0_u8.., 0..200)) {
            let content = [b"1", &content[..]].concat();
            if read(&content).is_err() {
                let letter = dead_letter(Lsn(1), 0, &content, Utc::now());
                proptest::prop_assert!(unstorable(letter.payload.get()).is_none());
            }
        }
    }
}
