//! One connection. It is never repaired: when it is lost, everything in flight on it fails at once, and the next batch opens
//! another one.
//!
//! The client would reconnect by itself and then send what it had buffered, long after the relay gave the batch up, and with a
//! gap where the old connection lost messages. So, once connected, it is left with one address that nobody can listen on.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_nats::connection::State;
use async_nats::jetstream::{self, context::ContextBuilder};
use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, Event, ServerAddr, ServerError};
use pillarbox::SendError;
use rustls::ClientConfig;
use tokio::sync::watch;

use super::login::Login;
use super::settings::{NatsError, NatsSettings, shown_servers};
use super::streams::Traits;
use crate::tls::{Tls, client_config};

/// The timeout for connecting to one address.
const CONNECT: Duration = Duration::from_secs(5);
/// The most acks that the client waits for. It is more than the relay has in flight, and the sink never waits for a permit.
const IN_FLIGHT: usize = 16 * 1024;
/// An address that refuses every connection at once: no server can listen on port 0.
const NOWHERE: &str = "nats://127.0.0.1:0";
/// The number of the server's complaints that are kept.
const COMPLAINTS: usize = 64;

/// Opens connections.
pub(super) struct Connector {
    servers: Vec<ServerAddr>,
    shown: String,
    login: Login,
    tls: Option<ClientConfig>,
    is_tls: bool,
    timeout: Duration,
    /// Other servers of the cluster, as a server named them.
    discovered: Mutex<Vec<ServerAddr>>,
}

impl Connector {
    pub(super) fn new(settings: &NatsSettings) -> Result<Self, NatsError> {
        let (servers, in_url) = settings.addresses()?;
        let login = Login::new(settings, in_url)?;
        let is_tls = servers.iter().any(ServerAddr::tls_required);
        let is_used = is_tls || settings.tls != Tls::default();
        let tls = is_used.then(|| client_config(&settings.tls, is_tls)).transpose()?;
        let shown = shown_servers(settings.url.expose());
        Ok(Self { servers, shown, login, tls, is_tls, timeout: settings.timeout, discovered: Mutex::default() })
    }

    /// Returns the servers for people, without logins.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// Connects to one of the servers.
    ///
    /// # Errors
    /// Every failure is an outage, also a wrong login.
    pub(super) async fn connect(&self, deadline: Instant) -> Result<Link, SendError> {
        let mut servers = self.servers.clone();
        for server in lock(&self.discovered).iter() {
            if !servers.contains(server) {
                servers.push(server.clone());
            }
        }
        let events = Arc::new(Events::default());
        let options = self.options(servers.len(), &events, deadline);
        let connected = tokio::time::timeout_at(deadline.into(), async {
            let client = options.connect(servers).await?;
            let nowhere = client.set_server_pool(NOWHERE).await;
            nowhere.map_err(|error| ConnectError::with_source(ConnectErrorKind::Io, error))?;
            Ok(client)
        });
        let failed = |reason: String| {
            SendError::unavailable(format_args!("connection to NATS ({}) failed: {reason}", self.shown))
        };
        match connected.await {
            Ok(Ok(client)) => {
                let named = client.server_info().connect_urls.iter().filter_map(|url| url.parse().ok()).collect();
                *lock(&self.discovered) = named;
                Ok(Link::new(client, events, self.timeout))
            }
            Ok(Err(error)) => Err(failed(described(&error))),
            Err(_) => Err(failed("no server responded in time".to_owned())),
        }
    }

    fn options(&self, servers: usize, events: &Arc<Events>, deadline: Instant) -> ConnectOptions {
        let left = deadline.saturating_duration_since(Instant::now());
        let events = Arc::clone(events);
        let mut options = self
            .login
            .apply(ConnectOptions::new())
            .name("pillarbox")
            .connection_timeout(left.min(CONNECT))
            .request_timeout(Some(self.timeout))
            // A server that does not answer three pings is gone; what waits in the buffer is then dropped.
            .ping_interval((self.timeout / 2).clamp(Duration::from_secs(1), Duration::from_secs(10)))
            // Each server is tried once.
            .max_reconnects(servers)
            .reconnect_delay_callback(|_| Duration::ZERO)
            .require_tls(self.is_tls)
            .event_callback(move |event| {
                events.note(event);
                std::future::ready(())
            });
        if let Some(tls) = &self.tls {
            options = options.tls_client_config(tls.clone());
        }
        options
    }
}

/// Describes a failure to connect. The client's texts contain no login.
fn described(error: &ConnectError) -> String {
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation => {
            "the server refused the login (authorization violation); check creds, nkey, token, or user and password"
                .to_owned()
        }
        ConnectErrorKind::Authentication => "the login cannot be signed; check creds or nkey".to_owned(),
        _ => error.to_string(),
    }
}

/// What the server said outside of responses.
#[derive(Default)]
struct Events {
    /// The server asks its clients to go elsewhere, because it shuts down.
    is_leaving: AtomicBool,
    complaints: watch::Sender<Vec<String>>,
}

impl Events {
    fn note(&self, event: Event) {
        match event {
            Event::LameDuckMode => self.is_leaving.store(true, Ordering::Relaxed),
            Event::ServerError(ServerError::Other(text)) => self.complaints.send_modify(|complaints| {
                if complaints.len() == COMPLAINTS {
                    complaints.remove(0);
                }
                complaints.push(text);
            }),
            _ => {}
        }
    }
}

/// One connection and its state.
pub(super) struct Link {
    pub(super) client: Client,
    pub(super) jetstream: jetstream::Context,
    events: Arc<Events>,
    /// The server does not respond; this connection is not used again.
    is_forgotten: AtomicBool,
    /// When the server last responded.
    heard: Mutex<Option<Instant>>,
    /// What the streams allow, by name.
    pub(super) streams: Mutex<HashMap<String, Traits>>,
}

impl Link {
    fn new(client: Client, events: Arc<Events>, timeout: Duration) -> Self {
        let jetstream = ContextBuilder::new()
            .timeout(timeout)
            .ack_timeout(timeout)
            .max_ack_inflight(IN_FLIGHT)
            .build(client.clone());
        Self {
            client,
            jetstream,
            events,
            is_forgotten: AtomicBool::new(false),
            heard: Mutex::default(),
            streams: Mutex::default(),
        }
    }

    pub(super) fn is_usable(&self) -> bool {
        let is_connected = self.client.connection_state() == State::Connected;
        is_connected && !self.events.is_leaving.load(Ordering::Relaxed) && !self.is_forgotten.load(Ordering::Relaxed)
    }

    /// Leaves the connection to the batches that use it. The next batch opens another one.
    pub(super) fn forget(&self) {
        self.is_forgotten.store(true, Ordering::Relaxed);
    }

    /// Records that the server responded.
    pub(super) fn hears(&self) {
        *lock(&self.heard) = Some(Instant::now());
    }

    /// Returns whether the server has not responded since then.
    pub(super) fn is_silent_since(&self, moment: Instant) -> bool {
        lock(&self.heard).is_none_or(|heard| heard < moment)
    }

    /// Returns the server's complaints, such as missing permissions. They are not responses to a message.
    pub(super) fn complaints(&self) -> watch::Receiver<Vec<String>> {
        self.events.complaints.subscribe()
    }
}

/// Locks. The data stays valid when a holder panics.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
