//! NATS: the suite of all sinks, logins, TLS, formats, permissions, duplicates, order, and a cluster whose leader is killed.

mod cluster;
mod logins;
mod messages;

use std::sync::Arc;

use pillarbox::{Message, SendError, Sink, StoredEvent};
use pillarbox_testkit::brokers::TIMEOUT;
use pillarbox_testkit::brokers::nats::NatsServer;

async fn open() -> NatsServer {
    NatsServer::start().await
}

pillarbox_testkit::sink_suite!(open);

fn message(aggregate: &str, payload: &str) -> Message {
    let mut event = StoredEvent::for_tests("order.placed", payload);
    aggregate.clone_into(&mut event.aggregate_id);
    Message::new(Arc::new(event), 1)
}

/// Returns a run of this many messages of one aggregate.
fn run(aggregate: &str, length: usize) -> Vec<Message> {
    let messages = (0..length).map(|number| message(aggregate, &format!(r#"{{"number":{number}}}"#)));
    messages.enumerate().map(|(place, message)| if place == 0 { message } else { message.following() }).collect()
}

/// Sends a batch as the relay does, under the timeout.
async fn send(sink: &dyn Sink, batch: &[Message]) -> Vec<Result<(), SendError>> {
    tokio::time::timeout(TIMEOUT, sink.send(batch)).await.expect("the sink returns before the relay drops the batch")
}

async fn send_one(sink: &dyn Sink, message: &Message) -> Result<(), SendError> {
    send(sink, std::slice::from_ref(message)).await.remove(0)
}

fn ids(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|message| message.id.to_string()).collect()
}
