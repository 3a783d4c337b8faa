//! The connections of a store: limited in number, tested before reuse, closed when silent.
//!
//! A connection can stay open while nothing arrives on it any more: a firewall dropped it, the server's host is gone, or a
//! load balancer still acknowledges. So every wait here has a deadline, and a connection whose wait timed out is closed
//! without another message.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sqlx::postgres::PgPool;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::SQL;
use super::error::Error;
use super::hold::lock;
use super::link::Link;
use super::public;
use super::servers::{Connected, Servers};
use super::statement::PgQuery;
use super::wire::Wire;
use crate::error::StoreError;

/// The idle time after which a connection is tested before use. The server may have changed.
pub(super) const RESTED: Duration = Duration::from_secs(1);
/// The timeout of that test.
pub(super) const PING: Duration = Duration::from_secs(1);
/// The idle time, and the age, after which a connection is closed. The server may keep memory for it.
const LONGEST_REST: Duration = Duration::from_secs(600);
const LONGEST_LIFE: Duration = Duration::from_secs(1800);
/// The backoff while no server can be used.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// The number of deadlines that a statement may take while the server works on it.
const LONGEST: u32 = 60;

/// The connection settings of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostgresSettings {
    /// The maximum number of connections, besides one that listens for notifications.
    pub connections: u32,
    /// How long a statement may go without a response. After that, the store asks the server whether it works on the statement.
    /// If so, the statement may take up to sixty times as long; if not, its connection is closed.
    pub deadline: Duration,
    /// The timeout of connecting to one server.
    pub connect_timeout: Duration,
}

impl Default for PostgresSettings {
    fn default() -> Self {
        Self { connections: 10, deadline: Duration::from_secs(5), connect_timeout: Duration::from_secs(3) }
    }
}

/// The connections of a store.
#[derive(Debug)]
pub(in crate::store) struct Connections {
    /// The application's pool, or a pool for the application.
    public: PgPool,
    servers: Servers,
    room: Arc<Semaphore>,
    most: usize,
    idle: Mutex<Vec<Idle>>,
    deadline: Duration,
    /// When a wait last timed out. A connection without a response since then is doubtful.
    silent_at: Mutex<Option<Instant>>,
    /// The names of lost sessions that may wait in a transaction, while no server could be asked about them.
    abandoned: Mutex<Vec<String>>,
}

/// A connection that is not in use.
#[derive(Debug)]
pub(super) struct Idle {
    pub(super) wire: Wire,
    pub(super) name: String,
    pub(super) made_at: Instant,
    pub(super) heard_at: Instant,
}

/// Opens connections to a database that has responded.
pub(in crate::store) async fn open(url: &str, settings: PostgresSettings) -> Result<Arc<Connections>, StoreError> {
    let servers = Servers::parse(url, settings.connect_timeout)?;
    // Later connects retry. The first one fails at once, so that the person who starts a program sees the error.
    let first = servers.connect().await;
    let first = first.map_err(|source| StoreError::Connect {
        server: "PostgreSQL",
        address: servers.addresses(),
        source: source.into(),
    })?;
    let public = public::pool(&servers, settings);
    let connections = Connections::new(public, servers, settings);
    connections.put_back(Idle::new(first));
    Ok(Arc::new(connections))
}

impl Idle {
    fn new(connected: Connected) -> Self {
        let now = Instant::now();
        Self { wire: connected.wire, name: connected.name, made_at: now, heard_at: now }
    }
}

impl Connections {
    fn new(public: PgPool, servers: Servers, settings: PostgresSettings) -> Self {
        let most = settings.connections.max(1) as usize;
        Self {
            public,
            servers,
            room: Arc::new(Semaphore::new(most)),
            most,
            idle: Mutex::default(),
            deadline: settings.deadline,
            silent_at: Mutex::default(),
            abandoned: Mutex::default(),
        }
    }

    /// Creates connections to the database of an application's pool, beside that pool and as many.
    pub(in crate::store) fn beside(pool: PgPool) -> Result<Arc<Self>, StoreError> {
        let connections = pool.options().get_max_connections();
        let settings = PostgresSettings { connections, ..PostgresSettings::default() };
        let servers = Servers::of_pool(&pool.connect_options(), settings.connect_timeout)?;
        Ok(Arc::new(Self::new(pool, servers, settings)))
    }

    /// Returns the application's pool, or a pool for the application that follows the primary.
    pub(in crate::store) fn public(&self) -> &PgPool {
        &self.public
    }

    /// Returns the servers that connections go to.
    #[cfg(feature = "wal")]
    pub(super) fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Returns the maximum number of connections.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    pub(super) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Returns how long a statement may take while the server works on it.
    pub(super) fn longest(&self) -> Duration {
        self.deadline * LONGEST
    }

