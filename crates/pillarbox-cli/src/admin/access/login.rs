//! `/login` and `/logout`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use askama::Template;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Extension, Form, Query, State};
use axum::http::header::{LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;

use super::super::refusal::{Refusal, page_response};
use super::super::theme::Theme;
use super::{Access, Visitor};
use crate::door::Peer;

pub(super) const PATH: &str = "/login";
const TEXT_LIMIT: usize = 1024;
/// Anybody may send one.
const BODY_LIMIT: usize = 16 << 10;

pub(in super::super) fn routes(access: Arc<Access>) -> Router {
    Router::new()
        .route(PATH, get(ask).post(log_in))
        .route("/logout", post(log_out))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(access)
}

#[derive(Template)]
#[template(path = "login.html")]
struct Login<'a> {
    theme: Theme,
    next: &'a str,
    name: &'a str,
    /// What was wrong the last time.
    wrong: Option<&'a str>,
}

#[derive(Deserialize)]
struct Wanted {
    next: Option<String>,
}

async fn ask(visitor: Visitor, headers: HeaderMap, Query(wanted): Query<Wanted>) -> Response {
    let next = place(wanted.next.as_deref());
    if visitor.who.is_some() {
        return go(next);
    }
    page_response(StatusCode::OK, &Login { theme: Theme::of(&headers), next, name: "", wrong: None })
}

#[derive(Deserialize)]
struct Given {
    name: String,
    password: String,
    next: Option<String>,
}

async fn log_in(
    State(access): State<Arc<Access>>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    Form(given): Form<Given>,
) -> Result<Response, Refusal> {
    let next = place(given.next.as_deref());
    let address = access.address(peer, &headers);
    let theme = Theme::of(&headers);
    let again =
        |status, wrong: &str| page_response(status, &Login { theme, next, name: &given.name, wrong: Some(wrong) });
    if given.name.len() > TEXT_LIMIT || given.password.len() > TEXT_LIMIT {
        return Ok(again(StatusCode::BAD_REQUEST, "The name or the password is too long."));
    }
    match access.throttle.attempt(&given.name, address, Instant::now()) {
        Ok(delay) => tokio::time::sleep(delay).await,
        Err(wait) => return Ok(wait_first(wait, again)),
    }
    let Some(who) = access.users.by_password(&given.name, given.password.clone()).await? else {
        // A name that is not known may be a password that slipped into the wrong field.
        let name = Some(given.name.as_str()).filter(|name| access.users.has(name));
        tracing::warn!(user = name.unwrap_or("(not known)"), %address, "a log-in to the admin failed");
        return Ok(again(StatusCode::UNAUTHORIZED, "The name or the password is wrong."));
    };
    access.throttle.forgive(&given.name, address);
    // Another session of this browser ends with it.
    if let Some(id) = access.cookie.of(&headers) {
        access.sessions.end(id);
    }
    tracing::info!(user = who.name, %address, "logged in to the admin");
    let id = access.sessions.begin(who, Instant::now()).map_err(|error| {
        tracing::error!("a session cannot begin: {error:#}");
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "a session cannot begin; the log says why")
    })?;
    Ok(([(SET_COOKIE, access.cookie.begin(&id))], go(next)).into_response())
}

fn wait_first(wait: Duration, again: impl FnOnce(StatusCode, &str) -> Response) -> Response {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let unit = if seconds == 1 { "second" } else { "seconds" };
    let wrong = format!("That was tried too often. Try again in {seconds} {unit}.");
    let mut response = again(StatusCode::TOO_MANY_REQUESTS, &wrong);
    response.headers_mut().insert(axum::http::header::RETRY_AFTER, seconds.into());
    response
}

async fn log_out(State(access): State<Arc<Access>>, headers: HeaderMap) -> Response {
    if let Some(id) = access.cookie.of(&headers) {
        access.sessions.end(id);
    }
    ([(SET_COOKIE, access.cookie.end())], go(PATH)).into_response()
}

/// Only a place of our own: whatever else a link says, nobody is led away.
pub(in super::super) fn place(next: Option<&str>) -> &str {
    let ours = |place: &&str| {
        let plain = !place.contains(|c: char| c == '\\' || c.is_control());
        place.starts_with('/') && !place.starts_with("//") && plain
    };
    next.filter(ours).unwrap_or("/")
}

fn go(place: &str) -> Response {
    (StatusCode::SEE_OTHER, [(LOCATION, place)]).into_response()
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn nobody_is_led_away() {
        assert_eq!(place(Some("/events?state=failed")), "/events?state=failed");
        for away in ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:x", "/\nx", ""] {
            assert_eq!(place(Some(away)), "/", "{away}");
        }
        assert_eq!(place(None), "/");
    }
}
