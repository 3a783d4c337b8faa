//! Who may come in and what they may do. The [`guard`] stands before everything that is served: it looks at the Host
//! header, at where a request comes from, at the session or the token, and at the CSRF token; handlers only say what
//! they need, by [`Viewer`] or [`Operator`]. It knows nothing of events.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use self::hosts::Hosts;
use self::secret::same;
use self::session::Sessions;
use self::throttle::Throttle;
use self::users::Users;
use super::refusal::{API, Refusal};
use super::theme::Theme;
use crate::config::admin::{ANYONE, AdminSettings, Role};
use crate::config::network::Networks;
use crate::config::{ConfigError, Environment};
use crate::door::Peer;

mod headers;
mod hosts;
pub(super) mod login;
pub(crate) mod secret;
mod session;
mod throttle;
mod users;

/// The field of every form, and the header of scripts, that carries the session's CSRF token.
const CSRF_FIELD: &str = "csrf";
const CSRF_HEADER: &str = "x-csrf-token";
/// Who sends a request more slowly, or asks for what takes longer, gets no answer to it.
const PATIENCE: Duration = Duration::from_secs(60);
/// Forms are small; what is larger is not one.
const FORM_LIMIT: usize = 256 << 10;

/// Somebody who was let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) name: String,
    pub(crate) role: Role,
}

/// Whoever asks, known or not. Put into each request by the guard.
#[derive(Debug, Clone)]
pub(crate) struct Visitor {
    pub(crate) who: Option<Who>,
    /// Of the session, if there is one: every form of a page carries it.
    pub(crate) csrf: Option<String>,
}

/// Needs somebody who may look.
#[derive(Debug)]
pub(crate) struct Viewer(pub(crate) Who);

/// Needs somebody who may act.
#[derive(Debug)]
pub(crate) struct Operator(pub(crate) Who);

impl<S: Send + Sync> FromRequestParts<S> for Viewer {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        known(parts).map(Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Operator {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let who = known(parts)?;
        match who.role {
            Role::Operator => Ok(Self(who)),
            Role::Viewer if who.name == ANYONE => Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "without users the admin only shows; add [admin.users.NAME] with role \"operator\" to the configuration",
            )),
            Role::Viewer => Err(Refusal::new(
                StatusCode::FORBIDDEN,
                format!("{} is a viewer, and this needs an operator", who.name),
            )),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Visitor {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let nobody = || Self { who: None, csrf: None };
        Ok(parts.extensions.get().cloned().unwrap_or_else(nobody))
    }
}

fn known(parts: &Parts) -> Result<Who, Refusal> {
    let visitor = parts.extensions.get::<Visitor>();
    visitor
        .and_then(|visitor| visitor.who.clone())
        .ok_or_else(|| Refusal::unknown("log in, or send a token as \"Authorization: Bearer TOKEN\""))
}

/// What the guard looks at.
pub(super) struct Access {
    hosts: Hosts,
    users: Users,
    sessions: Sessions,
    throttle: Throttle,
    cookie: session::Cookie,
    proxies: Networks,
}

impl Access {
    pub(super) fn new(
        settings: &AdminSettings,
        environment: &Environment,
        listen: SocketAddr,
    ) -> Result<Self, ConfigError> {
        let secure = settings.tls.is_some() || settings.behind_tls_proxy;
        Ok(Self {
            hosts: Hosts::new(&settings.hosts, listen),
            users: Users::new(&settings.users, environment)?,
            sessions: Sessions::default(),
            throttle: Throttle::default(),
            cookie: session::Cookie::new(secure, listen.port()),
            proxies: settings.trusted_proxies.clone(),
        })
    }

    /// Lets a request in, with who sent it, or says why not.
    async fn admit(&self, mut request: Request) -> Result<Request, Refusal> {
        let host = host_of(&request)?;
        self.hosts.check(&host)?;
        let visitor = self.visitor(request.headers())?;
        let acts = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        if acts && bearer(request.headers()).is_none() {
            headers::check_origin(request.headers(), &host)?;
            // Whoever logs in again, in another tab, has proved more than a token does.
            if let Some(token) = visitor.csrf.as_ref().filter(|_| request.uri().path() != login::PATH) {
                request = check_csrf(request, token).await?;
            }
        }
        request.extensions_mut().insert(visitor);
        Ok(request)
    }

    fn visitor(&self, headers: &HeaderMap) -> Result<Visitor, Refusal> {
        let visitor = |who, csrf| Visitor { who, csrf };
        if self.users.is_empty() {
            return Ok(visitor(Some(Who { name: ANYONE.to_owned(), role: Role::Viewer }), None));
        }
        if let Some(token) = bearer(headers) {
            let unknown = || Refusal::unknown("the token is not known; make one with `pillarbox admin make-token`");
            return Ok(visitor(Some(self.users.by_token(token).ok_or_else(unknown)?), None));
        }
        let session = self.cookie.of(headers).and_then(|id| self.sessions.find(id, Instant::now()));
        Ok(session.map_or_else(|| visitor(None, None), |session| visitor(Some(session.who), Some(session.csrf))))
    }

