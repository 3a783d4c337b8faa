//! An HTTP receiver in this process, on a free loopback port: for the demo and for development. It knows no events; a function
//! answers each request.

use anyhow::Context;
use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use axum::routing::post;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A server. It ends when this is dropped.
pub(crate) struct Receiver {
    url: String,
    serving: JoinHandle<()>,
}

impl Receiver {
    /// Answers each POST to this path.
    pub(crate) async fn start<A, F>(path: &str, answer: A) -> anyhow::Result<Self>
    where
        A: Fn(HeaderMap, Bytes) -> F + Clone + Send + Sync + 'static,
        F: Future<Output: IntoResponse> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no free port for the receiver")?;
        let url = format!("http://{}{path}", listener.local_addr()?);
        // Payloads have no limit.
        let router = Router::new().route(path, post(answer)).layer(DefaultBodyLimit::disable());
        let serving = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "receiver ended");
            }
        });
        Ok(Self { url, serving })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
