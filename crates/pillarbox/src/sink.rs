//! Send: the trait that every destination implements. A sink talks to its system and returns the results. The relay owns
//! concurrency, timeouts, breaker, rate limit and retry.

use std::borrow::Cow;
use std::fmt::Display;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::event::{Headers, StoredEvent};
use crate::trace::{SpanContext, TRACEPARENT};

pub mod test_event;

pub use self::test_event::Tested;

/// One event on its way to one destination.
#[derive(Debug, Clone)]
pub struct Message {
    event: Arc<StoredEvent>,
    attempt: u32,
    follows: bool,
    is_test: bool,
    trace: Option<SpanContext>,
}

impl Message {
    /// Returns a message of the event. `attempt` is the number of the attempt at this destination, from 1.
    #[must_use]
    pub fn new(event: Arc<StoredEvent>, attempt: u32) -> Self {
        Self { event, attempt, follows: false, is_test: false, trace: None }
    }

    /// Returns the message of a [test event](test_event) for this destination, for tests of sinks.
    #[must_use]
    pub fn test(destination: &str) -> Self {
        test_event::message(destination, Headers::new())
    }

    /// Returns whether this is a [test event](test_event). A sink marks its message with the header [`test_event::HEADER`], if its
    /// system has headers.
    #[must_use]
    pub fn is_test(&self) -> bool {
        self.is_test
    }

    /// Returns the number of the attempt at this destination, from 1. Outages do not count.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Returns whether the message belongs to the run of the message before it in the batch: both are of one aggregate, and
    /// this one must not be stored unless that one was. Only a sink that [keeps order](Sink::keeps_order) gets such messages.
    #[must_use]
    pub fn follows(&self) -> bool {
        self.follows
    }

    /// Puts the message into the run of the message before it.
    #[must_use]
    pub fn following(mut self) -> Self {
        self.follows = true;
        self
    }

    /// Returns the span of this attempt, if there is a tracer.
    #[must_use]
    pub fn trace(&self) -> Option<SpanContext> {
        self.trace
    }

    /// Sets the span of this attempt.
    #[must_use]
    pub fn traced(mut self, span: SpanContext) -> Self {
        self.trace = Some(span);
        self
    }

    /// Returns the `traceparent` for the receiver: the span of this attempt, or else the producer's header.
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

/// Splits a batch into its runs: a message, and the messages that [follow](Message::follows) it.
pub fn runs(batch: &[Message]) -> impl Iterator<Item = &[Message]> {
    batch.chunk_by(|_, next| next.follows())
}

/// The client of a destination's system: HTTP, a broker, or code in this process.
///
/// A sink of one's own:
/// ```
/// use async_trait::async_trait;
/// use pillarbox::{Message, SendError, Sink};
///
/// struct Printer;
///
/// #[async_trait]
/// impl Sink for Printer {
///     async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
///         let print = |message: &Message| match message.payload.get().len() {
///             ..=1000 => Ok(println!("{}: {}", message.event_type, message.payload.get())),
///             // No later attempt would succeed, so the event becomes a dead letter at once.
///             length => Err(SendError::reject(format!("{length} bytes are too many for a line"))),
///         };
///         batch.iter().map(print).collect()
///     }
///
///     fn batch_limit(&self) -> usize {
///         100
///     }
/// }
/// ```
#[async_trait]
pub trait Sink: Send + Sync + 'static {
    /// Sends a batch of at most [`Sink::batch_limit`] messages, and returns a result for each, in order.
    ///
    /// `Ok` means that the receiver has confirmed the message. The relay drops the future when the destination's timeout is
    /// over, so it must be safe to cancel. A message that was in flight then may arrive twice.
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>>;

    /// As [`Sink::send`], with a receipt for each confirmed message. Relays call this method, and record the receipts if they
    /// are told to. A sink whose receivers return status codes implements it; the default returns empty receipts.
    async fn send_for_receipts(&self, batch: &[Message]) -> Vec<Result<Receipt, SendError>> {
        self.send(batch).await.into_iter().map(|answer| answer.map(|()| Receipt::default())).collect()
    }

