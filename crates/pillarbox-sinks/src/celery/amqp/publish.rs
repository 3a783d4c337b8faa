//! Sends a batch: publishes every message without waiting, then awaits every confirm. Each message gets its own result.

use std::borrow::Cow;
use std::collections::HashSet;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use lapin::message::BasicReturnMessage;
use lapin::options::BasicPublishOptions;
use lapin::types::ShortString;
use lapin::{Channel, Confirmation};
use pillarbox::{Message, SendError};

use super::{Amqp, Link, encode, failure, returned};
use crate::celery::message::Outgoing;
use crate::celery::route::Target;

/// A message with its target.
pub(super) struct Parcel<'a> {
    position: usize,
    pub(super) message: &'a Outgoing<'a>,
    pub(super) target: Target<'a>,
    exchange: ShortString,
    routing_key: ShortString,
}

impl<'a> Parcel<'a> {
    pub(super) fn new(position: usize, message: &'a Outgoing<'a>, target: Target<'a>) -> Result<Self, SendError> {
        let (exchange, routing_key) = target.address();
        let exchange = encode::short("exchange", exchange)?;
        let routing_key = encode::short("routing_key", &routing_key)?;
        Ok(Self { position, message, target, exchange, routing_key })
    }

    fn correlation_id(&self) -> Cow<'_, str> {
        self.message.recorded.properties.text("correlation_id").unwrap_or(Cow::Borrowed(&self.message.id))
    }

    fn address(&self) -> (&str, &str) {
        (self.exchange.as_str(), self.routing_key.as_str())
    }

    /// Returns whether the broker returned this message. A return has no delivery tag, and the client can only guess, so
    /// the address and the correlation id decide.
    pub(super) fn is(&self, returned: &BasicReturnMessage) -> bool {
        let correlation_id = returned.properties.correlation_id().as_ref().map(ShortString::as_str);
        returned.exchange == self.exchange
            && returned.routing_key == self.routing_key
            && correlation_id == Some(&*self.correlation_id())
    }
}

/// The outcome of a message.
pub(super) enum Outcome {
    Answered(Result<(), SendError>),
    /// The channel was closed before the confirm, perhaps because of another message.
    Closed(lapin::Error),
    /// No confirm came before the deadline.
    Unanswered,
}

pub(super) async fn send(amqp: &Amqp, batch: &[Message], deadline: Instant) -> Vec<Result<(), SendError>> {
    let now = Utc::now();
    let messages: Vec<_> = batch.iter().map(|message| Outgoing::of(message, amqp.task.as_deref())).collect();
    let mut answers: Vec<Result<(), SendError>> = vec![Ok(()); batch.len()];
    let mut parcels = Vec::with_capacity(batch.len());
    for (position, message) in messages.iter().enumerate() {
        let parcel = message
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|message| Parcel::new(position, message, amqp.routing.resolve(message, now, true)));
        match parcel {
            Ok(parcel) => parcels.push(parcel),
            Err(error) => answers[position] = Err(error),
        }
    }
    let parcels: Vec<&Parcel<'_>> = parcels.iter().collect();
    match amqp.link(deadline).await {
        Ok(link) => {
            let flight = Flight { link: &link, declares: amqp.declares, now, deadline, timeout: amqp.timeout };
            for (parcel, answer) in flight.send(amqp, parcels).await {
                answers[parcel.position] = answer;
            }
        }
        Err(error) => parcels.iter().for_each(|parcel| answers[parcel.position] = Err(error.clone())),
    }
    answers
}

/// One batch in flight on one connection.
pub(super) struct Flight<'a> {
    pub(super) link: &'a Link,
    declares: bool,
    now: DateTime<Utc>,
    pub(super) deadline: Instant,
    timeout: Duration,
}

