//! Statements that stay on one server connection, even behind a transaction pooler.
//!
//! Each statement has a transaction of its own. It is READ COMMITTED, whatever the database's default. At higher levels, two
//! relays that claim at once would see serialisation failures instead of each other's locks. Each transaction also sets its
//! time limits on the server, so that a client that vanished does not keep its locks forever. `BEGIN`, the statement and
//! `COMMIT` are sent together and take one round trip.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgPool;

use super::connect::Connections;
use super::error::Error;
use super::link::{Link, Tx};
use super::statement::{PgQuery, PgRow, Runs};

/// How long a transaction may wait for its client. A client that only paused should still have its locks.
const IDLE: Duration = Duration::from_secs(30);

/// Connections on which every statement is a transaction.
#[derive(Debug, Clone)]
pub(in crate::store) struct Pinned {
    connections: Arc<Connections>,
    begin: Arc<str>,
    longest: Duration,
}

impl Pinned {
    pub(in crate::store) fn new(connections: Arc<Connections>) -> Self {
        Self::beginning_with(connections, "BEGIN ISOLATION LEVEL READ COMMITTED")
    }

    /// Creates connections whose transactions begin with this text: READ COMMITTED, and other settings of each transaction.
    pub(in crate::store) fn beginning_with(connections: Arc<Connections>, begin: &str) -> Self {
        let longest = connections.longest();
        Self { begin: limited(begin, longest), connections, longest }
    }

    /// Returns the same connections for statements that may take this long.
    pub(in crate::store) fn patient(&self, longest: Duration) -> Self {
        let begin = limited("BEGIN ISOLATION LEVEL READ COMMITTED", longest);
        Self { begin, connections: Arc::clone(&self.connections), longest }
    }

    /// Returns the application's pool, or a pool for the application.
    pub(in crate::store) fn pool(&self) -> &PgPool {
        self.connections.public()
    }

    pub(super) fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }

    /// Returns a connection without a transaction.
    pub(super) async fn link(&self) -> Result<Link, Error> {
        Ok(self.connections.acquire().await?.patient(self.longest))
    }

    /// Begins a transaction of several statements.
    pub(in crate::store) async fn begin(&self) -> Result<Tx, Error> {
        Ok(Tx::new(self.link().await?, Arc::clone(&self.begin)))
    }
}

fn limited(begin: &str, longest: Duration) -> Arc<str> {
    let (longest, idle) = (longest.as_millis(), IDLE.as_millis());
    format!("{begin}; SET LOCAL statement_timeout = {longest}; SET LOCAL idle_in_transaction_session_timeout = {idle}")
        .into()
}

impl Runs for &Pinned {
    async fn rows(self, query: PgQuery) -> Result<Vec<PgRow>, Error> {
        self.begin().await?.last_rows(query).await
    }

    async fn done(self, query: PgQuery) -> Result<u64, Error> {
        self.begin().await?.last(query).await
    }
}
