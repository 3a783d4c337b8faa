//! Send: the test event that a person sends to one destination. It is in no table, and no relay claims it.
//!
//! Receivers can tell it from the application's events. Its header is set by sinks only, and its id is of a form that no other
//! event has, so that a receiver that verifies a signature over the id need not trust the header.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use chrono::{SecondsFormat, Utc};
use futures_util::FutureExt as _;
use serde_json::json;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{Message, Receipt, SendError, Sink};
use crate::clock;
use crate::event::{Headers, StoredEvent};
use crate::observe::panic_message;

/// The type of the event.
pub const EVENT_TYPE: &str = "pillarbox.test";
/// The type of its aggregate.
pub const AGGREGATE_TYPE: &str = "pillarbox";
/// The id of its aggregate.
pub const AGGREGATE_ID: &str = "test";
/// The header that marks a message as a test: its value is `true`.
pub const HEADER: &str = "pillarbox-test";
/// The beginning of its id: a UUID of version 8 that begins with the bytes `pillte`. Other events have ids of version 7 or 4.
pub const ID_PREFIX: &str = "70696c6c-7465-8";

/// The result of a test event.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Tested {
    /// The id of the test event, as the receiver got it.
    pub id: Uuid,
    /// The time from the send to the response.
    pub took: Duration,
    /// The response.
    pub result: Result<Receipt, SendError>,
}

/// Returns the message of a test event for a destination. `headers` are those that an application would set, for names that are
/// made from them.
pub(super) fn message(destination: &str, headers: Headers) -> Message {
    let now = Utc::now();
    let payload = json!({
        "test": true,
        "message": "This is a test event of Pillarbox. A person sent it to see whether the destination works. It is not an event \
                    of the application: ignore it.",
        "destination": destination,
        "sent_at": now.to_rfc3339_opts(SecondsFormat::Millis, true),
    });
    let event = StoredEvent {
        id: id(),
        seq: 0,
        aggregate_type: AGGREGATE_TYPE.to_owned(),
        aggregate_id: AGGREGATE_ID.to_owned(),
        event_type: EVENT_TYPE.to_owned(),
        payload: RawValue::from_string(payload.to_string()).unwrap_or_else(|_| RawValue::NULL.to_owned()),
        headers,
        idempotency_key: String::new(),
        attempts: 0,
        max_attempts: None,
        claims: 0,
        created_at: now,
    };
    Message { is_test: true, ..Message::new(Arc::new(event), 1) }
}

/// Returns a new id.
fn id() -> Uuid {
    let mut bytes = *Uuid::new_v4().as_bytes();
    bytes[..6].copy_from_slice(b"pillte");
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// Sends a test event as a relay would: through the sink, within the timeout.
pub(crate) async fn send(sink: &dyn Sink, destination: &str, headers: Headers, timeout: Option<Duration>) -> Tested {
    let message = message(destination, headers);
    let (id, started) = (message.id, clock::now());
    let batch = [message];
    let sending = AssertUnwindSafe(sink.send_for_receipts(&batch)).catch_unwind();
    let answers = match timeout {
        Some(timeout) => tokio::time::timeout(timeout, sending).await,
        None => Ok(sending.await),
    };
    let result = match answers {
        Ok(Ok(answers)) => {
            let missing = || Err(SendError::retry("the sink returned no result for this event"));
            answers.into_iter().next().unwrap_or_else(missing)
        }
        Ok(Err(panic)) => Err(SendError::retry(format!("the handler panicked: {}", panic_message(&*panic)))),
        Err(_) => Err(SendError::timeout(format!("no response within {:?}", timeout.unwrap_or_default()))),
    };
    Tested { id, took: clock::since(started), result }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;

    #[test]
    fn its_id_is_of_a_form_that_no_other_event_has() {
        let (one, other) = (id(), id());
        assert!(one.to_string().starts_with(ID_PREFIX) && other.to_string().starts_with(ID_PREFIX), "{one} {other}");
        assert_ne!(one, other);
        assert_eq!(one.get_version_num(), 8);
        assert!(!Uuid::now_v7().to_string().starts_with(ID_PREFIX));
    }

    #[test]
    fn it_says_what_it_is() {
        let message = message("billing", Headers::new());
        assert!(message.is_test() && !Message::new(Arc::new(StoredEvent::for_tests("a", "{}")), 1).is_test());
        assert_eq!(
            (&*message.event_type, &*message.aggregate_type, &*message.aggregate_id),
            ("pillarbox.test", "pillarbox", "test")
        );
        let payload: serde_json::Value = message.payload_as().unwrap();
        assert_eq!((&payload["test"], &payload["destination"]), (&json!(true), &json!("billing")));
    }

    struct Broken(&'static str);

    #[async_trait]
    impl Sink for Broken {
        async fn send(&self, _: &[Message]) -> Vec<Result<(), SendError>> {
            match self.0 {
                "panics" => panic!("boom"),
                "hangs" => std::future::pending().await,
                _ => Vec::new(),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_failure_of_a_sink_is_a_result() {
        for (how, told) in [("panics", "panicked: boom"), ("hangs", "no response within 10s"), ("is mute", "no result")]
        {
            let tested = send(&Broken(how), "mail", Headers::new(), Some(Duration::from_secs(10))).await;
            let error = tested.result.unwrap_err();
            assert!(error.message.contains(told), "{error}");
        }
    }
}
