//! The connection to Redis. The sink connects when there is something to send, and again when the connection is lost. Each
//! time, it asks the sentinels for the master.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pillarbox::SendError;
use pillarbox::celery::Declaration;
use redis::aio::MultiplexedConnection;
use redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, ClientTlsConfig, ConnectionAddr, IntoConnectionInfo as _, RedisConnectionInfo, RedisResult,
    TlsCertificates,
};

use super::failure;
use crate::celery::broker::{Reach, RedisServer};
use crate::celery::settings::{CeleryError, CelerySettings};
use crate::tls::{Identity, authorities_pem};

/// The timeout for connecting.
const CONNECT: Duration = Duration::from_secs(5);

pub(super) struct Client {
    source: tokio::sync::Mutex<Source>,
    link: tokio::sync::Mutex<Option<Link>>,
}

enum Source {
    Server(redis::Client),
    Sentinel(SentinelClient),
}

/// One connection, shared by all batches, and its declarations.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) connection: MultiplexedConnection,
    declared: Arc<Mutex<Vec<Declaration>>>,
}

impl Link {
    pub(super) fn has_declared(&self, queue: &Declaration) -> bool {
        self.declared.lock().unwrap_or_else(PoisonError::into_inner).contains(queue)
    }

    pub(super) fn declared(&self, queues: impl Iterator<Item = Declaration>) {
        self.declared.lock().unwrap_or_else(PoisonError::into_inner).extend(queues);
    }
}

impl Client {
    pub(super) fn new(server: &RedisServer, settings: &CelerySettings) -> Result<Self, CeleryError> {
        let source = source(server, settings)?;
        Ok(Self { source: tokio::sync::Mutex::new(source), link: tokio::sync::Mutex::new(None) })
    }

    pub(super) async fn link(&self, shown: &str, deadline: Instant) -> Result<Link, SendError> {
        let mut current = self.link.lock().await;
        if let Some(link) = current.as_ref() {
            return Ok(link.clone());
        }
        let left = deadline.saturating_duration_since(Instant::now()).min(CONNECT);
        match tokio::time::timeout(left, self.connect()).await {
            Ok(Ok(connection)) => Ok(current.insert(Link { connection, declared: Arc::default() }).clone()),
            Ok(Err(error)) => Err(failure::refused(shown, &error)),
            Err(_) => Err(SendError::unavailable(format!("connection to {shown} failed: no response within {left:?}"))),
        }
    }

    async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        // The sink has its own timeout for responses.
        let config = AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT)).set_response_timeout(None);
        match &mut *self.source.lock().await {
            Source::Server(client) => client.get_multiplexed_async_connection_with_config(&config).await,
            Source::Sentinel(client) => client.get_async_connection_with_config(&config).await,
        }
    }

    /// Drops this connection, if it is still the current one.
    pub(super) async fn forget(&self, link: &Link) {
        let mut current = self.link.lock().await;
        if current.as_ref().is_some_and(|known| Arc::ptr_eq(&known.declared, &link.declared)) {
            *current = None;
        }
    }

    /// Drops the current connection.
    pub(super) async fn reset(&self) {
        *self.link.lock().await = None;
    }
}

fn source(server: &RedisServer, settings: &CelerySettings) -> Result<Source, CeleryError> {
    let unusable = |error: redis::RedisError| CeleryError::Client(error.to_string());
    let address = match &server.reach {
        Reach::Tcp { host, port, tls: false } => ConnectionAddr::Tcp(host.clone(), *port),
        Reach::Tcp { host, port, tls: true } => {
            ConnectionAddr::TcpTls { host: host.clone(), port: *port, insecure: false, tls_params: None }
        }
        Reach::Socket(path) => ConnectionAddr::Unix(path.into()),
        Reach::Sentinel { sentinels, master_name } => {
            return sentinel(server, sentinels, master_name, settings).map(Source::Sentinel).map_err(unusable);
        }
    };
    let mut login = RedisConnectionInfo::default().set_db(server.database);
    if let Some(user) = &server.user {
        login = login.set_username(user);
    }
    if let Some(password) = &server.password {
        login = login.set_password(password);
    }
    let is_tls = matches!(address, ConnectionAddr::TcpTls { .. });
    let info = address.into_connection_info().map_err(unusable)?.set_redis_settings(login);
    let client = if is_tls {
        let root_cert = authorities_pem(&settings.tls)?;
        let identity = settings.tls.identity.clone();
        let client_tls =
            identity.map(|Identity { certificate, key }| ClientTlsConfig { client_cert: certificate, client_key: key });
        redis::Client::build_with_tls(info, TlsCertificates { client_tls, root_cert })
    } else {
        redis::Client::open(info)
    };
    client.map(Source::Server).map_err(unusable)
}

fn sentinel(
    server: &RedisServer,
    sentinels: &[(String, u16)],
    master_name: &str,
    settings: &CelerySettings,
) -> RedisResult<SentinelClient> {
    let addresses = sentinels.iter().map(|(host, port)| ConnectionAddr::Tcp(host.clone(), *port));
    let mut builder = SentinelClientBuilder::new(addresses, master_name, SentinelServerType::Master)?
        .set_client_to_redis_db(server.database);
    if let Some(user) = &server.user {
        builder = builder.set_client_to_redis_username(user);
    }
    if let Some(password) = &server.password {
        builder = builder.set_client_to_redis_password(password);
    }
    if let Some(password) = &settings.sentinel_password {
        builder = builder.set_client_to_sentinel_password(password.expose());
    }
    builder.build()
}
