//! `[destinations.NAME]`: what events are delivered to. Lowered when the configuration is read; their secrets are looked
//! up, and their sinks made, only by the commands that send.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pillarbox::sink::Discard;
use pillarbox::{Destination, RelaySettings, Sink};
use pillarbox_sinks::Secret;
use pillarbox_sinks::celery::{CelerySettings, CelerySink};
use pillarbox_sinks::http::{HttpMode, HttpSettings, HttpSink};

pub(super) use self::celery::{CeleryKeys, QUEUE_TYPES};
pub(super) use self::http::{FORMATS, Format, HttpKeys};
use super::environment::Environment;
use super::report::{ConfigError, Report};
use super::secret::SecretRef;
use super::section::Section;
use super::value::{positive, some_time};
use crate::mask::{Discreet, Mask};

mod celery;
mod http;

pub(super) const KINDS: [(&str, Kind); 3] =
    [("http", Kind::Http), ("celery", Kind::Celery), ("discard", Kind::Discard)];

/// The broker's URL for those who run without a configuration.
pub(super) const BROKER_VARIABLE: &str = "PILLARBOX_BROKER_URL";
/// What the destination is called that it makes.
const IMPLICIT_NAME: &str = "celery";
/// What events are parked on when no route matches them, so that no destination may be called so.
const UNROUTED: &str = "unrouted";
const NAME_LIMIT: usize = 255;
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Http,
    Celery,
    /// Succeeds at once. The keys of the other kinds may stay, so that a dry run is one changed word.
    Discard,
}

impl Kind {
    /// As it is written.
    pub(crate) fn name(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("?", |(name, _)| name)
    }
}

/// A destination, as it was written.
#[derive(Debug, Clone)]
pub(crate) struct DestinationSettings {
    pub(crate) name: String,
    pub(crate) to: Target,
    pub(crate) timeout: Duration,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) concurrency: usize,
    /// Events per second; `None` is no limit.
    pub(crate) rate: Option<f64>,
    pub(crate) paused: bool,
}

/// What it sends to, by its kind.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    Http(HttpKeys),
    Celery(Box<CeleryKeys>),
    Discard,
}

/// What all destinations share.
pub(super) struct Shared<'a> {
    pub(super) relay: &'a RelaySettings,
    pub(super) environment: &'a Environment,
}

pub(super) fn lower<'a>(mut section: Section<'a>, shared: &Shared<'a>, report: &'a Report) -> Vec<DestinationSettings> {
    let mut named = section.named_sections();
    if named.is_empty() && shared.environment.get(BROKER_VARIABLE).is_some() {
        let broker = toml::Value::String(format!("env:{BROKER_VARIABLE}"));
        let kind = toml::Value::String("celery".to_owned());
        let table = toml::Table::from_iter([("kind".to_owned(), kind), ("broker".to_owned(), broker)]);
        named.push((IMPLICIT_NAME.to_owned(), Section::new(section.at(IMPLICIT_NAME), table, report)));
    }
    named.into_iter().map(|(name, keys)| lower_one(name, keys, shared)).collect()
}

fn lower_one<'a>(name: String, mut section: Section<'a>, shared: &Shared<'a>) -> DestinationSettings {
    check_name(&name, &section);
    let written = section.has("kind");
    let kind = section.choose("kind", &KINDS);
    if !written {
        section.problem("kind", r#"is missing; write "http" or "celery", or "discard" for a dry run"#);
    }
    if kind == Some(Kind::Celery) {
        section.obey_flags("PILLARBOX_CELERY", shared.environment);
    }
    let to = lower_target(&mut section, kind);
    let timeout = section.take_checked("timeout", some_time).unwrap_or(TIMEOUT);
    if timeout >= shared.relay.lease {
        section.problem("timeout", outlives(timeout, shared.relay.lease));
    }
    let rate = section.take_checked("rate", |rate: &f64| {
        let sensible = rate.is_finite() && *rate > 0.0;
        let refusal = || format!("is {rate}, but must be events per second, more than 0; leave it out for no limit");
        sensible.then_some(()).ok_or_else(refusal)
    });
    let usual = if kind == Some(Kind::Celery) { celery::CONCURRENCY } else { shared.relay.concurrency };
    let destination = DestinationSettings {
        name,
        to,
        timeout,
        ca_file: section.take("ca_file").map(|path: String| PathBuf::from(path)),
        concurrency: section.take_checked("concurrency", positive).unwrap_or(usual),
        rate,
        paused: section.take("paused").unwrap_or(false),
    };
    section.finish();
    destination
}

/// A destination that discards takes the keys of all kinds, and a mistaken kind is no reason to complain of its keys.
fn lower_target(section: &mut Section<'_>, kind: Option<Kind>) -> Target {
    let http = (kind != Some(Kind::Celery)).then(|| http::lower(section));
    let celery = (kind != Some(Kind::Http)).then(|| celery::lower(section));
    match (kind, http, celery) {
        (Some(Kind::Http), Some(keys), _) => {
            if keys.url.is_none() {
                section.problem("url", "is missing; write where to POST to, like \"https://receiver.example/events\"");
            }
            Target::Http(keys)
        }
        (Some(Kind::Celery), _, Some(keys)) => {
            if keys.broker.is_none() {
                let what = format!(
                    "is missing; write where the broker is, like \"amqp://user:password@host:5672//\", or \"env:{BROKER_VARIABLE}\""
                );
                section.problem("broker", what);
            }
            Target::Celery(Box::new(keys))
        }
        _ => Target::Discard,
    }
}

