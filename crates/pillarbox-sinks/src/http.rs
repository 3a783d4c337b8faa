//! Sends over HTTP: one POST per event, signed according to Standard Webhooks; the response decides the outcome.
//!
//! The path of a message: `request` builds it, `signature` signs it by the keys of `signing_key`, `answer` judges the response, `failure` explains why
//! there is none. `keys` reads the configuration. The client of
//! [`crate::client`] connects, and keeps away from private networks.

mod answer;
mod failure;
mod keys;
mod request;
mod settings;
mod signature;
mod signing_key;

use std::fmt;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use pillarbox::sink::Receipt;
use pillarbox::{Message, SendError, Sink};
use url::Url;

use self::answer::Answers;
use self::failure::Failures;
pub use self::keys::Http;
use self::request::Requests;
pub use self::settings::{HttpError, HttpSettings};
pub use self::signing_key::NewKey;
use crate::client::Limits;
pub use crate::client::{Client, ClientError};
use crate::tls;

/// An HTTP receiver.
///
/// | response | result |
/// |---|---|
/// | 2xx | delivered |
/// | 410, 422 | `Reject` |
/// | 429, 502, 503, 504; no connection, no DNS response, no trust in the certificate | `Unavailable` |
/// | no response in time | `Timeout` |
/// | any other status, redirects too | `Retry` |
///
/// `Retry-After` is obeyed, up to a day. Sending is safe to cancel: the connection is closed.
pub struct HttpSink {
    client: Client,
    requests: Requests,
    answers: Answers,
    failures: Failures,
    timeout: Duration,
}

impl HttpSink {
    /// Returns a sink for one receiver, with its own connection pool. Nothing is sent yet.
    ///
    /// # Errors
    /// Says which setting is wrong and what to do, without showing secrets.
    pub fn new(settings: HttpSettings) -> Result<Self, HttpError> {
        let url = settings.checked_url()?;
        let client = sink_client(&settings, &url)?;
        let failures = Failures::new(&url, &settings);
        let answers = Answers::new(&url, &settings);
        let timeout = settings.timeout;
        let requests = Requests::new(&url, settings)?;
        Ok(Self { client, requests, answers, failures, timeout })
    }

    async fn deliver(&self, message: &Message) -> Result<Receipt, SendError> {
        let started = Instant::now();
        let request = self.requests.build(message)?;
        match self.client.request(request).await {
            Ok(response) => self.answers.judge(response, self.timeout.saturating_sub(started.elapsed())).await,
            Err(error) => Err(self.failures.explain(&error)),
        }
    }
}

#[async_trait]
impl Sink for HttpSink {
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        self.send_for_receipts(batch).await.into_iter().map(|answer| answer.map(drop)).collect()
    }

    async fn send_for_receipts(&self, batch: &[Message]) -> Vec<Result<Receipt, SendError>> {
        let mut answers = Vec::with_capacity(batch.len());
        for message in batch {
            answers.push(self.deliver(message).await);
        }
        answers
    }

    /// Sends HEAD and accepts any response: a receiver without HEAD is reachable too.
    async fn reach(&self) -> Result<(), SendError> {
        self.client.request(self.requests.head()).await.map(drop).map_err(|error| self.failures.explain(&error))
    }
}

impl fmt::Debug for HttpSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSink").field("receiver", &self.failures.receiver()).finish_non_exhaustive()
    }
}

/// Returns a client with the trust and the timeouts of a sink with these settings, for the program's other requests.
///
/// # Errors
/// As [`HttpSink::new`].
pub fn client(settings: &HttpSettings) -> Result<Client, HttpError> {
    sink_client(settings, &settings.checked_url()?)
}

/// For plain `http`, the system's authorities are not even read: redirects are not followed, so they are never needed.
fn sink_client(settings: &HttpSettings, url: &Url) -> Result<Client, HttpError> {
    let tls = tls::client_config(&settings.tls, url.scheme() == "https")?;
    let limits = Limits {
        timeout: settings.timeout,
        connect_timeout: settings.connect_timeout(),
        allow_private: settings.allow_private,
    };
    Ok(Client::new(tls, &limits))
}
