//! The builder of the router: pages, API, log-in and assets behind one guard.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::request::Parts;
use axum::http::{HeaderName, StatusCode};
use axum::middleware::from_fn_with_state;
use tokio::runtime::Handle;

use crate::access::{self, Access, Authentication, Identity, Settings, User};
use crate::base::Base;
use crate::desk::Desk;
use crate::network::Networks;
use crate::refusal::Refusal;
use crate::{api, assets, pages};

/// Builds the pages and the API over a [`Desk`].
///
/// Choose how users are authenticated:
/// - [`users`](Self::users): the admin has its own log-in pages, sessions and tokens;
/// - [`authenticate`](Self::authenticate): the application knows its users, and there are no log-in pages;
/// - neither: every request may read and none may act. Only requests to `localhost` and loopback addresses are served.
///
/// Mount [`router`](Self::router) at the root of a server or below a prefix with [`Router::nest`]: links, redirects and the
/// OpenAPI document follow the prefix. Axum routes `/outbox` to the overview, and not `/outbox/`. Links are wrong below a
/// prefix with path parameters, such as `/{tenant}/outbox`.
///
/// With log-in pages, serve it with `into_make_service_with_connect_info::<SocketAddr>()`, so that failed log-ins are
/// counted per address. Without addresses all clients count as one.
#[must_use]
pub struct Admin {
    desk: Arc<Desk>,
    base: Option<Base>,
    access: Settings,
}

impl Admin {
    /// Returns a builder. Without [`users`](Self::users) or [`authenticate`](Self::authenticate) the admin is read-only.
    pub fn new(desk: Arc<Desk>) -> Self {
        Self { desk, base: None, access: Settings::default() }
    }

    /// Sets the users who may log in. An empty list leaves the admin read-only.
    pub fn users(mut self, users: Vec<User>) -> Self {
        self.access.authentication =
            if users.is_empty() { Authentication::Nobody } else { Authentication::Users(users) };
        self
    }

    /// Sets the application's own authentication: a function that returns the user of a request, or `None`, which is
    /// refused with 401. The function runs for every request and cannot be async. For async authentication, let a
    /// middleware around the router put the user into the request's extensions.
    ///
    /// Requests that act must come from a page of the same origin, by `Sec-Fetch-Site` or `Origin`. That protects
    /// applications whose authentication is a cookie against forged requests.
    pub fn authenticate(mut self, identify: impl Fn(&Parts) -> Option<Identity> + Send + Sync + 'static) -> Self {
        self.access.authentication = Authentication::Own(Arc::new(identify));
        self
    }

    /// Sets the prefix that a reverse proxy removes from requests. A router nested in another axum router detects its
    /// prefix.
    pub fn base_path(mut self, prefix: &str) -> Self {
        self.base = Some(Base::new(prefix));
        self
    }

    /// Sets the names that requests may have in their `Host` header, besides `localhost` and loopback addresses. Without
    /// this and [`listen`](Self::listen), all names are allowed, unless the admin is read-only.
    pub fn hosts(mut self, names: Vec<String>) -> Self {
        self.access.hosts = Some(names);
        self
    }

    /// Sets the address that the server listens on. Requests may have it in their `Host` header.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.access.listen = Some(address);
        self
    }

    /// Marks session cookies as `Secure`: browsers send them over TLS only.
    pub fn secure_cookies(mut self, secure: bool) -> Self {
        self.access.secure = secure;
        self
    }

    /// Sets the proxies whose `X-Forwarded-For` header is trusted, for log-ins, and the header of [`user_header`](Self::user_header).
    pub fn trusted_proxies(mut self, proxies: Networks) -> Self {
        self.access.proxies = proxies;
        self
    }

    /// Sets the header in which a [trusted proxy](Self::trusted_proxies) names the user that it has authenticated. The user must be
    /// one of [`users`](Self::users), with or without a password; without users the header has no effect. The proxy must remove this header from the requests of its clients.
    pub fn user_header(mut self, header: Option<HeaderName>) -> Self {
        self.access.user_header = header;
        self
    }

    /// Builds the router. Within a tokio runtime, it also starts a task that continues jobs whose process has died; the
    /// task ends with the desk.
    pub fn router(self) -> Router {
        if Handle::try_current().is_ok() {
            self.desk.adopt_jobs();
        }
        let access = Arc::new(Access::new(self.access, self.base, self.desk.store()));
        pages::routes(&self.desk)
            .merge(api::routes(&self.desk))
            .merge(access::login_routes(&access))
            .merge(assets::routes())
            .fallback(async || {
                Refusal::new(StatusCode::NOT_FOUND, "nothing was found at this address; check it for typing errors")
            })
            .layer(from_fn_with_state(access, access::guard))
    }
}
