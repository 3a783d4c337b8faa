//! The connection to Redis. A sink connects when there is something to send, and again when the connection is lost. Each
//! time, the client asks the sentinels for the master.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::redis::aio::MultiplexedConnection;
use ::redis::cluster::{ClusterClient, ClusterClientBuilder};
use ::redis::cluster_async::ClusterConnection;
use ::redis::sentinel::{SentinelClient, SentinelClientBuilder, SentinelServerType};
use ::redis::{
    AsyncConnectionConfig, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _,
    RedisConnectionInfo, RedisResult, TlsCertificates,
};
use pillarbox::SendError;
use tokio::sync::Mutex;

use super::{Reach, RedisServer, failure};
use crate::Secret;
use crate::tls::{Identity, Tls, TlsError, authorities_pem, client_config};

/// The timeout for connecting.
const CONNECT: Duration = Duration::from_secs(5);
/// How often the client of a cluster follows a redirection, or waits for a node that is loading.
const CLUSTER_RETRIES: u32 = 3;

/// The client could not be built.
#[derive(Debug)]
pub(crate) enum ClientError {
    Tls(TlsError),
    Client(String),
}

impl From<TlsError> for ClientError {
    fn from(error: TlsError) -> Self {
        Self::Tls(error)
    }
}

/// A server, and the current connection to it. `T` is what a sink knows about one connection.
pub(crate) struct Client<T> {
    source: Mutex<Source>,
    link: Mutex<Option<Link<T>>>,
}

enum Source {
    Server(::redis::Client),
    Sentinel(SentinelClient),
    Cluster(ClusterClient),
}

/// One connection, shared by all batches.
pub(crate) struct Link<T> {
    pub(crate) connection: Connection,
    pub(crate) state: Arc<T>,
}

#[derive(Clone)]
pub(crate) enum Connection {
    Server(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl<T> Clone for Link<T> {
    fn clone(&self) -> Self {
        Self { connection: self.connection.clone(), state: Arc::clone(&self.state) }
    }
}

impl Connection {
    /// Sends commands and returns a value for each; errors of single commands are values too. In a cluster, all keys must
    /// be in one slot.
    pub(crate) async fn run(&mut self, commands: &::redis::Pipeline, count: usize) -> RedisResult<Vec<::redis::Value>> {
        use ::redis::aio::ConnectionLike as _;
        match self {
            Self::Server(connection) => connection.send_packed_commands(commands, 0, count).await,
            Self::Cluster(connection) => connection.req_packed_commands(commands, 0, count).await,
        }
    }
}

impl<T: Default> Client<T> {
    /// Returns a client that is not connected yet. `timeout` is the longest wait for a response.
    pub(crate) fn new(
        server: &RedisServer,
        tls: &Tls,
        sentinel_password: Option<&Secret>,
        timeout: Duration,
    ) -> Result<Self, ClientError> {
        // The clients use the process's default TLS provider. The application may have installed one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let source = source(server, tls, sentinel_password, timeout)?;
        Ok(Self { source: Mutex::new(source), link: Mutex::new(None) })
    }

    pub(crate) async fn link(&self, shown: &str, deadline: Instant) -> Result<Link<T>, SendError> {
        let mut current = self.link.lock().await;
        if let Some(link) = current.as_ref() {
            return Ok(link.clone());
        }
        let left = deadline.saturating_duration_since(Instant::now()).min(CONNECT);
        match tokio::time::timeout(left, self.connect()).await {
            Ok(Ok(connection)) => Ok(current.insert(Link { connection, state: Arc::default() }).clone()),
            Ok(Err(error)) => Err(failure::refused(shown, &error)),
            Err(_) => Err(SendError::unavailable(format!("connection to {shown} failed: no response within {left:?}"))),
        }
    }

    async fn connect(&self) -> RedisResult<Connection> {
        // The sink has its own timeout for responses.
        let config = AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT)).set_response_timeout(None);
        match &mut *self.source.lock().await {
            Source::Server(client) => {
                client.get_multiplexed_async_connection_with_config(&config).await.map(Connection::Server)
            }
            Source::Sentinel(client) => client.get_async_connection_with_config(&config).await.map(Connection::Server),
            Source::Cluster(client) => client.get_async_connection().await.map(Connection::Cluster),
        }
    }

