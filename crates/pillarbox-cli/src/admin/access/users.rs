//! The users of the configuration: whose password or token it is.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::http::StatusCode;
use tokio::sync::Semaphore;

use super::super::refusal::Refusal;
use super::Who;
use super::secret::{is_password, same, sha256};
use crate::config::admin::{Credentials, UserSettings};
use crate::config::{ConfigError, Environment};

/// Passwords that are verified at once: each takes a core and 19 MiB.
const AT_ONCE: usize = 2;
/// And how many may wait for that.
const WAITING: usize = 32;

pub(super) struct Users {
    users: Vec<(Who, Credentials)>,
    at_once: Arc<Semaphore>,
    waiting: Semaphore,
}

impl Users {
    pub(super) fn new(users: &[UserSettings], environment: &Environment) -> Result<Self, ConfigError> {
        let known = |user: &UserSettings| {
            let who = Who { name: user.name.clone(), role: user.role };
            Ok((who, user.credentials(environment)?))
        };
        let users = users.iter().map(known).collect::<Result<_, ConfigError>>()?;
        Ok(Self { users, at_once: Arc::new(Semaphore::new(AT_ONCE)), waiting: Semaphore::new(WAITING) })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.users.iter().any(|(who, _)| who.name == name)
    }

    /// Looks at all of them, so that the time says nothing.
    pub(super) fn by_token(&self, token: &str) -> Option<Who> {
        let hash = sha256(token);
        let mut found = None;
        for (who, credentials) in &self.users {
            if credentials.token.is_some_and(|known| same(&known, &hash)) {
                found = Some(who.clone());
            }
        }
        found
    }

    /// For a name that is not known somebody else's hash is computed, and its answer not looked at: the time is the same.
    pub(super) async fn by_password(&self, name: &str, password: String) -> Result<Option<Who>, Refusal> {
        let busy = |_| {
            let wait = Duration::from_secs(2);
            Refusal::later(StatusCode::SERVICE_UNAVAILABLE, wait, "too many are logging in at once; try again soon")
        };
        let _waiting = self.waiting.try_acquire().map_err(busy)?;
        let with_password = |(who, credentials): &(Who, Credentials)| {
            credentials.password.as_ref().map(|hash| (who.clone(), hash.expose().to_owned()))
        };
        let mut able = self.users.iter().filter_map(with_password);
        let asked_for = able.clone().find(|(who, _)| who.name == name);
        let (who, hash) = match (asked_for, able.next()) {
            (Some((who, hash)), _) => (Some(who), hash),
            (None, Some((_, hash))) => (None, hash),
            // Nobody has a password.
            (None, None) => return Ok(None),
        };
        let failed = |error: anyhow::Error| {
            tracing::error!("a password could not be verified: {error:#}");
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the password could not be verified; the log says why")
        };
        let place = Arc::clone(&self.at_once).acquire_owned().await.context("closed").map_err(failed)?;
        let right = tokio::task::spawn_blocking(move || {
            let right = is_password(&password, &hash);
            drop(place);
            right
        });
        let right = right.await.context("it panicked").map_err(failed)?;
        Ok(who.filter(|_| right))
    }
}
