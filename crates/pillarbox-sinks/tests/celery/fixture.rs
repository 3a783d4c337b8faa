//! Messages, sinks and a look into the brokers.

use std::sync::Arc;
use std::time::Duration;

use lapin::message::BasicGetMessage;
use lapin::options::{BasicGetOptions, QueueDeclareOptions, QueuePurgeOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ConnectionProperties};
use pillarbox::{Message, SendError, Sink, StoredEvent};
use pillarbox_sinks::celery::{CelerySettings, CelerySink};
use pillarbox_testkit::wait_until;
use serde_json::{Value, json};
use uuid::Uuid;

/// No test waits that long unless it says so.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A name that no other test uses.
pub(crate) fn unique(name: &str) -> String {
    format!("{name}.{}", Uuid::new_v4().simple())
}

pub(crate) fn settings(broker: impl Into<String>) -> CelerySettings {
    CelerySettings { timeout: PATIENCE, ..CelerySettings::new(broker.into()) }
}

pub(crate) fn sink(settings: CelerySettings) -> CelerySink {
    CelerySink::new(settings).unwrap()
}

/// A recorded message of this task, with more keys of the stored form.
#[expect(clippy::needless_pass_by_value, reason = "it reads better at its many calls")]
pub(crate) fn task(name: &str, more: Value) -> StoredEvent {
    let id = Uuid::new_v4().to_string();
    let mut payload = json!({ "celery": 1, "body": "[[42], {}, {}]", "headers": { "task": name, "id": id } });
    for (key, value) in more.as_object().unwrap() {
        match (payload.get_mut(key), value) {
            (Some(Value::Object(known)), Value::Object(value)) => known.extend(value.clone()),
            _ => payload[key] = value.clone(),
        }
    }
    StoredEvent::task_for_tests(name, &payload.to_string())
}

/// An ordinary event whose payload, which came from outside, is a message for a queue of somebody else's choice.
pub(crate) fn forged(queue: &str) -> StoredEvent {
    let recorded = task("evil", json!({ "exchange": "", "routing_key": queue, "queue": queue }));
    StoredEvent::for_tests("order.placed", recorded.payload.get())
}

/// A recorded message for a queue that its producer resolved.
pub(crate) fn to_queue(queue: &str) -> StoredEvent {
    task("orders.process", json!({ "exchange": "", "routing_key": queue, "queue": queue }))
}

pub(crate) async fn send(sink: &CelerySink, events: Vec<StoredEvent>) -> Vec<Result<(), SendError>> {
    let batch: Vec<_> = events.into_iter().map(|event| Message::new(Arc::new(event), 1)).collect();
    let answers = sink.send(&batch).await;
    assert_eq!(answers.len(), batch.len());
    answers
}

pub(crate) async fn send_one(sink: &CelerySink, event: StoredEvent) -> Result<(), SendError> {
    send(sink, vec![event]).await.remove(0)
}

/// A channel of one's own to look around.
pub(crate) struct Rabbit {
    pub(crate) channel: Channel,
    _connection: Connection,
}

impl Rabbit {
    pub(crate) async fn connect(url: &str) -> Self {
        let url = url.replace("//", "/%2f").replacen(":/%2f", "://", 1);
        let connection = Connection::connect(&url, ConnectionProperties::default()).await.unwrap();
        Self { channel: connection.create_channel().await.unwrap(), _connection: connection }
    }

    pub(crate) async fn shared() -> Self {
        Self::connect(&pillarbox_testkit::rabbitmq::shared_url()).await
    }

    /// A durable queue of this name, with these arguments.
    pub(crate) async fn queue(&self, name: &str, arguments: &[(&str, AMQPValue)]) {
        let mut table = FieldTable::default();
        for (name, value) in arguments {
            table.insert((*name).into(), value.clone());
        }
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        self.channel.queue_declare(name.into(), durable, table).await.unwrap();
    }

    /// The next message of a queue.
    pub(crate) async fn next(&self, queue: &str) -> Option<BasicGetMessage> {
        self.channel.basic_get(queue.into(), BasicGetOptions { no_ack: true }).await.unwrap()
    }

    /// How many messages wait in a queue.
    pub(crate) async fn count(&self, queue: &str) -> u32 {
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        self.channel.queue_declare(queue.into(), passive, FieldTable::default()).await.unwrap().message_count()
    }

    /// Waits for a message.
    pub(crate) async fn take(&self, queue: &str) -> BasicGetMessage {
        let mut message = None;
        wait_until("a message is there", PATIENCE, async || {
            message = self.next(queue).await;
            message.is_some()
        })
        .await;
        message.unwrap()
    }

    pub(crate) async fn purge(&self, queue: &str) {
        self.channel.queue_purge(queue.into(), QueuePurgeOptions::default()).await.unwrap();
    }
}

/// A header of an AMQP message.
pub(crate) fn header<'a>(message: &'a BasicGetMessage, name: &str) -> Option<&'a AMQPValue> {
    message.properties.headers().as_ref()?.inner().get(name)
}

pub(crate) fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

/// A connection to look into Redis.
pub(crate) async fn redis(url: &str) -> ::redis::aio::MultiplexedConnection {
    pillarbox_testkit::redis::connect(url).await
}

pub(crate) async fn shared_redis() -> ::redis::aio::MultiplexedConnection {
    redis(&pillarbox_testkit::redis::shared_url()).await
}
