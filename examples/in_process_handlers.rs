//! Handlers in this process by pattern, an observer, and eager mode: committed events are delivered before the caller
//! continues. Eager mode is for development and tests; in production the same relay runs with `Relay::run`.
//!
//! ```sh
//! cargo run -p pillarbox-examples --bin in_process_handlers
//! ```

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use pillarbox::store::sqlite::SqliteStore;
use pillarbox::{Emitted, Event, Message, Observed, Observer, Outbox, Relay, SendError, StoredEvent};
use serde::Deserialize;
use serde_json::json;

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let store = SqliteStore::open(directory.path().join("shop.db")).await?;
    store.migrate().await?;

    let log = Arc::new(Log);
    let relay = Relay::builder(Arc::new(store.clone()))
        .handler("order.placed", send_mail)
        .handler("order.*", |message| async move {
            println!("  audited {}", message.event_type);
            Ok::<_, SendError>(())
        })
        .observer(log.clone())
        .build()?;
    let outbox = Outbox::eager(Arc::new(relay)).observer(log);

    for (event_type, to) in [("order.placed", "ann@example.com"), ("order.placed", "nobody"), ("order.paid", "")] {
        let mut tx = store.pool().begin().await?;
        outbox.emit(&mut tx, Event::new("Order", 42, event_type).payload(json!({ "to": to })).repeatable()).await?;
        outbox.commit(tx).await?;
    }
    Ok(())
}

#[derive(Deserialize)]
struct Placed {
    to: String,
}

/// Handles mail. The first route that matches decides, so events that are mailed are not audited.
async fn send_mail(message: Message) -> Result<(), SendError> {
    let placed: Placed = message.payload_as().map_err(SendError::reject)?;
    if !placed.to.contains('@') {
        return Err(SendError::reject(format!("{:?} is not an address", placed.to)));
    }
    println!("  mailed {}", placed.to);
    Ok(())
}

struct Log;

impl Observer for Log {
    fn created(&self, event: &Emitted) -> Observed {
        println!("created {}", event.event_type);
        Ok(())
    }

    fn sent(&self, event: &StoredEvent, destination: &str, _took: Duration) -> Observed {
        println!("sent {} to {destination}", event.event_type);
        Ok(())
    }

    fn dead_lettered(&self, event: &StoredEvent, error: &str) -> Observed {
        println!("dead letter {}: {error}", event.event_type);
        Ok(())
    }
}
