//! The settings of an HTTP receiver, and their checks before anything is sent.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use url::Url;

use crate::client::address;
use crate::content::{Content, SourceError};
use crate::tls::{Tls, TlsError};
use crate::{Secret, redact};

/// An HTTP receiver, as the configuration describes it. `Debug` shows no secrets, and only the URL's host.
#[derive(Clone)]
pub struct HttpSettings {
    /// The URL to POST to: `http` or `https`, without credentials.
    pub url: String,
    /// Standard Webhooks keys: `whsec_` followed by the base64 of 24 to 64 bytes (HMAC), or `whsk_` followed by the base64 of an
    /// Ed25519 private key (32 bytes, or 64 with the public key). Each signs every request; there are two during a rotation. If
    /// empty, requests are not signed.
    pub secrets: Vec<Secret>,
    /// A token for `authorization: Bearer …`.
    pub bearer: Option<Secret>,
    /// Headers for every request. They win over an event's own headers.
    pub headers: BTreeMap<String, Secret>,
    /// The content of the body.
    pub content: Content,
    /// The timeout for the whole exchange. The relay has the same timeout; this one is a second guard.
    pub timeout: Duration,
    /// The timeout for DNS, TCP and TLS together; by default the smaller of `timeout` and five seconds.
    pub connect_timeout: Option<Duration>,
    /// Whether receivers in private networks and on this host are allowed.
    pub allow_private: bool,
    /// The certificates that are trusted in addition to the system's, and the client's own.
    pub tls: Tls,
    /// The largest number of bytes that are read of a response.
    pub max_answer: usize,
}

impl HttpSettings {
    /// Returns settings with the defaults: unsigned, the payload as the body, ten seconds, public addresses only.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            secrets: Vec::new(),
            bearer: None,
            headers: BTreeMap::new(),
            content: Content::default(),
            timeout: Duration::from_secs(10),
            connect_timeout: None,
            allow_private: false,
            tls: Tls::default(),
            max_answer: 64 * 1024,
        }
    }

    pub(super) fn connect_timeout(&self) -> Duration {
        self.connect_timeout.unwrap_or(Duration::from_secs(5)).min(self.timeout)
    }

    pub(super) fn checked_url(&self) -> Result<Url, HttpError> {
        let url = Url::parse(&self.url).map_err(|error| HttpError::Url(error.into()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(HttpError::Scheme { scheme: url.scheme().to_owned() });
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(HttpError::Credentials);
        }
        match literal_address(&url) {
            Some(address) if !self.allow_private && !address::is_public(address) => {
                Err(HttpError::PrivateAddress { address })
            }
            _ => Ok(url),
        }
    }
}

/// Returns the URL's literal address. It never reaches the resolver, so it is checked here.
fn literal_address(url: &Url) -> Option<IpAddr> {
    url.host_str()?.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

impl fmt::Debug for HttpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpSettings")
            .field("url", &redact::origin(&self.url))
            .field("secrets", &self.secrets)
            .field("bearer", &self.bearer)
            .field("headers", &self.headers)
            .field("content", &self.content)
            .field("timeout", &self.timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("allow_private", &self.allow_private)
            .field("tls", &self.tls)
            .field("max_answer", &self.max_answer)
            .finish()
    }
}

