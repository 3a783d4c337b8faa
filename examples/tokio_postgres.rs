//! Emits through a tokio-postgres transaction.
//!
//! ```sh
//! DATABASE_URL=postgres://postgres@127.0.0.1:5432/postgres cargo run -p pillarbox-examples --bin tokio_postgres
//! ```

use anyhow::Result;
use pillarbox::{Event, emit};
use pillarbox_examples::{database_url, open_outbox, show};
use serde_json::json;
use tokio_postgres::{NoTls, Transaction};

#[tokio::main]
async fn main() -> Result<()> {
    let url = database_url();
    let store = open_outbox(&url).await?;
    let (mut client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    tokio::spawn(connection);

    // The order and its event are committed together.
    let mut tx = client.transaction().await?;
    let order = insert_order(&tx).await?;
    let placed = Event::new("Order", order, "order.placed").payload(json!({ "cents": 1990 }));
    let placed = emit(&mut tx, placed).await?;
    tx.commit().await?;
    show(&store, &placed).await?;

    // A rollback removes both.
    let mut tx = client.transaction().await?;
    let order = insert_order(&tx).await?;
    let lost = emit(&mut tx, Event::new("Order", order, "order.placed")).await?;
    tx.rollback().await?;
    show(&store, &lost).await
}

async fn insert_order(tx: &Transaction<'_>) -> Result<i64> {
    let row = tx.query_one("INSERT INTO example_order (cents) VALUES (1990) RETURNING id", &[]).await?;
    Ok(row.try_get(0)?)
}