    /// Returns the client's address. Only a trusted proxy is believed, and of what it says only what other trusted
    /// proxies and itself have added: the last address that is not one of theirs.
    fn address(&self, peer: Peer, headers: &HeaderMap) -> IpAddr {
        let mut address = peer.0.ip();
        let told = headers.get_all("x-forwarded-for").iter().rev();
        let mut told = told.flat_map(|value| value.to_str().unwrap_or_default().rsplit(','));
        while self.proxies.contain(address) {
            let Some(before) = told.next().and_then(forwarded) else { break };
            address = before;
        }
        address
    }
}

/// An address as proxies write it, some with a port.
fn forwarded(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    text.parse().ok().or_else(|| text.parse().ok().map(|address: SocketAddr| address.ip()))
}

/// Stands before everything.
pub(super) async fn guard(State(access): State<Arc<Access>>, request: Request, next: Next) -> Response {
    let api = request.uri().path().starts_with(API);
    let theme = Theme::of(request.headers());
    let back = page_of(request.uri().path()).to_owned();
    // Over HTTP/2 the address has its host.
    let place = || request.uri().path_and_query().map(ToString::to_string);
    let came_for = (request.method() == Method::GET).then(place).flatten();
    let answered = async {
        match access.admit(request).await {
            Ok(request) => next.run(request).await,
            Err(refusal) => refusal.told(api, None, &back, theme),
        }
    };
    let mut response = match tokio::time::timeout(PATIENCE, answered).await {
        Ok(response) => response,
        Err(_) => Refusal::new(StatusCode::GATEWAY_TIMEOUT, "that took too long; the database may be slow")
            .told(api, None, &back, theme),
    };
    if let Some(refusal) = response.extensions_mut().remove::<Refusal>() {
        response = refusal.told(api, came_for.as_deref(), &back, theme);
    }
    headers::secure(response.headers_mut());
    response
}

/// The page from which something was to be done: a browser does not tell, because it is asked not to.
fn page_of(path: &str) -> &str {
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    match parent.split('/').nth(1) {
        Some("events" | "jobs") if parent.matches('/').count() == 2 => parent,
        Some("destinations") => "/destinations",
        _ => "/",
    }
}

fn host_of(request: &Request) -> Result<String, Refusal> {
    let authority = request.uri().authority().map(ToString::to_string);
    let mut given = request.headers().get_all(HOST).iter();
    let header = given.next().and_then(|host| host.to_str().ok()).map(str::to_owned);
    match (authority, header, given.next()) {
        (_, _, Some(_)) => Err(Refusal::new(StatusCode::BAD_REQUEST, "there is more than one Host header")),
        // HTTP/2 has it in the address.
        (Some(host), _, _) | (None, Some(host), _) => Ok(host),
        (None, None, None) => Err(Refusal::new(StatusCode::BAD_REQUEST, "there is no Host header")),
    }
}

/// The token, if one is given, whatever it is. Another scheme is meant for a proxy.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let given = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = given.split_once(' ').unwrap_or((given, ""));
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// A session acts only with its token, in the header or in the form.
async fn check_csrf(request: Request, token: &str) -> Result<Request, Refusal> {
    if let Some(given) = request.headers().get(CSRF_HEADER) {
        return if same(given.as_bytes(), token.as_bytes()) { Ok(request) } else { Err(forged()) };
    }
    let form = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if !form.is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded")) {
        return Err(forged());
    }
    let (parts, body) = request.into_parts();
    let too_large = |_| Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "the form is too large");
    let body: Bytes = to_bytes(body, FORM_LIMIT).await.map_err(too_large)?;
    let given = form_field(&body, CSRF_FIELD);
    if given.is_some_and(|given| same(given.as_bytes(), token.as_bytes())) {
        Ok(Request::from_parts(parts, Body::from(body)))
    } else {
        Err(forged())
    }
}

/// Tokens are base64url, so that nothing in them is encoded.
fn form_field<'a>(body: &'a [u8], name: &str) -> Option<&'a str> {
    let fields = std::str::from_utf8(body).ok()?.split('&').filter_map(|field| field.split_once('='));
    fields.into_iter().find_map(|(field, value)| (field == name).then_some(value))
}

fn forged() -> Refusal {
    Refusal::new(
        StatusCode::FORBIDDEN,
        "the form's token is missing or not this session's, so that nothing was done; reload the page and try again",
    )
}

#[cfg(test)]
mod tests {
    use super::page_of;

    #[test]
    fn whoever_is_refused_finds_back() {
        let pages = ["/events/7/retry", "/jobs/7/cancel", "/destinations/a/pause", "/events/7", "/x/y/z", "/", ""];
        assert_eq!(pages.map(page_of), ["/events/7", "/jobs/7", "/destinations", "/", "/", "/", "/"]);
    }
}
