//! The HTTP sink against real servers on this host: what they get, and what their answers come to.

#![allow(clippy::unwrap_used)]

mod answers;
mod receiver;
mod refusals;
mod requests;
mod signatures;

use std::sync::Arc;
use std::time::Duration;

use pillarbox::{Message, SendError, Sink, StoredEvent};
use pillarbox_sinks::http::{HttpSettings, HttpSink};

/// A receiver on this host, with a timeout that no test waits for unless it says so.
fn local(url: impl Into<String>) -> HttpSettings {
    HttpSettings { allow_private: true, timeout: Duration::from_secs(60), ..HttpSettings::new(url) }
}

fn placed() -> StoredEvent {
    StoredEvent::for_tests("order.placed", r#"{"total": 19.90}"#)
}

async fn deliver(sink: &HttpSink, event: StoredEvent) -> Result<(), SendError> {
    let mut answers = sink.send(&[Message::new(Arc::new(event), 1)]).await;
    assert_eq!(answers.len(), 1);
    answers.remove(0)
}

async fn send(settings: HttpSettings, event: StoredEvent) -> Result<(), SendError> {
    deliver(&HttpSink::new(settings).unwrap(), event).await
}

async fn failure(settings: HttpSettings) -> SendError {
    send(settings, placed()).await.unwrap_err()
}
