//! Sessions of users who have logged in. They are in memory: a restart logs everybody out.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use axum::http::header::COOKIE;

use crate::secret::{SecretError, random, sha256};

/// Who has not asked for anything for so long must log in again.
const IDLE: Duration = Duration::from_secs(60 * 60);
/// And after this everybody must.
const LONGEST: Duration = Duration::from_secs(12 * 60 * 60);
/// Beyond that the one that was idle the longest ends.
const MOST: usize = 1000;

/// What a session knows.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) name: String,
    /// Every form that acts carries it.
    pub(super) csrf: String,
    began_at: Instant,
    seen_at: Instant,
}

impl Session {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.seen_at) >= IDLE || now.saturating_duration_since(self.began_at) >= LONGEST
    }
}

/// By the hash of their ids, so that looking one up tells nothing of how near a guess was.
#[derive(Default)]
pub(super) struct Sessions(Mutex<HashMap<[u8; 32], Session>>);

impl Sessions {
    /// Begins one, and answers its id, which only the cookie carries.
    pub(super) fn begin(&self, name: &str, now: Instant) -> Result<String, SecretError> {
        let (id, csrf) = (random()?, random()?);
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, session| !session.is_over(now));
        if sessions.len() >= MOST {
            let idlest = sessions.iter().min_by_key(|(_, session)| session.seen_at).map(|(key, _)| *key);
            idlest.map(|key| sessions.remove(&key));
        }
        sessions.insert(sha256(&id), Session { name: name.to_owned(), csrf, began_at: now, seen_at: now });
        Ok(id)
    }

    /// The session, if it still lasts. Having been seen keeps it alive.
    pub(super) fn find(&self, id: &str, now: Instant) -> Option<Session> {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = sha256(id);
        let session = sessions.get_mut(&key)?;
        if session.is_over(now) {
            sessions.remove(&key);
            return None;
        }
        session.seen_at = now;
        Some(session.clone())
    }

    pub(super) fn end(&self, id: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&sha256(id));
    }
}

/// The cookies of sessions.
pub(super) struct Cookies {
    /// Only over TLS.
    pub(super) secure: bool,
}

impl Cookies {
    /// Returns the cookie of an address. Browsers do not tell ports apart, and two admins on one machine are not each
    /// other's, so the name has the port that the browser asks for. Replicas behind one address share it. Under TLS the
    /// prefix of the name makes browsers refuse the cookie from anybody else.
    pub(super) fn named(&self, host: &str) -> Cookie {
        let port = host.rsplit_once(':').map(|(_, port)| port);
        let port = port.filter(|port| !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit()));
        let usual = if self.secure { "443" } else { "80" };
        let prefix = if self.secure { "__Host-" } else { "" };
        Cookie { name: format!("{prefix}pillarbox_session_{}", port.unwrap_or(usual)), secure: self.secure }
    }
}

/// The cookie with a session's id.
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
    fn a_session_ends_when_it_is_idle_or_old_or_ended() {
        let (sessions, start) = (Sessions::default(), Instant::now());
        let id = sessions.begin("anna", start).unwrap();
        assert_eq!(sessions.find(&id, start).unwrap().name, "anna");
        assert!(sessions.find("another", start).is_none());
        let step = IDLE - Duration::from_secs(1);
        let mut now = start;
        while now + step < start + LONGEST {
            now += step;
            assert!(sessions.find(&id, now).is_some(), "it is in use");
        }
        assert!(sessions.find(&id, start + LONGEST).is_none(), "it is old");
        let id = sessions.begin("anna", start).unwrap();
        assert!(sessions.find(&id, start + IDLE).is_none(), "it was idle");
        let id = sessions.begin("anna", start).unwrap();
        sessions.end(&id);
        assert!(sessions.find(&id, start).is_none(), "it was ended");
    }

    #[test]
    fn a_cookie_is_named_by_the_port_that_a_browser_asks_for() {
        let name = |secure, host| Cookies { secure }.named(host).name;
        assert_eq!(name(false, "localhost:8800"), "pillarbox_session_8800");
        assert_eq!(name(false, "[::1]"), "pillarbox_session_80");
        assert_eq!(name(true, "outbox.example.com"), "__Host-pillarbox_session_443");
    }

    #[test]
    fn there_are_no_more_sessions_than_memory_for_them() {
        let (sessions, start) = (Sessions::default(), Instant::now());
        let first = sessions.begin("anna", start).unwrap();
        for later in 1..=MOST as u64 {
            sessions.begin("anna", start + Duration::from_millis(later)).unwrap();
        }
        assert!(sessions.find(&first, start + Duration::from_secs(2)).is_none());
        assert_eq!(sessions.0.lock().unwrap().len(), MOST);
    }
}
