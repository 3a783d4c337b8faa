//! Emits through a sea-orm transaction, here on PostgreSQL; on SQLite it is the same code.
//!
//! ```sh
//! DATABASE_URL=postgres://postgres@127.0.0.1:5432/postgres cargo run -p pillarbox-examples --bin sea_orm
//! ```

use anyhow::{Context, Result};
use pillarbox::{Event, emit};
use pillarbox_examples::{database_url, open_outbox, show};
use sea_orm::{ConnectionTrait, Database, DatabaseTransaction, DbBackend, Statement, TransactionTrait};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<()> {
    let url = database_url();
    let store = open_outbox(&url).await?;
    let connection = Database::connect(&url).await?;

    // The order and its event are committed together.
    let mut tx = connection.begin().await?;
    let order = insert_order(&tx).await?;
    let placed = Event::new("Order", order, "order.placed").payload(json!({ "cents": 1990 }));
    let placed = emit(&mut tx, placed).await?;
    tx.commit().await?;
    show(&store, &placed).await?;

    // A rollback removes both.
    let mut tx = connection.begin().await?;
    let order = insert_order(&tx).await?;
    let lost = emit(&mut tx, Event::new("Order", order, "order.placed")).await?;
    tx.rollback().await?;
    show(&store, &lost).await
}

// An entity's `insert` works too.
async fn insert_order(tx: &DatabaseTransaction) -> Result<i64> {
    let insert = "INSERT INTO example_order (cents) VALUES (1990) RETURNING id";
    let row = tx.query_one_raw(Statement::from_string(DbBackend::Postgres, insert)).await?;
    Ok(row.context("an INSERT with RETURNING answers a row")?.try_get("", "id")?)
}
