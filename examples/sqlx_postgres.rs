//! Emits through sqlx on PostgreSQL: `emit`, `emit_once` and `emit_all`, a duplicate, and a rollback.
//!
//! ```sh
//! DATABASE_URL=postgres://postgres@127.0.0.1:5432/postgres cargo run -p pillarbox-examples --bin sqlx_postgres
//! ```

use anyhow::Result;
use pillarbox::{EmitError, Event, emit, emit_all, emit_once};
use pillarbox_examples::{database_url, open_outbox, show};
use serde_json::json;
use sqlx::{Postgres, Transaction};

#[tokio::main]
async fn main() -> Result<()> {
    let store = open_outbox(&database_url()).await?;

    // The order and its event are committed together.
    let mut tx = store.pool().begin().await?;
    let order = insert_order(&mut tx).await?;
    let placed = Event::new("Order", order, "order.placed").payload(json!({ "cents": 1990 }));
    let placed = emit(&mut tx, placed).await?;
    tx.commit().await?;
    show(&store, &placed).await?;

    // A duplicate is refused; the transaction continues.
    let mut tx = store.pool().begin().await?;
    match emit(&mut tx, Event::new("Order", order, "order.placed")).await {
        Err(EmitError::Duplicate { event_type, idempotency_key }) => {
            println!("{event_type} of {idempotency_key} is a duplicate");
        }
        other => println!("unexpected: {other:?}"),
    }
    let existing = emit_once(&mut tx, Event::new("Order", order, "order.placed")).await?;
    println!("it exists: {}", existing.id == placed.id);

    // An event that may happen again is `repeatable`; many events are one statement.
    let updates = (1..=3).map(|n| Event::new("Order", order, "order.updated").payload(json!({ "n": n })).repeatable());
    let updates = emit_all(&mut tx, updates).await?;
    tx.commit().await?;
    println!("{} updates emitted", updates.len());

    // A rollback removes the order and the event.
    let mut tx = store.pool().begin().await?;
    let order = insert_order(&mut tx).await?;
    let lost = emit(&mut tx, Event::new("Order", order, "order.placed")).await?;
    tx.rollback().await?;
    show(&store, &lost).await
}

async fn insert_order(tx: &mut Transaction<'_, Postgres>) -> Result<i64> {
    let insert = sqlx::query_scalar("INSERT INTO example_order (cents) VALUES (1990) RETURNING id");
    Ok(insert.fetch_one(&mut **tx).await?)
}
