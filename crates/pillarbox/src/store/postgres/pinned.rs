//! Statements that stay on one server connection, also behind a transaction pooler.
//!
//! sqlx sends a statement in two steps, and without a transaction a pooler may give the second one to another server
//! connection, where the unnamed statement is somebody else's: a give-back could run as somebody's delete. So each
//! statement has a transaction of its own. It is READ COMMITTED, whatever the database's default: above that, two relays
//! that claim at once would see serialisation failures instead of each other's locks.

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use sqlx::postgres::{PgPool, PgQueryResult, PgRow, PgStatement, PgTypeInfo};
use sqlx::{Either, Error, Execute, Executor, Postgres, SqlStr, Transaction};

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

impl<'p> Executor<'p> for &'_ Pinned {
    type Database = Postgres;

    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Either<PgQueryResult, PgRow>, Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let pinned = self.clone();
        let answers = async move {
            let mut tx = pinned.begin().await?;
            let answers: Vec<_> = tx.fetch_many(query).try_collect().await?;
            tx.commit().await?;
            Ok::<_, Error>(stream::iter(answers).map(Ok))
        };
        stream::once(answers).try_flatten().boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<PgRow>, Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let pinned = self.clone();
        Box::pin(async move {
            let mut tx = pinned.begin().await?;
            let row = tx.fetch_optional(query).await?;
            tx.commit().await?;
            Ok(row)
        })
    }

    fn prepare_with<'e>(self, sql: SqlStr, parameters: &'e [PgTypeInfo]) -> BoxFuture<'e, Result<PgStatement, Error>>
    where
        'p: 'e,
    {
        self.pool.prepare_with(sql, parameters)
    }
}
