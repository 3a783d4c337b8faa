//! The inbox on each database. `python/tests/inbox` tests a receiver of this crate by HTTP, together with the other kits.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod handle;
mod once;
mod vectors;

use pillarbox_testkit::mysql::TestMysql;
use pillarbox_testkit::postgres::TestDatabase;
use sqlx::{MySqlPool, PgPool, SqlitePool};

/// A database of one test. Dropping it deletes it.
struct Place<DB: sqlx::Database, K> {
    pool: sqlx::Pool<DB>,
    _kept: K,
}

async fn postgres() -> Place<sqlx::Postgres, TestDatabase> {
    let database = TestDatabase::create().await;
    Place { pool: PgPool::connect(&database.url()).await.unwrap(), _kept: database }
}

async fn mysql() -> Place<sqlx::MySql, TestMysql> {
    let database = TestMysql::create().await;
    Place { pool: MySqlPool::connect(&database.url()).await.unwrap(), _kept: database }
}

async fn sqlite() -> Place<sqlx::Sqlite, tempfile::TempDir> {
    let directory = tempfile::tempdir().unwrap();
    let options = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(directory.path().join("inbox.db"))
        .create_if_missing(true)
        .busy_timeout(std::time::Duration::from_millis(100));
    Place { pool: SqlitePool::connect_with(options).await.unwrap(), _kept: directory }
}
