//! The settings of a destination of kind "sqs" or "sns".

use std::time::Duration;

use url::Url;

use super::{FIFO, Service};
use crate::content::{Content, SourceError};
use crate::tls::{Tls, TlsError};
use crate::{Secret, Template, redact};

/// The settings of an SQS or SNS sink.
#[derive(Debug, Clone)]
pub struct AwsSettings {
    /// The queue's URL, or the topic's ARN.
    pub target: Template,
    /// The region. Without it, the region of the URL or ARN, or else of the environment or the profile.
    pub region: Option<String>,
    /// The URL of the service, for a VPC endpoint or another server that speaks the protocol. Without it, AWS in the region.
    pub endpoint: Option<String>,
    /// The profile of `~/.aws/config` that the standard chain uses.
    pub profile: Option<String>,
    /// Fixed credentials, instead of the standard chain.
    pub credentials: Option<AwsCredentials>,
    /// How an event is written.
    pub content: Content,
    /// The timeout of a send.
    pub timeout: Duration,
    /// Trusted authorities, and the client's certificate.
    pub tls: Tls,
}

/// An access key.
#[derive(Debug, Clone)]
pub struct AwsCredentials {
    /// `AKIA…`
    pub access_key_id: Secret,
    /// The key that signs requests.
    pub secret_access_key: Secret,
    /// The token of temporary credentials.
    pub session_token: Option<Secret>,
}

/// A setting that cannot work. The text begins with the key's name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AwsError {
    /// The queue's URL or the topic's ARN is impossible.
    #[error("{key} is {given:?}, which {reason}")]
    Target {
        /// `queue_url` or `topic_arn`
        key: &'static str,
        /// The text of the setting.
        given: String,
        /// The reason.
        reason: String,
    },
    /// The endpoint is not a URL.
    #[error("endpoint {0}")]
    Endpoint(String),
    /// The source of CloudEvents is wrong.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A certificate or a key is wrong.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl AwsSettings {
    /// Returns settings with the defaults.
    #[must_use]
    pub fn new(target: Template) -> Self {
        Self {
            target,
            region: None,
            endpoint: None,
            profile: None,
            credentials: None,
            content: Content::default(),
            timeout: Duration::from_secs(10),
            tls: Tls::default(),
        }
    }

    pub(super) fn check<S: Service>(&self) -> Result<(), AwsError> {
        self.content.check()?;
        if let Some(target) = self.target.constant() {
            let wrong = |reason| AwsError::Target { key: S::NAMES.key, given: target.to_owned(), reason };
            S::check(target).map_err(wrong)?;
        }
        self.endpoint.as_deref().map_or(Ok(()), check_endpoint).map_err(AwsError::Endpoint)
    }

    pub(super) fn region<S: Service>(&self) -> Option<&str> {
        let of_target = || S::region(self.target.as_str()).filter(|region| !region.contains(['{', '}']));
        self.region.as_deref().or_else(of_target)
    }

    /// Returns the address for people: `https://sqs.example:4566`, `SQS in eu-west-1`.
    pub(super) fn address<S: Service>(&self) -> String {
        match (&self.endpoint, self.region::<S>()) {
            (Some(endpoint), _) => redact::origin(endpoint),
            (None, Some(region)) => format!("{} in {region}", S::NAMES.system),
            (None, None) => S::NAMES.system.to_owned(),
        }
    }

    /// Returns whether any request may use TLS.
    pub(super) fn uses_tls(&self) -> bool {
        // Credentials of the standard chain may come from an HTTPS service too.
        self.credentials.is_none() || !self.endpoint.as_deref().is_some_and(|url| url.starts_with("http://"))
    }
}

/// Checks the URL of another endpoint. The text continues a sentence that begins with the key's name.
pub(super) fn check_endpoint(endpoint: &str) -> Result<(), String> {
    let shown = redact::without_login(endpoint);
    let url = Url::parse(endpoint).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    match url {
        None => Err(format!("is {shown:?}, which is not a URL; write it like \"https://sqs.eu-west-1.amazonaws.com\"")),
        Some(url) if !url.username().is_empty() || url.password().is_some() => {
            Err(format!("is {shown:?}, which has a login; set access_key_id and secret_access_key instead"))
        }
        Some(_) => Ok(()),
    }
}

/// Checks the name of a queue or topic.
pub(crate) fn check_name(name: &str, limit: usize) -> Result<(), String> {
    let plain = name.strip_suffix(FIFO).unwrap_or(name);
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if plain.is_empty() || name.len() > limit {
        Err(format!("has the name {name:?}, which must have 1 to {limit} characters"))
    } else if !plain.bytes().all(allowed) {
        Err(format!("has the name {name:?}, which may have only letters, digits, - and _, and {FIFO} at its end"))
    } else {
        Ok(())
    }
}