impl Flight<'_> {
    /// Declares queues and exchanges, then delivers. The results come in any order.
    async fn send<'p>(
        &self,
        amqp: &Amqp,
        parcels: Vec<&'p Parcel<'p>>,
    ) -> Vec<(&'p Parcel<'p>, Result<(), SendError>)> {
        if self.link.is_blocked() {
            return parcels.into_iter().map(|parcel| (parcel, Err(failure::blocked(&self.link.address)))).collect();
        }
        let mut answers = Vec::with_capacity(parcels.len());
        let mut ready = parcels;
        if self.declares {
            let declared = self.link.declared.all(self, &amqp.routing, &ready).await;
            let (fine, failed): (Vec<_>, Vec<_>) =
                ready.into_iter().zip(declared).partition(|(_, declared)| declared.is_ok());
            answers.extend(failed);
            ready = fine.into_iter().map(|(parcel, _)| parcel).collect();
        }
        let outcomes = self.deliver(&ready).await;
        let reached = reached(&ready, &outcomes);
        let failed = |(_, outcome): &(_, &Outcome)| !matches!(outcome, Outcome::Answered(Ok(())));
        let mut failed = ready.iter().zip(&outcomes).filter(failed).peekable();
        if self.declares && failed.peek().is_some() {
            // The queue or exchange may have been deleted since. The next attempt declares it again.
            self.link.declared.forget(failed.any(|(parcel, _)| parcel.target.delay.is_some()));
        }
        answers.extend(
            ready.into_iter().zip(outcomes).map(|(parcel, outcome)| (parcel, self.answer(outcome, parcel, &reached))),
        );
        answers
    }

    /// The error for a message without a response in time. It is an outage if the broker responded to nothing at all; then
    /// the connection may be dead and is dropped.
    pub(super) fn unanswered(&self, what: &str) -> SendError {
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

    /// Sends all messages. Sends the messages of a closed channel again, to find the one that was wrong.
    async fn deliver(&self, parcels: &[&Parcel<'_>]) -> Vec<Outcome> {
        let mut outcomes = self.attempt(parcels).await;
        if !self.is_suspicious(&outcomes) {
            return outcomes;
        }
        // If an exchange does not exist, all messages to it fail together. So one of them is sent first.
        for exchange in suspects(parcels, &outcomes) {
            let (first, rest) = exchange.split_first().unwrap_or((&0, &[]));
            outcomes[*first] = self.alone(parcels[*first]).await;
            match &outcomes[*first] {
                Outcome::Closed(error) if failure::is_not_found(error) => {
                    let error = error.clone();
                    rest.iter().for_each(|&index| outcomes[index] = Outcome::Closed(error.clone()));
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
        outcomes
    }

    /// Returns whether a message made the broker close the channel while the connection stays open.
    fn is_suspicious(&self, outcomes: &[Outcome]) -> bool {
        let of_the_channel =
            |outcome: &Outcome| matches!(outcome, Outcome::Closed(error) if failure::is_of_the_channel(error));
        outcomes.iter().any(of_the_channel) && self.link.connection.status().connected()
    }

    async fn alone(&self, parcel: &Parcel<'_>) -> Outcome {
        self.attempt(&[parcel]).await.pop().unwrap_or(Outcome::Unanswered)
    }

    /// Publishes all messages on one channel, then awaits all confirms, until the deadline.
    async fn attempt(&self, parcels: &[&Parcel<'_>]) -> Vec<Outcome> {
        let mut outcomes: Vec<Outcome> = parcels.iter().map(|_| Outcome::Unanswered).collect();
        if parcels.is_empty() {
            return outcomes;
        }
        let deadline = self.deadline.into();
        let channel = match tokio::time::timeout_at(deadline, self.link.channel()).await {
            Ok(Ok(channel)) => channel,
            Ok(Err(error)) => {
                let lost = failure::lost(&self.link.address, &error);
                return parcels.iter().map(|_| Outcome::Answered(Err(lost.clone()))).collect();
            }
            Err(_) => return outcomes,
        };
        let on = &channel;
        let mut confirms: FuturesUnordered<_> = parcels
            .iter()
            .enumerate()
            .map(|(index, parcel)| async move { (index, self.publish(on, parcel).await) })
            .collect();
        let mut came_back = Vec::new();
        let mut is_whole = true;
        let over = tokio::time::sleep_until(deadline);
        tokio::pin!(over);
        while !confirms.is_empty() {
            let (index, published) = tokio::select! {
                biased;
                Some(published) = confirms.next() => published,
                () = &mut over => {
                    is_whole = false;
                    break;
                }
            };
            if matches!(published, Ok(Ok(_))) {
                self.link.hears();
            }
            outcomes[index] = judged(published, parcels[index], &mut came_back);
            is_whole &= !matches!(outcomes[index], Outcome::Closed(_));
        }
        drop(confirms);
        if is_whole {
            self.link.give_back(channel);
        }
        returned::assign(came_back, parcels, &mut outcomes, self.declares);
        outcomes
    }

    /// Publishes a message and awaits its confirm. The outer error means that it cannot be published at all.
    async fn publish(&self, channel: &Channel, parcel: &Parcel<'_>) -> Result<lapin::Result<Confirmation>, SendError> {
        let properties = encode::properties(parcel.message, parcel.target.priority, self.now)?;
        let published = channel.basic_publish(
            parcel.exchange.clone(),
            parcel.routing_key.clone(),
            BasicPublishOptions { mandatory: true, immediate: false },
            parcel.message.recorded.body.as_bytes(),
            properties,
        );
        Ok(match published.await {
            Ok(confirm) => confirm.await,
            Err(error) => Err(error),
        })
    }

    fn answer(&self, outcome: Outcome, parcel: &Parcel<'_>, reached: &Reached<'_>) -> Result<(), SendError> {
        match outcome {
            Outcome::Answered(answer) => answer,
            Outcome::Closed(error)
                if failure::is_of_the_channel(&error) && self.link.connection.status().connected() =>
            {
                Err(failure::refused(&error, &parcel.target))
            }
            Outcome::Closed(error) => Err(failure::lost(&self.link.address, &error)),
            Outcome::Unanswered => {
                let error = self.unanswered("confirm");
                // Other messages reached this queue, so the broker is slow. It is not the message's fault.
                let is_slow = reached.contains(&parcel.address());
                Err(if is_slow { SendError::unavailable(error.message) } else { error })
            }
        }
    }
}

/// Addresses where a message was confirmed.
type Reached<'p> = HashSet<(&'p str, &'p str)>;

/// Returns the addresses where a message was confirmed. Empty if no message is unanswered, because nothing needs it then.
fn reached<'p>(parcels: &[&'p Parcel<'p>], outcomes: &[Outcome]) -> Reached<'p> {
    if !outcomes.iter().any(|outcome| matches!(outcome, Outcome::Unanswered)) {
        return Reached::new();
    }
    let confirmed = parcels.iter().zip(outcomes).filter(|(_, outcome)| matches!(outcome, Outcome::Answered(Ok(()))));
    confirmed.map(|(parcel, _)| parcel.address()).collect()
}

/// Turns a confirm into an outcome. Returned messages are put aside: a confirm can carry the return of another message.
fn judged(
    published: Result<lapin::Result<Confirmation>, SendError>,
    parcel: &Parcel<'_>,
    returned: &mut Vec<BasicReturnMessage>,
) -> Outcome {
    match published {
        Ok(Ok(Confirmation::Ack(message))) => {
            returned.extend(message);
            Outcome::Answered(Ok(()))
        }
        Ok(Ok(Confirmation::Nack(message))) => {
            returned.extend(message);
            Outcome::Answered(Err(failure::nacked(&parcel.target)))
        }
        Ok(Ok(Confirmation::NotRequested)) => Outcome::Unanswered,
        Ok(Err(error)) => Outcome::Closed(error),
        Err(error) => Outcome::Answered(Err(error)),
    }
}

/// Returns the messages whose channel was closed, grouped by exchange.
fn suspects(parcels: &[&Parcel<'_>], outcomes: &[Outcome]) -> Vec<Vec<usize>> {
    let mut exchanges: Vec<(&str, Vec<usize>)> = Vec::new();
    for (index, (parcel, outcome)) in parcels.iter().zip(outcomes).enumerate() {
        if !matches!(outcome, Outcome::Closed(_)) {
            continue;
        }
        match exchanges.iter_mut().find(|(exchange, _)| *exchange == parcel.exchange.as_str()) {
            Some((_, indices)) => indices.push(index),
            None => exchanges.push((parcel.exchange.as_str(), vec![index])),
        }
    }
    exchanges.into_iter().map(|(_, indices)| indices).collect()
}
