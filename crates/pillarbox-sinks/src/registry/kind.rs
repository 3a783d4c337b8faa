//! The two traits of a kind of destination, and the types that their methods take and return.

use std::any::Any;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use pillarbox::{Headers, Sink, StoredEvent};
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::Secret;
use crate::config::shown::Key;
use crate::config::{ConfigError, Resolver, SecretRef, Section};
use crate::tls::{Identity, Tls};

/// A kind of destination: `kind = "http"`.
pub trait Kind: Send + Sync + 'static {
    /// Returns the kind's name in the configuration.
    fn name(&self) -> &'static str;

    /// Reads the kind's keys. Problems go to the section; [`Section::require`] reports a missing key. Keys that all kinds
    /// have (`timeout`, `ca_file`, `client_certificate_file`, `client_key_file`, `concurrency`, `rate`, `paused`) are read elsewhere.
    ///
    /// In a dry run, the keys may be those of another kind. The target is dropped then.
    fn read(&self, section: &mut Section<'_>) -> Arc<dyn Target>;

    /// Returns the number of sends at once if `concurrency` is not set. `None` means the relay's setting.
    fn concurrency(&self) -> Option<usize> {
        None
    }

    /// Returns the prefix of the flags that win over the kind's keys: with `PILLARBOX_CELERY`, a flag for
    /// `PILLARBOX_CELERY_TIMEOUT` wins over `timeout`.
    fn flags(&self) -> Option<&'static str> {
        None
    }

    /// Returns the environment variable that alone configures a destination of this kind.
    fn implied(&self) -> Option<Implied> {
        None
    }

    /// Returns whether the kind only marks events as delivered. It accepts the keys of all other kinds, so that a dry run
    /// is one changed word.
    fn is_dry_run(&self) -> bool {
        false
    }
}

/// An environment variable that makes a destination if no destination is configured. The destination has the name of its
/// kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Implied {
    /// `PILLARBOX_BROKER_URL`
    pub variable: &'static str,
    /// The key that takes the variable's value.
    pub key: &'static str,
}

/// A destination of some kind, as its keys describe it. Its `Debug` shows no secret.
pub trait Target: Any + fmt::Debug + Send + Sync {
    /// Returns every key with its value, secrets as `***`.
    fn shown(&self) -> Vec<Key>;

    /// Returns the address for people: without logins and paths, which are often secret.
    fn address(&self) -> Option<String> {
        None
    }

    /// Builds the sink. `pillarbox doctor` calls its [`Sink::reach`]. Nothing is sent yet.
    ///
    /// # Errors
    /// Says which key is wrong and what to do, without showing secrets: [`Build::problem`].
    fn sink(&self, build: &Build<'_>) -> Result<Arc<dyn Sink>, ConfigError>;

    /// Returns a remark for each setting that is allowed and probably a mistake: [`Build::remark`]. Nothing is sent, and no name
    /// is resolved.
    fn remarks(&self, build: &Build<'_>) -> Vec<String> {
        let _ = build;
        Vec::new()
    }

    /// Returns the keys that sign its messages, in their order, without secrets. `None` if this kind signs nothing.
    fn signing_keys(&self, build: &Build<'_>) -> Option<Vec<SigningEntry>> {
        let _ = build;
        None
    }

    /// Returns the reason why a [test event](pillarbox::sink::test_event) cannot be sent to it, in a sentence that begins with its
    /// name. `None` if it can.
    fn untestable(&self) -> Option<&'static str> {
        None
    }

    /// Returns the HTTP request that this event is sent as, without secrets. `None` when it is not sent over HTTP.
    fn request(&self, event: &EventParts<'_>) -> Option<ShownRequest> {
        let _ = event;
        None
    }
}

/// The files of a destination's certificates and key.
#[derive(Debug, Clone, Default)]
pub(super) struct TlsFiles {
    pub(super) authorities: Option<PathBuf>,
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
}

/// The inputs for building a sink.
pub struct Build<'a> {
    pub(super) place: &'a str,
    pub(super) timeout: Duration,
    pub(super) files: &'a TlsFiles,
    pub(super) resolver: &'a dyn Resolver,
}

