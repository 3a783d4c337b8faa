//! What the receiver does with a request.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use tokio::time;

/// What happens to a request.
#[derive(Debug, Clone)]
pub enum Answer {
    /// It is answered.
    Reply(Reply),
    /// It is never answered; the connection stays open.
    Hang,
    /// It is never answered: the connection is closed.
    Drop,
}

/// An HTTP answer; made by [`Answer::status`].
#[derive(Debug, Clone)]
pub struct Reply {
    status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
    delay: Duration,
}

impl Answer {
    /// Status 200 without a body.
    pub fn ok() -> Self {
        Self::status(200)
    }

    /// A status without a body.
    ///
    /// # Panics
    /// When it is no HTTP status.
    pub fn status(status: u16) -> Self {
        let status = StatusCode::from_u16(status).expect("a status between 100 and 999");
        Self::Reply(Reply { status, headers: Vec::new(), body: Bytes::new(), delay: Duration::ZERO })
    }

    /// The same answer with one more header.
    ///
    /// # Panics
    /// When it is no valid header.
    pub fn header(self, name: &'static str, value: &str) -> Self {
        let value = HeaderValue::from_str(value).expect("a valid header value");
        self.change(|reply| reply.headers.push((HeaderName::from_static(name), value)))
    }

    /// The same answer with this body.
    pub fn body(self, body: impl Into<Bytes>) -> Self {
        self.change(|reply| reply.body = body.into())
    }

    /// The same answer, but only after this time.
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