    /// Checks that the system can be reached, without sending anything, for people who search for a problem. A sink that cannot
    /// check returns `Ok`.
    async fn reach(&self) -> Result<(), SendError> {
        Ok(())
    }

    /// Returns notes on settings of the receiver that do not fit the relay's, for `pillarbox doctor`: each says what it found and
    /// what to do. `lease` is the relay's lease: a relay that dies leaves its events unsent for so long. A sink that finds nothing,
    /// or cannot reach the receiver, returns none.
    async fn advise(&self, lease: Duration) -> Vec<String> {
        let _ = lease;
        Vec::new()
    }

    /// Returns the most messages that one call takes.
    fn batch_limit(&self) -> usize {
        1
    }

    /// Returns whether a batch may contain several events of one aggregate when the relay keeps their order, as a run (see
    /// [`runs`]).
    ///
    /// A sink may return `true` only if its system never stores a message of a run after one that it did not store, whatever
    /// fails: the results of a run are `Ok` up to the first failure. The results after it do not count: the relay sends those
    /// messages again, in order. With `false`, each event of an aggregate waits until the one before it is delivered.
    fn keeps_order(&self) -> bool {
        false
    }
}

/// What a receiver returned with its confirmation of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Receipt {
    /// The receiver's status code, if its protocol has them.
    pub status: Option<u16>,
}

impl Receipt {
    /// Returns a receipt with a status code.
    #[must_use]
    pub fn with_status(status: u16) -> Self {
        Self { status: Some(status) }
    }
}

/// The kind of a failure, which decides how the relay handles it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendErrorKind {
    /// A later attempt may succeed. Uses an attempt.
    Retry,
    /// No attempt will succeed. The delivery fails at once.
    Reject,
    /// The destination is down, and the event is not the cause. Uses no attempt, and the breaker counts it.
    Unavailable,
    /// No response in time. Counts as an outage, unless other sends to the destination get through meanwhile; then it uses an
    /// attempt.
    Timeout,
}

/// The reason why an event was not delivered.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct SendError {
    /// How the relay handles it.
    pub kind: SendErrorKind,
    /// The description of the problem, for people. It must not contain secrets.
    pub message: String,
    /// The wait that the receiver asked for.
    pub after: Option<Duration>,
    /// The receiver's status code, if its protocol has them.
    pub status: Option<u16>,
    /// A part of the receiver's response.
    pub answer: Option<String>,
}

impl SendError {
    fn new(kind: SendErrorKind, message: impl Display) -> Self {
        let mut message = message.to_string();
        // A failed attempt must show an error: an event without an error was never tried.
        if message.is_empty() {
            message = format!("no reason was given ({kind:?})");
        }
        Self { kind, message, after: None, status: None, answer: None }
    }

    /// Returns an error after which a later attempt may succeed.
    pub fn retry(message: impl Display) -> Self {
        Self::new(SendErrorKind::Retry, message)
    }

    /// Returns an error after which no attempt will succeed.
    pub fn reject(message: impl Display) -> Self {
        Self::new(SendErrorKind::Reject, message)
    }

    /// Returns an error of a destination that is down.
    pub fn unavailable(message: impl Display) -> Self {
        Self::new(SendErrorKind::Unavailable, message)
    }

    /// Returns an error of a send without a response in time.
    pub fn timeout(message: impl Display) -> Self {
        Self::new(SendErrorKind::Timeout, message)
    }

    /// Sets the wait that the receiver asked for.
    #[must_use]
    pub fn after(mut self, delay: Option<Duration>) -> Self {
        self.after = delay;
        self
    }

    /// Sets the receiver's response.
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

/// A handler in this process as a destination: an async function of the message.
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

/// Succeeds at once, for dry runs and measurements.
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

    fn keeps_order(&self) -> bool {
        true
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
