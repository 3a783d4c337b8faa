//! Relays over HTTP as a library: signed requests, according to Standard Webhooks, to a small receiver in this process.
//!
//! ```sh
//! cargo run -p pillarbox-examples --bin http_relay
//! ```

use std::sync::Arc;

use anyhow::Result;
use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use pillarbox::store::sqlite::SqliteStore;
use pillarbox::{Destination, Event, Relay, Route, emit};
use pillarbox_sinks::Secret;
use pillarbox_sinks::http::{HttpSettings, HttpSink};
use serde_json::json;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/events", listener.local_addr()?);
    let receiver = tokio::spawn(async { axum::serve(listener, Router::new().route("/events", post(receive))).await });

    let directory = tempfile::tempdir()?;
    let store = SqliteStore::open(directory.path().join("shop.db")).await?;
    store.migrate().await?;
    let mut tx = store.pool().begin().await?;
    emit(&mut tx, Event::new("Order", 42, "order.placed").payload(json!({ "cents": 1990 }))).await?;
    emit(&mut tx, Event::new("Order", 42, "order.paid").header("tenant", "acme")).await?;
    tx.commit().await?;

    let sink = HttpSink::new(HttpSettings {
        // During a rotation there are two secrets, and requests carry a signature by each.
        secrets: vec![Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")],
        // By default, receivers on this host and in private networks are refused.
        allow_private: true,
        ..HttpSettings::new(url)
    })?;
    let relay = Relay::builder(Arc::new(store))
        .destination(Destination::new("runner", sink).concurrency(1))
        .route(Route::new("order.*", ["runner"]))
        .build()?;

    // One pass, for a scheduler or a test. A service calls `run` with a future that stops it.
    let pass = relay.run_once().await?;
    println!("{} processed, {} remaining", pass.processed, pass.remaining);
    receiver.abort();
    Ok(())
}

async fn receive(headers: HeaderMap, body: String) -> StatusCode {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("none");
    let (scheme, _) = header("webhook-signature").split_once(',').unwrap_or(("none", ""));
    println!("received {body}, id {}, tenant {}, signature {scheme}", header("webhook-id"), header("tenant"));
    StatusCode::NO_CONTENT
}
