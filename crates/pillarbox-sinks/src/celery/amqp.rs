//! RabbitMQ as Celery uses it: `encode` encodes a message, `declare` declares queues, `publish` sends a batch.

mod declare;
mod encode;
mod publish;

use std::time::Duration;

use amq_protocol::uri::AMQPUri;
use pillarbox::{Message, SendError};
use rustls::ClientConfig;

use self::declare::Declared;
use super::route::Routing;
use crate::rabbitmq::Rabbit;

/// A broker that speaks AMQP.
pub(super) struct Amqp {
    rabbit: Rabbit<Declared>,
    task: Option<String>,
    routing: Routing,
    declares: bool,
}

impl Amqp {
    pub(super) fn new(addresses: Vec<AMQPUri>, tls: ClientConfig, settings: AmqpSettings) -> Self {
        let AmqpSettings { task, routing, declares, timeout } = settings;
        Self { rabbit: Rabbit::new(addresses, tls, timeout), task, routing, declares }
    }

    pub(super) async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        publish::send(self, batch, self.rabbit.deadline()).await
    }

    pub(super) async fn reach(&self) -> Result<(), SendError> {
        self.rabbit.session(self.rabbit.deadline()).await.map(drop)
    }
}

/// The sink's settings besides the broker.
pub(super) struct AmqpSettings {
    pub(super) task: Option<String>,
    pub(super) routing: Routing,
    pub(super) declares: bool,
    pub(super) timeout: Duration,
}
