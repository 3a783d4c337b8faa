//! Declares exchanges, queues and bindings before messages are sent, each once per connection. Each declaration has a
//! channel of its own, because the broker closes a channel that declares something with other arguments than it has.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use amq_protocol::types::{AMQPValue, FieldTable, ShortString};
use pillarbox::SendError;
use pillarbox::celery::Declaration;

use super::encode;
use super::publish::Task;
use crate::celery::moment::DELAY_BITS;
use crate::celery::route::Routing;
use crate::celery::settings::DIRECT;
use crate::rabbitmq::Link;
use crate::rabbitmq::failure::{self, Fault};
use crate::rabbitmq::publish::Flight;

const DELAY_DELIVERY: &str = "celery_delayed_delivery";

/// The declarations already made on a connection, by the queue's name.
#[derive(Default)]
pub(super) struct Declared {
    queues: Mutex<BTreeMap<String, (Declaration, bool)>>,
    delays: Mutex<bool>,
}

/// The reason why a declaration failed.
enum Problem {
    Broker(Fault),
    Unsendable(SendError),
}

impl From<Fault> for Problem {
    fn from(error: Fault) -> Self {
        Self::Broker(error)
    }
}

impl From<SendError> for Problem {
    fn from(error: SendError) -> Self {
        Self::Unsendable(error)
    }
}

impl Declared {
    /// Declares the queues and exchanges of these messages. Returns one result per message, in order.
    pub(super) async fn all(
        &self,
        flight: &Flight<'_>,
        routing: &Routing,
        parcels: &[&Task<'_>],
    ) -> Vec<Result<(), SendError>> {
        let mut tried: Vec<(Declaration, bool, Result<(), SendError>)> = Vec::new();
        let mut answers = Vec::with_capacity(parcels.len());
        for parcel in parcels {
            let mut answer = Ok(());
            let delayed = parcel.target.delay.is_some();
            for wanted in routing.declarations(&parcel.message.recorded, &parcel.target) {
                let known = tried.iter().find(|(queue, with_delay, _)| *queue == *wanted && *with_delay == delayed);
                let declared = match known {
                    Some((_, _, declared)) => declared.clone(),
                    None => {
                        let declared = self.once(flight, &wanted, delayed).await;
                        tried.push((wanted.into_owned(), delayed, declared.clone()));
                        declared
                    }
                };
                answer = answer.and(declared);
            }
            answers.push(answer);
        }
        answers
    }

    /// Makes the next attempt declare every queue again, and with `delays` the delayed delivery too.
    pub(super) fn forget(&self, delays: bool) {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).clear();
        if delays {
            *self.delays.lock().unwrap_or_else(PoisonError::into_inner) = false;
        }
    }

    async fn once(&self, flight: &Flight<'_>, wanted: &Declaration, delayed: bool) -> Result<(), SendError> {
        let link = flight.link;
        let is_known = |(queue, with_delay): &(Declaration, bool)| queue == wanted && (*with_delay || !delayed);
        if self.queues.lock().unwrap_or_else(PoisonError::into_inner).get(&wanted.queue).is_some_and(is_known) {
            return Ok(());
        }
        let declaring = async {
            if delayed {
                self.delays(link).await?;
            }
            declare(link, wanted, delayed).await
        };
        match tokio::time::timeout_at(flight.deadline.into(), declaring).await {
            Ok(Ok(())) => {
                link.hears();
                let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
                queues.insert(wanted.queue.clone(), (wanted.clone(), delayed));
                Ok(())
            }
            Ok(Err(Problem::Unsendable(error))) => Err(error),
            Ok(Err(Problem::Broker(error))) => Err(explained(&error, wanted, link)),
            Err(_) => Err(flight.unanswered(&format!("declare the queue {:?}", wanted.queue))),
        }
    }

    /// Declares the exchanges and queues of native delayed delivery, as workers do.
    async fn delays(&self, link: &Link) -> Result<(), Problem> {
        if *self.delays.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(());
        }
        let level = |level: usize| ShortString::from(format!("celery_delayed_{level}"));
        let mut channel = link.open().await?;
        for current in (0..DELAY_BITS).rev() {
            channel.declare_exchange(level(current), "topic", true).await?;
        }
        channel.declare_exchange(DELAY_DELIVERY.into(), "topic", true).await?;
        for current in (0..DELAY_BITS).rev() {
            let next = if current == 0 { DELAY_DELIVERY.into() } else { level(current - 1) };
            // A worker may be configured to declare classic queues. They work too.
            let declared = delay_queue(link, level(current), &next, current).await;
            declared.or_else(|fault| if fault.is_precondition() { Ok(()) } else { Err(fault) })?;
            let stars = "*.".repeat(DELAY_BITS - 1 - current);
            channel.bind_queue(level(current), level(current), format!("{stars}1.#").into()).await?;
            channel.bind_exchange(next, level(current), format!("{stars}0.#").into()).await?;
        }
        *self.delays.lock().unwrap_or_else(PoisonError::into_inner) = true;
        Ok(())
    }
}

/// Declares a queue that holds messages for 2^level seconds and then passes them on.
async fn delay_queue(link: &Link, name: ShortString, next: &ShortString, level: usize) -> Result<(), Fault> {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    arguments.insert("x-dead-letter-strategy".into(), AMQPValue::LongString("at-least-once".into()));
    arguments.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
    arguments.insert("x-message-ttl".into(), AMQPValue::LongLongInt(1000 << level));
    arguments.insert("x-dead-letter-exchange".into(), AMQPValue::LongString(next.as_str().into()));
    let mut channel = link.open().await?;
    channel.declare_queue(name, true, arguments).await
}

/// Declares the exchange, the queue and the binding.
async fn declare(link: &Link, wanted: &Declaration, delayed: bool) -> Result<(), Problem> {
    let queue = encode::short("queue", &wanted.queue)?;
    let name = encode::short("exchange", &wanted.exchange)?;
    let routing_key = encode::short("routing_key", &wanted.routing_key)?;
    let arguments = encode::arguments(&wanted.queue, &wanted.arguments)?;
    let mut channel = link.open().await?;
    let is_own = !wanted.exchange.is_empty() && !wanted.exchange.starts_with("amq.");
    if is_own {
        channel.declare_exchange(name.clone(), &wanted.exchange_type, wanted.durable).await?;
    }
    channel.declare_queue(queue.clone(), wanted.durable, arguments).await?;
    if !wanted.exchange.is_empty() {
        channel.bind_queue(queue.clone(), name.clone(), routing_key).await?;
    }
    if delayed && !wanted.exchange.is_empty() && wanted.exchange_type != DIRECT {
        // A message that comes out of the delay still has the delay's bits before its routing key.
        let key = if wanted.routing_key.starts_with('#') {
            wanted.routing_key.clone()
        } else {
            format!("#.{}", wanted.routing_key)
        };
        let key = encode::short("routing_key", &key)?;
        channel.bind_exchange(name.clone(), DELAY_DELIVERY.into(), key.clone()).await?;
        channel.bind_queue(queue, name, key).await?;
    }
    Ok(())
}

fn explained(reason: &Fault, wanted: &Declaration, link: &Link) -> SendError {
    if !reason.is_of_the_channel() || !link.is_connected() {
        return failure::lost(&link.address, reason);
    }
    if reason.is_precondition() {
        return SendError::retry(format!(
            "the queue {:?} or its exchange {:?} exists with other arguments: {reason}; set these arguments in \
             `queues`, or delete the queue",
            wanted.queue, wanted.exchange
        ));
    }
    SendError::retry(format!("the queue {:?} cannot be declared: {reason}", wanted.queue))
}
