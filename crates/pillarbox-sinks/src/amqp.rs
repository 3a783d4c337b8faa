//! Sends to RabbitMQ by AMQP 0-9-1: an exchange and a routing key per event, with publisher confirms.
//!
//! `letter` is an event as a message, `declare` declares exchanges and queues, `settings` and `keys` are the configuration. The
//! client is `rabbitmq`, which the kind "celery" uses too.

mod declare;
mod keys;
mod letter;
mod settings;

use std::fmt;

use async_trait::async_trait;
use pillarbox::{Message, SendError, Sink};

use self::declare::Declared;
pub use self::keys::{Amqp, KIND};
use self::letter::Letter;
pub use self::settings::{AmqpDeclare, AmqpError, AmqpSettings, QueueType};
use crate::rabbitmq::publish::Flight;
use crate::rabbitmq::{Rabbit, Session, address, failure};
use crate::tls::client_config;

/// The size of a batch: enough to keep a broker busy, small enough to be confirmed within a timeout.
const BATCH: usize = 500;

/// A RabbitMQ broker.
///
/// | response | result |
/// |---|---|
/// | the broker confirmed the message | delivered |
/// | no connection, wrong login, a blocked, silent or slow broker | `Unavailable` |
/// | no confirm in time, while the broker confirms messages to other queues | `Timeout` |
/// | returned, nacked, an exchange or a queue that does not exist or has other arguments | `Retry` |
/// | a body that is too large, a name of more than 255 bytes | `Reject` |
///
/// Sending is safe to cancel: messages in flight may arrive twice. RabbitMQ can store a message after one that it nacked, so
/// the sink does not keep the order of a run.
pub struct AmqpSink {
    rabbit: Rabbit<Declared>,
    settings: AmqpSettings,
    shown: String,
}

impl AmqpSink {
    /// Returns a sink for one broker. It connects when there is something to send.
    ///
    /// # Errors
    /// Says which setting is wrong and what to do, without showing secrets.
    pub fn new(settings: AmqpSettings) -> Result<Self, AmqpError> {
        let addresses = settings.checked()?;
        // The client uses the process's default TLS provider. The application may have installed one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let tls = client_config(&settings.tls, address::have_tls(&addresses))?;
        let shown = address::all_shown(&addresses);
        Ok(Self { rabbit: Rabbit::new(addresses, tls, settings.timeout), settings, shown })
    }

    /// Publishes the messages that can be declared. The results come in any order.
    async fn deliver<'l>(
        &self,
        session: &Session<Declared>,
        flight: &Flight<'_>,
        letters: Vec<&'l Letter<'l>>,
    ) -> Vec<(&'l Letter<'l>, Result<(), SendError>)> {
        if let Err(blocked) = flight.check_blocked() {
            return letters.into_iter().map(|letter| (letter, Err(blocked.clone()))).collect();
        }
        let mut results = Vec::with_capacity(letters.len());
        let mut ready = letters;
        if let Some(wanted) = &self.settings.declare {
            let declared = session.state.all(flight, wanted, &ready).await;
            let (fine, failed): (Vec<_>, Vec<_>) = ready.into_iter().zip(declared).partition(|(_, done)| done.is_ok());
            results.extend(failed);
            ready = fine.into_iter().map(|(letter, _)| letter).collect();
        }
        let published = flight.publish(&ready).await;
        if published.iter().any(Result::is_err) {
            // The queue or exchange may have been deleted since. The next attempt declares it again.
            session.state.forget();
        }
        results.extend(ready.into_iter().zip(published));
        results
    }
}

#[async_trait]
impl Sink for AmqpSink {
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        let deadline = self.rabbit.deadline();
        let mut results: Vec<Result<(), SendError>> = vec![Ok(()); batch.len()];
        let mut letters = Vec::with_capacity(batch.len());
        for (position, message) in batch.iter().enumerate() {
            match Letter::new(position, message, &self.settings) {
                Ok(letter) => letters.push(letter),
                Err(error) => results[position] = Err(error),
            }
        }
        let letters: Vec<&Letter<'_>> = letters.iter().collect();
        match self.rabbit.session(deadline).await {
            Ok(session) => {
                let flight = Flight { link: &session.link, deadline, timeout: self.rabbit.timeout() };
                for (letter, result) in self.deliver(&session, &flight, letters).await {
                    results[letter.position] = result;
                }
            }
            Err(error) => letters.iter().for_each(|letter| results[letter.position] = Err(error.clone())),
        }
        results
    }

    /// Connects, and checks that the exchange exists if all events have the same one, or the queue if they go to one by its
    /// name. What the sink declares itself need not exist yet.
    async fn reach(&self) -> Result<(), SendError> {
        let deadline = self.rabbit.deadline();
        let session = self.rabbit.session(deadline).await?;
        if self.settings.declare.is_some() {
            return Ok(());
        }
        let names = (self.settings.exchange.constant(), self.settings.routing_key.constant());
        let checking = async {
            let mut channel = session.link.open().await?;
            match names {
                (Some(""), Some(queue)) => channel.find_queue(queue.into()).await,
                (Some(""), None) | (None, _) => Ok(()),
                (Some(exchange), _) => channel.find_exchange(exchange.into()).await,
            }
        };
        match tokio::time::timeout_at(deadline.into(), checking).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(fault)) if fault.is_of_the_channel() => Err(SendError::retry(format!(
                "RabbitMQ at {} refused the check of the {}: {fault}",
                session.link.address,
                match names {
                    (Some(""), queue) => format!("queue {:?}", queue.unwrap_or_default()),
                    (exchange, _) => format!("exchange {:?}", exchange.unwrap_or_default()),
                }
            ))),
            Ok(Err(fault)) => Err(failure::lost(&session.link.address, &fault)),
            Err(_) => Err(SendError::unavailable(format!("RabbitMQ at {} did not respond", session.link.address))),
        }
    }

    fn batch_limit(&self) -> usize {
        BATCH
    }
}

impl fmt::Debug for AmqpSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AmqpSink").field("url", &self.shown).finish_non_exhaustive()
    }
}
