//! Opening a SQLite file that another program keeps in a journal mode of its own, and is writing to.

use std::time::Duration;

use pillarbox::store::sqlite::SqliteStore;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{ConnectOptions, Connection};

#[tokio::test]
async fn a_file_that_is_being_written_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shop.db");
    let options = SqliteConnectOptions::new().filename(&path).create_if_missing(true);
    let mut writer = options.journal_mode(SqliteJournalMode::Delete).connect().await.unwrap();
    let mut transaction = writer.begin_with("BEGIN IMMEDIATE").await.unwrap();
    sqlx::query("CREATE TABLE orders (id integer)").execute(&mut *transaction).await.unwrap();

    let mut opening = Box::pin(SqliteStore::open(&path));
    let early = tokio::time::timeout(Duration::from_millis(200), &mut opening).await;
    assert!(early.is_err(), "it was opened, or given up, while somebody wrote: {early:?}");
    transaction.commit().await.unwrap();
    opening.await.unwrap();
}