/// A setting that cannot work, with the name of its key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The URL does not parse.
    #[error("url is not a URL: {0}; write it like https://receiver.example/events")]
    Url(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The scheme is neither `http` nor `https`.
    #[error("url has the scheme {scheme:?}; use https, or http inside a network you trust")]
    Scheme {
        /// The given scheme.
        scheme: String,
    },
    /// A user or a password in the URL.
    #[error("url contains credentials, which end up in logs; remove them and use `bearer` or `headers`")]
    Credentials,
    /// A literal address that is not on the public internet.
    #[error("url names the private address {address}; set allow_private = true if that is intended")]
    PrivateAddress {
        /// The given address, normalised.
        address: IpAddr,
    },
    /// A secret that is empty or not base64.
    #[error(
        "secrets[{position}] is not a Standard Webhooks secret; write whsec_ followed by the base64 of the key, or whsk_ and an \
         Ed25519 private key"
    )]
    Secret {
        /// The secret's index, from 0.
        position: usize,
    },
    /// A secret that is short enough to be guessed.
    #[error(
        "secrets[{position}] is too short: its key has {bytes} bytes, but must have 24 to 64; make one with \
         echo whsec_$(head -c 32 /dev/urandom | base64)"
    )]
    ShortSecret {
        /// The secret's index, from 0.
        position: usize,
        /// The number of bytes of its key.
        bytes: usize,
    },
    /// A public key in the place of a private one.
    #[error(
        "secrets[{position}] is a public key (whpk_), which is for receivers; write the private key of the pair, which begins whsk_"
    )]
    PublicKey {
        /// The secret's index, from 0.
        position: usize,
    },
    /// An Ed25519 key that is empty or not base64.
    #[error("secrets[{position}] is not base64 after whsk_; make a key with `pillarbox keys new`")]
    SigningKeyText {
        /// The secret's index, from 0.
        position: usize,
    },
    /// An Ed25519 key that is too short or too long.
    #[error(
        "secrets[{position}] has {bytes} bytes after whsk_, but an Ed25519 key has 32, or 64 with its public key; make one with \
         `pillarbox keys new`"
    )]
    SigningKeyLength {
        /// The secret's index, from 0.
        position: usize,
        /// The number of bytes of its key.
        bytes: usize,
    },
    /// An Ed25519 key of 64 bytes whose halves are not a pair.
    #[error(
        "secrets[{position}] has a public key after whsk_ that does not belong to its private key; copy the key again, or make one \
         with `pillarbox keys new`"
    )]
    SigningKeyPair {
        /// The secret's index, from 0.
        position: usize,
    },
    /// The token cannot be a header's value.
    #[error("bearer is empty or contains spaces or control characters; give the token alone, without the word Bearer")]
    Bearer,
    /// A name that no header can have.
    #[error("headers has the name {name:?}, which is not a valid HTTP header name; use letters, digits and dashes")]
    HeaderName {
        /// The given name.
        name: String,
    },
    /// A header that the sink or the client sets.
    #[error("headers sets {name}, which Pillarbox sets itself; remove it")]
    ReservedHeader {
        /// The given name.
        name: String,
    },
    /// A value that no header can have.
    #[error(
        "headers has a value for {name} that is not valid in an HTTP header; remove line breaks and control characters"
    )]
    HeaderValue {
        /// The header's name.
        name: String,
    },
    /// Both `bearer` and `headers.authorization` are set.
    #[error("both bearer and headers.authorization are set; keep one of them")]
    TwoAuthorizations,
    /// The source is not a URI reference.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A certificate or a key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        HttpSettings::new(url).checked_url().unwrap_err().to_string()
    }

    #[test]
    fn a_url_that_cannot_work_is_refused_with_what_to_do() {
        assert!(refusal("receiver.example/events").starts_with("url is not a URL: relative URL without a base"));
        assert!(refusal("ftp://receiver.example/").contains(r#"the scheme "ftp"; use https"#));
        let credentials = refusal("https://ann:hunter2@receiver.example/?token=hunter3");
        assert!(credentials.contains("use `bearer` or `headers`"));
        assert!(!credentials.contains("hunter"));
        assert!(HttpSettings::new("https://receiver.example/events?for=us").checked_url().is_ok());
    }

    #[test]
    fn a_private_literal_is_refused_in_every_spelling_unless_allowed() {
        for url in
            ["http://127.0.0.1/", "http://0x7f.1/", "http://2130706433/", "http://[::1]:8080/", "http://10.1.2.3./"]
        {
            assert!(refusal(url).contains("set allow_private = true"), "{url}");
            assert!(HttpSettings { allow_private: true, ..HttpSettings::new(url) }.checked_url().is_ok(), "{url}");
        }
        assert!(HttpSettings::new("http://[2606:4700::1111]/").checked_url().is_ok());
    }

    #[test]
    fn connecting_takes_five_seconds_at_most_and_never_more_than_the_whole() {
        let settings = HttpSettings::new("http://a.example");
        assert_eq!(settings.connect_timeout(), Duration::from_secs(5));
        let short = HttpSettings { timeout: Duration::from_secs(2), ..settings };
        assert_eq!(short.connect_timeout(), Duration::from_secs(2));
        let own = HttpSettings { connect_timeout: Some(Duration::from_secs(1)), ..short };
        assert_eq!(own.connect_timeout(), Duration::from_secs(1));
    }

    #[test]
    fn debug_shows_no_secret_and_of_the_url_only_the_host() {
        let settings = HttpSettings {
            secrets: vec!["whsec_hunter2".into()],
            bearer: Some("hunter2".into()),
            headers: BTreeMap::from([("x-key".to_owned(), "hunter2".into())]),
            ..HttpSettings::new("https://ann:hunter2@receiver.example/hunter2?token=hunter2")
        };
        let shown = format!("{settings:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("https://receiver.example") && shown.contains("x-key"), "{shown}");
        assert!(!format!("{:?}", HttpSettings::new("hunter2")).contains("hunter2"));
    }
}
