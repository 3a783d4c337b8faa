//! Connections to a database.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions, Connection};

use super::database;
use crate::error::StoreError;

/// A connection that has rested for longer is tried before it is used: the server may be another one by now.
const RESTED: Duration = Duration::from_secs(1);
/// Those of a relay.
pub(in crate::store) const CONNECTIONS: u32 = 10;

/// A pool of connections to a database that has answered.
pub(in crate::store) async fn open(url: &str, connections: u32) -> Result<PgPool, StoreError> {
    let options: PgConnectOptions = url.parse().map_err(database("reading the database's URL"))?;
    // A pooler refuses settings at the start of a session that it does not know, and nothing here needs more digits.
    // Slow statements are the server's to log: here their text would only hide what went wrong.
    let options = options.application_name("pillarbox").extra_float_digits(None).disable_statement_logging();
    let unreachable = |source: sqlx::Error| StoreError::Connect {
        address: format!("{}:{}", options.get_host(), options.get_port()),
        source: source.into(),
    };
    // A pool waits and tries again; who starts a program wants to know at once.
    let first = PgConnection::connect_with(&options).await.map_err(unreachable)?;
    first.close().await.map_err(database("closing a connection"))?;
    let pool = PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(Duration::from_secs(10))
        .test_before_acquire(false)
        .before_acquire(|connection, meta| {
            Box::pin(async move { Ok(meta.idle_for < RESTED || connection.ping().await.is_ok()) })
        })
        .connect_lazy_with(options);
    Ok(pool)
}
