//! A client of RabbitMQ that publishes batches with confirms, for the kinds "amqp" and "celery".
//!
//! The path of a batch: `Rabbit` connects, `connection` carries frames, `channel` is the lane of one batch, `publish` sends
//! the messages and judges the outcome of each, `failure` explains errors. `address` reads URLs. The frames of a batch are
//! encoded into one buffer and written together: see docs/design/rabbitmq-speed.md.

pub(crate) mod address;
pub(crate) mod channel;
mod connection;
pub(crate) mod failure;
mod frame;
mod handshake;
pub(crate) mod publish;
mod transport;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use amq_protocol::types::ShortString;
use amq_protocol::uri::AMQPUri;
use pillarbox::SendError;
use rustls::ClientConfig;

use self::channel::Channel;
use self::connection::Connection;
use self::failure::Fault;

/// The timeout for connecting to one address.
const CONNECT: Duration = Duration::from_secs(5);

/// The most bytes of headers and properties. They travel in one frame, and a frame that is too large closes the whole
/// connection. RabbitMQ's smallest usual limit is 128 KiB.
pub(crate) const LARGEST_HEADERS: usize = 120 * 1024;

/// Bodies up to this size share a channel with others. A larger body may close its channel, so it has a channel of its own
/// until a body of its size was confirmed.
const SMALL: usize = 64 * 1024;

/// A broker. It is connected to when there is something to send, and again when the connection is lost. `S` is what a kind
/// remembers about a connection.
pub(crate) struct Rabbit<S> {
    addresses: Vec<AMQPUri>,
    tls: Arc<ClientConfig>,
    timeout: Duration,
    session: tokio::sync::Mutex<Option<Arc<Session<S>>>>,
}

/// One connection, and what the kind remembers about it.
pub(crate) struct Session<S> {
    pub(crate) link: Link,
    pub(crate) state: S,
}

impl<S: Default> Rabbit<S> {
    pub(crate) fn new(addresses: Vec<AMQPUri>, tls: ClientConfig, timeout: Duration) -> Self {
        Self { addresses, tls: Arc::new(tls), timeout, session: tokio::sync::Mutex::new(None) }
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the deadline of a send that begins now. The relay counts a batch that it drops as one failure. With an
    /// earlier deadline here, each message has its own result.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.timeout - (self.timeout / 10).min(Duration::from_millis(500))
    }

    /// Returns the connection. Connects if there is none or if it was lost.
    pub(crate) async fn session(&self, deadline: Instant) -> Result<Arc<Session<S>>, SendError> {
        // Another batch may be connecting.
        let waiting = tokio::time::timeout_at(deadline.into(), self.session.lock());
        let Ok(mut current) = waiting.await else {
            return Err(SendError::unavailable("connection to RabbitMQ failed: no address responded in time"));
        };
        if let Some(session) = current.as_ref().filter(|session| session.link.is_usable()) {
            return Ok(Arc::clone(session));
        }
        *current = None;
        let mut problems = Vec::new();
        for address in &self.addresses {
            let left = deadline.saturating_duration_since(Instant::now()).min(CONNECT);
            match tokio::time::timeout(left, Connection::open(address, &self.tls)).await {
                Ok(Ok(connection)) => {
                    let link = Link::new(connection, address::shown(address));
                    let session = Arc::new(Session { link, state: S::default() });
                    *current = Some(Arc::clone(&session));
                    return Ok(session);
                }
                Ok(Err(fault)) => problems.push(format!("{}: {fault}", address::shown(address))),
                Err(_) => problems.push(format!("{}: no response within {left:?}", address::shown(address))),
            }
        }
        Err(SendError::unavailable(format!("connection to RabbitMQ failed: {}", problems.join("; "))))
    }
}

/// One connection and its state.
pub(crate) struct Link {
    /// Channels with confirms enabled that no batch uses now. They are dropped before the connection.
    idle: Mutex<Vec<Channel>>,
    connection: Connection,
    /// The address, without the login.
    pub(crate) address: String,
    /// When the broker last responded.
    heard: Mutex<Option<Instant>>,
    /// The broker does not respond; this connection is not used again.
    is_forgotten: AtomicBool,
    /// The size of the largest body that was confirmed.
    accepted: AtomicUsize,
    /// The most bytes of a body that the broker takes, once it has said so.
    limit: AtomicUsize,
}

impl Link {
    fn new(connection: Connection, address: String) -> Self {
        Self {
            idle: Mutex::default(),
            connection,
            address,
            heard: Mutex::default(),
            is_forgotten: AtomicBool::new(false),
            accepted: AtomicUsize::new(SMALL),
            limit: AtomicUsize::new(usize::MAX),
        }
    }

    /// Opens a channel, for declarations.
    pub(crate) async fn open(&self) -> Result<Channel, Fault> {
        self.connection.channel().await
    }

    /// Returns a channel with confirms that no other batch uses. It is given back only when every message on it has its
    /// confirm. A channel that is dropped is closed.
    async fn confirming(&self) -> Result<Channel, Fault> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(channel) = idle.filter(Channel::is_open) {
            return Ok(channel);
        }
        let mut channel = self.open().await?;
        channel.confirm().await?;
        Ok(channel)
    }

    fn give_back(&self, channel: Channel) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(channel);
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.connection.is_open()
    }

    fn is_usable(&self) -> bool {
        self.is_connected() && !self.is_forgotten.load(Ordering::Relaxed)
    }

    fn forget(&self) {
        self.is_forgotten.store(true, Ordering::Relaxed);
    }

    /// Records that the broker responded.
    pub(crate) fn hears(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Returns whether the broker has responded to nothing for this long, or never.
    fn is_silent(&self, long: Duration) -> bool {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).is_none_or(|heard| heard.elapsed() >= long)
    }

    fn is_blocked(&self) -> bool {
        self.connection.is_blocked()
    }
}

/// Returns a name as AMQP carries it, or `None` if it is longer than 255 bytes.
pub(crate) fn short(text: &str) -> Option<ShortString> {
    ShortString::try_new(text).ok()
}
