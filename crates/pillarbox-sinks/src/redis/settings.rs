//! The settings of Redis streams, and their checks before anything is sent.

use std::fmt;
use std::time::Duration;

use crate::broker_url::{self, UrlError};
use crate::content::{Content, SourceError};
use crate::redis_server::RedisServer;
use crate::redis_server::client::ClientError;
use crate::template::Template;
use crate::tls::{Tls, TlsError};
use crate::{Secret, redact};

/// Redis streams, as the configuration describes them. `Debug` shows only the URL's scheme, host and port.
#[derive(Clone)]
pub struct RedisSettings {
    /// `redis://`, `rediss://`, `redis+socket://` or `sentinel://`. Several sentinels, or several nodes of a cluster, are
    /// separated by `;`.
    pub url: Secret,
    /// Whether the server is a cluster. `url` names some of its nodes.
    pub cluster: bool,
    /// Sentinel: the name of the master to ask for.
    pub master_name: Option<String>,
    /// Sentinel: the password of the sentinels themselves; the one in `url` is the Redis server's.
    pub sentinel_password: Option<Secret>,
    /// The name of the stream.
    pub stream: Template,
    /// Whether a stream that does not exist is created.
    pub create: bool,
    /// About how many entries a stream keeps (`MAXLEN ~`); `None` means all.
    pub max_length: Option<usize>,
    /// How long the server remembers the ids of events, to store each once; `None` means no check.
    pub deduplicate: Option<Duration>,
    /// How many replicas must have an entry before it counts as delivered (`WAIT`); `None` means no wait.
    pub replicas: Option<usize>,
    /// The format of the field `body`.
    pub content: Content,
    /// The certificates that are trusted in addition to the system's, and the client's own.
    pub tls: Tls,
    /// The timeout for a batch. The sink returns a little before the relay's timeout, so that confirmed messages count.
    pub timeout: Duration,
}

impl RedisSettings {
    /// Returns settings with the defaults: a missing stream is created, and nothing is trimmed.
    pub fn new(url: impl Into<Secret>, stream: Template) -> Self {
        Self {
            url: url.into(),
            cluster: false,
            master_name: None,
            sentinel_password: None,
            stream,
            create: true,
            max_length: None,
            deduplicate: None,
            replicas: None,
            content: Content::default(),
            tls: Tls::default(),
            timeout: Duration::from_secs(10),
        }
    }

    /// Checks everything that can be checked without the server.
    pub(super) fn checked(&self) -> Result<RedisServer, RedisError> {
        let urls = broker_url::parse(self.url.expose())?;
        let server = if self.cluster {
            RedisServer::parse_cluster(&urls)?
        } else {
            RedisServer::parse(&urls, self.master_name.as_deref())?
        };
        if self.stream.constant() == Some("") {
            return Err(RedisError::Stream);
        }
        self.content.check()?;
        Ok(server)
    }
}

impl fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisSettings")
            .field("url", &redact::origins(self.url.expose()))
            .field("cluster", &self.cluster)
            .field("master_name", &self.master_name)
            .field("sentinel_password", &self.sentinel_password)
            .field("stream", &self.stream)
            .field("create", &self.create)
            .field("max_length", &self.max_length)
            .field("deduplicate", &self.deduplicate)
            .field("replicas", &self.replicas)
            .field("content", &self.content)
            .field("tls", &self.tls)
            .field("timeout", &self.timeout)
            .finish()
    }
}

