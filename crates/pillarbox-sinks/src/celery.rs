//! Sends to Celery: messages that unmodified Celery workers run, on RabbitMQ or on Redis.
//!
//! The path of a message: `message` completes a recorded message, or makes a task from a plain event. `route` chooses its
//! queue or exchange. `moment` computes the values that depend on the time of sending. `amqp` and `redis` encode and send
//! it, each to its kind of broker. `keys` reads the configuration.

mod amqp;
mod broker;
mod keys;
mod message;
mod moment;
mod redis;
mod route;
mod settings;

use std::fmt;

use async_trait::async_trait;
use pillarbox::{Message, SendError, Sink};

use self::amqp::{Amqp, AmqpSettings};
use self::broker::Broker;
pub use self::keys::{BROKER_VARIABLE, Celery, CeleryTarget, KIND};
use self::redis::Redis;
use self::route::Routing;
pub use self::settings::{CeleryError, CeleryQueue, CeleryRoute, CelerySettings, QueueType};
use crate::rabbitmq::address;
use crate::tls::client_config;

/// A Celery broker.
///
/// | response | result |
/// |---|---|
/// | the broker confirmed the message | delivered |
/// | no connection, wrong login, a blocked, read-only, silent or slow broker | `Unavailable` |
/// | no confirm in time, while the broker confirms messages to other queues | `Timeout` |
/// | returned, refused, a queue or an exchange that does not exist or has other arguments | `Retry` |
/// | a recorded message of an unknown version, or one that cannot be encoded | `Reject` |
///
/// Sending is safe to cancel: messages in flight may arrive twice.
pub struct CelerySink {
    client: Client,
    shown: String,
}

enum Client {
    Amqp(Box<Amqp>),
    Redis(Box<Redis>),
}

impl CelerySink {
    /// Returns a sink for one broker. It connects when there is something to send.
    ///
    /// # Errors
    /// Says which setting is wrong and what to do, without showing secrets.
    pub fn new(settings: CelerySettings) -> Result<Self, CeleryError> {
        let broker = settings.checked()?;
        // The clients use the process's default TLS provider. The application may have installed one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let shown = broker.shown();
        let routing = Routing::new(&settings);
        let client = match broker {
            Broker::Amqp(addresses) => {
                let CelerySettings { task, declare: declares, timeout, tls, .. } = settings;
                let tls = client_config(&tls, address::have_tls(&addresses))?;
                let settings = AmqpSettings { task, routing, declares, timeout };
                Client::Amqp(Box::new(Amqp::new(addresses, tls, settings)))
            }
            Broker::Redis(server) => Client::Redis(Box::new(Redis::new(&server, shown.clone(), routing, settings)?)),
        };
        Ok(Self { client, shown })
    }
}

/// The size of a batch: enough to keep a broker busy, small enough to be confirmed within a timeout.
const BATCH: usize = 500;

#[async_trait]
impl Sink for CelerySink {
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        match &self.client {
            Client::Amqp(amqp) => amqp.send(batch).await,
            Client::Redis(redis) => redis.send(batch).await,
        }
    }

    async fn reach(&self) -> Result<(), SendError> {
        match &self.client {
            Client::Amqp(amqp) => amqp.reach().await,
            Client::Redis(redis) => redis.reach().await,
        }
    }

    fn batch_limit(&self) -> usize {
        BATCH
    }
}

impl fmt::Debug for CelerySink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CelerySink").field("broker", &self.shown).finish_non_exhaustive()
    }
}
