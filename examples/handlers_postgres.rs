//! Handlers in this process on PostgreSQL: the relay runs beside the service, wakes after each commit, and stops gracefully.
//!
//! ```sh
//! DATABASE_URL=postgres://postgres@127.0.0.1:5432/postgres cargo run -p pillarbox-examples --bin handlers_postgres
//! ```

use std::sync::Arc;

use anyhow::Result;
use pillarbox::store::postgres::PostgresStore;
use pillarbox::{Event, Message, Outbox, Relay};
use pillarbox_examples::{database_url, open_outbox};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

#[tokio::main]
async fn main() -> Result<()> {
    let store = open_outbox(&database_url()).await?;
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    let relay = Relay::builder(Arc::new(store.clone()))
        .handler("order.*", move |message: Message| {
            let arrived = arrived.clone();
            async move { arrived.send(message).map_err(|error| error.to_string()) }
        })
        .build()?;
    let outbox = Outbox::waking(relay.waker());

    let (stop, stopped) = oneshot::channel::<()>();
    let service = async {
        for cents in [1990, 750] {
            place_order(&store, &outbox, cents).await?;
            if let Some(message) = arrivals.recv().await {
                println!("{} of {} arrived: {}", message.event_type, message.idempotency_key, message.payload);
            }
        }
        // The relay finishes the sends in flight, and gives the rest back.
        drop(stop);
        anyhow::Ok(())
    };
    let (served, ran) = tokio::join!(service, relay.run(async { stopped.await.unwrap_or_default() }));
    served?;
    Ok(ran?)
}

/// Writes the order and the event in one transaction, and wakes the relay after the commit.
async fn place_order(store: &PostgresStore, outbox: &Outbox, cents: i64) -> Result<()> {
    let mut tx = store.pool().begin().await?;
    let order: i64 = sqlx::query_scalar("INSERT INTO example_order (cents) VALUES ($1) RETURNING id")
        .bind(cents)
        .fetch_one(&mut *tx)
        .await?;
    outbox.emit(&mut tx, Event::new("Order", order, "order.placed").payload(json!({ "cents": cents }))).await?;
    Ok(outbox.commit(tx).await?)
}