fn check_name(name: &str, section: &Section<'_>) {
    if name == UNROUTED {
        section.problem_here("has a name with a meaning of its own; choose another");
    } else if name.is_empty() || name.chars().count() > NAME_LIMIT {
        section.problem_here(format_args!("must have a name of 1 to {NAME_LIMIT} characters"));
    }
}

fn outlives(timeout: Duration, lease: Duration) -> String {
    let (timeout, lease) = (humantime::format_duration(timeout), humantime::format_duration(lease));
    format!(
        "is {timeout}, but must be less than relay.lease ({lease}), or events could be sent twice; lower it or raise \
         the lease"
    )
}

impl DestinationSettings {
    pub(crate) fn kind(&self) -> Kind {
        match self.to {
            Target::Http(_) => Kind::Http,
            Target::Celery(_) => Kind::Celery,
            Target::Discard => Kind::Discard,
        }
    }

    /// Looks up the secrets and makes what the relay sends to. Its errors do not quote what is masked.
    pub(crate) fn build(&self, environment: &Environment, mask: &Mask) -> Result<Destination, ConfigError> {
        Ok(Destination::shared(self.name.clone(), Discreet::around(self.sink(environment)?, mask))
            .timeout(self.timeout)
            .concurrency(self.concurrency)
            .rate(self.rate)
            .paused(self.paused))
    }

    fn sink(&self, environment: &Environment) -> Result<Arc<dyn Sink>, ConfigError> {
        match &self.to {
            Target::Discard => Ok(Arc::new(Discard)),
            Target::Http(keys) => {
                let settings = self.http(keys, environment)?;
                let sink = HttpSink::new(settings).map_err(|error| self.problem(&error.to_string()))?;
                Ok(Arc::new(sink))
            }
            Target::Celery(keys) => {
                let settings = self.celery(keys, environment)?;
                let sink = CelerySink::new(settings).map_err(|error| self.problem(&error.to_string()))?;
                Ok(Arc::new(sink))
            }
        }
    }

    fn http(&self, keys: &HttpKeys, environment: &Environment) -> Result<HttpSettings, ConfigError> {
        let secret = |key: &str, given: &SecretRef| self.secret(key, given, environment);
        let url = keys.url.as_ref().map(|url| secret("url", url)).transpose()?;
        let mut secrets = Vec::with_capacity(keys.secrets.len());
        for (position, given) in keys.secrets.iter().enumerate() {
            secrets.push(secret(&format!("secrets[{position}]"), given)?);
        }
        let mut headers: BTreeMap<String, Secret> = BTreeMap::new();
        for (name, given) in &keys.headers {
            headers.insert(name.clone(), secret(&format!("headers.{name}"), given)?);
        }
        Ok(HttpSettings {
            secrets,
            headers,
            bearer: keys.bearer.as_ref().map(|bearer| secret("bearer", bearer)).transpose()?,
            mode: match keys.format {
                Format::Payload => HttpMode::Payload,
                Format::CloudEvents => HttpMode::cloud_events(),
            },
            timeout: self.timeout,
            connect_timeout: keys.connect_timeout,
            allow_private: keys.allow_private,
            ca_file: self.authority()?,
            ..HttpSettings::new(url.as_ref().map_or("", Secret::expose))
        })
    }

    fn celery(&self, keys: &CeleryKeys, environment: &Environment) -> Result<CelerySettings, ConfigError> {
        let secret = |key: &str, given: &SecretRef| self.secret(key, given, environment);
        Ok(CelerySettings {
            broker: keys.broker.as_ref().map_or(Ok(Secret::new("")), |broker| secret("broker", broker))?,
            sentinel_password: keys
                .sentinel_password
                .as_ref()
                .map(|password| secret("sentinel_password", password))
                .transpose()?,
            timeout: self.timeout,
            ca_file: self.authority()?,
            ..keys.settings.clone()
        })
    }

    fn secret(&self, key: &str, given: &SecretRef, environment: &Environment) -> Result<Secret, ConfigError> {
        given.resolve(environment).map_err(|what| self.problem(&format!("{key} {what}")))
    }

    /// The certificates of `ca_file`.
    fn authority(&self) -> Result<Option<Vec<u8>>, ConfigError> {
        let read = |path: &PathBuf| {
            std::fs::read(path)
                .map_err(|error| self.problem(&format!("ca_file is {}, which cannot be read: {error}", path.display())))
        };
        self.ca_file.as_ref().map(read).transpose()
    }

    fn problem(&self, what: &str) -> ConfigError {
        ConfigError::new(format!("destinations.{}.{what}", self.name))
    }
}
