//! RabbitMQ: one connection, one channel per batch in flight, publisher confirms for every message.
//!
//! `encode` encodes a message, `declare` declares queues, `publish` sends a batch and judges the outcome of each message,
//! `returned` assigns returned messages to the messages that were sent, `transport` opens the connection.

mod declare;
mod encode;
mod failure;
mod publish;
mod returned;
mod transport;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use lapin::options::ConfirmSelectOptions;
use lapin::uri::AMQPUri;
use lapin::{Channel, Connection};
use pillarbox::{Message, SendError};
use rustls::ClientConfig;

use self::declare::Declared;
use super::route::Routing;

/// The timeout for connecting to one address.
const CONNECT: Duration = Duration::from_secs(5);

/// A broker that speaks AMQP. The sink connects when there is something to send, and again when the connection is lost.
pub(super) struct Amqp {
    addresses: Vec<AMQPUri>,
    tls: Arc<ClientConfig>,
    task: Option<String>,
    routing: Routing,
    declares: bool,
    timeout: Duration,
    link: tokio::sync::Mutex<Option<Arc<Link>>>,
}

/// One connection and its state.
struct Link {
    connection: Connection,
    /// The address, without the login.
    address: String,
    /// Channels with confirms enabled that no batch uses now.
    idle: Mutex<Vec<Channel>>,
    declared: Declared,
    /// When the broker last responded.
    heard: Mutex<Option<Instant>>,
    /// The broker does not respond; this connection is not used again.
    is_forgotten: AtomicBool,
}

impl Amqp {
    pub(super) fn new(addresses: Vec<AMQPUri>, tls: ClientConfig, settings: AmqpSettings) -> Self {
        let AmqpSettings { task, routing, declares, timeout } = settings;
        Self { addresses, tls: Arc::new(tls), task, routing, declares, timeout, link: tokio::sync::Mutex::new(None) }
    }

    pub(super) async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        // The relay counts a batch that it drops as one failure. With an earlier deadline here, each message has its own
        // result.
        let deadline = Instant::now() + self.timeout - (self.timeout / 10).min(Duration::from_millis(500));
        publish::send(self, batch, deadline).await
    }

    pub(super) async fn reach(&self) -> Result<(), SendError> {
        self.link(Instant::now() + self.timeout).await.map(drop)
    }

    /// Returns the connection. Connects if there is none or if it was lost.
    async fn link(&self, deadline: Instant) -> Result<Arc<Link>, SendError> {
        // Another batch may be connecting.
        let waiting = tokio::time::timeout_at(deadline.into(), self.link.lock());
        let Ok(mut current) = waiting.await else {
            return Err(SendError::unavailable("connection to RabbitMQ failed: no address responded in time"));
        };
        if let Some(link) = current.as_ref().filter(|link| link.is_usable()) {
            return Ok(Arc::clone(link));
        }
        *current = None;
        let mut problems = Vec::new();
        for address in &self.addresses {
            let left = deadline.saturating_duration_since(Instant::now()).min(CONNECT);
            match tokio::time::timeout(left, self.connect(address)).await {
                Ok(Ok(link)) => {
                    let link = Arc::new(link);
                    *current = Some(Arc::clone(&link));
                    return Ok(link);
                }
                Ok(Err(error)) => problems.push(format!("{}: {}", shown(address), failure::described(&error))),
                Err(_) => problems.push(format!("{}: no response within {left:?}", shown(address))),
            }
        }
        Err(SendError::unavailable(format!("connection to RabbitMQ failed: {}", problems.join("; "))))
    }

    async fn connect(&self, address: &AMQPUri) -> lapin::Result<Link> {
        let connection = transport::connect(address.clone(), Arc::clone(&self.tls)).await?;
        Ok(Link {
            connection,
            address: shown(address),
            idle: Mutex::default(),
            declared: Declared::default(),
            heard: Mutex::default(),
            is_forgotten: AtomicBool::new(false),
        })
    }
}

/// The sink's settings besides the broker.
pub(super) struct AmqpSettings {
    pub(super) task: Option<String>,
    pub(super) routing: Routing,
    pub(super) declares: bool,
    pub(super) timeout: Duration,
}

impl Link {
    /// Returns a channel that no other batch uses. It is given back only when every message on it has its confirm.
    async fn channel(&self) -> lapin::Result<Channel> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(channel) = idle.filter(|channel| channel.status().connected()) {
            return Ok(channel);
        }
        let channel = self.connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(channel)
    }

    fn give_back(&self, channel: Channel) {
        if channel.status().connected() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(channel);
        }
    }

    fn is_usable(&self) -> bool {
        self.connection.status().connected() && !self.is_forgotten.load(Ordering::Relaxed)
    }

    fn forget(&self) {
        self.is_forgotten.store(true, Ordering::Relaxed);
    }

    /// Records that the broker responded.
    fn hears(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Returns whether the broker has responded to nothing for this long, or never.
    fn is_silent(&self, long: Duration) -> bool {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).is_none_or(|heard| heard.elapsed() >= long)
    }

    fn is_blocked(&self) -> bool {
        self.connection.status().blocked()
    }
}

fn shown(address: &AMQPUri) -> String {
    format!("{}://{}:{}", address.scheme, address.authority.host, address.authority.port)
}
