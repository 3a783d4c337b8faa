//! Sends a batch: publishes every message without waiting, then awaits every confirm. Each message gets its own result.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use amq_protocol::protocol::{AMQPClass, BasicProperties, basic};
use amq_protocol::types::ShortString;
use pillarbox::SendError;

use super::Link;
use super::channel::Channel;
use super::connection::Event;
use super::failure::{self, Fault};

/// Bytes of a batch that are handed to the socket together. The broker begins to work while the rest is encoded.
const WRITE: usize = 64 * 1024;

/// A message on its way.
pub(crate) trait Parcel: Sync {
    /// Returns the exchange and the routing key.
    fn address(&self) -> (&ShortString, &ShortString);

    fn body(&self) -> &[u8];

    /// Returns everything but the body, the exchange and the routing key.
    fn properties(&self) -> Result<BasicProperties, SendError>;

    /// Returns whether a message that no queue takes is a failure.
    fn is_mandatory(&self) -> bool {
        true
    }

    /// Returns whether these are the properties of this message. A return has no delivery tag.
    fn is(&self, returned: &BasicProperties) -> bool;

    /// Returns the target for people.
    fn shown(&self) -> String;

    /// Returns what to do if the exchange does not exist.
    fn advice(&self) -> &'static str;

    /// The error for a message that the broker returned because no queue takes it.
    fn returned(&self, returned: &basic::Return) -> SendError;
}

/// The outcome of a message.
#[derive(Debug, Clone)]
enum Outcome {
    Answered(Result<(), SendError>),
    /// The channel was closed before the confirm, perhaps because of another message.
    Closed(Fault),
    /// No confirm came before the deadline.
    Unanswered,
}

/// One batch in flight on one connection.
pub(crate) struct Flight<'a> {
    pub(crate) link: &'a Link,
    pub(crate) deadline: Instant,
    pub(crate) timeout: Duration,
}