    /// Returns a connection that responded recently.
    pub(super) async fn acquire(self: &Arc<Self>) -> Result<Link, Error> {
        if self.public.is_closed() {
            return Err(Error::Closed);
        }
        let permit = timeout(self.deadline * 2, Arc::clone(&self.room).acquire_owned()).await;
        let permit = permit.map_err(|_| Error::Busy)?.map_err(|_| Error::Closed)?;
        while let Some(idle) = self.pop() {
            if idle.heard_at.elapsed() < RESTED {
                return Ok(Link::of(self, idle, permit));
            }
            match answers(&idle.wire).await {
                Some(true) => return Ok(Link::of(self, idle, permit)),
                Some(false) => {}
                None => self.went_silent(),
            }
        }
        let connected = self.connect().await?;
        Ok(Link::of(self, Idle::new(connected), permit))
    }

    /// Connects, and retries for a while until a server can be used.
    async fn connect(&self) -> Result<Connected, Error> {
        let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            match self.servers.connect().await {
                Ok(connected) => {
                    self.public_follows();
                    self.end_abandoned().await;
                    return Ok(connected);
                }
                Err(error) if !error.is_passing() || began.elapsed() + pause > self.deadline * 2 => return Err(error),
                Err(_) => tokio::time::sleep(pause).await,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Lets new connections of the pool for the application go to the server that responded last.
    fn public_follows(&self) {
        if self.servers.are_several() {
            self.public.set_connect_options(self.servers.current());
        }
    }

    /// Connects once, besides the pool: to listen for notifications.
    pub(super) async fn connect_to_listen(&self) -> Result<Connected, Error> {
        self.servers.connect().await
    }

    /// Returns the most recently used connection that is not doubtful.
    fn pop(&self) -> Option<Idle> {
        let mut idle = lock(&self.idle);
        let is_usable = |idle: &Idle| !idle.wire.is_closed() && !self.doubts(idle.heard_at);
        idle.retain(|idle| is_usable(idle) && idle.heard_at.elapsed() < LONGEST_REST);
        idle.pop()
    }

    pub(super) fn put_back(&self, mut idle: Idle) {
        if idle.made_at.elapsed() < LONGEST_LIFE && !self.public.is_closed() && !self.doubts(idle.heard_at) {
            idle.heard_at = idle.heard_at.max(idle.made_at);
            lock(&self.idle).push(idle);
        }
    }

    /// Returns whether a wait timed out after this connection last responded.
    pub(super) fn doubts(&self, heard_at: Instant) -> bool {
        lock(&self.silent_at).is_some_and(|silent_at| silent_at > heard_at)
    }

    /// Records that a wait timed out. All other connections must prove that they work.
    pub(super) fn went_silent(&self) {
        *lock(&self.silent_at) = Some(Instant::now());
        lock(&self.idle).clear();
    }

    /// Records that the server refuses writes: it is no longer the primary.
    pub(super) fn turn_away(&self) {
        self.servers.turn_away();
        self.went_silent();
    }

    /// Returns whether the server works on a statement of the session with this name. If the session waits in a transaction
    /// instead, it is terminated. The query uses an additional connection, because all others may be waiting.
    pub(super) async fn is_working(&self, name: &str) -> bool {
        let ask = async {
            let mut wire = self.servers.connect().await?.wire;
            // One transaction, so that a pooler does not split the statement.
            let answer = wire.ask(Some("BEGIN"), PgQuery::new(SQL.working).bind(name), Some("COMMIT")).await?;
            Ok::<Option<bool>, Error>(answer.rows.first().map(|row| row.try_get(0)).transpose()?.flatten())
        };
        let answer = timeout(self.servers.longest() + PING, ask).await;
        if !matches!(answer, Ok(Ok(_))) {
            lock(&self.abandoned).push(name.to_owned());
        }
        match answer {
            Ok(Ok(working)) => working == Some(true),
            // A server without free connections cannot be asked, but it is not silent.
            Ok(Err(error)) => error.code().is_some_and(|code| code.starts_with("53")),
            Err(_) => false,
        }
    }

    /// Terminates the session with this name if it waits in a transaction. No client will continue it, and it holds locks.
    pub(super) async fn end_waiting(&self, name: &str) {
        self.is_working(name).await;
    }

    /// Terminates the lost sessions that no server could be asked about, now that one can be reached.
    async fn end_abandoned(&self) {
        let names = std::mem::take(&mut *lock(&self.abandoned));
        for name in names {
            self.end_waiting(&name).await;
        }
    }
}

/// Returns whether the server responds to a ping without an error; `None` on a timeout.
pub(super) async fn answers(wire: &Wire) -> Option<bool> {
    timeout(PING, wire.ping()).await.ok().map(|answer| answer.is_ok())
}
