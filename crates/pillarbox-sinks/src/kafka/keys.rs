//! The keys of a destination of kind "kafka": brokers, topic and key, and how to connect.

use std::sync::Arc;

use pillarbox::Sink;
use toml::Value;

use super::settings::{Compression, KafkaSettings, OauthClient, Sasl, ScramHash, check_broker};
use super::{KafkaSink, names};
use crate::config::shown::{Key, chosen, hidden, text};
use crate::config::{ConfigError, FromConfig, SecretRef, Section, Size};
use crate::content::Content;
use crate::registry::{Build, Kind, Target};
use crate::{Secret, Template, Tls, redact};

/// The number of sends at once. Each takes a whole batch, so two are enough.
const CONCURRENCY: usize = 2;
/// The largest `max_message_size` that the client supports.
const LARGEST: Size = Size(900 << 20);

const COMPRESSIONS: [(&str, Compression); 5] = [
    ("none", Compression::None),
    ("gzip", Compression::Gzip),
    ("snappy", Compression::Snappy),
    ("lz4", Compression::Lz4),
    ("zstd", Compression::Zstd),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mechanism {
    Plain,
    Scram(ScramHash),
    OauthBearer,
}

const MECHANISMS: [(&str, Mechanism); 4] = [
    ("PLAIN", Mechanism::Plain),
    ("SCRAM-SHA-256", Mechanism::Scram(ScramHash::Sha256)),
    ("SCRAM-SHA-512", Mechanism::Scram(ScramHash::Sha512)),
    ("OAUTHBEARER", Mechanism::OauthBearer),
];

/// `kind = "kafka"`
#[derive(Debug, Clone, Copy)]
pub struct Kafka;

/// A Kafka cluster, as it was configured. The secrets are looked up when the sink is built.
#[derive(Debug, Clone)]
struct KafkaTarget {
    brokers: Vec<String>,
    topic: Template,
    /// `None` when messages have no key.
    key: Option<Template>,
    compression: Compression,
    max_message_size: Size,
    tls: bool,
    mechanism: Option<Mechanism>,
    username: Option<String>,
    password: Option<SecretRef>,
    oauth_token_url: Option<String>,
    oauth_client_id: Option<String>,
    oauth_client_secret: Option<SecretRef>,
    oauth_scope: Option<String>,
    content: Content,
}

/// Addresses, as a list or as text with commas.
struct Brokers(Vec<String>);

impl FromConfig for Brokers {
    fn from_toml(value: Value) -> Result<Self, String> {
        let brokers: Vec<String> = match value {
            Value::String(text) => Vec::from_text(&text)?,
            list => Vec::from_toml(list)?,
        };
        if brokers.is_empty() {
            return Err("is empty; write the address of at least one broker".to_owned());
        }
        brokers.iter().try_for_each(|broker| check_broker(broker))?;
        Ok(Self(brokers))
    }
}

impl Kind for Kafka {
    fn name(&self) -> &'static str {
        "kafka"
    }

    fn read(&self, section: &mut Section<'_>) -> Arc<dyn Target> {
        let brokers = section.require("brokers", "write the addresses of brokers, like [\"kafka-1.example:9092\"]");
        let topic = section.require("topic", "write a topic, like \"orders\" or \"{aggregate_type}\"");
        if let Some(Err(what)) = topic.as_ref().and_then(Template::constant).map(names::check) {
            section.problem("topic", what);
        }
        let key: Option<Template> = section.take("key");
        let default = KafkaSettings::new(Vec::new(), Template::fixed(""));
        let target = KafkaTarget {
            brokers: brokers.map(|Brokers(brokers)| brokers).unwrap_or_default(),
            topic: topic.unwrap_or(default.topic),
            key: key.or(default.key).filter(|key| !key.as_str().is_empty()),
            compression: section.choose("compression", &COMPRESSIONS).unwrap_or_default(),
            max_message_size: section
                .take_checked("max_message_size", sensible_size)
                .unwrap_or(Size(KafkaSettings::MAX_MESSAGE_SIZE)),
            tls: section.take("tls").unwrap_or(false),
            mechanism: section.choose("sasl_mechanism", &MECHANISMS),
            username: section.take("username"),
            password: section.take("password"),
            oauth_token_url: section.take_checked("oauth_token_url", |url: &String| super::oauth::check_url(url)),
            oauth_client_id: section.take("oauth_client_id"),
            oauth_client_secret: section.take("oauth_client_secret"),
            oauth_scope: section.take("oauth_scope"),
            content: Content::read(section),
        };
        target.check(section);
        Arc::new(target)
    }

    fn concurrency(&self) -> Option<usize> {
        Some(CONCURRENCY)
    }
}

fn sensible_size(size: &Size) -> Result<(), String> {
    if (1..=LARGEST.0).contains(&size.0) {
        return Ok(());
    }
    Err(format!("is {size}, but must be from 1KiB to {LARGEST}"))
}

