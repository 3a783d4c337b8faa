//! Requests and responses of axum.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, post};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use http_body_util::BodyExt as _;
use sqlx::Pool;

use crate::answer::Answer;
use crate::database::Database;
use crate::event::Event;
use crate::inbox::Inbox;
use crate::receive::Handling;

/// What is read and dropped of a body that is too large. A connection that is closed before that may lose the answer.
const MOST_DROPPED: usize = 16 * 1024 * 1024;

impl Inbox {
    /// Returns the route of a receiver: `Router::new().route("/events", inbox.post(pool, handler))`.
    pub fn post<DB, F, S>(self, pool: Pool<DB>, handler: F) -> MethodRouter<S>
    where
        DB: Database,
        F: for<'c> Fn(&'c Event, &'c mut DB::Connection) -> Handling<'c> + Send + Sync + 'static,
        S: Clone + Send + Sync + 'static,
    {
        let handler = Arc::new(handler);
        post(move |request: Request| {
            let (inbox, pool, handler) = (self.clone(), pool.clone(), Arc::clone(&handler));
            async move { inbox.receive_request(&pool, request, |event, tx| handler(event, tx)).await }
        })
    }

    /// As [`receive`](Self::receive), for a request of axum. It keeps no more of the body than the limit.
    pub async fn receive_request<DB, F>(&self, pool: &Pool<DB>, request: Request, handler: F) -> Answer
    where
        DB: Database,
        F: for<'c> Fn(&'c Event, &'c mut DB::Connection) -> Handling<'c> + Send + Sync,
    {
        let (head, mut body) = request.into_parts();
        let (mut kept, mut length) = (Vec::new(), 0);
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                return self.refuse(400, "the body is not complete");
            };
            let Some(chunk) = frame.data_ref() else { continue };
            length += chunk.len();
            if length <= self.max_body {
                kept.extend_from_slice(chunk);
            } else if length > MOST_DROPPED {
                break;
            }
        }
        if length > self.max_body {
            return self.too_large();
        }
        self.receive(pool, &head.headers, kept, handler).await
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response =
            (status, [(CONTENT_TYPE, "text/plain; charset=utf-8")], self.text().to_owned()).into_response();
        if let Some(seconds) = self.retry_after() {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
