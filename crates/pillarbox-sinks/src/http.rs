//! Send over HTTP: one POST per event, signed as Standard Webhooks say, and what the receiver's answer means for it.
//!
//! The way of a message: `request` writes it, `signature` signs it, `answer` judges what came back, `failure`
//! says what was wrong when nothing did. `keys` reads the configuration. `address` keeps the sink away from private networks, `tls` from strangers.

mod address;
mod answer;
mod envelope;
mod failure;
mod keys;
mod request;
mod settings;
mod signature;
mod tls;

use std::fmt;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use pillarbox::{Message, SendError, Sink};
pub use reqwest::Client;
use reqwest::Url;

use self::address::PublicOnly;
use self::answer::Answers;
use self::failure::Failures;
pub use self::keys::Http;
use self::request::Requests;
pub use self::settings::{HttpError, HttpMode, HttpSettings};

/// Idle connections are closed before the 60 seconds after which common load balancers drop them without a word.
const IDLE_CONNECTION: Duration = Duration::from_secs(50);
/// All events to a receiver may share one HTTP/2 connection, so a dead one must be noticed.
const HTTP2_PING: Duration = Duration::from_secs(15);
/// More than any sensible concurrency of one destination.
const IDLE_CONNECTIONS: usize = 1024;

/// An HTTP receiver.
///
/// | answer | means |
/// |---|---|
/// | 2xx | delivered |
/// | 410 | `Reject` |
/// | 429, 502, 503, 504; no connection, no DNS answer, no trust in the certificate | `Unavailable` |
/// | no answer in time | `Timeout` |
/// | everything else, redirects too | `Retry` |
///
/// `Retry-After` is obeyed, up to a day. Sending is safe to cancel: the connection is closed then.
pub struct HttpSink {
    client: Client,
    requests: Requests,
    answers: Answers,
    failures: Failures,
    timeout: Duration,
}

impl HttpSink {
    /// A sink for one receiver, with a connection pool of its own. Nothing is sent yet.
    ///
    /// # Errors
    /// Says which setting is wrong and what to do, without showing secrets.
    pub fn new(settings: HttpSettings) -> Result<Self, HttpError> {
        let url = settings.checked_url()?;
        let client = sink_client(&settings, &url)?;
        let failures = Failures::new(&url, &settings);
        let answers = Answers::new(&url, &settings);
        let timeout = settings.timeout;
        let requests = Requests::new(url, settings)?;
        Ok(Self { client, requests, answers, failures, timeout })
    }

    async fn deliver(&self, message: &Message) -> Result<(), SendError> {
        let started = Instant::now();
        let request = self.requests.build(message)?;
        match self.client.execute(request).await {
            Ok(response) => self.answers.judge(response, self.timeout.saturating_sub(started.elapsed())).await,
            Err(error) => Err(self.failures.explain(&error)),
        }
    }
}

#[async_trait]
impl Sink for HttpSink {
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        let mut answers = Vec::with_capacity(batch.len());
        for message in batch {
            answers.push(self.deliver(message).await);
        }
        answers
    }

    /// Any answer will do: who does not know HEAD is there all the same.
    async fn reach(&self) -> Result<(), SendError> {
        let request = self.client.head(self.requests.url().clone());
        request.send().await.map(drop).map_err(|error| self.failures.explain(&error))
    }
}

impl fmt::Debug for HttpSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSink").field("receiver", &self.failures.receiver()).finish_non_exhaustive()
    }
}

/// A client that trusts and waits as a sink with these settings does, for whatever else the program asks for.
///
/// # Errors
/// As [`HttpSink::new`].
pub fn client(settings: &HttpSettings) -> Result<Client, HttpError> {
    sink_client(settings, &settings.checked_url()?)
}

/// An error of such a client, without the address, which may be a secret.
#[must_use]
pub fn without_url(error: reqwest::Error) -> reqwest::Error {
    error.without_url()
}

fn sink_client(settings: &HttpSettings, url: &Url) -> Result<Client, HttpError> {
    let mut builder = Client::builder()
        .tls_backend_preconfigured(tls::config(settings, url)?)
        .timeout(settings.timeout)
        .connect_timeout(settings.connect_timeout())
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .pool_max_idle_per_host(IDLE_CONNECTIONS)
        .pool_idle_timeout(IDLE_CONNECTION)
        .http2_keep_alive_interval(HTTP2_PING)
        .http2_keep_alive_timeout(HTTP2_PING);
    if !settings.allow_private {
        builder = builder.dns_resolver(PublicOnly);
    }
    builder.build().map_err(|error| HttpError::Client(error.without_url()))
}