impl KafkaTarget {
    /// Reports credentials that do not fit the mechanism.
    fn check(&self, section: &Section<'_>) {
        let login = [("username", self.username.is_some()), ("password", self.password.is_some())];
        let oauth = [
            ("oauth_token_url", self.oauth_token_url.is_some()),
            ("oauth_client_id", self.oauth_client_id.is_some()),
            ("oauth_client_secret", self.oauth_client_secret.is_some()),
        ];
        let (needed, unused): (&[_], &[_]) = match self.mechanism {
            None => (&[], &[login.as_slice(), oauth.as_slice()].concat()),
            Some(Mechanism::OauthBearer) => (&oauth, &[]),
            Some(Mechanism::Plain | Mechanism::Scram(_)) => (&login, &[]),
        };
        let mechanism = self.mechanism.map(|mechanism| chosen(&MECHANISMS, mechanism));
        let mechanism = mechanism.as_ref().and_then(Value::as_str).unwrap_or_default();
        for (key, _) in needed.iter().filter(|(_, is_set)| !is_set) {
            section.problem(key, format_args!("is missing; sasl_mechanism = {mechanism:?} needs it"));
        }
        for (key, _) in unused.iter().filter(|(_, is_set)| *is_set) {
            let choices = "write PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER";
            section.problem(key, format_args!("is set, but sasl_mechanism is not; {choices}"));
        }
    }

    fn sasl(&self, build: &Build<'_>) -> Result<Option<Sasl>, ConfigError> {
        let Some(mechanism) = self.mechanism else { return Ok(None) };
        let secret = |key, given: &Option<SecretRef>| {
            build.optional_secret(key, given.as_ref()).map(|secret| secret.unwrap_or_else(|| Secret::new("")))
        };
        let username = self.username.clone().unwrap_or_default();
        Ok(Some(match mechanism {
            Mechanism::Plain => Sasl::Plain { username, password: secret("password", &self.password)? },
            Mechanism::Scram(hash) => Sasl::Scram { hash, username, password: secret("password", &self.password)? },
            Mechanism::OauthBearer => Sasl::OauthBearer(OauthClient {
                token_url: self.oauth_token_url.clone().unwrap_or_default(),
                client_id: self.oauth_client_id.clone().unwrap_or_default(),
                client_secret: secret("oauth_client_secret", &self.oauth_client_secret)?,
                scope: self.oauth_scope.clone(),
            }),
        }))
    }

    fn tls(&self, build: &Build<'_>) -> Result<Option<Tls>, ConfigError> {
        let tls = build.tls()?;
        if self.tls {
            return Ok(Some(tls));
        }
        let unused = [("ca_file", tls.authorities.is_some()), ("client_certificate_file", tls.identity.is_some())];
        // The token endpoint may need its own authority, also when the brokers speak without TLS.
        let is_for_tokens = self.oauth_token_url.as_ref().is_some_and(|url| url.starts_with("https"));
        match unused.iter().find(|(_, is_set)| *is_set && !is_for_tokens) {
            Some((key, _)) => Err(build.problem(format_args!("{key} is set, but tls is not; write tls = true"))),
            None => Ok(None),
        }
    }
}

impl Target for KafkaTarget {
    fn shown(&self) -> Vec<Key> {
        let mut keys = vec![
            ("brokers", Value::Array(self.brokers.iter().map(text).collect())),
            ("topic", text(self.topic.as_str())),
            ("key", text(self.key.as_ref().map_or("", Template::as_str))),
            ("compression", chosen(&COMPRESSIONS, self.compression)),
            ("max_message_size", text(self.max_message_size.to_string())),
            ("tls", Value::Boolean(self.tls)),
        ];
        keys.extend(self.mechanism.map(|mechanism| ("sasl_mechanism", chosen(&MECHANISMS, mechanism))));
        keys.extend(self.username.as_ref().map(|name| ("username", text(name))));
        keys.extend(self.password.as_ref().map(|password| ("password", hidden(password))));
        keys.extend(self.oauth_token_url.as_ref().map(|url| ("oauth_token_url", text(redact::without_login(url)))));
        keys.extend(self.oauth_client_id.as_ref().map(|id| ("oauth_client_id", text(id))));
        keys.extend(self.oauth_client_secret.as_ref().map(|secret| ("oauth_client_secret", hidden(secret))));
        keys.extend(self.oauth_scope.as_ref().map(|scope| ("oauth_scope", text(scope))));
        keys.extend(self.content.shown());
        keys
    }

    fn address(&self) -> Option<String> {
        Some(self.brokers.join(",")).filter(|brokers| !brokers.is_empty())
    }

    fn sink(&self, build: &Build<'_>) -> Result<Arc<dyn Sink>, ConfigError> {
        let settings = KafkaSettings {
            brokers: self.brokers.clone(),
            topic: self.topic.clone(),
            key: self.key.clone(),
            compression: self.compression,
            max_message_size: self.max_message_size.0,
            sasl: self.sasl(build)?,
            tls: self.tls(build)?,
            content: self.content.clone(),
            timeout: build.timeout(),
        };
        Ok(Arc::new(KafkaSink::new(settings).map_err(|error| build.problem(error))?))
    }
}
