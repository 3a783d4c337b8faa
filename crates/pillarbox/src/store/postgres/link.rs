//! One connection in use, on which every wait has a deadline, and its transaction.
//!
//! An operation that is cancelled or times out loses its connection. A late response must not be taken for the response to
//! another statement.

use std::ops::{Deref, DerefMut};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnection, PgQueryResult, PgRow};
use sqlx::{Error, Executor, Postgres, SqlSafeStr};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::connect::{Connections, Idle, PING, answers};
use super::servers::{is_fatal, is_read_only, silent};
use super::statement::{PgQuery, Runs};
use crate::error::StoreError;

/// The extra time for a response after the server was asked whether it works on the statement.
const GRACE: Duration = Duration::from_millis(250);

/// A connection in use. It returns to the pool when it is dropped, unless it is lost.
#[derive(Debug)]
pub(in crate::store) struct Link {
    /// The connection; `None` if it is lost.
    live: Option<Live>,
    connections: Arc<Connections>,
    /// The name of the session on the server.
    name: Option<String>,
    made_at: Instant,
    heard_at: Instant,
    /// How long a statement may take while the server works on it.
    longest: Duration,
    /// Whether a transaction is open.
    open: bool,
    permit: Option<OwnedSemaphorePermit>,
}

/// A connection of the store, or one of the application's pool.
#[derive(Debug)]
pub(super) enum Live {
    Ours(PgConnection),
    Theirs(Theirs),
}

/// A connection of the application's pool. Dropping it does not return it, because the pool would wait for its response.
#[derive(Debug)]
pub(super) struct Theirs(Option<PoolConnection<Postgres>>);

impl Drop for Theirs {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            drop(connection.detach());
        }
    }
}

impl Live {
    pub(super) fn theirs(connection: PoolConnection<Postgres>) -> Self {
        Self::Theirs(Theirs(Some(connection)))
    }
}

impl Deref for Live {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        match self {
            Self::Ours(connection) => connection,
            Self::Theirs(Theirs(connection)) => connection.as_ref().expect("it is taken only when it goes back"),
        }
    }
}

impl DerefMut for Live {
    fn deref_mut(&mut self) -> &mut PgConnection {
        match self {
            Self::Ours(connection) => connection,
            Self::Theirs(Theirs(connection)) => connection.as_mut().expect("it is taken only when it goes back"),
        }
    }
}

impl Link {
    pub(super) fn new(
        connections: &Arc<Connections>,
        live: Live,
        name: Option<String>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Self {
        let now = Instant::now();
        let (connections, longest) = (Arc::clone(connections), connections.longest());
        Self { live: Some(live), connections, name, made_at: now, heard_at: now, longest, open: false, permit }
    }

    pub(super) fn patient(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }

    pub(super) fn of(connections: &Arc<Connections>, idle: Idle, permit: OwnedSemaphorePermit) -> Self {
        let mut link = Self::new(connections, Live::Ours(idle.connection), Some(idle.name), Some(permit));
        link.made_at = idle.made_at;
        link
    }

    /// Runs an operation on the connection. A connection that does not respond, or that the server has ended, is lost.
    async fn bounded<T, F>(&mut self, work: impl FnOnce(Live) -> F) -> Result<T, Error>
    where
        F: Future<Output = (Live, Result<T, Error>)>,
    {
        let mut live = self.live.take().ok_or_else(lost)?;
        if self.connections.doubts(self.heard_at) && answers(&mut live).await != Some(true) {
            drop(live);
            self.connections.end_waiting(self.name.as_deref()).await;
            return Err(silent(PING));
        }
        let mut work = pin!(work(live));
        let began = Instant::now();
        let (live, outcome) = loop {
            if let Ok(done) = timeout(self.connections.deadline(), work.as_mut()).await {
                break done;
            }
            let working = self.connections.is_working(self.name.as_deref()).await;
            if working && began.elapsed() < self.longest {
                continue;
            }
            match timeout(GRACE, work.as_mut()).await {
                Ok(done) => break done,
                Err(_) => {
                    self.connections.went_silent();
                    return Err(silent(began.elapsed()));
                }
            }
        };
        self.heard_at = Instant::now();
        match &outcome {
            Err(error) if is_fatal(error) => {
                if matches!(error, Error::Database(error) if is_read_only(error.as_ref())) {
                    self.connections.turn_away();
                }
            }
            _ => self.live = Some(live),
        }
        outcome
    }

    /// Runs statements without values.
    pub(in crate::store) async fn run(&mut self, sql: impl SqlSafeStr) -> Result<(), Error> {
        let sql = sqlx::raw_sql(sql);
        let work = async |mut live: Live| {
            let done = live.execute(sql).await.map(drop);
            (live, done)
        };
        self.bounded(work).await
    }

    /// Returns the one row of a statement without values.
    pub(super) async fn row(&mut self, sql: impl SqlSafeStr) -> Result<PgRow, Error> {
        let sql = sqlx::raw_sql(sql);
        let work = async |mut live: Live| {
            let row = live.fetch_one(sql).await;
            (live, row)
        };
        self.bounded(work).await
    }

    /// Passes each row to `see` as it arrives, until one cannot be read.
    pub(super) async fn each(
        &mut self,
        query: PgQuery,
        mut see: impl FnMut(&PgRow) -> Result<(), StoreError> + Send,
    ) -> Result<Result<(), StoreError>, Error> {
        let work = async |mut live: Live| {
            let mut seen = Ok(());
            let mut rows = query.fetch(&mut *live);
            let ended = loop {
                match rows.try_next().await {
                    Ok(Some(row)) => seen = see(&row),
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                }
                if seen.is_err() {
                    break Ok(());
                }
            };
            drop(rows);
            (live, ended.map(|()| seen))
        };
        self.bounded(work).await
    }
}

impl Runs for &mut Link {
    async fn rows(self, query: PgQuery) -> Result<Vec<PgRow>, Error> {
        let work = async |mut live: Live| {
            let rows = query.fetch_all(&mut *live).await;
            (live, rows)
        };
        self.bounded(work).await
    }

