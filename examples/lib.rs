//! Shared code of the examples on PostgreSQL: the database's URL, its tables, and the state of an event.

use anyhow::{Context, Result};
use pillarbox::store::postgres::PostgresStore;
use pillarbox::{Emitted, Inspect};

/// Returns `DATABASE_URL`, or the URL of a PostgreSQL on this machine.
#[must_use]
pub fn database_url() -> String {
    std::env::var("DATABASE_URL").unwrap_or_else(|_| "postgres://postgres@127.0.0.1:5432/postgres".to_owned())
}

/// Creates the outbox's tables, as `pillarbox migrate` does, and a table of the application: `example_order`.
///
/// # Errors
/// Fails if the database is not reachable or refuses.
pub async fn open_outbox(url: &str) -> Result<PostgresStore> {
    let store = PostgresStore::connect(url, "public").await.context("set DATABASE_URL to your PostgreSQL database")?;
    store.migrate().await?;
    sqlx::query("CREATE TABLE IF NOT EXISTS example_order (id bigint GENERATED ALWAYS AS IDENTITY, cents bigint)")
        .execute(store.pool())
        .await?;
    Ok(store)
}

/// Prints the state of an event after its transaction has ended.
///
/// # Errors
/// Fails if the database refuses.
pub async fn show(store: &PostgresStore, emitted: &Emitted) -> Result<()> {
    let Emitted { event_type, idempotency_key, .. } = emitted;
    match store.get(emitted.id).await? {
        Some(found) => println!("{event_type} of {idempotency_key} is {}", found.event.status),
        None => println!("{event_type} of {idempotency_key} never existed"),
    }
    Ok(())
}
