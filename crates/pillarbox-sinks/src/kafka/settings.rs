//! The settings of a Kafka destination, for applications that build the sink in code.

use std::time::Duration;

use super::names;
use crate::content::{Content, SourceError};
use crate::tls::{Tls, TlsError};
use crate::{Secret, Template};

/// The settings of a [`KafkaSink`](super::KafkaSink). Its `Debug` shows no secret.
#[derive(Debug, Clone)]
pub struct KafkaSettings {
    /// Addresses of some brokers, `host:port`. The client learns the others from them.
    pub brokers: Vec<String>,
    /// The topic of an event.
    pub topic: Template,
    /// The key of an event, which chooses the partition. `None` sends messages without a key, to any partition.
    pub key: Option<Template>,
    /// The compression of requests.
    pub compression: Compression,
    /// The largest message, in bytes. A larger one is rejected before it is sent.
    pub max_message_size: usize,
    /// The credentials, if the brokers want some.
    pub sasl: Option<Sasl>,
    /// TLS with this trust and identity. `None` connects without encryption.
    pub tls: Option<Tls>,
    /// How events are written.
    pub content: Content,
    /// The timeout of a send.
    pub timeout: Duration,
}

/// The compression of requests to Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// `gzip`
    Gzip,
    /// `snappy`
    Snappy,
    /// `lz4`
    Lz4,
    /// `zstd`, for brokers since Kafka 2.1.
    Zstd,
}

/// Credentials, and the mechanism that proves them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sasl {
    /// `PLAIN`: the broker receives the password itself.
    Plain {
        /// The user.
        username: String,
        /// The password.
        password: Secret,
    },
    /// `SCRAM-SHA-256` or `SCRAM-SHA-512`.
    Scram {
        /// The hash function.
        hash: ScramHash,
        /// The user.
        username: String,
        /// The password.
        password: Secret,
    },
    /// `OAUTHBEARER`: a token that an authorisation server issues to this client.
    OauthBearer(OauthClient),
}

/// The hash function of SCRAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScramHash {
    /// `SCRAM-SHA-256`
    Sha256,
    /// `SCRAM-SHA-512`
    Sha512,
}

/// A client of an OAuth 2 authorisation server, with the grant `client_credentials`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OauthClient {
    /// The token endpoint.
    pub token_url: String,
    /// The client's id.
    pub client_id: String,
    /// The client's secret.
    pub client_secret: Secret,
    /// The scope to ask for.
    pub scope: Option<String>,
}

impl KafkaSettings {
    /// The largest message if nothing else is said: what brokers take by default.
    pub const MAX_MESSAGE_SIZE: usize = 1 << 20;

    /// Returns settings with the default of every other key: the aggregate's id as key, no compression, no TLS and no
    /// credentials.
    #[must_use]
    pub fn new(brokers: Vec<String>, topic: Template) -> Self {
        Self {
            brokers,
            topic,
            key: "{aggregate_id}".parse().ok(),
            compression: Compression::default(),
            max_message_size: Self::MAX_MESSAGE_SIZE,
            sasl: None,
            tls: None,
            content: Content::default(),
            timeout: Duration::from_secs(30),
        }
    }

    pub(super) fn check(&self) -> Result<(), KafkaError> {
        if self.brokers.is_empty() {
            return Err(KafkaError::NoBrokers);
        }
        for broker in &self.brokers {
            check_broker(broker).map_err(KafkaError::Broker)?;
        }
        if let Some(topic) = self.topic.constant() {
            names::check(topic).map_err(KafkaError::Topic)?;
        }
        Ok(self.content.check()?)
    }
}

/// Checks an address: a host, and a port if it is not 9092.
pub(super) fn check_broker(broker: &str) -> Result<(), String> {
    let refused = |why: &str| Err(format!("has {broker:?}, {why}; write HOST:PORT, like \"kafka-1.example:9092\""));
    if broker.contains("://") {
        return refused("which is a URL");
    }
    let port = match broker.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((_, rest)) => rest.strip_prefix(':'),
        None => broker.split_once(':').map(|(_, port)| port),
    };
    let has_host = !broker.is_empty() && !broker.starts_with(':') && !broker.contains(char::is_whitespace);
    if !has_host {
        return refused("which has no host");
    }
    match port.map(str::parse::<u16>) {
        None => Ok(()),
        Some(Ok(1..)) => Ok(()),
        Some(_) => refused("which has no valid port"),
    }
}

/// A setting that is wrong. The text begins with the name of its key in the configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KafkaError {
    /// There are no addresses.
    #[error("brokers is empty; write the address of at least one broker, like [\"kafka-1.example:9092\"]")]
    NoBrokers,
    /// An address is wrong.
    #[error("brokers {0}")]
    Broker(String),
    /// The topic is an impossible name.
    #[error("topic {0}")]
    Topic(String),
    /// The source of CloudEvents is wrong.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A certificate or a key is wrong.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The token endpoint is wrong.
    #[error("oauth_token_url {0}")]
    TokenUrl(String),
    /// The client refuses the settings.
    #[error("brokers cannot be used: {0}")]
    Client(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_a_host_and_a_port() {
        for broker in ["kafka", "kafka-1.example:9092", "127.0.0.1:1", "[::1]:9092", "[::1]"] {
            assert_eq!(check_broker(broker), Ok(()), "{broker}");
        }
        let wrong = ["", ":9092", "kafka:", "kafka:0", "kafka:70000", "kafka:x", "kafka://a:9092", "a b:1"];
        for broker in wrong {
            assert!(check_broker(broker).unwrap_err().contains("write HOST:PORT"), "{broker}");
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let client = OauthClient {
            token_url: "https://login.example/token".to_owned(),
            client_id: "relay".to_owned(),
            client_secret: Secret::new("hunter2"),
            scope: None,
        };
        let plain = Sasl::Plain { username: "relay".to_owned(), password: Secret::new("hunter2") };
        for sasl in [plain, Sasl::OauthBearer(client)] {
            let settings = KafkaSettings {
                sasl: Some(sasl),
                ..KafkaSettings::new(vec!["kafka:9092".to_owned()], Template::fixed("orders"))
            };
            assert!(!format!("{settings:?}").contains("hunter2"));
            assert!(!format!("{:?}", super::super::KafkaSink::new(settings).unwrap()).contains("hunter2"));
        }
    }
}
