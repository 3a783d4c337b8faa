//! One connection in use, on which every wait has a deadline, and its transaction.
//!
//! An operation that is cancelled or times out loses its connection. A late response must not be taken for the response to
//! another statement.

use std::ops::{Deref, DerefMut};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::connect::{Connections, Idle, PING, answers};
use super::error::Error;
use super::statement::{PgQuery, PgRow, Runs};
use super::wire::{Answer, Wire};
use crate::error::StoreError;

/// The extra time for a response after the server was asked whether it works on the statement.
const GRACE: Duration = Duration::from_millis(250);

/// A connection in use. It returns to the pool when it is dropped, unless it is lost.
#[derive(Debug)]
pub(in crate::store) struct Link {
    /// The connection; `None` if it is lost.
    wire: Option<Wire>,
    connections: Arc<Connections>,
    /// The name of the session on the server.
    name: String,
    made_at: Instant,
    heard_at: Instant,
    /// How long a statement may take while the server works on it.
    longest: Duration,
    /// The text that begins a transaction. It is sent with the first statement.
    begin: Option<Arc<str>>,
    /// Whether a transaction is open.
    open: bool,
    permit: Option<OwnedSemaphorePermit>,
}

impl Link {
    pub(super) fn of(connections: &Arc<Connections>, idle: Idle, permit: OwnedSemaphorePermit) -> Self {
        Self {
            wire: Some(idle.wire),
            connections: Arc::clone(connections),
            name: idle.name,
            made_at: idle.made_at,
            heard_at: Instant::now(),
            longest: connections.longest(),
            begin: None,
            open: false,
            permit: Some(permit),
        }
    }

    pub(super) fn patient(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }

    /// Runs an operation on the connection. A connection that does not respond, or that the server has ended, is lost.
    async fn bounded<T, F>(&mut self, work: impl FnOnce(Wire) -> F) -> Result<T, Error>
    where
        F: Future<Output = (Wire, Result<T, Error>)>,
    {
        let wire = self.wire.take().ok_or_else(Error::lost)?;
        if self.connections.doubts(self.heard_at) && answers(&wire).await != Some(true) {
            drop(wire);
            self.connections.end_waiting(&self.name).await;
            return Err(Error::silent(PING));
        }
        let mut work = pin!(work(wire));
        let began = Instant::now();
        let (wire, outcome) = loop {
            if let Ok(done) = timeout(self.connections.deadline(), work.as_mut()).await {
                break done;
            }
            let working = self.connections.is_working(&self.name).await;
            if working && began.elapsed() < self.longest {
                continue;
            }
            match timeout(GRACE, work.as_mut()).await {
                Ok(done) => break done,
                Err(_) => {
                    self.connections.went_silent();
                    return Err(Error::silent(began.elapsed()));
                }
            }
        };
        self.heard_at = Instant::now();
        match &outcome {
            Err(error) if error.is_fatal() => {
                if error.is_read_only() {
                    self.connections.turn_away();
                }
            }
            _ => self.wire = Some(wire),
        }
        outcome
    }

    /// Returns the text to send before the next statement, and counts the transaction as open.
    fn begins(&mut self) -> Option<Arc<str>> {
        let begin = self.begin.take();
        // Also if the server refuses one of the settings, the transaction is open and must be rolled back.
        self.open |= begin.is_some();
        begin
    }

    /// Runs statements without values.
    pub(in crate::store) async fn run(&mut self, text: &str) -> Result<(), Error> {
        let text = match self.begins() {
            Some(begin) => format!("{begin}; {text}"),
            None => text.to_owned(),
        };
        let work = async |wire: Wire| {
            let done = wire.run(&text).await;
            (wire, done)
        };
        self.bounded(work).await
    }

    /// Returns the one row of a statement without values.
    pub(super) async fn row(&mut self, text: &str) -> Result<PgRow, Error> {
        self.rows(PgQuery::new(text)).await?.into_iter().next().ok_or(Error::NoRow)
    }

    /// Runs a statement and, if it is the last one of a transaction, commits in the same step.
    async fn ask(&mut self, query: PgQuery, is_last: bool) -> Result<Answer, Error> {
        let (begin, end) = (self.begins(), is_last.then_some("COMMIT"));
        let work = async |mut wire: Wire| {
            let answer = wire.ask(begin.as_deref(), query, end).await;
            (wire, answer)
        };
        let answer = self.bounded(work).await;
        // A commit ends the transaction even if it fails.
        self.open &= !is_last;
        answer
    }

    /// Passes each row to `see` as it arrives, until one cannot be read.
    pub(super) async fn each(
        &mut self,
        query: PgQuery,
        mut see: impl FnMut(&PgRow) -> Result<(), StoreError> + Send,
    ) -> Result<Result<(), StoreError>, Error> {
        let begin = self.begins();
        let work = async |mut wire: Wire| {
            let seen = wire.each(begin.as_deref(), query, &mut see).await;
            (wire, seen)
        };
        self.bounded(work).await
    }
}

impl Runs for &mut Link {
    async fn rows(self, query: PgQuery) -> Result<Vec<PgRow>, Error> {
        Ok(self.ask(query, false).await?.rows)
    }

    async fn done(self, query: PgQuery) -> Result<u64, Error> {
        Ok(self.ask(query, false).await?.written)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let Some(wire) = self.wire.take() else { return };
        let connections = Arc::clone(&self.connections);
        let mut idle =
            Idle { wire, name: std::mem::take(&mut self.name), made_at: self.made_at, heard_at: self.heard_at };
        if !self.open {
            return connections.put_back(idle);
        }
        let permit = self.permit.take();
        // `Drop` cannot await. Without a runtime the connection is closed, which also ends its transaction.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                match timeout(PING, idle.wire.run("ROLLBACK")).await {
                    Ok(Ok(())) => {
                        idle.heard_at = Instant::now();
                        connections.put_back(idle);
                    }
                    Ok(Err(_)) => {}
                    Err(_) => {
                        let name = idle.name.clone();
                        drop(idle);
                        connections.end_waiting(&name).await;
                    }
                }
                drop(permit);
            });
        }
    }
}

/// A transaction. It is rolled back when it is dropped.
#[derive(Debug)]
pub(in crate::store) struct Tx(Link);

impl Tx {
    /// Creates a transaction. The text that begins it is sent with its first statement.
    pub(super) fn new(mut link: Link, begin: Arc<str>) -> Self {
        link.begin = Some(begin);
        Self(link)
    }

    /// Commits. A transaction without statements was not begun.
    pub(in crate::store) async fn commit(self) -> Result<(), Error> {
        self.end("COMMIT").await
    }

    pub(super) async fn rollback(self) -> Result<(), Error> {
        self.end("ROLLBACK").await
    }

    async fn end(mut self, text: &str) -> Result<(), Error> {
        if self.0.open {
            self.run(text).await?;
            self.0.open = false;
        }
        Ok(())
    }

    /// Runs the last statement and commits in the same step. Returns its rows.
    pub(super) async fn last_rows(mut self, query: PgQuery) -> Result<Vec<PgRow>, Error> {
        Ok(self.0.ask(query, true).await?.rows)
    }

    /// Runs the last statement and commits in the same step. Returns the number of written rows.
    pub(super) async fn last(mut self, query: PgQuery) -> Result<u64, Error> {
        Ok(self.0.ask(query, true).await?.written)
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
