//! Statements that stay on one server connection, also behind a transaction pooler.
//!
//! sqlx sends a statement in two steps, and without a transaction a pooler may give the second one to another server
//! connection, where the unnamed statement is somebody else's: a give-back could run as somebody's delete. So each
//! statement has a transaction of its own. It is READ COMMITTED, whatever the database's default: above that, two relays
//! that claim at once would see serialisation failures instead of each other's locks.

use sqlx::postgres::{PgConnection, PgPool, PgQueryResult, PgRow};
use sqlx::{Error, Postgres, Transaction};

use super::statement::{PgQuery, Runs};

/// A pool whose every statement is a transaction.
#[derive(Debug, Clone)]
pub(in crate::store) struct Pinned {
    pool: PgPool,
    begin: &'static str,
}

impl Pinned {
    pub(in crate::store) fn new(pool: PgPool) -> Self {
        Self::beginning_with(pool, "BEGIN ISOLATION LEVEL READ COMMITTED")
    }

    /// Its transactions begin with this: READ COMMITTED, and whatever else is to hold in each of them.
    pub(in crate::store) fn beginning_with(pool: PgPool, begin: &'static str) -> Self {
        Self { pool, begin }
    }

    pub(in crate::store) fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// For several statements that belong together.
    pub(in crate::store) async fn begin(&self) -> Result<Transaction<'static, Postgres>, Error> {
        self.pool.begin_with(self.begin).await
    }
}

impl Runs for &Pinned {
    async fn rows(self, query: PgQuery) -> Result<Vec<PgRow>, Error> {
        let mut tx = self.begin().await?;
        let rows = query.fetch_all(&mut *tx).await?;
        tx.commit().await?;
        Ok(rows)
    }

    async fn done(self, query: PgQuery) -> Result<PgQueryResult, Error> {
        let mut tx = self.begin().await?;
        let done = query.execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(done)
    }
}

impl Runs for &mut PgConnection {
    async fn rows(self, query: PgQuery) -> Result<Vec<PgRow>, Error> {
        query.fetch_all(self).await
    }

    async fn done(self, query: PgQuery) -> Result<PgQueryResult, Error> {
        query.execute(self).await
    }
}
