//! Sends a batch: declares the queues of its messages, then publishes them with confirms.

use std::borrow::Cow;
use std::time::Instant;

use amq_protocol::protocol::{BasicProperties, basic};
use amq_protocol::types::ShortString;
use chrono::{DateTime, Utc};
use pillarbox::{Message, SendError};

use super::{Amqp, encode};
use crate::celery::message::Outgoing;
use crate::celery::route::Target;
use crate::rabbitmq::Session;
use crate::rabbitmq::publish::{Flight, Parcel};

/// A message with its target.
pub(super) struct Task<'a> {
    position: usize,
    pub(super) message: &'a Outgoing<'a>,
    pub(super) target: Target<'a>,
    exchange: ShortString,
    routing_key: ShortString,
    declares: bool,
    now: DateTime<Utc>,
}

impl<'a> Task<'a> {
    fn new(position: usize, message: &'a Outgoing<'a>, amqp: &'a Amqp, now: DateTime<Utc>) -> Result<Self, SendError> {
        let target = amqp.routing.resolve(message, now, true);
        let (exchange, routing_key) = target.address();
        let exchange = encode::short("exchange", exchange)?;
        let routing_key = encode::short("routing_key", &routing_key)?;
        Ok(Self { position, message, target, exchange, routing_key, declares: amqp.declares, now })
    }

    fn correlation_id(&self) -> Cow<'_, str> {
        self.message.recorded.properties.text("correlation_id").unwrap_or(Cow::Borrowed(&self.message.id))
    }
}

impl Parcel for Task<'_> {
    fn address(&self) -> (&ShortString, &ShortString) {
        (&self.exchange, &self.routing_key)
    }

    fn body(&self) -> &[u8] {
        self.message.recorded.body.as_bytes()
    }

    fn properties(&self) -> Result<BasicProperties, SendError> {
        encode::properties(self.message, self.target.priority, self.now)
    }

    fn is(&self, returned: &BasicProperties) -> bool {
        returned.correlation_id().as_ref().map(ShortString::as_str) == Some(&*self.correlation_id())
    }

    fn shown(&self) -> String {
        self.target.shown()
    }

    fn advice(&self) -> &'static str {
        "create the exchange, or set declare = true"
    }

    fn returned(&self, returned: &basic::Return) -> SendError {
        let reason = format!("{} {}", returned.reply_code, returned.reply_text);
        let target = &self.target;
        if target.delay.is_some() {
            return SendError::retry(format!(
                "native delayed delivery has no queue for the message for {}: {reason}; start a worker of Celery 5.5 or \
                 later, or set declare = true",
                target.shown()
            ));
        }
        let advice = if self.declares { "bind it to its exchange" } else { "set declare = true, or create it" };
        if target.exchange.is_empty() {
            return SendError::retry(format!("{} does not exist: {reason}; {advice}", target.shown()));
        }
        SendError::retry(format!(
            "the exchange {:?} has no queue for the routing key {:?}: {reason}; {advice}",
            target.exchange, target.routing_key
        ))
    }
}

pub(super) async fn send(amqp: &Amqp, batch: &[Message], deadline: Instant) -> Vec<Result<(), SendError>> {
    let now = Utc::now();
    let messages: Vec<_> = batch.iter().map(|message| Outgoing::of(message, amqp.task.as_deref())).collect();
    let mut answers: Vec<Result<(), SendError>> = vec![Ok(()); batch.len()];
    let mut tasks = Vec::with_capacity(batch.len());
    for (position, message) in messages.iter().enumerate() {
        let task = message.as_ref().map_err(Clone::clone);
        match task.and_then(|message| Task::new(position, message, amqp, now)) {
            Ok(task) => tasks.push(task),
            Err(error) => answers[position] = Err(error),
        }
    }
    let tasks: Vec<&Task<'_>> = tasks.iter().collect();
    match amqp.rabbit.session(deadline).await {
        Ok(session) => {
            let flight = Flight { link: &session.link, deadline, timeout: amqp.rabbit.timeout() };
            for (task, answer) in deliver(amqp, &session, &flight, tasks).await {
                answers[task.position] = answer;
            }
        }
        Err(error) => tasks.iter().for_each(|task| answers[task.position] = Err(error.clone())),
    }
    answers
}

/// Declares queues and exchanges, then publishes. The results come in any order.
async fn deliver<'t>(
    amqp: &Amqp,
    session: &Session<super::Declared>,
    flight: &Flight<'_>,
    tasks: Vec<&'t Task<'t>>,
) -> Vec<(&'t Task<'t>, Result<(), SendError>)> {
    if let Err(blocked) = flight.check_blocked() {
        return tasks.into_iter().map(|task| (task, Err(blocked.clone()))).collect();
    }
    let mut answers = Vec::with_capacity(tasks.len());
    let mut ready = tasks;
    if amqp.declares {
        let declared = session.state.all(flight, &amqp.routing, &ready).await;
        let (fine, failed): (Vec<_>, Vec<_>) =
            ready.into_iter().zip(declared).partition(|(_, declared)| declared.is_ok());
        answers.extend(failed);
        ready = fine.into_iter().map(|(task, _)| task).collect();
    }
    let published = flight.publish(&ready).await;
    let mut failed = ready.iter().zip(&published).filter(|(_, result)| result.is_err()).peekable();
    if amqp.declares && failed.peek().is_some() {
        // The queue or exchange may have been deleted since. The next attempt declares it again.
        session.state.forget(failed.any(|(task, _)| task.target.delay.is_some()));
    }
    answers.extend(ready.into_iter().zip(published));
    answers
}
