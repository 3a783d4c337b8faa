//! The HTTP client of several kinds: hyper's pool of connections, TLS by rustls, a time limit for connecting, and a resolver that can refuse
//! private addresses. It follows no redirect and uses no proxy.

pub(crate) mod address;

use std::error::Error;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, HeaderValue};
use hyper::{Request, Response, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use tower_service::Service;

use self::address::Resolver;

/// Idle connections are closed before the 60 seconds after which common load balancers silently drop them.
const IDLE_CONNECTION: Duration = Duration::from_secs(50);
/// The interval of HTTP/2 pings. All events to a receiver may share one connection, so a dead one must be noticed.
const HTTP2_PING: Duration = Duration::from_secs(15);
/// The size of the connection pool: more than any sensible concurrency of one destination.
const IDLE_CONNECTIONS: usize = 1024;

type BoxError = Box<dyn Error + Send + Sync>;

/// A client with a connection pool of its own.
#[derive(Clone)]
pub struct Client {
    inner: legacy::Client<Timed<HttpsConnector<HttpConnector<Resolver>>>, Full<Bytes>>,
    timeout: Duration,
}

/// The limits of a client.
pub(crate) struct Limits {
    /// The timeout until the head of the response.
    pub(crate) timeout: Duration,
    /// The timeout for DNS, TCP and TLS together.
    pub(crate) connect_timeout: Duration,
    /// Whether private addresses are allowed.
    pub(crate) allow_private: bool,
}

impl Client {
    pub(crate) fn new(tls: ClientConfig, limits: &Limits) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(Resolver { allow_private: limits.allow_private });
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_all_versions();
        let connector = Timed { inner: https.wrap_connector(tcp), timeout: limits.connect_timeout };
        let inner = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .pool_idle_timeout(IDLE_CONNECTION)
            .http2_keep_alive_interval(HTTP2_PING)
            .http2_keep_alive_timeout(HTTP2_PING)
            .build(connector);
        Self { inner, timeout: limits.timeout }
    }

    /// Sends a request. Returns the head of the response, and its body to be read.
    ///
    /// # Errors
    /// Fails if there is no response in time.
    pub(crate) async fn request(&self, mut request: Request<Bytes>) -> Result<Response<Incoming>, ClientError> {
        request.headers_mut().entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        match tokio::time::timeout(self.timeout, self.inner.request(request.map(Full::new))).await {
            Ok(response) => response.map_err(ClientError::Lost),
            Err(_) => Err(ClientError::TimedOut),
        }
    }

    /// Sends a request, and reads a response of at most `most` bytes.
    ///
    /// # Errors
    /// Fails if there is no response in time, or a longer one.
    pub async fn execute(&self, request: Request<Bytes>, most: usize) -> Result<Response<Bytes>, ClientError> {
        let (head, body) = self.request(request).await?.into_parts();
        match tokio::time::timeout(self.timeout, Limited::new(body, most).collect()).await {
            Ok(Ok(body)) => Ok(Response::from_parts(head, body.to_bytes())),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(ClientError::TooLong { most }),
            Ok(Err(error)) => Err(ClientError::Body(error)),
            Err(_) => Err(ClientError::TimedOut),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// There was no response, or none that could be read. The text has no URL, which may be secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No response in time.
    #[error("no response in time")]
    TimedOut,
    /// No connection, or it was lost.
    #[error(transparent)]
    Lost(legacy::Error),
    /// The body is longer than it may be.
    #[error("the response has more than {most} bytes")]
    TooLong {
        /// The limit.
        most: usize,
    },
    /// The body could not be read.
    #[error("reading the response failed")]
    Body(#[source] BoxError),
}

impl ClientError {
    /// Returns whether there was no connection, so that nothing was sent.
    #[must_use]
    pub fn is_connect(&self) -> bool {
        matches!(self, Self::Lost(error) if error.is_connect())
    }
}

/// Returns the text of the last error of the chain, which is the most precise.
pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> String {
    causes(error).last().map_or_else(|| "unknown".to_owned(), ToString::to_string)
}

/// Returns an error and its causes, the nearest first.
pub(crate) fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| cause_of(*error))
}

/// Returns the cause of an error. An I/O error's `source` skips the error that it wraps.
fn cause_of<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}

/// Connecting took too long.
#[derive(Debug, thiserror::Error)]
#[error("no connection in time")]
pub(crate) struct ConnectTimedOut;

/// A connector with a time limit for the whole of its work.
#[derive(Clone)]
struct Timed<C> {
    inner: C,
    timeout: Duration,
}

impl<C> Service<Uri> for Timed<C>
where
    C: Service<Uri, Error = BoxError>,
    C::Future: Send + 'static,
    C::Response: 'static,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, address: Uri) -> Self::Future {
        let connecting = tokio::time::timeout(self.timeout, self.inner.call(address));
        Box::pin(async move { connecting.await.unwrap_or_else(|_| Err(ConnectTimedOut.into())) })
    }
}
