//! Sessions of users who have logged in. They are in the database, so that a restart logs no user out and replicas share
//! them. The cookie has the session's token; the database has only its hash. The CSRF token is derived from the session's
//! token and need not be stored.

use std::sync::Arc;
use std::time::Duration;

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, StatusCode};
use pillarbox::StoreError;
use pillarbox::store::{AdminStore, SessionLimits};

use crate::desk::DeskError;
use crate::refusal::Refusal;
use crate::secret::{hex, random, sha256};

const LIMITS: SessionLimits =
    SessionLimits { idle: Duration::from_secs(60 * 60), longest: Duration::from_secs(12 * 60 * 60), most: 1000 };

/// A session of a user.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) name: String,
    /// The CSRF token, which every form that acts carries.
    pub(super) csrf: String,
}

pub(super) struct Sessions {
    store: Arc<dyn AdminStore>,
}

impl Sessions {
    pub(super) fn new(store: Arc<dyn AdminStore>) -> Self {
        Self { store }
    }

    /// Begins a session and returns its token. Only the cookie carries the token.
    pub(super) async fn begin(&self, name: &str) -> Result<String, Refusal> {
        let token = random().map_err(|error| {
            tracing::error!("session not started: {error}");
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the session cannot be started; see the log")
        })?;
        self.store.begin_session(&hash(&token), name, LIMITS).await.map_err(failed)?;
        Ok(token)
    }

    /// Returns the session if it has not expired. Each use extends it.
    pub(super) async fn find(&self, token: &str) -> Result<Option<Session>, Refusal> {
        let name = self.store.find_session(&hash(token), LIMITS).await.map_err(failed)?;
        Ok(name.map(|name| Session { name, csrf: csrf(token) }))
    }

    pub(super) async fn end(&self, token: &str) -> Result<(), Refusal> {
        self.store.end_session(&hash(token)).await.map_err(failed)
    }
}

fn failed(error: StoreError) -> Refusal {
    DeskError::Store(error).into()
}

fn hash(token: &str) -> String {
    hex(&sha256(token))
}

/// Derives the CSRF token. The session's token cannot be computed from it.
fn csrf(token: &str) -> String {
    hex(&sha256(&format!("csrf {token}")))
}

/// The cookies of sessions.
pub(super) struct Cookies {
    /// Whether browsers send them over TLS only.
    pub(super) secure: bool,
}

impl Cookies {
    /// Returns the cookie of a host. Cookies ignore ports, so the name contains the requested port: two admins on one
    /// machine do not share it, and replicas behind one address do. Under TLS, a prefix of the name makes browsers refuse
    /// the cookie from other hosts.
    pub(super) fn named(&self, host: &str) -> Cookie {
        let port = host.rsplit_once(':').map(|(_, port)| port);
        let port = port.filter(|port| !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit()));
        let usual = if self.secure { "443" } else { "80" };
        let prefix = if self.secure { "__Host-" } else { "" };
        Cookie { name: format!("{prefix}pillarbox_session_{}", port.unwrap_or(usual)), secure: self.secure }
    }
}

/// The cookie with a session's token.
pub(super) struct Cookie {
    name: String,
    secure: bool,
}

impl Cookie {
    pub(super) fn of<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let all = headers.get_all(COOKIE).iter().filter_map(|cookies| cookies.to_str().ok());
        all.flat_map(|cookies| cookies.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='))
            .find_map(|(name, value)| (name == self.name).then_some(value))
    }

    pub(super) fn begin(&self, id: &str) -> String {
        self.written(id, "")
    }

    pub(super) fn end(&self) -> String {
        self.written("", "; Max-Age=0")
    }

    fn written(&self, value: &str, more: &str) -> String {
        let secure = if self.secure { "; Secure" } else { "" };
        format!("{}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{more}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_named_by_the_port_that_a_browser_asks_for() {
        let name = |secure, host| Cookies { secure }.named(host).name;
        assert_eq!(name(false, "localhost:8800"), "pillarbox_session_8800");
        assert_eq!(name(false, "[::1]"), "pillarbox_session_80");
        assert_eq!(name(true, "outbox.example.com"), "__Host-pillarbox_session_443");
    }

    #[test]
    fn the_csrf_token_is_neither_the_token_nor_its_hash() {
        assert!(csrf("token") != hash("token") && csrf("token") != csrf("another") && !csrf("token").contains("token"));
    }
}
