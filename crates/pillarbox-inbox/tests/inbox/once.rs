//! Recording an event in a transaction of the caller, and deleting old records.

use std::time::Duration;

use pillarbox_inbox::{Database, KEEP, OnceError, cleanup, create_table, once, once_with};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySql, Pool, Postgres, Sqlite};

macro_rules! on_each_database {
    ($($check:ident;)*) => {
        mod postgres { $(#[tokio::test] async fn $check() { super::$check::<sqlx::Postgres>(&crate::postgres().await.pool).await; })* }
        mod mysql { $(#[tokio::test] async fn $check() { super::$check::<sqlx::MySql>(&crate::mysql().await.pool).await; })* }
        mod sqlite { $(#[tokio::test] async fn $check() { super::$check::<sqlx::Sqlite>(&crate::sqlite().await.pool).await; })* }
    };
}

on_each_database! {
    an_event_is_new_once_for_each_consumer;
    a_rollback_forgets_the_event;
    an_event_of_another_transaction_is_in_flight;
    names_that_no_database_would_keep_are_refused;
    cleanup_deletes_old_records;
    a_handler_runs_once_and_its_errors_are_returned;
    a_handler_that_rolls_back_is_noticed;
}

async fn commit<DB: Database>(pool: &Pool<DB>, consumer: &str, id: &str) -> bool {
    let mut connection = pool.acquire().await.unwrap();
    let mut transaction = connection.begin().await.unwrap();
    let is_new = once(&mut transaction, consumer, id).await.unwrap();
    transaction.commit().await.unwrap();
    is_new
}

async fn an_event_is_new_once_for_each_consumer<DB: Database>(pool: &Pool<DB>) {
    create_table(pool).await.unwrap();
    create_table(pool).await.unwrap();
    assert!(commit(pool, "billing", "a").await);
    assert!(!commit(pool, "billing", "a").await);
    assert!(commit(pool, "billing", "A").await);
    assert!(commit(pool, "shipping", "a").await);
}

async fn a_rollback_forgets_the_event<DB: Database>(pool: &Pool<DB>) {
    create_table(pool).await.unwrap();
    let mut connection = pool.acquire().await.unwrap();
    let mut transaction = connection.begin().await.unwrap();
    assert!(once(&mut transaction, "billing", "a").await.unwrap());
    transaction.rollback().await.unwrap();
    drop(connection);
    assert!(commit(pool, "billing", "a").await);
}

async fn an_event_of_another_transaction_is_in_flight<DB: Database>(pool: &Pool<DB>) {
    create_table(pool).await.unwrap();
    let (mut first, mut second) = (pool.acquire().await.unwrap(), pool.acquire().await.unwrap());
    let mut holding = first.begin().await.unwrap();
    assert!(once(&mut holding, "billing", "a").await.unwrap());
    let mut waiting = second.begin().await.unwrap();
    let refused = once(&mut waiting, "billing", "a").await;
    // On SQLite any writer locks the whole database.
    if DB::NAME == "SQLite" {
        assert!(matches!(refused, Err(OnceError::Database(_))), "{refused:?}");
    } else {
        assert!(matches!(refused, Err(OnceError::InFlight)), "{refused:?}");
    }
    waiting.rollback().await.unwrap();
    holding.commit().await.unwrap();
    drop((first, second));
    assert!(!commit(pool, "billing", "a").await);
}

async fn names_that_no_database_would_keep_are_refused<DB: Database>(pool: &Pool<DB>) {
    let mut connection = pool.acquire().await.unwrap();
    let mut transaction = connection.begin().await.unwrap();
    for (consumer, id) in [("", "a"), ("billing", ""), ("billing", "a b"), ("billing", &"x".repeat(256))] {
        let refused = once(&mut transaction, consumer, id).await;
        assert!(matches!(refused, Err(OnceError::Name { .. })), "{refused:?}");
    }
}

/// A statement of a handler, by its text.
pub(crate) async fn run<DB>(connection: &mut DB::Connection, statement: &str) -> Result<(), anyhow::Error>
where
    DB: Database,
    for<'c> &'c mut DB::Connection: sqlx::Executor<'c, Database = DB>,
{
    (&mut *connection).execute(sqlx::raw_sql(AssertSqlSafe(statement.to_owned()))).await?;
    Ok(())
}

/// Handles the event `a` by a statement, and commits if that succeeds.
async fn handle<DB>(pool: &Pool<DB>, statement: &str) -> Result<bool, anyhow::Error>
where
    DB: Database,
    for<'c> &'c mut DB::Connection: sqlx::Executor<'c, Database = DB>,
{
    let mut connection = pool.acquire().await?;
    let mut transaction = connection.begin().await?;
    let handler = async |connection: &mut DB::Connection| run::<DB>(connection, statement).await;
    let is_new = once_with(&mut transaction, "billing", "a", handler).await?;
    transaction.commit().await?;
    Ok(is_new)
}

async fn a_handler_runs_once_and_its_errors_are_returned<DB: Database>(pool: &Pool<DB>)
where
    for<'c> &'c mut DB::Connection: sqlx::Executor<'c, Database = DB>,
{
    create_table(pool).await.unwrap();
    run::<DB>(&mut *pool.acquire().await.unwrap(), "CREATE TABLE handled (n int)").await.unwrap();
    let failed = handle(pool, "INSERT INTO nothing VALUES (1)").await.unwrap_err();
    assert!(matches!(failed.downcast_ref(), Some(sqlx::Error::Database(_))), "{failed:?}");
    assert!(handle(pool, "INSERT INTO handled VALUES (1)").await.unwrap());
    assert!(!handle(pool, "INSERT INTO nothing VALUES (2)").await.unwrap());
}

async fn a_handler_that_rolls_back_is_noticed<DB: Database>(pool: &Pool<DB>)
where
    for<'c> &'c mut DB::Connection: sqlx::Executor<'c, Database = DB>,
{
    create_table(pool).await.unwrap();
    let failed = handle(pool, "ROLLBACK").await.unwrap_err();
    assert!(matches!(failed.downcast_ref(), Some(OnceError::RolledBack)), "{failed:?}");
    assert!(handle(pool, "SELECT 1").await.unwrap());
}

/// PostgreSQL would answer the commit with a rollback. The consumer is a task, so the future is `Send`.
#[tokio::test]
async fn a_handler_that_ignores_an_error_is_noticed() {
    let place = crate::postgres().await;
    create_table(&place.pool).await.unwrap();
    let pool = place.pool.clone();
    let consumer = tokio::spawn(async move {
        let (mut transaction, message) = (pool.begin().await?, "SELECT nothing".to_owned());
        once_with(&mut transaction, "billing", "a", async |tx| {
            let _ = tx.execute(AssertSqlSafe(message.as_str())).await;
            Ok(())
        })
        .await
        .map(|_| drop(message))
    });
    assert!(matches!(consumer.await.unwrap(), Err(OnceError::RolledBack)));
}

/// A bound of the server that is shorter than the wait.
trait Impatient: Database {
    const BOUND: &'static str;
}
impl Impatient for Postgres {
    const BOUND: &'static str = "SET statement_timeout = 300";
}
impl Impatient for MySql {
    const BOUND: &'static str = "SET max_statement_time = 0.3";
}

async fn a_cancelled_wait_is_in_flight<DB: Impatient>(pool: &Pool<DB>)
where
    for<'c> &'c mut DB::Connection: sqlx::Executor<'c, Database = DB>,
{
    create_table(pool).await.unwrap();
    let (mut first, mut second) = (pool.acquire().await.unwrap(), pool.acquire().await.unwrap());
    run::<DB>(&mut second, DB::BOUND).await.unwrap();
    let mut holding = first.begin().await.unwrap();
    assert!(once(&mut holding, "billing", "a").await.unwrap());
    let mut waiting = second.begin().await.unwrap();
    let refused = once(&mut waiting, "billing", "a").await;
    assert!(matches!(refused, Err(OnceError::InFlight)), "{refused:?}");
    waiting.rollback().await.unwrap();
    holding.commit().await.unwrap();
}

#[tokio::test]
async fn a_statement_timeout_that_ends_the_wait_is_the_wait() {
    a_cancelled_wait_is_in_flight(&crate::postgres().await.pool).await;
    a_cancelled_wait_is_in_flight(&crate::mysql().await.pool).await;
}

/// Makes all records nearly sixty days old.
trait Age: Database {
    const OLD: &'static str;
}
impl Age for Postgres {
    const OLD: &'static str = "UPDATE inbox_event SET received_at = received_at - interval '1439 hours'";
}
impl Age for MySql {
    const OLD: &'static str = "UPDATE inbox_event SET received_at = received_at - INTERVAL 1439 HOUR";
}
impl Age for Sqlite {
    const OLD: &'static str =
        "UPDATE inbox_event SET received_at = strftime('%Y-%m-%d %H:%M:%f', received_at, '-1439 hours')";
}

async fn cleanup_deletes_old_records<DB: Age>(pool: &Pool<DB>)
where
    for<'c> &'c mut DB::Connection: sqlx::Executor<'c, Database = DB>,
{
    create_table(pool).await.unwrap();
    for number in 0..7 {
        assert!(commit(pool, "billing", &format!("old-{number}")).await);
    }
    let mut connection = pool.acquire().await.unwrap();
    (&mut *connection).execute(DB::OLD).await.unwrap();
    drop(connection);
    assert!(commit(pool, "billing", "new").await);
    assert_eq!(cleanup(pool, KEEP).await.unwrap(), 0);
    assert_eq!(cleanup(pool, KEEP - Duration::from_secs(86400)).await.unwrap(), 7);
    assert!(!commit(pool, "billing", "new").await);
    assert!(commit(pool, "billing", "old-1").await, "nothing remembers it");
}
