//! The collector that receives spans, through the program's own HTTP client. It logs once when it cannot be reached, and
//! once when it can be again. It never logs requests or their headers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use pillarbox_sinks::http::{self, HttpSettings};
use tokio::runtime::Handle;

/// The longest response of a collector.
const LONGEST_ANSWER: usize = 64 << 10;

#[derive(Debug, Clone)]
pub(super) struct Collector {
    client: http::Client,
    runtime: Handle,
    failing: Arc<AtomicBool>,
}

impl Collector {
    /// Must be called within a tokio runtime: the exporter's own thread has none.
    pub(super) fn new(settings: &HttpSettings) -> Result<Self, http::HttpError> {
        Ok(Self { client: http::client(settings)?, runtime: Handle::current(), failing: Arc::default() })
    }

    async fn send(self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        Ok(self.client.execute(request, LONGEST_ANSWER).await?)
    }

    fn told(&self, answer: &Result<Response<Bytes>, HttpError>) {
        let problem = match answer {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("the collector returned {}", response.status())),
            Err(error) => Some(with_causes(error.as_ref())),
        };
        match (problem, self.failing.load(Ordering::Relaxed)) {
            (Some(problem), false) => {
                self.failing.store(true, Ordering::Relaxed);
                tracing::warn!(problem, "exporting spans failed; spans are lost until the collector accepts them");
            }
            (None, true) => {
                self.failing.store(false, Ordering::Relaxed);
                tracing::info!("exporting spans works again");
            }
            _ => {}
        }
    }
}

fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.runtime.spawn(self.clone().send(request)).await?;
        self.told(&answer);
        answer
    }
}