    async fn done(self, query: PgQuery) -> Result<PgQueryResult, Error> {
        let work = async |mut live: Live| {
            let done = query.execute(&mut *live).await;
            (live, done)
        };
        self.bounded(work).await
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let Some(live) = self.live.take() else { return };
        let (connections, name) = (Arc::clone(&self.connections), self.name.take());
        let (made_at, heard_at, permit) = (self.made_at, self.heard_at, self.permit.take());
        if !self.open {
            return go_back(live, &connections, name, made_at, heard_at);
        }
        // `Drop` cannot await. Without a runtime the connection is closed, which also ends its transaction.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let mut live = live;
                match timeout(PING, live.execute("ROLLBACK")).await {
                    Ok(Ok(_)) => go_back(live, &connections, name, made_at, Instant::now()),
                    Ok(Err(_)) => {}
                    Err(_) => {
                        drop(live);
                        connections.end_waiting(name.as_deref()).await;
                    }
                }
                drop(permit);
            });
        }
    }
}

fn go_back(live: Live, connections: &Connections, name: Option<String>, made_at: Instant, heard_at: Instant) {
    match live {
        Live::Ours(connection) => {
            connections.put_back(Idle { connection, name: name.unwrap_or_default(), made_at, heard_at });
        }
        Live::Theirs(mut theirs) => drop(theirs.0.take()),
    }
}

fn lost() -> Error {
    Error::Io(std::io::Error::new(std::io::ErrorKind::NotConnected, "the connection to the database was lost"))
}

/// A transaction. It is rolled back when it is dropped.
#[derive(Debug)]
pub(in crate::store) struct Tx(Link);

impl Tx {
    pub(super) async fn begin(mut link: Link, begin: impl SqlSafeStr) -> Result<Self, Error> {
        // Set first: if the server refuses one of the settings, the transaction is open nevertheless and must be rolled back.
        link.open = true;
        link.run(begin).await?;
        Ok(Self(link))
    }

    pub(in crate::store) async fn commit(mut self) -> Result<(), Error> {
        self.run("COMMIT").await?;
        self.0.open = false;
        Ok(())
    }

    pub(super) async fn rollback(mut self) -> Result<(), Error> {
        self.run("ROLLBACK").await?;
        self.0.open = false;
        Ok(())
    }
}

impl Deref for Tx {
    type Target = Link;

    fn deref(&self) -> &Link {
        &self.0
    }
}

impl DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut Link {
        &mut self.0
    }
}
