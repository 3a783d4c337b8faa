//! Emits through a diesel-async transaction on PostgreSQL.
//!
//! ```sh
//! DATABASE_URL=postgres://postgres@127.0.0.1:5432/postgres cargo run -p pillarbox-examples --bin diesel_async
//! ```

use anyhow::{Result, bail};
use diesel::ExpressionMethods;
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
use pillarbox::{Emitted, Event, emit};
use pillarbox_examples::{database_url, open_outbox, show};
use serde_json::json;

diesel::table! {
    example_order (id) {
        id -> BigInt,
        cents -> BigInt,
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = database_url();
    let store = open_outbox(&url).await?;
    let mut connection = AsyncPgConnection::establish(&url).await?;

    // The order and its event are committed together.
    let placed = connection.transaction(async |tx| place(tx).await).await?;
    show(&store, &placed).await?;

    // An error rolls back both.
    let mut lost = None;
    let failed: Result<()> = connection
        .transaction(async |tx| {
            lost = Some(place(tx).await?);
            bail!("the card was refused")
        })
        .await;
    println!("rolled back: {:?}", failed.map_err(|error| error.to_string()));
    show(&store, &lost.expect("it was emitted before the card was refused")).await?;

    // Diesel has no type for a transaction, so a missing transaction is an error at run time.
    if let Err(error) = emit(&mut connection, Event::new("Order", 0, "order.placed")).await {
        println!("{error}");
    }
    Ok(())
}

async fn place(tx: &mut AsyncPgConnection) -> Result<Emitted> {
    let insert = diesel::insert_into(example_order::table).values(example_order::cents.eq(1990));
    let order: i64 = insert.returning(example_order::id).get_result(tx).await?;
    let event = Event::new("Order", order, "order.placed").payload(json!({ "cents": 1990 }));
    Ok(emit(tx, event).await?)
}
