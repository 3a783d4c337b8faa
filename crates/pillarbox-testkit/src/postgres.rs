//! PostgreSQL for tests: a private database on the server that a whole run shares, or a private server.

pub(crate) mod install;
mod logged;
mod private;

use std::{env, thread};

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::runtime;
use uuid::Uuid;

pub use logged::LoggedPostgres;
pub use private::PrivatePostgres;

/// The environment variable with the address of the shared server.
const SHARED: &str = "PILLARBOX_TEST_POSTGRES";

/// Returns the URL of the server that all tests of a run share.
///
/// # Panics
/// When no server was started, with how to start one.
pub fn shared_url() -> String {
    env::var(SHARED).unwrap_or_else(|_| {
        panic!("{SHARED} is not set: run `make test`, or start a server with `make servers` and set what it prints")
    })
}

/// A fresh database of one test, on the shared server.
///
/// `close` drops it, and so does dropping the value, except in a panic, so that the data of a failed test can be examined.
/// Names are unique, so a leftover does no harm.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    server: String,
    dropped: bool,
}

impl TestDatabase {
    /// Creates the database.
    ///
    /// # Panics
    /// When there is no shared server, or it refuses.
    pub async fn create() -> Self {
        Self::create_on(&shared_url()).await
    }

    /// Creates the database on another server, for example a [`PrivatePostgres`].
    ///
    /// # Panics
    /// When the server is not there or refuses.
    pub async fn create_on(server: &str) -> Self {
        let name = format!("pillarbox_test_{}", Uuid::now_v7().simple());
        execute(server, format!("CREATE DATABASE {name}")).await.expect("the server creates a database");
        Self { name, server: server.to_owned(), dropped: false }
    }

    /// Returns the database's URL.
    pub fn url(&self) -> String {
        with_database(&self.server, &self.name)
    }

    /// Drops the database, even with open connections.
    ///
    /// # Panics
    /// When the server refuses.
    pub async fn close(mut self) {
        self.dropped = true;
        execute(&self.server, self.drop_statement()).await.expect("the server drops the database");
    }

    fn drop_statement(&self) -> String {
        format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name)
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if self.dropped || thread::panicking() {
            return;
        }
        // `drop` cannot await, and the test's runtime may be shutting down, so a thread with its own runtime does it.
        let (server, statement) = (self.server.clone(), self.drop_statement());
        let dropping = thread::spawn(move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| runtime.block_on(execute(&server, statement)))
        });
        // Best effort: the server is deleted after the run.
        let _ = dropping.join();
    }
}

async fn execute(server: &str, statement: String) -> sqlx::Result<()> {
    let mut connection = PgConnection::connect(server).await?;
    sqlx::query(AssertSqlSafe(statement)).execute(&mut connection).await?;
    connection.close().await
}

/// Returns the same URL with another database; parameters stay.
pub(crate) fn with_database(url: &str, name: &str) -> String {
    let (address, parameters) = url.split_at(url.find('?').unwrap_or(url.len()));
    let authority = address.find("://").map_or(0, |scheme| scheme + 3);
    let server = address[authority..].find('/').map_or(address, |slash| &address[..authority + slash]);
    format!("{server}/{name}{parameters}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_database_of_an_address_changes() {
        assert_eq!(with_database("postgres://a:b@host:1/old", "new"), "postgres://a:b@host:1/new");
        assert_eq!(with_database("postgres://host", "new"), "postgres://host/new");
        assert_eq!(with_database("postgres://host/old?a=b/c", "new"), "postgres://host/new?a=b/c");
    }
}