    /// Drops this connection, if it is still the current one.
    pub(crate) async fn forget(&self, link: &Link<T>) {
        let mut current = self.link.lock().await;
        if current.as_ref().is_some_and(|known| Arc::ptr_eq(&known.state, &link.state)) {
            *current = None;
        }
    }

    /// Drops the current connection.
    pub(crate) async fn reset(&self) {
        *self.link.lock().await = None;
    }
}

fn source(
    server: &RedisServer,
    tls: &Tls,
    sentinel_password: Option<&Secret>,
    timeout: Duration,
) -> Result<Source, ClientError> {
    let unusable = |error: ::redis::RedisError| ClientError::Client(error.to_string());
    let address = match &server.reach {
        Reach::Tcp { host, port, tls } => tcp(host, *port, *tls),
        Reach::Socket(path) => ConnectionAddr::Unix(path.into()),
        Reach::Sentinel { sentinels, master_name } => {
            let client = sentinel(server, sentinels, master_name, sentinel_password);
            return client.map(Source::Sentinel).map_err(unusable);
        }
        Reach::Cluster { nodes, tls: is_tls } => {
            let nodes = nodes.iter().map(|(host, port)| info(server, tcp(host, *port, *is_tls)));
            let nodes: Vec<_> = nodes.collect::<Result<_, _>>().map_err(unusable)?;
            let mut builder = ClusterClientBuilder::new(nodes)
                .retries(CLUSTER_RETRIES)
                .connection_timeout(CONNECT)
                .response_timeout(timeout);
            if *is_tls {
                builder = builder.certs(certificates(tls)?);
            }
            return builder.build().map(Source::Cluster).map_err(unusable);
        }
    };
    let is_tls = matches!(address, ConnectionAddr::TcpTls { .. });
    let info = info(server, address).map_err(unusable)?;
    let client =
        if is_tls { ::redis::Client::build_with_tls(info, certificates(tls)?) } else { ::redis::Client::open(info) };
    client.map(Source::Server).map_err(unusable)
}

fn tcp(host: &str, port: u16, tls: bool) -> ConnectionAddr {
    if tls {
        ConnectionAddr::TcpTls { host: host.to_owned(), port, insecure: false, tls_params: None }
    } else {
        ConnectionAddr::Tcp(host.to_owned(), port)
    }
}

/// Returns an address with the login and the database.
fn info(server: &RedisServer, address: ConnectionAddr) -> RedisResult<ConnectionInfo> {
    let mut login = RedisConnectionInfo::default().set_db(server.database);
    if let Some(user) = &server.user {
        login = login.set_username(user);
    }
    if let Some(password) = &server.password {
        login = login.set_password(password);
    }
    Ok(address.into_connection_info()?.set_redis_settings(login))
}

fn certificates(tls: &Tls) -> Result<TlsCertificates, TlsError> {
    // The client's own errors do not name the key that is wrong.
    client_config(tls, false)?;
    let root_cert = authorities_pem(tls)?;
    let identity = tls.identity.clone();
    let client_tls =
        identity.map(|Identity { certificate, key }| ClientTlsConfig { client_cert: certificate, client_key: key });
    Ok(TlsCertificates { client_tls, root_cert })
}

fn sentinel(
    server: &RedisServer,
    sentinels: &[(String, u16)],
    master_name: &str,
    sentinel_password: Option<&Secret>,
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
    if let Some(password) = sentinel_password {
        builder = builder.set_client_to_sentinel_password(password.expose());
    }
    builder.build()
}
