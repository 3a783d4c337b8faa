//! Authentication and authorisation. The [`guard`] runs before every handler. It checks the Host header, the origin of
//! requests that act, the session, the token or the application's own authentication, and the CSRF token. Handlers only
//! declare the role they need, by [`Viewer`] or [`Operator`]. This module knows nothing of events.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, LOCATION};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use pillarbox::store::AdminStore;

use self::hosts::Hosts;
use self::login::Login;
use self::proxies::Proxies;
pub use self::users::{CredentialError, User};
use crate::asked::no_parameters;
use crate::assets::ASSETS;
use crate::base::Base;
use crate::network::Networks;
use crate::refusal::{API, Asking, Refusal, ToApi};
use crate::secret::same;
use crate::theme::Theme;

mod headers;
mod hosts;
pub(crate) mod login;
mod proxies;
mod session;
mod throttle;
mod users;

/// The name of every user of an admin without users.
pub const ANYONE: &str = "anyone";

/// The field of every form, and the header of scripts, with the session's CSRF token.
pub(crate) const CSRF_FIELD: &str = "csrf";
const CSRF_HEADER: &str = "x-csrf-token";
/// The deadline of a request, from its head to the response.
const PATIENCE: Duration = Duration::from_secs(60);
/// The largest form, in bytes.
const FORM_LIMIT: usize = 256 << 10;

/// The permissions of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// May read.
    Viewer,
    /// May read and act.
    Operator,
}

impl Role {
    /// Returns `viewer` or `operator`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
        }
    }
}

/// The user who sends a request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// The name, as pages and the audit show it.
    pub name: String,
    /// The user's permissions.
    pub role: Role,
}

impl Identity {
    /// Returns a user with this name and role.
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        Self { name: name.into(), role }
    }
}

/// The application's function from a request to its user.
type Identify = dyn Fn(&Parts) -> Option<Identity> + Send + Sync;

/// The way users are authenticated.
#[derive(Default)]
pub(crate) enum Authentication {
    /// Not at all: every request may read, and none may act.
    #[default]
    Nobody,
    /// By log-in pages and tokens.
    Users(Vec<User>),
    /// By the application.
    Own(Arc<Identify>),
}

/// The builder's settings.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) authentication: Authentication,
    pub(crate) hosts: Option<Vec<String>>,
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) secure: bool,
    pub(crate) proxies: Networks,
    /// The header in which these proxies name the user that they have authenticated.
    pub(crate) user_header: Option<HeaderName>,
}

/// The host name and port that a request asks for.
#[derive(Debug, Clone)]
struct Host(String);

/// The sender of a request, authenticated or not. The guard adds it to each request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Visitor {
    pub(crate) who: Option<Identity>,
    /// The session's CSRF token, which every form of a page carries.
    pub(crate) csrf: Option<String>,
    /// Whether there are log-in pages.
    can_log_in: bool,
}

/// Extracts a user who may read.
#[derive(Debug)]
pub(crate) struct Viewer(pub(crate) Identity);

/// Extracts a user who may act.
#[derive(Debug)]
pub(crate) struct Operator(pub(crate) Identity);

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
            // An action that ignored a parameter would do more than it was asked to.
            Role::Operator if parts.method == Method::POST => no_parameters(parts).map(|()| Self(who)),
            Role::Operator => Ok(Self(who)),
            Role::Viewer if who.name == ANYONE => Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "without users the admin is read-only; add [admin.users.NAME] with role \"operator\" to the \
                 configuration",
            )),
            Role::Viewer => Err(Refusal::new(
                StatusCode::FORBIDDEN,
                format!("{} is a viewer; this needs the role operator", who.name),
            )),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Visitor {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}

fn known(parts: &Parts) -> Result<Identity, Refusal> {
    let visitor = parts.extensions.get::<Visitor>();
    visitor.and_then(|visitor| visitor.who.clone()).ok_or_else(|| {
        if visitor.is_some_and(|visitor| visitor.can_log_in) {
            Refusal::unknown("log in, or send a token as \"Authorization: Bearer TOKEN\"")
        } else {
            Refusal::new(StatusCode::UNAUTHORIZED, "the application did not authenticate this request; log in there")
        }
    })
}

/// The guard's settings.
pub(crate) struct Access {
    /// The allowed host names; `None` allows all.
    hosts: Option<Hosts>,
    door: Door,
    base: Option<Base>,
}

/// The way users are authenticated, ready to use.
enum Door {
    ReadOnly,
    LogIn(Arc<Login>),
    Own(Arc<Identify>),
}

impl Access {
    pub(crate) fn new(settings: Settings, base: Option<Base>, store: Arc<dyn AdminStore>) -> Self {
        let Settings { authentication, hosts, listen, secure, proxies, user_header } = settings;
        let checks_host = hosts.is_some() || listen.is_some() || matches!(authentication, Authentication::Nobody);
        Self {
            hosts: checks_host.then(|| Hosts::new(&hosts.unwrap_or_default(), listen)),
            door: match authentication {
                Authentication::Nobody => Door::ReadOnly,
                Authentication::Users(users) => {
                    Door::LogIn(Arc::new(Login::new(users, secure, Proxies { networks: proxies, user_header }, store)))
                }
                Authentication::Own(identify) => Door::Own(identify),
            },
            base,
        }
    }

