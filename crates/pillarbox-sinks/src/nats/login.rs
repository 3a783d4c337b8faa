//! How the relay logs in: the settings, or a login in the URL. Pure.

use async_nats::{ConnectOptions, ServerAddr};

use super::settings::{NatsError, NatsSettings};
use crate::Secret;

/// One way to log in.
#[derive(Debug, Clone)]
pub(super) enum Login {
    Nobody,
    User { name: Secret, password: Secret },
    Token(Secret),
    Nkey(Secret),
    Creds(Secret),
}

impl Login {
    /// Returns the one login of the settings and of the URL.
    pub(super) fn new(settings: &NatsSettings, in_url: Option<Self>) -> Result<Self, NatsError> {
        let NatsSettings { creds, nkey, token, user, password, .. } = settings;
        let user = match (user, password) {
            (Some(name), Some(password)) => {
                Some(("user", Self::User { name: name.clone(), password: password.clone() }))
            }
            (Some(_), None) => return Err(NatsError::HalfLogin { missing: "password", given: "user" }),
            (None, Some(_)) => return Err(NatsError::HalfLogin { missing: "user", given: "password" }),
            (None, None) => None,
        };
        // The client's parser needs the last line break, and a secret from a file comes without it.
        let creds =
            creds.as_ref().map(|text| ("creds", Self::Creds(Secret::new(format!("{}\n", text.expose().trim_end())))));
        let nkey = nkey.as_ref().map(|seed| ("nkey", Self::Nkey(seed.clone())));
        let token = token.as_ref().map(|token| ("token", Self::Token(token.clone())));
        let in_url = in_url.map(|login| ("a login in url", login));
        let mut given: Vec<_> = [in_url, user, token, nkey, creds].into_iter().flatten().collect();
        if let [(first, _), (second, _), ..] = given.as_slice() {
            return Err(NatsError::SeveralLogins { first, second });
        }
        let login = given.pop().map_or(Self::Nobody, |(_, login)| login);
        login.check()?;
        Ok(login)
    }

    /// Returns the login of an address: `user:password@`, or a token without a colon.
    pub(super) fn of(address: &ServerAddr) -> Option<Self> {
        let name = Secret::new(decoded(address.username()?));
        Some(match address.password() {
            Some(password) => Self::User { name, password: Secret::new(decoded(password)) },
            None => Self::Token(name),
        })
    }

    fn check(&self) -> Result<(), NatsError> {
        match self {
            // A seed of a user begins with SU; its public key begins with U.
            Self::Nkey(seed) if !seed.expose().starts_with("SU") => Err(NatsError::Nkey),
            Self::Creds(text) if ConnectOptions::with_credentials(text.expose()).is_err() => Err(NatsError::Creds),
            _ => Ok(()),
        }
    }

    /// Adds the login to the options of a connection.
    pub(super) fn apply(&self, options: ConnectOptions) -> ConnectOptions {
        let text = |secret: &Secret| secret.expose().to_owned();
        match self {
            Self::Nobody => options,
            Self::User { name, password } => options.user_and_password(text(name), text(password)),
            Self::Token(token) => options.token(text(token)),
            Self::Nkey(seed) => options.nkey(text(seed)),
            // `check` has parsed them.
            Self::Creds(creds) => options.credentials(creds.expose()).unwrap_or_default(),
        }
    }
}

/// Decodes a login of a URL.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let hex = behind.get(..2).filter(|_| first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_user_or_a_token() {
        let login = |url: &str| Login::of(&url.parse().unwrap());
        assert!(login("nats://localhost").is_none());
        let Some(Login::Token(token)) = login("nats://s3cret@localhost") else { panic!("a token") };
        assert_eq!(token.expose(), "s3cret");
        let Some(Login::User { name, password }) = login("nats://ann:p%40ss%25@localhost") else { panic!("a user") };
        assert_eq!((name.expose(), password.expose()), ("ann", "p@ss%"));
    }
}
