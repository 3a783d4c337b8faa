//! Declares exchanges, queues and bindings before messages are sent, each once per connection. Each declaration has a
//! channel of its own, because the broker closes a channel that declares something with other arguments than it has.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use lapin::options::{ExchangeBindOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, ExchangeKind};
use pillarbox::SendError;
use pillarbox::celery::Declaration;

use super::publish::{Flight, Parcel};
use super::{Link, encode, failure};
use crate::celery::moment::DELAY_BITS;
use crate::celery::route::Routing;
use crate::celery::settings::DIRECT;

const DELAY_DELIVERY: &str = "celery_delayed_delivery";

/// The declarations already made on a connection, by the queue's name.
#[derive(Default)]
pub(super) struct Declared {
    queues: Mutex<BTreeMap<String, (Declaration, bool)>>,
    delays: Mutex<bool>,
}

/// The reason why a declaration failed.
enum Problem {
    Broker(lapin::Error),
    Unsendable(SendError),
}

impl From<lapin::Error> for Problem {
    fn from(error: lapin::Error) -> Self {
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
        parcels: &[&Parcel<'_>],
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
        let channel = link.connection.create_channel().await?;
        for current in (0..DELAY_BITS).rev() {
            exchange(&channel, level(current), "topic", true).await?;
        }
        exchange(&channel, DELAY_DELIVERY.into(), "topic", true).await?;
        for current in (0..DELAY_BITS).rev() {
            let next = if current == 0 { DELAY_DELIVERY.into() } else { level(current - 1) };
            // A worker may be configured to declare classic queues. They work too.
            let declared = delay_queue(link, level(current), &next, current).await;
            declared.or_else(|error| if is_other(&error) { Ok(()) } else { Err(error) })?;
            let stars = "*.".repeat(DELAY_BITS - 1 - current);
            let bind = QueueBindOptions::default();
            let waits = format!("{stars}1.#").into();
            channel.queue_bind(level(current), level(current), waits, bind, FieldTable::default()).await?;
            let passes = format!("{stars}0.#").into();
            let bind = ExchangeBindOptions::default();
            channel.exchange_bind(next, level(current), passes, bind, FieldTable::default()).await?;
        }
        let _ = channel.close(200, "OK".into()).await;
        *self.delays.lock().unwrap_or_else(PoisonError::into_inner) = true;
        Ok(())
    }
}

/// Returns whether the error is 406: it exists, with other arguments.
fn is_other(error: &lapin::Error) -> bool {
    matches!(error.kind(), lapin::ErrorKind::ProtocolError(error) if error.get_id() == 406)
}

/// Declares a queue that holds messages for 2^level seconds and then passes them on.
async fn delay_queue(link: &Link, name: ShortString, next: &ShortString, level: usize) -> lapin::Result<()> {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    arguments.insert("x-dead-letter-strategy".into(), AMQPValue::LongString("at-least-once".into()));
    arguments.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
    arguments.insert("x-message-ttl".into(), AMQPValue::LongLongInt(1000 << level));
    arguments.insert("x-dead-letter-exchange".into(), AMQPValue::LongString(next.as_str().into()));
    let channel = link.connection.create_channel().await?;
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(name, durable, arguments).await?;
    channel.close(200, "OK".into()).await
}

/// Declares the exchange, the queue and the binding.
async fn declare(link: &Link, wanted: &Declaration, delayed: bool) -> Result<(), Problem> {
    let queue = encode::short("queue", &wanted.queue)?;
    let name = encode::short("exchange", &wanted.exchange)?;
    let routing_key = encode::short("routing_key", &wanted.routing_key)?;
    let arguments = encode::arguments(&wanted.queue, &wanted.arguments)?;
    let channel = link.connection.create_channel().await?;
    let is_own = !wanted.exchange.is_empty() && !wanted.exchange.starts_with("amq.");
    if is_own {
        exchange(&channel, name.clone(), &wanted.exchange_type, wanted.durable).await?;
    }
    let options = QueueDeclareOptions { durable: wanted.durable, ..QueueDeclareOptions::default() };
    channel.queue_declare(queue.clone(), options, arguments).await?;
    if !wanted.exchange.is_empty() {
        let bind = QueueBindOptions::default();
        channel.queue_bind(queue.clone(), name.clone(), routing_key, bind, FieldTable::default()).await?;
    }
    if delayed && !wanted.exchange.is_empty() && wanted.exchange_type != DIRECT {
        // A message that comes out of the delay still has the delay's bits before its routing key.
        let key = if wanted.routing_key.starts_with('#') {
            wanted.routing_key.clone()
        } else {
            format!("#.{}", wanted.routing_key)
        };
        let key = encode::short("routing_key", &key)?;
        let bind = ExchangeBindOptions::default();
        channel.exchange_bind(name.clone(), DELAY_DELIVERY.into(), key.clone(), bind, FieldTable::default()).await?;
        channel.queue_bind(queue, name, key, QueueBindOptions::default(), FieldTable::default()).await?;
    }
    let _ = channel.close(200, "OK".into()).await;
    Ok(())
}

async fn exchange(channel: &Channel, name: ShortString, kind: &str, durable: bool) -> lapin::Result<()> {
    let kind = match kind {
        "direct" => ExchangeKind::Direct,
        "topic" => ExchangeKind::Topic,
        "fanout" => ExchangeKind::Fanout,
        "headers" => ExchangeKind::Headers,
        other => ExchangeKind::Custom(other.to_owned()),
    };
    let options = ExchangeDeclareOptions { durable, ..ExchangeDeclareOptions::default() };
    channel.exchange_declare(name, kind, options, FieldTable::default()).await
}

fn explained(error: &lapin::Error, wanted: &Declaration, link: &Link) -> SendError {
    if !failure::is_of_the_channel(error) || !link.connection.status().connected() {
        return failure::lost(&link.address, error);
    }
    let reason = failure::described(error);
    if is_other(error) {
        return SendError::retry(format!(
            "the queue {:?} or its exchange {:?} exists with other arguments: {reason}; set these arguments in \
             `queues`, or delete the queue",
            wanted.queue, wanted.exchange
        ));
    }
    SendError::retry(format!("the queue {:?} cannot be declared: {reason}", wanted.queue))
}
