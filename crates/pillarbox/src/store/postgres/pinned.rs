//! Statements that stay on one server connection, even behind a transaction pooler.
//!
//! sqlx sends a statement in two steps. Without a transaction, a pooler may send the second step to another server
//! connection, where the unnamed statement belongs to another client: a give-back could run as another client's delete. So
//! each statement has a transaction of its own. It is READ COMMITTED, whatever the database's default. At higher levels, two
//! relays that claim at once would see serialisation failures instead of each other's locks.
//!
//! Each transaction sets its time limits on the server, so that a client that vanished does not keep its locks forever.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgPool, PgQueryResult, PgRow};
use sqlx::{AssertSqlSafe, Error};

use super::connect::Connections;
use super::link::{Link, Tx};
use super::statement::{PgQuery, Runs};

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
        Tx::begin(self.link().await?, AssertSqlSafe(Arc::clone(&self.begin))).await
    }
}

fn limited(begin: &str, longest: Duration) -> Arc<str> {
    let (longest, idle) = (longest.as_millis(), IDLE.as_millis());
    format!("{begin}; SET LOCAL statement_timeout = {longest}; SET LOCAL idle_in_transaction_session_timeout = {idle}")
        .into()
}

impl Runs for &Pinned {
    async fn rows(self, query: PgQuery) -> Result<Vec<PgRow>, Error> {
        let mut tx = self.begin().await?;
        let rows = (&mut *tx).rows(query).await?;
        tx.commit().await?;
        Ok(rows)
    }

    async fn done(self, query: PgQuery) -> Result<PgQueryResult, Error> {
        let mut tx = self.begin().await?;
        let done = (&mut *tx).done(query).await?;
        tx.commit().await?;
        Ok(done)
    }
}
