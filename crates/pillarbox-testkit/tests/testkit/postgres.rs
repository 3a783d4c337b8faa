//! Databases and servers of their own.

use pillarbox_testkit::postgres::shared_url;
use pillarbox_testkit::{PrivatePostgres, TestDatabase, wait_until};
use sqlx::{Connection, PgConnection};

use crate::PATIENCE;

async fn connect(url: &str) -> PgConnection {
    PgConnection::connect(url).await.expect("the database is there")
}

async fn exists(database: &str) -> bool {
    let mut connection = connect(&shared_url()).await;
    let found = sqlx::query_scalar("SELECT count(*) > 0 FROM pg_database WHERE datname = $1");
    found.bind(database).fetch_one(&mut connection).await.expect("the server answers")
}

async fn current_database(url: &str) -> String {
    let mut connection = connect(url).await;
    sqlx::query_scalar("SELECT current_database()::text").fetch_one(&mut connection).await.expect("the server answers")
}

#[tokio::test]
async fn each_test_has_a_database_of_its_own() {
    let (one, two) = (TestDatabase::create().await, TestDatabase::create().await);
    let (first, second) = (current_database(&one.url()).await, current_database(&two.url()).await);
    assert_ne!(first, second);

    // Somebody who is still connected does not keep a database alive.
    let _connected = connect(&one.url()).await;
    one.close().await;
    drop(two);
    assert!(!exists(&first).await, "close drops the database");
    assert!(!exists(&second).await, "drop drops the database");
}

#[tokio::test]
async fn a_crashed_server_comes_back_with_what_was_committed() {
    let mut postgres = PrivatePostgres::start().await;
    let mut connection = connect(&postgres.url()).await;
    sqlx::query("CREATE TABLE kept (n int)").execute(&mut connection).await.expect("a table can be made");
    sqlx::query("INSERT INTO kept VALUES (42)").execute(&mut connection).await.expect("a row can be written");

    let before = postgres.pid();
    postgres.restart_immediate().await;

    assert_ne!(before, postgres.pid());
    assert!(connection.ping().await.is_err(), "the crash breaks sessions");
    let mut connection = connect(&postgres.url()).await;
    let kept: i32 =
        sqlx::query_scalar("SELECT n FROM kept").fetch_one(&mut connection).await.expect("the row is there");
    assert_eq!(kept, 42);
}

#[tokio::test]
async fn a_stopped_server_refuses_until_it_is_started_again() {
    let mut postgres = PrivatePostgres::start_with(&[("fsync", "on"), ("max_connections", "7")]).await;
    postgres.stop().await;
    assert!(PgConnection::connect(&postgres.url()).await.is_err());

    postgres.start_again().await;
    let mut connection = connect(&postgres.url()).await;
    let limit: String =
        sqlx::query_scalar("SHOW max_connections").fetch_one(&mut connection).await.expect("it answers");
    assert_eq!(limit, "7");
}

#[tokio::test]
async fn a_dropped_server_is_gone() {
    let postgres = PrivatePostgres::start().await;
    let url = postgres.url();
    drop(postgres);
    wait_until("nobody answers", PATIENCE, async || PgConnection::connect(&url).await.is_err()).await;
}

#[tokio::test]
#[should_panic(expected = "waiting until the moon is blue")]
async fn a_wait_has_an_end() {
    wait_until("the moon is blue", std::time::Duration::from_millis(20), async || false).await;
}