impl Build<'_> {
    /// Returns what looks up variables and files.
    #[must_use]
    pub fn resolver(&self) -> &dyn Resolver {
        self.resolver
    }

    /// Returns the timeout of a send.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns the content of `ca_file`, `client_certificate_file` and `client_key_file`.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    pub fn tls(&self) -> Result<Tls, ConfigError> {
        let read = |key: &str, path: Option<&PathBuf>| {
            let refused = |path: &Path, error: io::Error| {
                self.problem(format_args!("{key} is {}, which cannot be read: {error}", path.display()))
            };
            path.map(|path| self.resolver.read(path).map_err(|error| refused(path, error))).transpose()
        };
        let TlsFiles { authorities, certificate, key } = self.files;
        let authorities = read("ca_file", authorities.as_ref())?;
        let certificate = read("client_certificate_file", certificate.as_ref())?;
        let key = read("client_key_file", key.as_ref())?;
        let identity = certificate.zip(key).map(|(certificate, key)| Identity { certificate, key });
        Ok(Tls { authorities, identity })
    }

    /// Looks up the secret of a key.
    ///
    /// # Errors
    /// Fails if the secret is not where the configuration says.
    pub fn secret(&self, key: &str, given: &SecretRef) -> Result<Secret, ConfigError> {
        given.resolve(self.resolver).map_err(|what| self.problem(format_args!("{key} {what}")))
    }

    /// As [`Build::secret`], for a key that may be absent.
    ///
    /// # Errors
    /// As [`Build::secret`].
    pub fn optional_secret(&self, key: &str, given: Option<&SecretRef>) -> Result<Option<Secret>, ConfigError> {
        given.map(|given| self.secret(key, given)).transpose()
    }

    /// Returns an error about this destination. The text begins with the key's name.
    pub fn problem(&self, what: impl fmt::Display) -> ConfigError {
        ConfigError::new(self.remark(what))
    }

    /// Returns a sentence about this destination. The text begins with the key's name.
    pub fn remark(&self, what: impl fmt::Display) -> String {
        format!("{}.{what}", self.place)
    }
}

/// The kind of a key that signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// HMAC-SHA256 (`v1`): sender and receiver have the same secret, `whsec_…`.
    Hmac,
    /// Ed25519 (`v1a`): the sender has the private key, `whsk_…`, and the receiver the public key, `whpk_…`.
    Ed25519,
}

impl KeyKind {
    /// Returns `hmac` or `ed25519`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hmac => "hmac",
            Self::Ed25519 => "ed25519",
        }
    }
}

/// A key that signs, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownKey {
    /// The kind.
    pub kind: KeyKind,
    /// The public key for receivers, `whpk_…`. An HMAC secret has none.
    pub public: Option<String>,
}

/// One key of a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningEntry {
    /// The place of the secret as the configuration names it: `env:NAME` or `file:PATH`. `None` if the configuration has the secret
    /// itself.
    pub written: Option<String>,
    /// The key, or why it cannot be used.
    pub key: Result<ShownKey, String>,
}

/// An HTTP request, for people who want to repeat it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownRequest {
    /// The URL, without secrets.
    pub url: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// Names of headers, and the shell variables that hold their values.
    pub secret_headers: Vec<(String, String)>,
    /// The body, as it is sent; `None` if it is not text: an opaque payload.
    pub body: Option<String>,
    /// Whether the request has a signature, which is left out here.
    pub signed: bool,
}

/// The parts of an event that receivers see.
#[derive(Debug, Clone, Copy)]
pub struct EventParts<'a> {
    /// The delivery's id, as receivers see it.
    pub id: Uuid,
    /// `order.placed`
    pub event_type: &'a str,
    /// `Order`
    pub aggregate_type: &'a str,
    /// `42`
    pub aggregate_id: &'a str,
    /// When the event was emitted.
    pub created_at: DateTime<Utc>,
    /// Trace context and custom headers.
    pub headers: &'a Headers,
    /// JSON.
    pub payload: &'a RawValue,
}

impl<'a> From<&'a StoredEvent> for EventParts<'a> {
    fn from(event: &'a StoredEvent) -> Self {
        Self {
            id: event.id,
            event_type: &event.event_type,
            aggregate_type: &event.aggregate_type,
            aggregate_id: &event.aggregate_id,
            created_at: event.created_at,
            headers: &event.headers,
            payload: &event.payload,
        }
    }
}
