//! The receiver's reactions to a request.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use tokio::time;

/// The reaction to a request.
#[derive(Debug, Clone)]
pub enum Answer {
    /// The receiver responds.
    Reply(Reply),
    /// The receiver never responds; the connection stays open.
    Hang,
    /// The receiver never responds; the connection is closed.
    Drop,
}

/// An HTTP response; created by [`Answer::status`].
#[derive(Debug, Clone)]
pub struct Reply {
    status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
    delay: Duration,
}

impl Answer {
    /// Returns status 200 without a body.
    pub fn ok() -> Self {
        Self::status(200)
    }

    /// Returns a status without a body.
    ///
    /// # Panics
    /// When it is no HTTP status.
    pub fn status(status: u16) -> Self {
        let status = StatusCode::from_u16(status).expect("a status between 100 and 999");
        Self::Reply(Reply { status, headers: Vec::new(), body: Bytes::new(), delay: Duration::ZERO })
    }

    /// Returns the same response with one more header.
    ///
    /// # Panics
    /// When it is no valid header.
    pub fn header(self, name: &'static str, value: &str) -> Self {
        let value = HeaderValue::from_str(value).expect("a valid header value");
        self.change(|reply| reply.headers.push((HeaderName::from_static(name), value)))
    }

    /// Returns the same response with this body.
    pub fn body(self, body: impl Into<Bytes>) -> Self {
        self.change(|reply| reply.body = body.into())
    }

    /// Returns the same response, delayed by this time.
    pub fn after(self, delay: Duration) -> Self {
        self.change(|reply| reply.delay = delay)
    }

    pub(super) fn is_success(&self) -> bool {
        matches!(self, Self::Reply(reply) if reply.status.is_success())
    }

    fn change(mut self, change: impl FnOnce(&mut Reply)) -> Self {
        if let Self::Reply(reply) = &mut self {
            change(reply);
        }
        self
    }
}

impl Reply {
    pub(super) async fn send(self) -> Response {
        if !self.delay.is_zero() {
            time::sleep(self.delay).await;
        }
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.status;
        response.headers_mut().extend(self.headers);
        response
    }
}
