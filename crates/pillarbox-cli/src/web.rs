//! What the relay serves over HTTP for machines: its figures and its health. No event is told of here, so that it may be
//! reached from elsewhere.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use self::health::{Answer, Health};
use crate::observers::prometheus::Prometheus;

pub(crate) mod health;

const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The task that serves. It ends when this is dropped.
pub(crate) struct Serving(JoinHandle<()>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Clone)]
struct Shown {
    health: Arc<Health>,
    prometheus: Arc<Prometheus>,
}

/// Serves `/metrics`, `/healthz` and `/readyz`.
pub(crate) async fn serve(
    listen: SocketAddr,
    health: Arc<Health>,
    prometheus: Arc<Prometheus>,
) -> anyhow::Result<Serving> {
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("metrics.listen: {listen} cannot be listened on; choose another port or address"))?;
    tracing::info!(address = %listener.local_addr()?, "figures and health are served");
    let routes = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(alive))
        .route("/readyz", get(ready))
        .with_state(Shown { health, prometheus });
    Ok(Serving(tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, routes).await {
            tracing::error!(%error, "figures and health are served no more");
        }
    })))
}

async fn metrics(State(shown): State<Shown>) -> Response {
    match shown.prometheus.render() {
        Ok(text) => ([(CONTENT_TYPE, PROMETHEUS_TEXT)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn alive(State(shown): State<Shown>) -> Response {
    told(&shown.health.alive().await)
}

async fn ready(State(shown): State<Shown>) -> Response {
    told(&shown.health.ready().await)
}

fn told(answer: &Answer) -> Response {
    let status = if answer.ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    match serde_json::to_string(answer) {
        Ok(text) => (status, [(CONTENT_TYPE, "application/json")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
