//! The throughput of the receiving side and its client without a database: the limit of the sinks. And of MariaDB without a relay.

pub(crate) mod amqp;
pub(crate) mod http;
pub(crate) mod mysql;
pub(crate) mod redis;

use std::time::Instant;

use anyhow::{Result, bail};
use pillarbox::{Message, Sink, StoredEvent};
use serde_json::{Value, json};

use crate::fill::{payload, task};
use crate::usage::Usage;

/// Returns an event as a relay would have it.
fn message(event_type: &str, payload: &str) -> Message {
    Message::new(StoredEvent::for_tests(event_type, payload).into(), 1)
}

/// Returns a plain event.
fn plain(bytes: usize) -> Message {
    message("order.placed", &payload(bytes).to_string())
}

/// Sends one recorded Celery message through the sink, so that the stored message can be read from the broker and copied.
async fn send_one(broker: &str, queue: &str, bytes: usize) -> Result<()> {
    let row = task(bytes).into_event()?.1.prepare()?;
    let sink = crate::relay::celery(broker, queue)?;
    for answer in sink.send(&[message(&row.event_type, &row.payload)]).await {
        if let Err(error) = answer {
            bail!("the broker did not take the message: {error}");
        }
    }
    Ok(())
}

fn report(count: u64, bytes: usize, began: Instant) -> Result<Value> {
    let seconds = began.elapsed().as_secs_f64();
    let usage = Usage::now()?;
    Ok(json!({ "count": count, "bytes": bytes, "seconds": seconds, "rate": count as f64 / seconds, "usage": usage }))
}
