//! The reason why a request was refused. A handler returns it for pages and API alike: the guard writes it as problem+json
//! for the API, and as a page for people.

use std::borrow::Cow;
use std::time::Duration;

use askama::Template;
use axum::http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use serde_json::json;

use crate::base::Base;
use crate::theme::Theme;

/// The path prefix of the API.
pub(crate) const API: &str = "/api/";

/// Marks requests to the API, in their extensions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ToApi;

/// The properties of a request that a refusal needs.
pub(crate) struct Asking {
    pub(crate) api: bool,
    /// The page that the user asked for.
    pub(crate) came_for: Option<String>,
    /// The page that the user may return to.
    pub(crate) back: String,
    pub(crate) theme: Theme,
    pub(crate) base: Base,
}

/// The problem, and what to do.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    status: StatusCode,
    detail: Cow<'static, str>,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Whether logging in may help.
    login: bool,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { status, detail: detail.into(), headers: Vec::new(), login: false }
    }

    /// Returns the refusal of a request without a known user.
    pub(crate) fn unknown(detail: &'static str) -> Self {
        let challenge = (WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"pillarbox\""));
        Self { headers: vec![challenge], login: true, ..Self::new(StatusCode::UNAUTHORIZED, detail) }
    }

    /// Returns a refusal with `Retry-After`.
    pub(crate) fn later(status: StatusCode, wait: Duration, detail: impl Into<Cow<'static, str>>) -> Self {
        let seconds = HeaderValue::from(wait.as_secs().max(1));
        Self { headers: vec![(RETRY_AFTER, seconds)], ..Self::new(status, detail) }
    }

    /// Returns the response: problem+json for the API, a page or a redirect to the log-in page for people.
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
    /// Puts the refusal into the extensions. The guard finds it there and writes the response.
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

/// Renders a template as a page.
pub(crate) fn page_response(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => (status, Html(text)).into_response(),
        Err(error) => {
            tracing::error!(%error, "rendering a page failed");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Percent-encodes the value of a query parameter.
pub(crate) fn in_query(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'*' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}