impl Flight<'_> {
    /// Returns an error if the broker takes no messages at all.
    pub(crate) fn check_blocked(&self) -> Result<(), SendError> {
        if self.link.is_blocked() { Err(failure::blocked(&self.link.address)) } else { Ok(()) }
    }

    /// Publishes the messages. Returns one result per message, in order.
    pub(crate) async fn publish<P: Parcel>(&self, parcels: &[&P]) -> Vec<Result<(), SendError>> {
        let outcomes = self.deliver(parcels).await;
        let reached = reached(parcels, &outcomes);
        let results = parcels.iter().zip(outcomes);
        results.map(|(parcel, outcome)| self.answer(outcome, *parcel, &reached)).collect()
    }

    /// The error for a message without a response in time. It is an outage if the broker responded to nothing at all; then
    /// the connection may be dead and is dropped.
    pub(crate) fn unanswered(&self, what: &str) -> SendError {
        if self.link.is_blocked() {
            // The broker reports when it unblocks the connection, so the connection is kept.
            return failure::blocked(&self.link.address);
        }
        let error = failure::late(&self.link.address, what, self.timeout);
        if self.link.is_silent(self.timeout / 2) {
            self.link.forget();
            return SendError::unavailable(error);
        }
        SendError::timeout(error)
    }

    /// Sends all messages: small ones together, and then each that may be too large on a channel of its own, because the
    /// broker closes the channel of a message that is too large and forgets to confirm the others on it.
    async fn deliver<P: Parcel>(&self, parcels: &[&P]) -> Vec<Outcome> {
        let mut outcomes = vec![Outcome::Unanswered; parcels.len()];
        let accepted = self.link.accepted.load(Ordering::Relaxed);
        let (small, large): (Vec<usize>, Vec<usize>) =
            (0..parcels.len()).partition(|&index| parcels[index].body().len() <= accepted);
        self.deliver_together(parcels, &small, &mut outcomes).await;
        for index in large {
            let (bytes, limit) = (parcels[index].body().len(), self.link.limit.load(Ordering::Relaxed));
            outcomes[index] = if bytes > limit {
                Outcome::Answered(Err(failure::too_large(bytes, limit)))
            } else {
                self.alone(parcels[index]).await
            };
            match &outcomes[index] {
                Outcome::Answered(Ok(())) => drop(self.link.accepted.fetch_max(bytes, Ordering::Relaxed)),
                Outcome::Closed(fault) => {
                    if let Some(limit) = fault.size_limit() {
                        self.link.limit.store(limit, Ordering::Relaxed);
                    }
                }
                _ => {}
            }
        }
        outcomes
    }

    /// Sends messages on one channel. Sends the messages of a closed channel again, to find the one that was wrong.
    async fn deliver_together<P: Parcel>(&self, parcels: &[&P], chosen: &[usize], outcomes: &mut [Outcome]) {
        let together: Vec<_> = chosen.iter().map(|&index| parcels[index]).collect();
        for (&index, outcome) in chosen.iter().zip(self.attempt(&together).await) {
            outcomes[index] = outcome;
        }
        if !self.is_suspicious(outcomes) {
            return;
        }
        // If an exchange does not exist, all messages to it fail together. So one of them is sent first.
        for exchange in suspects(parcels, outcomes) {
            let (first, rest) = exchange.split_first().unwrap_or((&0, &[]));
            outcomes[*first] = self.alone(parcels[*first]).await;
            match &outcomes[*first] {
                Outcome::Closed(fault) if fault.is_not_found() => {
                    let fault = fault.clone();
                    rest.iter().for_each(|&index| outcomes[index] = Outcome::Closed(fault.clone()));
                    continue;
                }
                _ => {}
            }
            let again: Vec<_> = rest.iter().map(|&index| parcels[index]).collect();
            let answered = self.attempt(&again).await;
            let is_suspicious = self.is_suspicious(&answered);
            for (&index, outcome) in rest.iter().zip(answered) {
                outcomes[index] = match outcome {
                    Outcome::Closed(_) if is_suspicious => self.alone(parcels[index]).await,
                    outcome => outcome,
                };
            }
        }
    }

    /// Returns whether a message made the broker close the channel while the connection stays open.
    fn is_suspicious(&self, outcomes: &[Outcome]) -> bool {
        let of_the_channel = |outcome: &Outcome| matches!(outcome, Outcome::Closed(fault) if fault.is_of_the_channel());
        outcomes.iter().any(of_the_channel) && self.link.is_connected()
    }

    async fn alone<P: Parcel>(&self, parcel: &P) -> Outcome {
        self.attempt(&[parcel]).await.pop().unwrap_or(Outcome::Unanswered)
    }

    /// Publishes all messages on one channel, then awaits all confirms, until the deadline.
    async fn attempt<P: Parcel>(&self, parcels: &[&P]) -> Vec<Outcome> {
        let outcomes = vec![Outcome::Unanswered; parcels.len()];
        if parcels.is_empty() {
            return outcomes;
        }
        let deadline = self.deadline.into();
        let channel = match tokio::time::timeout_at(deadline, self.link.confirming()).await {
            Ok(Ok(channel)) => channel,
            Ok(Err(fault)) => {
                let lost = failure::lost(&self.link.address, &fault);
                return vec![Outcome::Answered(Err(lost)); parcels.len()];
            }
            Err(_) => return outcomes,
        };
        let mut lane =
            Lane { first_tag: channel.last_tag() + 1, channel, parcels, outcomes, sent: Vec::new(), open: 0 };
        lane.write_all();
        let whole = matches!(tokio::time::timeout_at(deadline, lane.await_confirms(self.link)).await, Ok(true));
        if whole {
            self.link.give_back(lane.channel);
        }
        lane.outcomes
    }

    fn answer<P: Parcel>(&self, outcome: Outcome, parcel: &P, reached: &Reached<'_>) -> Result<(), SendError> {
        match outcome {
            Outcome::Answered(answer) => answer,
            Outcome::Closed(fault) if fault.is_of_the_channel() && self.link.is_connected() => {
                Err(match fault.size_limit() {
                    Some(limit) => failure::too_large(parcel.body().len(), limit),
                    None => failure::refused(&fault, &parcel.shown(), parcel.advice()),
                })
            }
            Outcome::Closed(fault) => Err(failure::lost(&self.link.address, &fault)),
            Outcome::Unanswered => {
                let error = self.unanswered("confirm");
                // Other messages reached this queue, so the broker is slow. It is not the message's fault.
                let is_slow = reached.contains(&named(parcel));
                Err(if is_slow { SendError::unavailable(error.message) } else { error })
            }
        }
    }
}

/// Messages on a channel, and the state of each.
struct Lane<'p, P> {
    channel: Channel,
    parcels: &'p [&'p P],
    outcomes: Vec<Outcome>,
    first_tag: u64,
    /// The messages that were written, in the order of their tags.
    sent: Vec<usize>,
    /// How many of them have no confirm yet.
    open: usize,
}

