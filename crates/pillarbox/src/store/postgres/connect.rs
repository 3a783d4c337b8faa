//! The connections of a store: limited in number, tested before reuse, closed when silent.
//!
//! A connection can stay open while nothing arrives on it any more: a firewall dropped it, the server's host is gone, or a
//! load balancer still acknowledges. So every wait here has a deadline, and a connection whose wait timed out is closed
//! without another message.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};
use sqlx::{Connection, Error};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::SQL;
use super::hold::lock;
use super::link::{Link, Live};
use super::servers::{self, Connected, Servers};
use crate::error::StoreError;

/// The idle time after which a connection is tested before use. The server may have changed.
const RESTED: Duration = Duration::from_secs(1);
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
/// The deadline on an application's pool, where the store cannot ask whether the server works on a statement.
const THEIR_DEADLINE: Duration = Duration::from_secs(30);

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
    /// The servers; `None` if the application's pool is the only source of connections.
    servers: Option<Servers>,
    room: Arc<Semaphore>,
    most: usize,
    idle: Mutex<Vec<Idle>>,
    deadline: Duration,
    /// When a wait last timed out. A connection without a response since then is doubtful.
    silent_at: Mutex<Option<Instant>>,
}

/// A connection that is not in use.
#[derive(Debug)]
pub(super) struct Idle {
    pub(super) connection: PgConnection,
    pub(super) name: String,
    pub(super) made_at: Instant,
    pub(super) heard_at: Instant,
}

/// Opens connections to a database that has responded.
pub(in crate::store) async fn open(url: &str, settings: PostgresSettings) -> Result<Arc<Connections>, StoreError> {
    let servers = Servers::parse(url, settings.connect_timeout)?;
    // Later connects retry. The first one fails at once, so that the person who starts a program sees the error.
    let first = servers.connect().await;
    let first = first.map_err(|source| StoreError::Connect { address: servers.addresses(), source: source.into() })?;
    let session = servers.session();
    let most = settings.connections.max(1);
    let public = PgPoolOptions::new()
        .max_connections(most)
        .acquire_timeout(settings.deadline * 2)
        .test_before_acquire(false)
        .after_connect(move |connection, _| Box::pin(servers::prepare(connection, session)))
        .before_acquire(|connection, meta| {
            Box::pin(async move { Ok(meta.idle_for < RESTED || answers(connection).await == Some(true)) })
        })
        .connect_lazy_with(servers.current());
    let connections = Connections {
        public,
        servers: Some(servers),
        room: Arc::new(Semaphore::new(most as usize)),
        most: most as usize,
        idle: Mutex::default(),
        deadline: settings.deadline,
        silent_at: Mutex::default(),
    };
    connections.put_back(Idle::new(first));
    Ok(Arc::new(connections))
}

impl Idle {
    fn new(connected: Connected) -> Self {
        let now = Instant::now();
        Self { connection: connected.connection, name: connected.name, made_at: now, heard_at: now }
    }
}

impl Connections {
    /// Creates connections on a pool of the application.
    pub(in crate::store) fn on(pool: PgPool) -> Arc<Self> {
        let most = pool.options().get_max_connections() as usize;
        Arc::new(Self {
            public: pool,
            servers: None,
            room: Arc::new(Semaphore::new(0)),
            most,
            idle: Mutex::default(),
            deadline: THEIR_DEADLINE,
            silent_at: Mutex::default(),
        })
    }

    /// Returns the application's pool, or a pool for the application that follows the primary.
    pub(in crate::store) fn public(&self) -> &PgPool {
        &self.public
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
            return Err(Error::PoolClosed);
        }
        let Some(servers) = &self.servers else {
            let theirs = timeout(self.deadline, self.public.acquire()).await.map_err(|_| Error::PoolTimedOut)??;
            return Ok(Link::new(self, Live::theirs(theirs), None, None));
        };
        let permit = timeout(self.deadline * 2, Arc::clone(&self.room).acquire_owned()).await;
        let permit = permit.map_err(|_| Error::PoolTimedOut)?.map_err(|_| Error::PoolClosed)?;
        while let Some(mut idle) = self.pop() {
            if idle.heard_at.elapsed() < RESTED {
                return Ok(Link::of(self, idle, permit));
            }
            match answers(&mut idle.connection).await {
                Some(true) => return Ok(Link::of(self, idle, permit)),
                Some(false) => {}
                None => self.went_silent(),
            }
        }
        self.connect(servers, permit).await
    }

    /// Connects, and retries for a while until a server can be used.
    async fn connect(self: &Arc<Self>, servers: &Servers, permit: OwnedSemaphorePermit) -> Result<Link, Error> {
        let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            match servers.connect().await {
                Ok(connected) => {
                    // New connections of the application's pool go to the same server.
                    self.public.set_connect_options(servers.current());
                    return Ok(Link::of(self, Idle::new(connected), permit));
                }
                Err(error) if !servers::is_passing(&error) || began.elapsed() + pause > self.deadline * 2 => {
                    return Err(error);
                }
                Err(_) => tokio::time::sleep(pause).await,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Returns the most recently used connection that is not doubtful.
    fn pop(&self) -> Option<Idle> {
        let mut idle = lock(&self.idle);
        idle.retain(|idle| !self.doubts(idle.heard_at) && idle.heard_at.elapsed() < LONGEST_REST);
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
        if let Some(servers) = &self.servers {
            servers.turn_away();
            self.went_silent();
        }
    }

    /// Returns whether the server works on a statement of the session with this name. If the session waits in a transaction
    /// instead, it is terminated. The query uses an additional connection, because all others may be waiting.
    pub(super) async fn is_working(&self, name: Option<&str>) -> bool {
        let (Some(servers), Some(name)) = (&self.servers, name) else { return false };
        let ask = async {
            let mut connection = servers.connect().await?.connection;
            // One transaction, so that a pooler does not split the statement.
            let mut tx = connection.begin().await?;
            let working = sqlx::query_scalar(SQL.working).persistent(false).bind(name).fetch_optional(&mut *tx).await?;
            tx.commit().await?;
            Ok::<Option<bool>, Error>(working)
        };
        match timeout(servers.longest() + PING, ask).await {
            Ok(Ok(working)) => working == Some(true),
            // A server without free connections cannot be asked, but it is not silent.
            Ok(Err(Error::Database(refused))) => refused.code().is_some_and(|code| code.starts_with("53")),
            Ok(Err(_)) | Err(_) => false,
        }
    }

    /// Terminates the session with this name if it waits in a transaction. No client will continue it, and it holds locks.
    pub(super) async fn end_waiting(&self, name: Option<&str>) {
        self.is_working(name).await;
    }

    /// Returns a pool of one connection, for the listener.
    pub(super) fn for_listening(&self) -> PgPool {
        match &self.servers {
            None => self.public.clone(),
            Some(servers) => {
                let session = servers.session();
                PgPoolOptions::new()
                    .max_connections(1)
                    .acquire_timeout(servers.connect_timeout())
                    .idle_timeout(None)
                    .max_lifetime(None)
                    .after_connect(move |connection, _| Box::pin(servers::prepare(connection, session)))
                    .connect_lazy_with(servers.current())
            }
        }
    }
}

/// Returns whether the server responds to a ping without an error; `None` on a timeout.
pub(super) async fn answers(connection: &mut PgConnection) -> Option<bool> {
    timeout(PING, connection.ping()).await.ok().map(|answer| answer.is_ok())
}
