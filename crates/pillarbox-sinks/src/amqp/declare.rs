//! Declares exchanges, queues and bindings before messages are sent, each once per connection. Each declaration has a channel
//! of its own, because the broker closes a channel that declares something with other arguments than it has.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use amq_protocol::types::{AMQPValue, FieldTable, ShortString};
use pillarbox::SendError;

use super::letter::{self, Letter};
use super::settings::{AmqpDeclare, QueueType};
use crate::rabbitmq::Link;
use crate::rabbitmq::failure::{self, Fault};
use crate::rabbitmq::publish::Flight;

/// The declarations already made on a connection.
#[derive(Default)]
pub(super) struct Declared {
    done: Mutex<BTreeSet<Wanted>>,
}

/// An exchange, and a queue that is bound to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted {
    exchange: String,
    /// The queue and its binding.
    queue: Option<(String, String)>,
}

impl Wanted {
    fn of(declare: &AmqpDeclare, letter: &Letter<'_>) -> Result<Self, SendError> {
        let binding = || match &declare.binding {
            Some(binding) => binding.render(letter.message).map(Cow::into_owned),
            None => Ok(letter.routing_key.as_str().to_owned()),
        };
        let queue = match &declare.queue {
            Some(queue) => Some((queue.render(letter.message)?.into_owned(), binding()?)),
            None => None,
        };
        Ok(Self { exchange: letter.exchange.as_str().to_owned(), queue })
    }
}

impl Declared {
    /// Declares what these messages need. Returns one result per message, in order.
    pub(super) async fn all(
        &self,
        flight: &Flight<'_>,
        declare: &AmqpDeclare,
        letters: &[&Letter<'_>],
    ) -> Vec<Result<(), SendError>> {
        let mut tried: BTreeMap<Wanted, Result<(), SendError>> = BTreeMap::new();
        let mut results = Vec::with_capacity(letters.len());
        for letter in letters {
            let result = match Wanted::of(declare, letter) {
                Ok(wanted) => match tried.get(&wanted) {
                    Some(result) => result.clone(),
                    None => {
                        let result = self.once(flight, declare, &wanted).await;
                        tried.insert(wanted, result.clone());
                        result
                    }
                },
                Err(error) => Err(error),
            };
            results.push(result);
        }
        results
    }

    /// Makes the next attempt declare everything again.
    pub(super) fn forget(&self) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    async fn once(&self, flight: &Flight<'_>, declare: &AmqpDeclare, wanted: &Wanted) -> Result<(), SendError> {
        if self.done.lock().unwrap_or_else(PoisonError::into_inner).contains(wanted) {
            return Ok(());
        }
        let exchange = letter::name("exchange", &wanted.exchange)?;
        let queue = match &wanted.queue {
            Some((queue, binding)) => Some((letter::name("queue", queue)?, letter::name("binding", binding)?)),
            None => None,
        };
        let making = make(flight.link, declare, exchange, queue);
        match tokio::time::timeout_at(flight.deadline.into(), making).await {
            Ok(Ok(())) => {
                flight.link.hears();
                self.done.lock().unwrap_or_else(PoisonError::into_inner).insert(wanted.clone());
                Ok(())
            }
            Ok(Err(fault)) => Err(explained(&fault, wanted, flight.link)),
            Err(_) => Err(flight.unanswered(&format!("declare the exchange {:?} and its queue", wanted.exchange))),
        }
    }
}

async fn make(
    link: &Link,
    declare: &AmqpDeclare,
    exchange: ShortString,
    queue: Option<(ShortString, ShortString)>,
) -> Result<(), Fault> {
    let mut channel = link.open().await?;
    // Brokers have the exchanges that begin with amq. themselves, and refuse to declare them.
    let is_own = !exchange.as_str().is_empty() && !exchange.as_str().starts_with("amq.");
    if let Some(kind) = declare.exchange_type.as_deref().filter(|_| is_own) {
        channel.declare_exchange(exchange.clone(), kind, true).await?;
    }
    if let Some((queue, binding)) = queue {
        let mut arguments = FieldTable::default();
        if declare.queue_type == QueueType::Quorum {
            arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        }
        channel.declare_queue(queue.clone(), true, arguments).await?;
        // Each queue is bound to the default exchange by its name already.
        if !exchange.as_str().is_empty() {
            channel.bind_queue(queue, exchange, binding).await?;
        }
    }
    Ok(())
}

fn explained(fault: &Fault, wanted: &Wanted, link: &Link) -> SendError {
    if !fault.is_of_the_channel() || !link.is_connected() {
        return failure::lost(&link.address, fault);
    }
    let queue = wanted.queue.as_ref().map(|(queue, _)| format!(" or the queue {queue:?}")).unwrap_or_default();
    if fault.is_precondition() {
        return SendError::retry(format!(
            "the exchange {:?}{queue} exists with other arguments: {fault}; change declare, or delete it",
            wanted.exchange
        ));
    }
    SendError::retry(format!("the exchange {:?}{queue} cannot be declared: {fault}", wanted.exchange))
}
