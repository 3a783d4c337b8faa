//! Why something was not done or shown. A handler returns it without knowing who asks: the guard writes it as
//! problem+json for the API, and as a page for people.

use std::borrow::Cow;
use std::time::Duration;

use askama::Template;
use axum::http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use serde_json::json;

use crate::base::Base;
use crate::theme::Theme;

/// What is below here is the API.
pub(crate) const API: &str = "/api/";

/// Is in the extensions of requests to the API.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToApi;

/// What a refusal must know of its request.
pub(crate) struct Asking {
    pub(crate) api: bool,
    /// Where a person wanted to go.
    pub(crate) came_for: Option<String>,
    /// Where a person may go instead.
    pub(crate) back: String,
    pub(crate) theme: Theme,
    pub(crate) base: Base,
}

/// What is wrong, and what to do.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    status: StatusCode,
    detail: Cow<'static, str>,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Logging in may help.
    login: bool,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { status, detail: detail.into(), headers: Vec::new(), login: false }
    }

    /// Nobody knows who asks.
    pub(crate) fn unknown(detail: &'static str) -> Self {
        let challenge = (WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"pillarbox\""));
        Self { headers: vec![challenge], login: true, ..Self::new(StatusCode::UNAUTHORIZED, detail) }
    }

    /// It was asked too often.
    pub(crate) fn later(status: StatusCode, wait: Duration, detail: impl Into<Cow<'static, str>>) -> Self {
        let seconds = HeaderValue::from(wait.as_secs().max(1));
        Self { headers: vec![(RETRY_AFTER, seconds)], ..Self::new(status, detail) }
    }

    /// Writes it as problem+json for the API, and as a page or a redirect to the log-in page for people.
    pub(crate) fn told(self, asking: &Asking) -> Response {
        let (status, title) = (self.status, self.status.canonical_reason().unwrap_or("refused"));
        let mut response = if asking.api {
            let problem =
                json!({ "type": "about:blank", "title": title, "status": status.as_u16(), "detail": self.detail });
            (status, [(CONTENT_TYPE, "application/problem+json")], problem.to_string()).into_response()
        } else if self.login
            && let Some(place) = &asking.came_for
        {
            return (StatusCode::SEE_OTHER, [(LOCATION, format!("/login?next={}", in_query(place)))]).into_response();
        } else {
            let Asking { theme, base, back, .. } = asking;
            let (status_code, detail, login) = (status.as_u16(), &*self.detail, self.login);
            let page = Message { base, theme: *theme, title, status: status_code, detail, login, back };
            page_response(status, &page)
        };
        response.headers_mut().extend(self.headers.into_iter().map(|(name, value)| (Some(name), value)));
        response
    }
}

impl IntoResponse for Refusal {
    /// The guard finds it in the extensions and tells it in the right form.
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

#[derive(Template)]
#[template(path = "message.html")]
struct Message<'a> {
    base: &'a Base,
    theme: Theme,
    title: &'a str,
    status: u16,
    detail: &'a str,
    login: bool,
    back: &'a str,
}

/// A template as a page.
pub(crate) fn page_response(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => (status, Html(text)).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page cannot be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Fit to be the value of a parameter.
pub(crate) fn in_query(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}
