//! The users of the log-in pages, found by password or token.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use argon2::Params;
use argon2::password_hash::phc::PasswordHash;
use axum::http::StatusCode;
use tokio::sync::Semaphore;

use super::{Identity, Role};
use crate::refusal::Refusal;
use crate::secret::{is_password, same, sha256};

/// The number of passwords that are verified at once. Each takes a core and 19 MiB.
const AT_ONCE: usize = 2;
/// The number of passwords that may wait for verification.
const WAITING: usize = 32;

/// A user who may log in with a password or send a token.
#[derive(Clone)]
pub struct User {
    who: Identity,
    /// An argon2 hash, as a PHC string.
    password: Option<String>,
    /// The SHA-256 of a bearer token.
    token: Option<[u8; 32]>,
}

/// A hash that cannot be used. The message continues a sentence that begins with the setting's name. It never shows the
/// hash, which may be the password by mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialError {
    /// Not a hash of [`hash_password`](crate::secret::hash_password).
    #[error("is not an argon2 hash; make one with `pillarbox admin hash-password`")]
    Password,
    /// Not a hash of [`new_token`](crate::secret::new_token).
    #[error("is not the SHA-256 of a token; make one, with its hash, with `pillarbox admin make-token`")]
    Token,
}

impl User {
    /// Returns a user without a password and a token, who cannot log in yet.
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        Self { who: Identity::new(name, role), password: None, token: None }
    }

    /// Sets the hash of the password for the log-in page: an argon2 hash as a PHC string.
    ///
    /// # Errors
    /// Fails if it is not such a hash.
    pub fn password_hash(mut self, hash: &str) -> Result<Self, CredentialError> {
        let usable = PasswordHash::new(hash).is_ok_and(|hash| {
            hash.algorithm.as_str().starts_with("argon2") && hash.hash.is_some() && Params::try_from(&hash).is_ok()
        });
        self.password = Some(usable.then(|| hash.to_owned()).ok_or(CredentialError::Password)?);
        Ok(self)
    }

    /// Sets the hash of the bearer token for the API: a SHA-256 in hexadecimal digits.
    ///
    /// # Errors
    /// Fails if it is not such a hash.
    pub fn token_hash(mut self, hash: &str) -> Result<Self, CredentialError> {
        self.token = Some(sha256_from_hex(hash).ok_or(CredentialError::Token)?);
        Ok(self)
    }
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").field("who", &self.who).finish_non_exhaustive()
    }
}

fn sha256_from_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

pub(super) struct Users {
    users: Vec<User>,
    at_once: Arc<Semaphore>,
    waiting: Semaphore,
}

impl Users {
    pub(super) fn new(users: Vec<User>) -> Self {
        Self { users, at_once: Arc::new(Semaphore::new(AT_ONCE)), waiting: Semaphore::new(WAITING) }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.users.iter().any(|user| user.who.name == name)
    }

    /// Returns the user from the current configuration: a session must not outlive its user or keep an old role.
    pub(super) fn named(&self, name: &str) -> Option<Identity> {
        self.users.iter().find(|user| user.who.name == name).map(|user| user.who.clone())
    }

    /// Returns the user with this token. Compares with all tokens, so that the time reveals nothing.
    pub(super) fn by_token(&self, token: &str) -> Option<Identity> {
        let hash = sha256(token);
        let mut found = None;
        for user in &self.users {
            if user.token.is_some_and(|known| same(&known, &hash)) {
                found = Some(user.who.clone());
            }
        }
        found
    }

    /// Returns the user with this password. For an unknown name, another user's hash is verified and the result ignored, so
    /// that the time is the same.
    pub(super) async fn by_password(&self, name: &str, password: String) -> Result<Option<Identity>, Refusal> {
        let busy = |_| {
            let wait = Duration::from_secs(2);
            Refusal::later(StatusCode::SERVICE_UNAVAILABLE, wait, "too many logins at once; try again soon")
        };
        let _waiting = self.waiting.try_acquire().map_err(busy)?;
        let with_password = |user: &User| user.password.clone().map(|hash| (user.who.clone(), hash));
        let mut able = self.users.iter().filter_map(with_password);
        let asked_for = able.clone().find(|(who, _)| who.name == name);
        let (who, hash) = match (asked_for, able.next()) {
            (Some((who, hash)), _) => (Some(who), hash),
            (None, Some((_, hash))) => (None, hash),
            // No user has a password.
            (None, None) => return Ok(None),
        };
        let failed = |error: &dyn fmt::Display| {
            tracing::error!("password check failed: {error}");
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the password could not be verified; see the log")
        };
        let place = Arc::clone(&self.at_once).acquire_owned().await.map_err(|error| failed(&error))?;
        let right = tokio::task::spawn_blocking(move || {
            let right = is_password(&password, &hash);
            drop(place);
            right
        });
        let right = right.await.map_err(|error| failed(&error))?;
        Ok(who.filter(|_| right))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::{hash_password, new_token};

    #[tokio::test]
    async fn users_are_known_by_password_and_token() {
        let made = new_token().unwrap();
        let anna = User::new("anna", Role::Operator).password_hash(&hash_password("horse").unwrap()).unwrap();
        let robot = User::new("robot", Role::Viewer).token_hash(&made.hash).unwrap();
        let users = Users::new(vec![anna, robot]);
        assert_eq!(users.by_token(&made.token), Some(Identity::new("robot", Role::Viewer)));
        assert_eq!(users.by_token(&made.hash), None);
        let by_password = async |name: &str, password: &str| users.by_password(name, password.to_owned()).await;
        assert_eq!(by_password("anna", "horse").await.unwrap(), Some(Identity::new("anna", Role::Operator)));
        assert_eq!(by_password("anna", "cow").await.unwrap(), None);
        assert_eq!(by_password("robot", "horse").await.unwrap(), None);
    }

    #[test]
    fn what_is_no_hash_is_refused_and_not_shown() {
        let user = || User::new("anna", Role::Viewer);
        assert_eq!(user().password_hash("t0p s3cret").unwrap_err(), CredentialError::Password);
        for wrong in ["t0p", &"ä".repeat(32), &"g".repeat(64)] {
            let error = user().token_hash(wrong).unwrap_err();
            assert!(error == CredentialError::Token && !error.to_string().contains(wrong), "{error}");
        }
    }
}
