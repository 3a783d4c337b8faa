//! The relay's HTTP server for machines: metrics and health. It shows no events, so other hosts may reach it.

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

use self::health::{Answer, Health};
use crate::door::Door;
pub(crate) use crate::door::Serving;
use crate::observers::prometheus::Prometheus;

pub(crate) mod health;

const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The maximum number of connections: enough for a few collectors and probes.
const CONNECTIONS: usize = 64;

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
        .with_context(|| format!("metrics.listen: listening on {listen} failed; choose another port or address"))?;
    tracing::info!(address = %listener.local_addr()?, "metrics and health are served");
    let routes = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(alive))
        .route("/readyz", get(ready))
        .with_state(Shown { health, prometheus });
    Ok(Door::new("metrics", listener, CONNECTIONS).open(routes))
}

async fn metrics(State(shown): State<Shown>) -> Response {
    match shown.prometheus.render() {
        Ok(text) => ([(CONTENT_TYPE, PROMETHEUS_TEXT)], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "rendering metrics failed");
            (StatusCode::INTERNAL_SERVER_ERROR, "metrics cannot be rendered; see the log").into_response()
        }
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
