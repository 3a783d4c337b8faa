//! The connections of a store: at most so many, each tried before it is used again, none returned that went silent.
//!
//! A connection can stay open while nothing arrives on it any more: a firewall forgot it, the server's host is gone, a load
//! balancer still acknowledges. So nothing here waits without a deadline, and a connection on which something was
//! waited for in vain is closed without another word.

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

/// A connection that has rested for longer is tried before it is used: the server may be another one by now.
const RESTED: Duration = Duration::from_secs(1);
/// How long a server may take to say that it is there.
pub(super) const PING: Duration = Duration::from_secs(1);
/// A connection that was not needed for so long is closed, and one that is so old: the server may keep memory for it.
const LONGEST_REST: Duration = Duration::from_secs(600);
const LONGEST_LIFE: Duration = Duration::from_secs(1800);
/// The pauses while no server can be used.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// A statement that is worked on may take so many deadlines.
const LONGEST: u32 = 60;
/// On a pool of the application's nobody can be asked whether a statement is worked on.
const THEIR_DEADLINE: Duration = Duration::from_secs(30);

/// How a store connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostgresSettings {
    /// At most so many connections, besides one that listens for notifications.
    pub connections: u32,
    /// How long a statement may go unanswered. Then the server is asked whether it is working on it: if so, the statement may
    /// take up to sixty times as long; if not, its connection is closed.
    pub deadline: Duration,
    /// How long connecting to one server may take.
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
    /// The application's pool, or one for it.
    public: PgPool,
    /// `None`: the application's pool is all there is.
    servers: Option<Servers>,
    room: Arc<Semaphore>,
    most: usize,
    idle: Mutex<Vec<Idle>>,
    deadline: Duration,
    /// When something was last waited for in vain. A connection that was not heard of since is doubtful.
    silent_at: Mutex<Option<Instant>>,
}

/// A connection that nobody uses.
#[derive(Debug)]
pub(super) struct Idle {
    pub(super) connection: PgConnection,
    pub(super) name: String,
    pub(super) made_at: Instant,
    pub(super) heard_at: Instant,
}

/// Connections to a database that has answered.
pub(in crate::store) async fn open(url: &str, settings: PostgresSettings) -> Result<Arc<Connections>, StoreError> {
    let servers = Servers::parse(url, settings.connect_timeout)?;
    // Later on it is waited and tried again; who starts a program wants to know at once.
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
    /// On a pool of the application's.
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

    /// The application's pool, or one for it: it follows the primary.
    pub(in crate::store) fn public(&self) -> &PgPool {
        &self.public
    }

    /// How many there may be.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    pub(super) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// How long a statement may take that is worked on.
    pub(super) fn longest(&self) -> Duration {
        self.deadline * LONGEST
    }

    /// A connection that was heard of lately.
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

    /// Until a server can be used, for a while.
    async fn connect(self: &Arc<Self>, servers: &Servers, permit: OwnedSemaphorePermit) -> Result<Link, Error> {
        let (began, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            match servers.connect().await {
                Ok(connected) => {
                    // What the application connects next goes there, too.
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

    /// The connection that was used last, of those that are not doubtful.
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

    /// Whether something was waited for in vain after this connection was last heard of.
    pub(super) fn doubts(&self, heard_at: Instant) -> bool {
        lock(&self.silent_at).is_some_and(|silent_at| silent_at > heard_at)
    }

    /// Something was waited for in vain: what else there is must show that it works.
    pub(super) fn went_silent(&self) {
        *lock(&self.silent_at) = Some(Instant::now());
        lock(&self.idle).clear();
    }

    /// The server refuses writes: it is not the primary any more.
    pub(super) fn turn_away(&self) {
        if let Some(servers) = &self.servers {
            servers.turn_away();
            self.went_silent();
        }
    }

    /// Whether the server is working on what the session of this name asked for. If it waits in a transaction instead, it is
    /// ended. The server is asked on a connection besides the others: they may all be waiting.
    pub(super) async fn is_working(&self, name: Option<&str>) -> bool {
        let (Some(servers), Some(name)) = (&self.servers, name) else { return false };
        let ask = async {
            let mut connection = servers.connect().await?.connection;
            // One transaction, so that a pooler does not tear the statement apart.
            let mut tx = connection.begin().await?;
            let working = sqlx::query_scalar(SQL.working).persistent(false).bind(name).fetch_optional(&mut *tx).await?;
            tx.commit().await?;
            Ok::<Option<bool>, Error>(working)
        };
        match timeout(servers.longest() + PING, ask).await {
            Ok(Ok(working)) => working == Some(true),
            // A server that is full cannot be asked, and is not silent.
            Ok(Err(Error::Database(refused))) => refused.code().is_some_and(|code| code.starts_with("53")),
            Ok(Err(_)) | Err(_) => false,
        }
    }

    /// Ends the session of this name if it waits in a transaction: nobody will go on with it, and it has locks.
    pub(super) async fn end_waiting(&self, name: Option<&str>) {
        self.is_working(name).await;
    }

    /// A pool of one connection, for the one that listens.
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

/// Whether the server answers, `None` if it does not say anything.
pub(super) async fn answers(connection: &mut PgConnection) -> Option<bool> {
    timeout(PING, connection.ping()).await.ok().map(|answer| answer.is_ok())
}
