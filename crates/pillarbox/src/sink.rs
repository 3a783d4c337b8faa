//! Send: the one trait of everything that events are delivered to. A sink talks to its system and says what came of it;
//! concurrency, timeouts, breaker, rate limit and retry are the relay's.

use std::borrow::Cow;
use std::fmt::Display;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::event::StoredEvent;
use crate::trace::{SpanContext, TRACEPARENT};

/// One event on its way to one destination.
#[derive(Debug, Clone)]
pub struct Message {
    event: Arc<StoredEvent>,
    attempt: u32,
    trace: Option<SpanContext>,
}

impl Message {
    /// The event, and which attempt at this destination it is, counted from 1.
    #[must_use]
    pub fn new(event: Arc<StoredEvent>, attempt: u32) -> Self {
        Self { event, attempt, trace: None }
    }

    /// Which attempt at this destination it is, counted from 1. Outages do not count.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The span of this attempt, if somebody follows it.
    #[must_use]
    pub fn trace(&self) -> Option<SpanContext> {
        self.trace
    }

    /// This attempt is that span.
    #[must_use]
    pub fn traced(mut self, span: SpanContext) -> Self {
        self.trace = Some(span);
        self
    }

    /// What the receiver is told as `traceparent`: the span of this attempt, or else what the event's producer said.
    #[must_use]
    pub fn traceparent(&self) -> Option<Cow<'_, str>> {
        match self.trace {
            Some(span) => Some(span.to_string().into()),
            None => self.event.headers.get(TRACEPARENT).map(|text| text.as_str().into()),
        }
    }
}

impl Deref for Message {
    type Target = StoredEvent;

    fn deref(&self) -> &StoredEvent {
        &self.event
    }
}

/// A destination's system: HTTP, a broker, code in the process.
#[async_trait]
pub trait Sink: Send + Sync + 'static {
    /// Sends a batch (at most [`Sink::batch_limit`] messages) and answers for each, in order.
    ///
    /// `Ok` means that the other side has confirmed it. The relay drops the future when the destination's timeout
    /// runs out, so it must be safe to cancel; what was under way then may arrive twice.
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>>;

    /// Whether its system can be reached, without sending anything: for people who look for what is wrong. A sink that
    /// cannot tell says that it can.
    async fn reach(&self) -> Result<(), SendError> {
        Ok(())
    }

    /// How many messages one call takes.
    fn batch_limit(&self) -> usize {
        1
    }
}

/// What kind of failure it was: what the relay does about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendErrorKind {
    /// It may work later: uses an attempt.
    Retry,
    /// It never will: failed at once.
    Reject,
    /// The destination is down, not the event wrong: no attempt used, the breaker counts it.
    Unavailable,
    /// No answer in time: an outage, unless others get through to that destination meanwhile; then it uses an attempt.
    Timeout,
}

/// Why an event was not delivered.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct SendError {
    /// What the relay does about it.
    pub kind: SendErrorKind,
    /// What was wrong, for people. It must not contain secrets.
    pub message: String,
    /// The other side asked to wait this long.
    pub after: Option<Duration>,
    /// The other side's status code, where it has such.
    pub status: Option<u16>,
    /// A piece of the other side's answer.
    pub answer: Option<String>,
}

impl SendError {
    fn new(kind: SendErrorKind, message: impl Display) -> Self {
        let mut message = message.to_string();
        // What was tried and failed must show it: an event without an error was never tried.
        if message.is_empty() {
            message = format!("no reason was given ({kind:?})");
        }
        Self { kind, message, after: None, status: None, answer: None }
    }

    /// It may work later.
    pub fn retry(message: impl Display) -> Self {
        Self::new(SendErrorKind::Retry, message)
    }

    /// It never will.
    pub fn reject(message: impl Display) -> Self {
        Self::new(SendErrorKind::Reject, message)
    }

    /// The destination is down.
    pub fn unavailable(message: impl Display) -> Self {
        Self::new(SendErrorKind::Unavailable, message)
    }

    /// No answer in time.
    pub fn timeout(message: impl Display) -> Self {
        Self::new(SendErrorKind::Timeout, message)
    }

    /// The other side asked to wait this long.
    #[must_use]
    pub fn after(mut self, delay: Option<Duration>) -> Self {
        self.after = delay;
        self
    }

    /// What the other side answered.
    #[must_use]
    pub fn answered(mut self, status: u16, answer: impl Into<String>) -> Self {
        self.status = Some(status);
        self.answer = Some(answer.into()).filter(|text: &String| !text.is_empty());
        self
    }
}

impl From<Box<dyn std::error::Error + Send + Sync>> for SendError {
    fn from(error: Box<dyn std::error::Error + Send + Sync>) -> Self {
        Self::retry(error)
    }
}

impl From<String> for SendError {
    fn from(message: String) -> Self {
        Self::retry(message)
    }
}

impl From<&str> for SendError {
    fn from(message: &str) -> Self {
        Self::retry(message)
    }
}

/// Code in the process as a destination: an async function of the message.
pub(crate) struct Handler<F>(pub(crate) F);

#[async_trait]
impl<F, R, E> Sink for Handler<F>
where
    F: Fn(Message) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), E>> + Send + 'static,
    E: Into<SendError> + 'static,
{
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        let mut answers = Vec::with_capacity(batch.len());
        for message in batch {
            answers.push((self.0)(message.clone()).await.map_err(Into::into));
        }
        answers
    }
}

/// Succeeds at once: for dry runs and for measuring.
#[derive(Debug, Clone, Copy, Default)]
pub struct Discard;

#[async_trait]
impl Sink for Discard {
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        vec![Ok(()); batch.len()]
    }

    fn batch_limit(&self) -> usize {
        1000
    }
}

#[cfg(test)]
mod tests {
    use super::SendError;

    #[test]
    fn an_error_always_says_something() {
        assert_eq!(SendError::unavailable("").message, "no reason was given (Unavailable)");
        assert_eq!(SendError::retry("not now").message, "not now");
    }
}
