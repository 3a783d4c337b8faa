//! `[destinations.NAME]`: what events are delivered to. Lowered when the configuration is read; their secrets are looked
//! up, and their sinks made, only by the commands that send.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pillarbox::sink::Discard;
use pillarbox::{Destination, RelaySettings, Sink};
use pillarbox_sinks::Secret;
use pillarbox_sinks::http::{HttpMode, HttpSettings, HttpSink};

use super::environment::Environment;
use super::report::ConfigError;
use super::secret::SecretRef;
use super::section::Section;
use super::value::{positive, some_time};

pub(super) const KINDS: [(&str, Kind); 2] = [("http", Kind::Http), ("discard", Kind::Discard)];
pub(super) const FORMATS: [(&str, Format); 2] = [("payload", Format::Payload), ("cloudevents", Format::CloudEvents)];

/// What events are parked on when no route matches them, so that no destination may be called so.
const UNROUTED: &str = "unrouted";
const NAME_LIMIT: usize = 255;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Http,
    /// Succeeds at once. The keys of the other kinds may stay, so that a dry run is one changed word.
    Discard,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Payload,
    CloudEvents,
}

/// A destination, as it was written.
#[derive(Debug, Clone)]
pub(crate) struct DestinationSettings {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) url: Option<SecretRef>,
    pub(crate) secrets: Vec<SecretRef>,
    pub(crate) bearer: Option<SecretRef>,
    pub(crate) headers: BTreeMap<String, SecretRef>,
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) allow_private: bool,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) format: Format,
    pub(crate) concurrency: usize,
    /// Events per second; `None` is no limit.
    pub(crate) rate: Option<f64>,
    pub(crate) paused: bool,
}

pub(super) fn lower(mut section: Section<'_>, relay: &RelaySettings) -> Vec<DestinationSettings> {
    let named = section.named_sections();
    named.into_iter().map(|(name, keys)| lower_one(name, keys, relay)).collect()
}

fn lower_one(name: String, mut section: Section<'_>, relay: &RelaySettings) -> DestinationSettings {
    check_name(&name, &section);
    let written = section.has("kind");
    let kind = section.choose("kind", &KINDS);
    if !written {
        section.problem("kind", r#"is missing; write "http", or "discard" for a dry run"#);
    }
    let default = HttpSettings::new("");
    let timeout = section.take_checked("timeout", some_time).unwrap_or(default.timeout);
    if timeout >= relay.lease {
        section.problem("timeout", outlives(timeout, relay.lease));
    }
    let rate = section.take_checked("rate", |rate: &f64| {
        let sensible = rate.is_finite() && *rate > 0.0;
        let refusal = || format!("is {rate}, but must be events per second, more than 0; leave it out for no limit");
        sensible.then_some(()).ok_or_else(refusal)
    });
    let destination = DestinationSettings {
        name,
        kind: kind.unwrap_or(Kind::Discard),
        url: section.take("url"),
        secrets: section.take("secrets").unwrap_or_default(),
        bearer: section.take("bearer"),
        headers: section.take("headers").unwrap_or_default(),
        timeout,
        connect_timeout: section.take_checked("connect_timeout", some_time),
        allow_private: section.take("allow_private").unwrap_or(default.allow_private),
        ca_file: section.take("ca_file").map(|path: String| PathBuf::from(path)),
        format: section.choose("format", &FORMATS).unwrap_or(Format::Payload),
        concurrency: section.take_checked("concurrency", positive).unwrap_or(relay.concurrency),
        rate,
        paused: section.take("paused").unwrap_or(false),
    };
    if kind == Some(Kind::Http) && destination.url.is_none() {
        section.problem("url", "is missing; write where to POST to, like \"https://receiver.example/events\"");
    }
    section.finish();
    destination
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
    /// Looks up the secrets and makes what the relay sends to.
    pub(crate) fn build(&self, environment: &Environment) -> Result<Destination, ConfigError> {
        Ok(Destination::shared(self.name.clone(), self.sink(environment)?)
            .timeout(self.timeout)
            .concurrency(self.concurrency)
            .rate(self.rate)
            .paused(self.paused))
    }

    fn sink(&self, environment: &Environment) -> Result<Arc<dyn Sink>, ConfigError> {
        match self.kind {
            Kind::Discard => Ok(Arc::new(Discard)),
            Kind::Http => {
                let settings = self.http(environment)?;
                let sink = HttpSink::new(settings).map_err(|error| self.problem(&error.to_string()))?;
                Ok(Arc::new(sink))
            }
        }
    }

    fn http(&self, environment: &Environment) -> Result<HttpSettings, ConfigError> {
        let secret = |key: &str, given: &SecretRef| {
            given.resolve(environment).map_err(|what| self.problem(&format!("{key} {what}")))
        };
        let url = self.url.as_ref().map(|url| secret("url", url)).transpose()?;
        let mut secrets = Vec::with_capacity(self.secrets.len());
        for (position, given) in self.secrets.iter().enumerate() {
            secrets.push(secret(&format!("secrets[{position}]"), given)?);
        }
        let mut headers: BTreeMap<String, Secret> = BTreeMap::new();
        for (name, given) in &self.headers {
            headers.insert(name.clone(), secret(&format!("headers.{name}"), given)?);
        }
        let ca_file = self.ca_file.as_ref().map(|path| {
            std::fs::read(path)
                .map_err(|error| self.problem(&format!("ca_file is {}, which cannot be read: {error}", path.display())))
        });
        Ok(HttpSettings {
            secrets,
            headers,
            bearer: self.bearer.as_ref().map(|bearer| secret("bearer", bearer)).transpose()?,
            mode: match self.format {
                Format::Payload => HttpMode::Payload,
                Format::CloudEvents => HttpMode::cloud_events(),
            },
            timeout: self.timeout,
            connect_timeout: self.connect_timeout,
            allow_private: self.allow_private,
            ca_file: ca_file.transpose()?,
            ..HttpSettings::new(url.as_ref().map_or("", Secret::expose))
        })
    }

    fn problem(&self, what: &str) -> ConfigError {
        ConfigError::new(format!("destinations.{}.{what}", self.name))
    }
}