impl<P: Parcel> Lane<'_, P> {
    /// Encodes and writes all messages. A message that cannot be encoded has its result at once.
    fn write_all(&mut self) {
        let mut buffer = Vec::with_capacity(WRITE + WRITE / 4);
        for (index, parcel) in self.parcels.iter().enumerate() {
            match self.encode(*parcel, &mut buffer) {
                Ok(()) => self.sent.push(index),
                Err(error) => self.outcomes[index] = Outcome::Answered(Err(error)),
            }
            if buffer.len() >= WRITE {
                self.channel.write(std::mem::replace(&mut buffer, Vec::with_capacity(WRITE + WRITE / 4)));
            }
        }
        if !buffer.is_empty() {
            self.channel.write(buffer);
        }
        self.open = self.sent.len();
    }

    fn encode(&mut self, parcel: &P, buffer: &mut Vec<u8>) -> Result<(), SendError> {
        let (exchange, routing_key) = parcel.address();
        let publish = basic::Publish {
            exchange: exchange.clone(),
            routing_key: routing_key.clone(),
            mandatory: parcel.is_mandatory(),
            immediate: false,
        };
        let encoded = self.channel.encode(buffer, publish, parcel.properties()?, parcel.body());
        encoded.map_err(|fault| SendError::reject(format!("the message cannot be encoded: {fault}")))
    }

    /// Waits until each message has its confirm, and returns whether the channel is fine.
    async fn await_confirms(&mut self, link: &Link) -> bool {
        let mut events = Vec::new();
        while self.open > 0 {
            let ended = match self.channel.events(&mut events).await {
                Ok(()) => events.drain(..).find_map(|event| self.take(event)),
                Err(fault) => Some(fault),
            };
            if let Some(fault) = ended {
                let open = self.outcomes.iter_mut().filter(|outcome| matches!(outcome, Outcome::Unanswered));
                open.for_each(|outcome| *outcome = Outcome::Closed(fault.clone()));
                return false;
            }
            link.hears();
        }
        true
    }

    /// Takes an event. Returns a fault if the channel ended with it.
    fn take(&mut self, event: Event) -> Option<Fault> {
        match event {
            Event::Method(AMQPClass::Basic(basic::AMQPMethod::Ack(ack))) => {
                self.confirm(ack.delivery_tag, ack.multiple, true);
            }
            Event::Method(AMQPClass::Basic(basic::AMQPMethod::Nack(nack))) => {
                self.confirm(nack.delivery_tag, nack.multiple, false);
            }
            Event::Method(_) => {}
            Event::Returned(message) => return self.take_back(&message.0, &message.1),
            Event::Closed(fault) => return Some(fault),
        }
        None
    }

    /// Confirms one message, or with `multiple` all that are open up to it.
    fn confirm(&mut self, tag: u64, multiple: bool, is_ack: bool) {
        // With `multiple`, the tag 0 means all messages.
        let last = if tag == 0 {
            self.sent.len()
        } else {
            usize::try_from((tag + 1).saturating_sub(self.first_tag)).unwrap_or(0)
        };
        let first = if multiple { 0 } else { last.saturating_sub(1) };
        let Some(confirmed) = self.sent.get_mut(first..last) else { return };
        for index in confirmed.iter_mut().filter(|index| **index != CONFIRMED) {
            let place = std::mem::replace(index, CONFIRMED);
            self.open -= 1;
            // A message that was returned has its result already.
            if matches!(self.outcomes[place], Outcome::Unanswered) {
                let nacked = || failure::nacked(&self.parcels[place].shown());
                self.outcomes[place] = Outcome::Answered(if is_ack { Ok(()) } else { Err(nacked()) });
            }
        }
    }

    /// Finds the message that was returned. Its confirm comes later, so it is one of the open ones. If none of them is it, no
    /// later confirm can be trusted.
    fn take_back(&mut self, returned: &basic::Return, properties: &BasicProperties) -> Option<Fault> {
        let is_it = |index: &&usize| {
            **index != CONFIRMED && matches!(self.outcomes[**index], Outcome::Unanswered) && {
                let (exchange, routing_key) = self.parcels[**index].address();
                *exchange == returned.exchange
                    && *routing_key == returned.routing_key
                    && self.parcels[**index].is(properties)
            }
        };
        let Some(&index) = self.sent.iter().find(is_it) else {
            let (exchange, routing_key) = (&returned.exchange, &returned.routing_key);
            tracing::error!(%exchange, %routing_key, "RabbitMQ returned an unknown message");
            return Some(Fault::Lost("the broker returned an unknown message".to_owned()));
        };
        self.outcomes[index] = Outcome::Answered(Err(self.parcels[index].returned(returned)));
        None
    }
}

/// In place of the number of a message that has its confirm.
const CONFIRMED: usize = usize::MAX;

/// Addresses where a message was confirmed.
type Reached<'p> = HashSet<(&'p str, &'p str)>;

fn named<P: Parcel>(parcel: &P) -> (&str, &str) {
    let (exchange, routing_key) = parcel.address();
    (exchange.as_str(), routing_key.as_str())
}

/// Returns the addresses where a message was confirmed. Empty if no message is unanswered, because nothing needs it then.
fn reached<'p, P: Parcel>(parcels: &[&'p P], outcomes: &[Outcome]) -> Reached<'p> {
    if !outcomes.iter().any(|outcome| matches!(outcome, Outcome::Unanswered)) {
        return Reached::new();
    }
    let confirmed = parcels.iter().zip(outcomes).filter(|(_, outcome)| matches!(outcome, Outcome::Answered(Ok(()))));
    confirmed.map(|(parcel, _)| named(*parcel)).collect()
}

/// Returns the messages whose channel was closed, grouped by exchange.
fn suspects<P: Parcel>(parcels: &[&P], outcomes: &[Outcome]) -> Vec<Vec<usize>> {
    let mut exchanges: Vec<(&str, Vec<usize>)> = Vec::new();
    for (index, (parcel, outcome)) in parcels.iter().zip(outcomes).enumerate() {
        if !matches!(outcome, Outcome::Closed(_)) {
            continue;
        }
        let (name, _) = named(*parcel);
        match exchanges.iter_mut().find(|(exchange, _)| *exchange == name) {
            Some((_, indices)) => indices.push(index),
            None => exchanges.push((name, vec![index])),
        }
    }
    exchanges.into_iter().map(|(_, indices)| indices).collect()
}
