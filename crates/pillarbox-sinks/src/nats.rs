//! Sends to NATS: JetStream with confirms, or plain subjects when the configuration says that nobody confirms.
//!
//! The path of a message: `subject` checks its name, `parcel` makes its headers and its body, `publish` sends a batch run by
//! run, `fast` sends the rest of a long run in one round trip, and `failure` sorts errors by fault. `link` is the connection,
//! `streams` asks JetStream about streams, `keys` reads the configuration.

mod failure;
mod fast;
mod keys;
mod link;
mod login;
mod parcel;
mod publish;
mod settings;
mod streams;
mod subject;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use pillarbox::{Message, SendError, Sink};

pub use self::keys::{KIND, Nats};
use self::link::{Connector, Link};
use self::parcel::Parcels;
pub use self::settings::{NatsError, NatsSettings};

/// A NATS server or cluster.
///
/// | response | result |
/// |---|---|
/// | the stream has stored the message, or had stored it before (`duplicate`) | delivered |
/// | no connection, wrong login, no leader, a stream or account that is full, JetStream that does not respond | `Unavailable` |
/// | no confirm in time | `Timeout` |
/// | no stream for the subject, another stream than the expected one, no permission to publish | `Retry` |
/// | an impossible subject, a message larger than the server or the stream takes | `Reject` |
///
/// Sending is safe to cancel: a message in flight may be stored, and its repetition is a duplicate inside the stream's window.
pub struct NatsSink {
    connector: Connector,
    parcels: Parcels,
    confirm: bool,
    timeout: Duration,
    link: tokio::sync::Mutex<Option<Arc<Link>>>,
}

/// The size of a batch: enough to keep a server busy, small enough to be confirmed within a timeout.
const BATCH: usize = 500;

impl NatsSink {
    /// Returns a sink for one server or cluster. It connects when there is something to send.
    ///
    /// # Errors
    /// Says which setting is wrong and what to do, without showing secrets.
    pub fn new(settings: NatsSettings) -> Result<Self, NatsError> {
        settings.check()?;
        let connector = Connector::new(&settings)?;
        let NatsSettings { subject, stream, confirm, content, timeout, .. } = settings;
        let parcels = Parcels { subject, stream, content, confirm };
        Ok(Self { connector, parcels, confirm, timeout, link: tokio::sync::Mutex::new(None) })
    }

    /// Returns the connection. Connects if there is none or if it was lost.
    async fn link(&self, deadline: Instant) -> Result<Arc<Link>, SendError> {
        // Another batch may be connecting.
        let waiting = tokio::time::timeout_at(deadline.into(), self.link.lock());
        let Ok(mut current) = waiting.await else {
            return Err(SendError::unavailable("connection to NATS failed: no server responded in time"));
        };
        if let Some(link) = current.as_ref().filter(|link| link.is_usable()) {
            return Ok(Arc::clone(link));
        }
        *current = None;
        let link = Arc::new(self.connector.connect(deadline).await?);
        *current = Some(Arc::clone(&link));
        Ok(link)
    }

    /// Returns the end of a send. The relay counts a batch that it drops as one failure. With an earlier deadline here, each
    /// message has its own result.
    fn deadline(&self) -> Instant {
        Instant::now() + self.timeout - (self.timeout / 10).min(Duration::from_millis(500))
    }
}

#[async_trait]
impl Sink for NatsSink {
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        let deadline = self.deadline();
        let link = match self.link(deadline).await {
            Ok(link) => link,
            Err(error) => return vec![Err(error); batch.len()],
        };
        if self.confirm {
            publish::confirmed(&link, &self.parcels, batch, deadline).await
        } else {
            publish::unconfirmed(&link, &self.parcels, batch, deadline).await
        }
    }

    async fn reach(&self) -> Result<(), SendError> {
        let link = self.link(self.deadline()).await?;
        if self.confirm { streams::check(&link, &self.parcels).await } else { Ok(()) }
    }

    async fn advise(&self, lease: Duration) -> Vec<String> {
        match self.link(self.deadline()).await {
            Ok(link) if self.confirm => streams::advise(&link, &self.parcels, lease, self.timeout).await,
            _ => Vec::new(),
        }
    }

    fn batch_limit(&self) -> usize {
        BATCH
    }

    /// With confirms, a message of a run is published only after the message before it is stored, or as a batch whose gaps the
    /// server refuses. Without confirms, the server may drop a message because of its subject and take the next one, so all
    /// messages of an aggregate must have one subject.
    fn keeps_order(&self) -> bool {
        self.confirm || self.parcels.subject.is_fixed_per_aggregate()
    }
}

impl fmt::Debug for NatsSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsSink").field("servers", &self.connector.shown()).finish_non_exhaustive()
    }
}
