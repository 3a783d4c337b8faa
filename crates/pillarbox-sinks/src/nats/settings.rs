//! The settings of a destination on NATS, and what can be wrong with them.

use std::time::Duration;

use async_nats::ServerAddr;

use super::login::Login;
use super::subject;
use crate::content::{Content, SourceError};
use crate::template::Template;
use crate::tls::{Tls, TlsError};
use crate::{Secret, redact};

/// The settings of a [`NatsSink`](super::NatsSink).
#[derive(Debug, Clone)]
pub struct NatsSettings {
    /// The servers, separated by commas: `nats://one:4222,nats://two:4222`. `tls://` asks for TLS.
    pub url: Secret,
    /// The subject of each message.
    pub subject: Template,
    /// The stream that must store the messages. A message that another stream would store is refused.
    pub stream: Option<String>,
    /// Whether a stream confirms each message. `false` publishes to plain subjects, and nobody confirms.
    pub confirm: bool,
    /// The content of a `.creds` file.
    pub creds: Option<Secret>,
    /// The seed of an nkey.
    pub nkey: Option<Secret>,
    /// A token.
    pub token: Option<Secret>,
    /// The name of a user, with `password`.
    pub user: Option<Secret>,
    /// The password of `user`.
    pub password: Option<Secret>,
    /// The format of messages.
    pub content: Content,
    /// How long a send may take.
    pub timeout: Duration,
    /// Trust and certificate.
    pub tls: Tls,
}

impl NatsSettings {
    /// Returns the settings for these servers and this subject, without a login, with confirms and a timeout of ten seconds.
    pub fn new(url: impl Into<Secret>, subject: Template) -> Self {
        Self {
            url: url.into(),
            subject,
            stream: None,
            confirm: true,
            creds: None,
            nkey: None,
            token: None,
            user: None,
            password: None,
            content: Content::default(),
            timeout: Duration::from_secs(10),
            tls: Tls::default(),
        }
    }

    pub(super) fn check(&self) -> Result<(), NatsError> {
        self.content.check()?;
        if let Some(problem) = self.subject.constant().and_then(subject::problem) {
            return Err(NatsError::Subject { given: self.subject.to_string(), problem });
        }
        match &self.stream {
            Some(_) if !self.confirm => Err(NatsError::StreamWithoutConfirm),
            Some(name) if !is_stream_name(name) => Err(NatsError::Stream { given: name.clone() }),
            _ => Ok(()),
        }
    }

    /// Returns the addresses without their login, and the login.
    pub(super) fn addresses(&self) -> Result<(Vec<ServerAddr>, Option<Login>), NatsError> {
        let (mut addresses, mut login) = (Vec::new(), None);
        for url in self.url.expose().split(',').map(str::trim) {
            let has_scheme = url.starts_with("nats://") || url.starts_with("tls://");
            let address: ServerAddr = url.parse().ok().filter(|_| has_scheme).ok_or(NatsError::Url)?;
            if address.host().is_empty() {
                return Err(NatsError::Url);
            }
            login = login.or_else(|| Login::of(&address));
            // The client logs addresses.
            let mut bare = address.into_inner();
            let without_login = bare.set_username("").and_then(|()| bare.set_password(None));
            without_login.map_err(|()| NatsError::Url)?;
            addresses.push(ServerAddr::from_url(bare).map_err(|_| NatsError::Url)?);
        }
        Ok((addresses, login))
    }
}

/// Returns the servers for people, without logins: `nats://one:4222, tls://two:4222`.
pub(super) fn shown_servers(url: &str) -> String {
    let shown: Vec<String> = url.split(',').map(|one| redact::origin(one.trim())).collect();
    // A part that is not a URL may be a part of a password with a comma.
    if shown.iter().any(|one| one == "***") { "***".to_owned() } else { shown.join(", ") }
}

fn is_stream_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c.is_control() || ".*>/\\".contains(c))
}

/// A setting that cannot be used, with the name of its key. The texts show no secrets.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the texts say what each one means")]
pub enum NatsError {
    #[error("url is not a list of NATS servers; write it like \"nats://one:4222,nats://two:4222\", or tls:// for TLS")]
    Url,
    #[error("subject is {given:?}, which cannot be published to: {problem}")]
    Subject { given: String, problem: &'static str },
    #[error("stream is {given:?}, which is not a stream's name: it has no spaces, dots, slashes or wildcards")]
    Stream { given: String },
    #[error("stream is set, but confirm = false: only a stream can confirm; remove one of both")]
    StreamWithoutConfirm,
    #[error("{missing} is missing; {given} needs it")]
    HalfLogin { missing: &'static str, given: &'static str },
    #[error("url has more than one login ({first} and {second} are both set); keep one")]
    SeveralLogins { first: &'static str, second: &'static str },
    #[error("nkey is not the seed of a user; a seed begins with SU")]
    Nkey,
    #[error(
        "creds is not the content of a .creds file; it has -----BEGIN NATS USER JWT----- and -----BEGIN USER NKEY SEED-----"
    )]
    Creds,
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

#[cfg(test)]
mod tests {
    use super::super::NatsSink;
    use super::*;

    fn settings(url: &str) -> NatsSettings {
        NatsSettings::new(url, "orders".parse().unwrap())
    }

    fn refusal(settings: NatsSettings) -> String {
        NatsSink::new(settings).unwrap_err().to_string()
    }

    #[test]
    fn servers_are_shown_without_logins_or_not_at_all() {
        assert_eq!(shown_servers("nats://ann:hunter2@a:1, tls://b"), "nats://a:1, tls://b");
        assert_eq!(shown_servers("nats://ann:12,34@a"), "***");
    }

    #[test]
    fn logins_are_taken_out_of_the_addresses() {
        let (addresses, login) = settings("nats://ann:hunter2@a:1,tls://b").addresses().unwrap();
        assert_eq!(addresses.len(), 2);
        assert!(addresses.iter().all(|address| !format!("{address:?}").contains("hunter2")));
        assert!(matches!(login, Some(Login::User { .. })));
        assert!(!format!("{login:?}").contains("hunter2"));
    }

    #[test]
    fn settings_that_cannot_work_are_refused_with_the_key() {
        for url in ["", "localhost", "http://localhost", "nats://", "nats://a,b"] {
            assert!(refusal(settings(url)).starts_with("url is not a list"), "{url}");
        }
        let with = |change: fn(&mut NatsSettings)| {
            let mut settings = settings("nats://localhost");
            change(&mut settings);
            refusal(settings)
        };
        assert!(with(|it| it.subject = "orders.*".parse().unwrap()).starts_with("subject is \"orders.*\""));
        assert!(with(|it| it.stream = Some("a.b".to_owned())).starts_with("stream is \"a.b\""));
        assert!(with(|it| (it.stream, it.confirm) = (Some("A".to_owned()), false)).contains("confirm = false"));
        assert!(with(|it| it.user = Some("ann".into())).starts_with("password is missing"));
        assert!(with(|it| (it.token, it.nkey) = (Some("x".into()), Some("SUx".into()))).contains("token and nkey"));
        assert!(with(|it| it.nkey = Some("hunter2".into())).starts_with("nkey is not"));
        assert!(with(|it| it.creds = Some("hunter2".into())).starts_with("creds is not"));
    }
}
