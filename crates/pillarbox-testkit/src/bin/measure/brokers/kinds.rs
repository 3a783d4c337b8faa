//! The kinds of brokers, and how each is started.

use clap::ValueEnum;
use pillarbox_testkit::brokers::nats::NatsServer;
use pillarbox_testkit::brokers::rabbitmq::RabbitBroker;
use pillarbox_testkit::brokers::{Aws, AwsTarget, Broker, KafkaBroker, RedisBroker};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    Kafka,
    Nats,
    Amqp,
    Redis,
    Sqs,
    SqsFifo,
    Sns,
    SnsFifo,
}

impl Kind {
    pub(super) fn all() -> Vec<Self> {
        Self::value_variants().to_vec()
    }

    /// Returns how many events a case has. The server for SQS and SNS is slow.
    pub(super) fn events(self) -> usize {
        if self.target().is_some() { 2_000 } else { 20_000 }
    }

    fn target(self) -> Option<AwsTarget> {
        match self {
            Self::Sqs => Some(AwsTarget::Queue),
            Self::SqsFifo => Some(AwsTarget::FifoQueue),
            Self::Sns => Some(AwsTarget::Topic),
            Self::SnsFifo => Some(AwsTarget::FifoTopic),
            _ => None,
        }
    }

    /// Starts a broker of its own, with TLS or without.
    pub(super) async fn start(self, tls: bool) -> Box<dyn Broker> {
        if let Some(target) = self.target() {
            return if tls { Box::new(Aws::start_with_tls(target).await) } else { Box::new(Aws::start(target).await) };
        }
        match (self, tls) {
            (Self::Kafka, false) => Box::new(KafkaBroker::start().await),
            (Self::Kafka, true) => Box::new(KafkaBroker::start_with_tls().await),
            (Self::Nats, false) => Box::new(NatsServer::start().await),
            (Self::Nats, true) => Box::new(NatsServer::start_with_tls().await),
            (Self::Amqp, false) => Box::new(RabbitBroker::private().await),
            (Self::Amqp, true) => Box::new(RabbitBroker::private().await),
            (_, false) => Box::new(RedisBroker::start().await),
            (_, true) => Box::new(RedisBroker::start_with_tls().await),
        }
    }
}