/// A setting that cannot work, with the name of its key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedisError {
    /// The URL does not parse.
    #[error("url is not a URL ({reason}); write it like redis://user:password@host:6379/0")]
    Url {
        /// The reason, without the URL.
        reason: String,
    },
    /// The URL's scheme is not supported.
    #[error(
        "url has the scheme {scheme:?}; use redis, rediss, redis+socket or sentinel; a cluster needs redis or rediss"
    )]
    Scheme {
        /// The given scheme.
        scheme: String,
    },
    /// Several addresses of servers that are neither sentinels nor a cluster.
    #[error("url has several addresses; for nodes of a cluster set cluster = true, for sentinels write sentinel://")]
    SeveralAddresses,
    /// A key in the URL's query that this client does not support.
    #[error("url has {key} in its query; {advice}")]
    Query {
        /// The query's key.
        key: String,
        /// What to do instead.
        advice: &'static str,
    },
    /// The name of a database is not a number.
    #[error("url names the database {given:?}, which is not a number; write it like redis://host:6379/0")]
    Database {
        /// The given name.
        given: String,
    },
    /// The master's name is missing. Sentinels watch several masters.
    #[error("url is a sentinel, and master_name is missing; set it to the sentinels' name of the master")]
    MasterName,
    /// The stream's name is empty.
    #[error("stream is empty; write the name of a stream, like \"orders\" or \"{{aggregate_type}}\"")]
    Stream,
    /// The source of CloudEvents cannot be used.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A certificate or a key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The client could not be built.
    #[error("url cannot be used: {0}")]
    Client(String),
}

impl From<UrlError> for RedisError {
    fn from(error: UrlError) -> Self {
        match error {
            UrlError::Malformed { reason } => Self::Url { reason },
            UrlError::Scheme { scheme } => Self::Scheme { scheme },
            UrlError::SeveralAddresses => Self::SeveralAddresses,
            UrlError::Query { key, advice } => Self::Query { key, advice },
            UrlError::Database { given } => Self::Database { given },
            UrlError::MasterName => Self::MasterName,
        }
    }
}

impl From<ClientError> for RedisError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Tls(error) => Self::Tls(error),
            ClientError::Client(reason) => Self::Client(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(url: &str, change: impl Fn(&mut RedisSettings)) -> Result<String, String> {
        let mut settings = RedisSettings::new(url, Template::fixed("orders"));
        change(&mut settings);
        settings.checked().map(|server| server.shown()).map_err(|error| error.to_string())
    }

    #[test]
    fn addresses_are_read_and_shown_without_logins() {
        let cluster = |settings: &mut RedisSettings| settings.cluster = true;
        assert_eq!(checked("redis://u:hunter2@a:1/2", |_| {}).unwrap(), "redis://a:1");
        let shown = checked("rediss://u:hunter2@a:1;rediss://b", cluster).unwrap();
        assert_eq!(shown, "the rediss cluster of a:1, b:6379");
        let named = |settings: &mut RedisSettings| settings.master_name = Some("main".to_owned());
        assert_eq!(checked("sentinel://a;sentinel://b:7", named).unwrap(), "\"main\" of the sentinels a:26379, b:7");
    }

    #[test]
    fn a_client_key_that_cannot_work_is_named() {
        let identity = crate::tls::Identity { certificate: b"x".to_vec(), key: b"x".to_vec() };
        let tls = Tls { identity: Some(identity), ..Tls::default() };
        for cluster in [false, true] {
            let settings = RedisSettings {
                tls: tls.clone(),
                cluster,
                ..RedisSettings::new("rediss://a", Template::fixed("orders"))
            };
            let error = crate::redis::RedisSink::new(settings).unwrap_err().to_string();
            assert!(error.starts_with("client_certificate_file has no usable certificate"), "{error}");
        }
    }

    #[test]
    fn a_setting_that_cannot_work_is_named() {
        let cluster = |settings: &mut RedisSettings| settings.cluster = true;
        for (refused, part) in [
            (checked("", |_| {}), "url is not a URL (it is empty)"),
            (checked("amqp://a", |_| {}), "url has the scheme \"amqp\""),
            (checked("redis://a;redis://b", |_| {}), "set cluster = true"),
            (checked("sentinel://a", cluster), "a cluster needs redis or rediss"),
            (checked("sentinel://a", |_| {}), "master_name is missing"),
            (checked("redis://a/orders", |_| {}), "url names the database \"orders\""),
            (checked("redis://a?timeout=1", |_| {}), "url has timeout in its query"),
            (checked("redis://a", |settings| settings.stream = Template::fixed("")), "stream is empty"),
        ] {
            let error = refused.unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        let settings = RedisSettings::new("redis://u:hunter2@a:1", Template::fixed("orders"));
        assert!(!format!("{settings:?}").contains("hunter2"));
    }
}
