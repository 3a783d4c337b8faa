//! MariaDB for tests: a private database on the server that a whole run shares, or a private server.

mod private;

use std::{env, thread};

use sqlx::{AssertSqlSafe, Connection, MySqlConnection};
use tokio::runtime;
use uuid::Uuid;

use crate::postgres::with_database;

pub use private::PrivateMysql;

/// The environment variable with the address of the shared server.
const SHARED: &str = "PILLARBOX_TEST_MYSQL";

/// Returns the URL of the server that all tests of a run share.
///
/// # Panics
/// When no server was started, with how to start one.
pub fn shared_url() -> String {
    env::var(SHARED).unwrap_or_else(|_| {
        panic!("{SHARED} is not set: run `make test`, or start a server with `make servers` and set what it prints")
    })
}

/// A fresh database of one test, on the shared server or another one. Its character set is latin1, which nothing may depend on.
///
/// Dropping the value drops the database, except in a panic, so that the data of a failed test can be examined. Names are
/// unique, so a leftover does no harm.
#[derive(Debug)]
pub struct TestMysql {
    name: String,
    server: String,
}

impl TestMysql {
    /// Creates the database.
    ///
    /// # Panics
    /// When there is no shared server, or it refuses.
    pub async fn create() -> Self {
        Self::create_on(&shared_url()).await
    }

    /// Creates the database on another server, for example a [`PrivateMysql`].
    ///
    /// # Panics
    /// When the server is not there or refuses.
    pub async fn create_on(server: &str) -> Self {
        let name = format!("pillarbox_test_{}", Uuid::now_v7().simple());
        execute(server, format!("CREATE DATABASE {name} CHARACTER SET latin1"))
            .await
            .expect("the server creates a database");
        Self { name, server: server.to_owned() }
    }

    /// Returns the database's URL.
    pub fn url(&self) -> String {
        with_database(&self.server, &self.name)
    }

    /// Returns the database's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for TestMysql {
    fn drop(&mut self) {
        if thread::panicking() {
            return;
        }
        // `drop` cannot await, and the test's runtime may be shutting down, so a thread with its own runtime does it.
        let (server, statement) = (self.server.clone(), format!("DROP DATABASE IF EXISTS {}", self.name));
        let dropping = thread::spawn(move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| runtime.block_on(execute(&server, statement)))
        });
        // Best effort: the server is deleted after the run.
        let _ = dropping.join();
    }
}

async fn execute(server: &str, statement: String) -> sqlx::Result<()> {
    let mut connection = MySqlConnection::connect(server).await?;
    // A test that was cut off may have left a transaction open, which holds its tables.
    sqlx::query("SET lock_wait_timeout = 20").execute(&mut connection).await?;
    sqlx::query(AssertSqlSafe(statement)).execute(&mut connection).await?;
    connection.close().await
}
