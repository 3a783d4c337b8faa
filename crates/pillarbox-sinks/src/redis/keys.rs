//! The keys of a destination of kind "redis": a server, and the streams that events go to.

use std::sync::Arc;

use pillarbox::Sink;
use toml::Value;

use super::{RedisSettings, RedisSink};
use crate::config::shown::{Key, duration, hidden, number, text};
use crate::config::{ConfigError, SecretRef, Section, positive, some_time};
use crate::content::Content;
use crate::registry::{Build, Kind, Target};
use crate::{Secret, Template, redact};

/// The kind's name in the configuration.
pub const KIND: &str = "redis";
/// The number of sends at once. Each takes a whole batch, so two are enough.
const CONCURRENCY: usize = 2;

/// `kind = "redis"`
#[derive(Debug, Clone, Copy)]
pub struct Redis;

/// Redis streams, as they were configured. The secrets are looked up when the sink is built.
#[derive(Debug, Clone)]
struct RedisTarget {
    url: Option<SecretRef>,
    sentinel_password: Option<SecretRef>,
    settings: RedisSettings,
}

impl Kind for Redis {
    fn name(&self) -> &'static str {
        KIND
    }

    fn read(&self, section: &mut Section<'_>) -> Arc<dyn Target> {
        let url = section.require("url", "write the server's URL, like \"redis://user:password@host:6379/0\"");
        let stream = section.require("stream", "write a stream's name, like \"orders\" or \"{aggregate_type}\"");
        let default = RedisSettings::new("", stream.unwrap_or_else(|| Template::fixed("")));
        let settings = RedisSettings {
            cluster: section.take("cluster").unwrap_or(default.cluster),
            master_name: section.take("master_name"),
            create: section.take("create").unwrap_or(default.create),
            max_length: section.take_checked("max_length", positive),
            deduplicate: section.take_checked("deduplicate", some_time),
            replicas: section.take_checked("replicas", positive),
            content: Content::read(section),
            ..default
        };
        Arc::new(RedisTarget { url, sentinel_password: section.take("sentinel_password"), settings })
    }

    fn concurrency(&self) -> Option<usize> {
        Some(CONCURRENCY)
    }
}

/// Shows one URL with its database, and of several the hosts.
fn shown_url(url: &str) -> String {
    if url.contains(';') { redact::origins(url) } else { redact::without_login(url) }
}

impl Target for RedisTarget {
    fn shown(&self) -> Vec<Key> {
        let settings = &self.settings;
        let mut keys = Vec::new();
        keys.extend(self.url.as_ref().map(|url| ("url", text(url.shown_url(shown_url)))));
        keys.push(("cluster", Value::Boolean(settings.cluster)));
        keys.extend(settings.master_name.as_ref().map(|name| ("master_name", text(name))));
        keys.extend(self.sentinel_password.as_ref().map(|password| ("sentinel_password", hidden(password))));
        keys.push(("stream", text(settings.stream.as_str())));
        keys.push(("create", Value::Boolean(settings.create)));
        keys.extend(settings.max_length.map(|length| ("max_length", number(length))));
        keys.extend(settings.deduplicate.map(|window| ("deduplicate", duration(window))));
        keys.extend(settings.replicas.map(|replicas| ("replicas", number(replicas))));
        keys.extend(settings.content.shown());
        keys
    }

    fn address(&self) -> Option<String> {
        self.url.as_ref().map(|url| url.shown_url(redact::origins))
    }

    fn sink(&self, build: &Build<'_>) -> Result<Arc<dyn Sink>, ConfigError> {
        let url = build.optional_secret("url", self.url.as_ref())?;
        let settings = RedisSettings {
            url: url.unwrap_or_else(|| Secret::new("")),
            sentinel_password: build.optional_secret("sentinel_password", self.sentinel_password.as_ref())?,
            timeout: build.timeout(),
            tls: build.tls()?,
            ..self.settings.clone()
        };
        Ok(Arc::new(RedisSink::new(settings).map_err(|error| build.problem(error))?))
    }
}
