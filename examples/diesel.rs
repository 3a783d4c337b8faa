//! Emits through a blocking diesel transaction on PostgreSQL. Diesel's feature `postgres` needs libpq (Debian: libpq-dev).
//!
//! ```sh
//! DATABASE_URL=postgres://postgres@127.0.0.1:5432/postgres cargo run -p pillarbox-examples --bin diesel
//! ```

use anyhow::{Result, bail};
use diesel::prelude::*;
use pillarbox::emit::blocking::emit;
use pillarbox::{Emitted, Event};
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
    // Diesel blocks, so it runs on a thread of its own.
    let (placed, lost) = tokio::task::spawn_blocking(move || place_and_lose(&url)).await??;
    show(&store, &placed).await?;
    show(&store, &lost).await
}

fn place_and_lose(url: &str) -> Result<(Emitted, Emitted)> {
    let mut connection = PgConnection::establish(url)?;

    // The order and its event are committed together.
    let placed = connection.transaction(place)?;

    // An error rolls back both.
    let mut lost = None;
    let failed: Result<()> = connection.transaction(|tx| {
        lost = Some(place(tx)?);
        bail!("the card was refused")
    });
    println!("rolled back: {:?}", failed.map_err(|error| error.to_string()));

    // Diesel has no type for a transaction, so a missing transaction is an error at run time.
    if let Err(error) = emit(&mut connection, Event::new("Order", 0, "order.placed")) {
        println!("{error}");
    }
    Ok((placed, lost.expect("it was emitted before the card was refused")))
}

fn place(tx: &mut PgConnection) -> Result<Emitted> {
    let insert = diesel::insert_into(example_order::table).values(example_order::cents.eq(1990));
    let order: i64 = insert.returning(example_order::id).get_result(tx)?;
    let event = Event::new("Order", order, "order.placed").payload(json!({ "cents": 1990 }));
    Ok(emit(tx, event)?)
}
