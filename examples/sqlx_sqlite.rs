//! The whole path on SQLite, in a temporary file: emits through sqlx, and relays to a handler in this process.
//!
//! ```sh
//! cargo run -p pillarbox-examples --bin sqlx_sqlite
//! ```

use std::sync::Arc;

use anyhow::Result;
use pillarbox::store::sqlite::SqliteStore;
use pillarbox::{Event, Message, Relay, emit};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let store = SqliteStore::open(directory.path().join("shop.db")).await?;
    store.migrate().await?;
    sqlx::query("CREATE TABLE example_order (id INTEGER PRIMARY KEY, cents INTEGER)").execute(store.pool()).await?;

    for (cents, is_paid) in [(1990, true), (500, false), (750, true)] {
        // IMMEDIATE: SQLite has one writer at a time, so a transaction that writes must announce it when it begins.
        let mut tx = store.pool().begin_with("BEGIN IMMEDIATE").await?;
        let order: i64 = sqlx::query_scalar("INSERT INTO example_order (cents) VALUES (?1) RETURNING id")
            .bind(cents)
            .fetch_one(&mut *tx)
            .await?;
        emit(&mut tx, Event::new("Order", order, "order.placed").payload(json!({ "cents": cents }))).await?;
        if is_paid { tx.commit().await? } else { tx.rollback().await? }
    }

    let relay = Relay::builder(Arc::new(store)).handler("order.*", arrived).build()?;
    let pass = relay.drain().await?;
    println!("{} delivered, {} left", pass.processed, pass.remaining);
    Ok(())
}

async fn arrived(message: Message) -> Result<(), String> {
    println!("{} of {} arrived: {}", message.event_type, message.idempotency_key, message.payload);
    Ok(())
}
