//! A service with an embedded relay that mounts the admin in its own server, behind its own authentication. Everything is
//! in this process: the shop, the relay, the pages at `/outbox` and the API at `/outbox/api/v1`.
//!
//! ```sh
//! cargo run -p pillarbox-examples --bin admin_in_service
//! curl -H 'cookie: shop_session=ann' http://127.0.0.1:3000/outbox/api/v1/events
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::COOKIE;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::post;
use pillarbox::store::sqlite::SqliteStore;
use pillarbox::{Event, Relay, Route, SendError, emit};
use pillarbox_admin::{Admin, Desk, DestinationInfo, Identity, Role};
use serde_json::json;
use tokio::net::TcpListener;

/// An account of the shop.
#[derive(Clone)]
struct Account {
    name: &'static str,
    is_staff: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let store = SqliteStore::open(directory.path().join("shop.db")).await?;
    store.migrate().await?;

    let was_refused = AtomicBool::new(false);
    let relay = Relay::builder(Arc::new(store.clone()))
        .handler("order.*", move |_| {
            // The first mail fails, so that there is a dead letter to look at.
            let works = was_refused.swap(true, Ordering::Relaxed);
            async move { if works { Ok(()) } else { Err(SendError::reject("the mail server is not set up")) } }
        })
        .build()?;

    let desk = Desk::builder(Arc::new(store.clone()))
        .destination(DestinationInfo::new("handler order.*", "handler"))
        .routes([Route::new("order.*", ["handler order.*"])])
        .build();
    let admin = Admin::new(Arc::new(desk)).authenticate(|request| {
        let account = request.extensions.get::<Account>()?;
        Some(Identity::new(account.name, if account.is_staff { Role::Operator } else { Role::Viewer }))
    });
    let service = Router::new()
        .route("/orders", post(place_order))
        .with_state(store)
        .nest("/outbox", admin.router())
        .layer(from_fn(log_in));

    let address = std::env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("http://{}/outbox", listener.local_addr()?);
    let stop = || async { drop(tokio::signal::ctrl_c().await) };
    let serving = axum::serve(listener, service).with_graceful_shutdown(stop());
    let (served, ran) = tokio::join!(async { serving.await }, relay.run(stop()));
    served?;
    Ok(ran?)
}

/// The shop's own authentication. A real one looks its session up in a table.
async fn log_in(mut request: Request, next: Next) -> Response {
    let cookies = request.headers().get(COOKIE).and_then(|cookies| cookies.to_str().ok()).unwrap_or_default();
    let account = match cookies.split("; ").find_map(|cookie| cookie.strip_prefix("shop_session=")) {
        Some("ann") => Some(Account { name: "ann", is_staff: true }),
        Some("bob") => Some(Account { name: "bob", is_staff: false }),
        _ => None,
    };
    if let Some(account) = account {
        request.extensions_mut().insert(account);
    }
    next.run(request).await
}

/// Writes the order and the event in one transaction.
async fn place_order(State(store): State<SqliteStore>) -> Result<String, StatusCode> {
    let placed = async {
        let mut tx = store.pool().begin().await?;
        let event = Event::new("Order", 1, "order.placed").payload(json!({ "cents": 1990 })).repeatable();
        let emitted = emit(&mut tx, event).await?;
        tx.commit().await?;
        anyhow::Ok(emitted.id.to_string())
    };
    placed.await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}
