//! `/login` and `/logout`, sessions and tokens: authentication when the application has none of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use askama::Template;
use axum::Router;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Extension, Form, Query, State};
use axum::http::header::SET_COOKIE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use pillarbox::store::AdminStore;
use serde::Deserialize;

use super::proxies::Proxies;
use super::session::{Cookies, Sessions};
use super::throttle::Throttle;
use super::users::{User, Users};
use super::{Host, Visitor, bearer};
use crate::base::Base;
use crate::pages::then;
use crate::refusal::{Refusal, page_response};
use crate::theme::Theme;

pub(super) const PATH: &str = "/login";
const TEXT_LIMIT: usize = 1024;
/// The largest body. The form is public.
const BODY_LIMIT: usize = 16 << 10;

/// The state of the log-in pages.
pub(super) struct Login {
    users: Users,
    sessions: Sessions,
    throttle: Throttle,
    cookies: Cookies,
    proxies: Proxies,
}

impl Login {
    pub(super) fn new(users: Vec<User>, secure: bool, proxies: Proxies, store: Arc<dyn AdminStore>) -> Self {
        Self {
            users: Users::new(users),
            sessions: Sessions::new(store),
            throttle: Throttle::default(),
            cookies: Cookies { secure },
            proxies,
        }
    }

    /// Returns the sender of a request: by its token, by the header of a trusted proxy, or by its session.
    pub(super) async fn visitor(&self, parts: &Parts, host: &str) -> Result<Visitor, Refusal> {
        let headers = &parts.headers;
        let visitor = |who, csrf| Visitor { who, csrf, can_log_in: true };
        if let Some(token) = bearer(headers) {
            let unknown = || Refusal::unknown("the token is unknown; make one with `pillarbox admin make-token`");
            return Ok(visitor(Some(self.users.by_token(token).ok_or_else(unknown)?), None));
        }
        if let Some(name) = self.proxies.user(parts)? {
            let stranger = || {
                let detail = format!(
                    "the proxy named the user {name:?}, and the configuration has no such user; add \
                     [admin.users.{name:?}] with a role"
                );
                Refusal::new(StatusCode::FORBIDDEN, detail)
            };
            return Ok(visitor(Some(self.users.named(name).ok_or_else(stranger)?), None));
        }
        let session = match self.cookies.named(host).of(headers) {
            Some(token) => self.sessions.find(token).await?,
            None => None,
        };
        let known = session.and_then(|session| Some((self.users.named(&session.name)?, session.csrf)));
        let (who, csrf) = known.unzip();
        Ok(visitor(who, csrf))
    }
}

pub(super) fn routes(login: Arc<Login>) -> Router {
    Router::new()
        .route(PATH, get(ask).post(log_in))
        .route("/logout", post(log_out))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(login)
}

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage<'a> {
    base: &'a Base,
    theme: Theme,
    next: &'a str,
    name: &'a str,
    /// The error of the last attempt.
    wrong: Option<&'a str>,
}

#[derive(Deserialize)]
struct LoginAsked {
    next: Option<String>,
}

async fn ask(
    visitor: Visitor,
    Extension(base): Extension<Base>,
    headers: HeaderMap,
    Query(asked): Query<LoginAsked>,
) -> Response {
    let next = place(asked.next.as_deref());
    if visitor.who.is_some() {
        return then(next);
    }
    let page = LoginPage { base: &base, theme: Theme::of(&headers), next, name: "", wrong: None };
    page_response(StatusCode::OK, &page)
}

#[derive(Deserialize)]
struct Given {
    name: String,
    password: String,
    next: Option<String>,
}

async fn log_in(
    State(login): State<Arc<Login>>,
    peer: Option<Extension<ConnectInfo<SocketAddr>>>,
    Extension(base): Extension<Base>,
    Extension(host): Extension<Host>,
    headers: HeaderMap,
    Form(given): Form<Given>,
) -> Result<Response, Refusal> {
    let next = place(given.next.as_deref());
    let address = login.proxies.client(peer.map(|Extension(ConnectInfo(peer))| peer), &headers);
    let (theme, base) = (Theme::of(&headers), &base);
    let again = |status, wrong: &str| {
        page_response(status, &LoginPage { base, theme, next, name: &given.name, wrong: Some(wrong) })
    };
    if given.name.len() > TEXT_LIMIT || given.password.len() > TEXT_LIMIT {
        return Ok(again(StatusCode::BAD_REQUEST, "The name or the password is too long."));
    }
    match login.throttle.attempt(&given.name, address, Instant::now()) {
        Ok(delay) => tokio::time::sleep(delay).await,
        Err(wait) => return Ok(wait_first(wait, again)),
    }
    let Some(who) = login.users.by_password(&given.name, given.password.clone()).await? else {
        // An unknown name may be a password that was typed into the wrong field, so it is not logged.
        let name = Some(given.name.as_str()).filter(|name| login.users.has(name));
        tracing::warn!(user = name.unwrap_or("(unknown)"), %address, "admin login failed");
        return Ok(again(StatusCode::UNAUTHORIZED, "The name or the password is wrong."));
    };
    login.throttle.forgive(&given.name, address);
    // The browser's previous session ends.
    let cookie = login.cookies.named(&host.0);
    if let Some(token) = cookie.of(&headers) {
        login.sessions.end(token).await?;
    }
    tracing::info!(user = who.name, %address, "admin login succeeded");
    let token = login.sessions.begin(&who.name).await?;
    Ok(([(SET_COOKIE, cookie.begin(&token))], then(next)).into_response())
}

fn wait_first(wait: Duration, again: impl FnOnce(StatusCode, &str) -> Response) -> Response {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let unit = if seconds == 1 { "second" } else { "seconds" };
    let wrong = format!("Too many attempts. Try again in {seconds} {unit}.");
    let mut response = again(StatusCode::TOO_MANY_REQUESTS, &wrong);
    response.headers_mut().insert(axum::http::header::RETRY_AFTER, seconds.into());
    response
}

async fn log_out(
    State(login): State<Arc<Login>>,
    Extension(host): Extension<Host>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let cookie = login.cookies.named(&host.0);
    if let Some(token) = cookie.of(&headers) {
        login.sessions.end(token).await?;
    }
    Ok(([(SET_COOKIE, cookie.end())], then(PATH)).into_response())
}

/// Returns a path of our own. Any other target in a link is ignored, so that a link cannot redirect to another site.
pub(crate) fn place(next: Option<&str>) -> &str {
    let ours = |place: &&str| {
        let plain = !place.contains(|c: char| c == '\\' || c.is_control());
        place.starts_with('/') && !place.starts_with("//") && plain
    };
    next.filter(ours).unwrap_or("/")
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
