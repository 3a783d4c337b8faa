//! The pool for the application: sqlx connections to emit on, which follow the primary.

use std::io;

use sqlx::postgres::{PgConnection, PgPool, PgPoolOptions};
use sqlx::{Connection, Error, Row};
use tokio::time::timeout;

use super::SQL;
use super::connect::{PING, PostgresSettings, RESTED};
use super::servers::{READ_ONLY, Servers};
use super::url::Session;

/// Returns a pool that connects on demand.
pub(super) fn pool(servers: &Servers, settings: PostgresSettings) -> PgPool {
    let session = servers.session();
    PgPoolOptions::new()
        .max_connections(settings.connections.max(1))
        .acquire_timeout(settings.deadline * 2)
        .test_before_acquire(false)
        .after_connect(move |connection, _| Box::pin(prepare(connection, session)))
        .before_acquire(|connection, meta| {
            Box::pin(async move {
                Ok(meta.idle_for < RESTED || timeout(PING, connection.ping()).await.is_ok_and(|answer| answer.is_ok()))
            })
        })
        .connect_lazy_with(servers.current())
}

/// Sets the session settings of a new connection, and rejects a server that is not of the wanted kind.
async fn prepare(connection: &mut PgConnection, session: Session) -> Result<(), Error> {
    if let Some(question) = session.question()
        && sqlx::raw_sql(question).fetch_one(&mut *connection).await?.try_get::<bool, _>(0)?
    {
        return Err(Error::Io(io::Error::other(READ_ONLY)));
    }
    match sqlx::raw_sql(SQL.session).execute(connection).await {
        Err(Error::Database(_)) => Ok(()),
        told => told.map(drop),
    }
}