    /// Authenticates a request and adds its user, or refuses it.
    async fn admit(&self, request: Request) -> Result<Request, Refusal> {
        let host = host_of(&request)?;
        if let Some(hosts) = &self.hosts {
            hosts.check(&host)?;
        }
        let (parts, body) = request.into_parts();
        let visitor = self.visitor(&parts, &host).await?;
        let mut request = Request::from_parts(parts, body);
        let acts = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        let by_token = matches!(self.door, Door::LogIn(_)) && bearer(request.headers()).is_some();
        if acts && !by_token {
            headers::check_origin(request.headers(), &host)?;
            // The log-in form needs no CSRF token: another tab may have logged in, and a password proves more than a token.
            if let Some(token) = visitor.csrf.as_ref().filter(|_| request.uri().path() != login::PATH) {
                request = check_csrf(request, token).await?;
            }
        }
        request.extensions_mut().insert(visitor);
        request.extensions_mut().insert(Host(host));
        Ok(request)
    }

    async fn visitor(&self, parts: &Parts, host: &str) -> Result<Visitor, Refusal> {
        match &self.door {
            Door::ReadOnly => Ok(Visitor { who: Some(Identity::new(ANYONE, Role::Viewer)), ..Visitor::default() }),
            Door::Own(identify) => Ok(Visitor { who: identify(parts), ..Visitor::default() }),
            // The assets are public, and every page requests them.
            Door::LogIn(_) if parts.uri.path().starts_with(ASSETS) => Ok(Visitor::default()),
            Door::LogIn(login) => login.visitor(parts, host).await,
        }
    }
}

/// Returns the log-in pages, if there are any.
pub(crate) fn login_routes(access: &Access) -> Router {
    match &access.door {
        Door::LogIn(login) => login::routes(Arc::clone(login)),
        Door::ReadOnly | Door::Own(_) => Router::new(),
    }
}

/// Runs before every handler.
pub(crate) async fn guard(State(access): State<Arc<Access>>, mut request: Request, next: Next) -> Response {
    let base = access.base.clone().unwrap_or_else(|| Base::of(&request));
    request.extensions_mut().insert(base.clone());
    let mut asking = Asking {
        api: request.uri().path().starts_with(API),
        theme: Theme::of(request.headers()),
        back: page_of(request.uri().path()).to_owned(),
        came_for: None,
        base,
    };
    if asking.api {
        request.extensions_mut().insert(ToApi);
    }
    // Over HTTP/2 the URI contains the host, so only its path is used.
    let place = || request.uri().path_and_query().map(ToString::to_string);
    let came_for = (request.method() == Method::GET).then(place).flatten();
    let answered = async {
        match access.admit(request).await {
            Ok(request) => next.run(request).await,
            Err(refusal) => refusal.told(&asking),
        }
    };
    let mut response = match tokio::time::timeout(PATIENCE, answered).await {
        Ok(response) => response,
        Err(_) => {
            Refusal::new(StatusCode::GATEWAY_TIMEOUT, "the request timed out; the database may be slow").told(&asking)
        }
    };
    if let Some(refusal) = response.extensions_mut().remove::<Refusal>() {
        asking.came_for = came_for;
        response = refusal.told(&asking);
    }
    if let Some(place) = response.headers_mut().get_mut(LOCATION) {
        let below = place.to_str().map(|below| asking.base.path(below)).unwrap_or_default();
        *place = HeaderValue::try_from(below).unwrap_or_else(|_| HeaderValue::from_static("/"));
    }
    headers::secure(response.headers_mut());
    response
}

/// Returns the page with the form that was sent. The browser sends no `Referer`, because the pages ask it not to.
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
        // HTTP/2 has the host in the URI.
        (Some(host), _, _) | (None, Some(host), _) => Ok(host),
        (None, None, None) => Err(Refusal::new(StatusCode::BAD_REQUEST, "there is no Host header")),
    }
}

/// Returns the bearer token if the request has one, valid or not. Other schemes are meant for a proxy.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let given = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = given.split_once(' ').unwrap_or((given, ""));
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Checks that a session's request has its CSRF token, in the header or in the form.
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

/// Returns a field of a form. Tokens are base64url, so nothing in them is percent-encoded.
fn form_field<'a>(body: &'a [u8], name: &str) -> Option<&'a str> {
    let fields = std::str::from_utf8(body).ok()?.split('&').filter_map(|field| field.split_once('='));
    fields.into_iter().find_map(|(field, value)| (field == name).then_some(value))
}

fn forged() -> Refusal {
    Refusal::new(
        StatusCode::FORBIDDEN,
        "the form's token is missing or belongs to another session, so nothing was changed; reload the page and try \
         again",
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
