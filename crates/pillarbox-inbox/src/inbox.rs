//! The inbox of one consumer, and the check of a request before anything is written. Knows no database.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName};

use crate::answer::Answer;
use crate::event::Event;
use crate::keys::Keys;
use crate::names;
use crate::once::WAIT;

/// A payload has at most 1 MiB; a CloudEvents envelope is a little larger.
const MAX_BODY: usize = 2 * 1024 * 1024;
const TOLERANCE: Duration = Duration::from_secs(5 * 60);
/// How often a transaction is tried that ends in a deadlock or a serialisation failure.
const TRIES: u32 = 5;

type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Settings of an inbox that cannot be used. No message shows a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InboxError {
    /// The name is empty, too long, or has other than visible ASCII characters.
    #[error("the name of a consumer has 1 to 100 visible ASCII characters, but is {0:?}")]
    Consumer(String),
    /// Nobody's signature would be valid.
    #[error("there are no keys: nobody's signature would be valid")]
    NoKeys,
    /// A secret is no base64, or too short.
    #[error("keys[{position}] is not whsec_ followed by the base64 of at least 24 bytes")]
    Secret {
        /// The position of the key.
        position: usize,
    },
    /// A public key is no base64, or no point of the curve.
    #[error("keys[{position}] is not whpk_ followed by the base64 of a public key of 32 bytes")]
    PublicKey {
        /// The position of the key.
        position: usize,
    },
    /// A private key has no place at a receiver.
    #[error("keys[{position}] is a signing key; give the receiver its public key, which begins whpk_")]
    SigningKey {
        /// The position of the key.
        position: usize,
    },
}

/// Verifies and answers the requests to one consumer.
#[derive(Clone)]
pub struct Inbox {
    pub(crate) consumer: Arc<str>,
    keys: Arc<Keys>,
    tolerance: Duration,
    pub(crate) max_body: usize,
    pub(crate) wait: Duration,
    pub(crate) tries: u32,
    clock: Clock,
}

impl Inbox {
    /// Returns an inbox. A key is a secret (`whsec_…`) or a public key (`whpk_…`); during a rotation there are several.
    pub fn new<K: AsRef<str>>(consumer: &str, keys: impl IntoIterator<Item = K>) -> Result<Self, InboxError> {
        if !names::is_consumer(consumer) {
            return Err(InboxError::Consumer(consumer.to_owned()));
        }
        Ok(Self {
            consumer: consumer.into(),
            keys: Arc::new(Keys::new(keys)?),
            tolerance: TOLERANCE,
            max_body: MAX_BODY,
            wait: WAIT,
            tries: TRIES,
            clock: Arc::new(SystemTime::now),
        })
    }

    /// Sets how far a timestamp may be from the receiver's clock: 5 minutes by default.
    #[must_use]
    pub fn tolerance(self, tolerance: Duration) -> Self {
        Self { tolerance, ..self }
    }

    /// Sets the largest body, in bytes: 2 MiB by default.
    #[must_use]
    pub fn max_body(self, max_body: usize) -> Self {
        Self { max_body, ..self }
    }

    /// Sets how long a duplicate waits for the one that is being handled: 5 seconds by default. On SQLite, any writer is waited for
    /// when the transaction begins: for the pool's `busy_timeout`, and for 3 seconds at most.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    /// Sets how often a transaction is tried that ends in a conflict: 5 times by default.
    #[must_use]
    pub fn tries(self, tries: u32) -> Self {
        Self { tries: tries.max(1), ..self }
    }

    /// Sets the clock that timestamps are compared with, for tests.
    #[must_use]
    pub fn clock(self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self { clock: Arc::new(clock), ..self }
    }

    /// Returns the event of a request, or the response that refuses it. The body is as it arrived, byte for byte.
    pub fn check(&self, headers: &HeaderMap, body: impl Into<Vec<u8>>) -> Result<Event, Answer> {
        let body = body.into();
        if body.len() > self.max_body {
            return Err(self.too_large());
        }
        let id = self.only(headers, "webhook-id")?;
        let timestamp = self.only(headers, "webhook-timestamp")?;
        let signature = self.only(headers, "webhook-signature")?;
        // A dot separates what is signed, and some servers join two headers with a comma.
        if !names::is_id(id) || id.contains(['.', ',']) {
            return Err(self.refuse(401, "webhook-id is not an id"));
        }
        let Some(seconds) = seconds(timestamp) else {
            return Err(self.refuse(401, "webhook-timestamp is not a number of seconds"));
        };
        if !self.is_recent(seconds) {
            return Err(self.refuse(401, "webhook-timestamp is too far from the receiver's clock"));
        }
        if !self.keys.verify(id, seconds, &body, signature) {
            return Err(self.refuse(401, "webhook-signature is not valid"));
        }
        Ok(Event { id: id.to_owned(), timestamp: seconds, headers: headers.clone(), body })
    }

    fn only<'h>(&self, headers: &'h HeaderMap, name: &'static str) -> Result<&'h str, Answer> {
        let mut values = headers.get_all(HeaderName::from_static(name)).iter();
        match (values.next(), values.next()) {
            (None, _) => Err(self.refuse(401, format!("{name} is missing"))),
            (Some(_), Some(_)) => Err(self.refuse(401, format!("{name} is there more than once"))),
            (Some(value), None) => value.to_str().map_err(|_| self.refuse(401, format!("{name} is not ASCII"))),
        }
    }

    fn is_recent(&self, seconds: i64) -> bool {
        // The timestamp has whole seconds, so the fraction of the clock is dropped.
        let now = (self.clock)().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        now.abs_diff(seconds.unsigned_abs()) <= self.tolerance.as_secs()
    }

    pub(crate) fn too_large(&self) -> Answer {
        self.refuse(413, format!("the body has more than {} bytes", self.max_body))
    }

    pub(crate) fn refuse(&self, status: u16, reason: impl Into<std::borrow::Cow<'static, str>>) -> Answer {
        let reason = reason.into();
        tracing::warn!(consumer = %self.consumer, %reason, "inbox: request refused");
        Answer::new(status, reason)
    }
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Inbox")
            .field("consumer", &self.consumer)
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}

/// Reads digits only: no sign, no leading zero, no space.
fn seconds(text: &str) -> Option<i64> {
    let is_plain = text.len() <= 12 && !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}
