//! The keys of a destination of kind "nats".

use std::sync::Arc;

use pillarbox::Sink;
use toml::Value;

use super::settings::{NatsSettings, shown_servers};
use super::{NatsSink, subject};
use crate::Secret;
use crate::config::shown::{Key, hidden, text};
use crate::config::{ConfigError, SecretRef, Section};
use crate::content::Content;
use crate::registry::{Build, Kind, Target};
use crate::template::Template;

/// The kind's name in the configuration.
pub const KIND: &str = "nats";
/// The number of sends at once. Each takes a whole batch, so two are enough.
const CONCURRENCY: usize = 2;

/// `kind = "nats"`
#[derive(Debug, Clone, Copy)]
pub struct Nats;

/// A NATS server or cluster, as it was configured. The secrets are looked up when the sink is built.
#[derive(Debug, Clone)]
struct NatsTarget {
    url: Option<SecretRef>,
    subject: Option<Template>,
    stream: Option<String>,
    confirm: bool,
    creds: Option<SecretRef>,
    nkey: Option<SecretRef>,
    token: Option<SecretRef>,
    user: Option<SecretRef>,
    password: Option<SecretRef>,
    content: Content,
}

impl Kind for Nats {
    fn name(&self) -> &'static str {
        KIND
    }

    fn read(&self, section: &mut Section<'_>) -> Arc<dyn Target> {
        let subject: Option<Template> =
            section.require("subject", "write the subject of the messages, like \"orders.{aggregate_id}\"");
        let constant = subject.as_ref().and_then(Template::constant);
        if let Some((constant, problem)) = constant.and_then(|text| Some((text, subject::problem(text)?))) {
            section.problem("subject", format_args!("is {constant:?}, which cannot be published to: {problem}"));
        }
        Arc::new(NatsTarget {
            url: section.require("url", "write the servers, like \"nats://one:4222,nats://two:4222\""),
            subject,
            stream: section.take("stream"),
            confirm: section.take("confirm").unwrap_or(true),
            creds: section.take("creds"),
            nkey: section.take("nkey"),
            token: section.take("token"),
            user: section.take("user"),
            password: section.take("password"),
            content: Content::read(section),
        })
    }

    fn concurrency(&self) -> Option<usize> {
        Some(CONCURRENCY)
    }
}

impl Target for NatsTarget {
    fn shown(&self) -> Vec<Key> {
        let mut keys = Vec::new();
        keys.extend(self.address().map(|url| ("url", text(url))));
        keys.extend(self.subject.as_ref().map(|subject| ("subject", text(subject.as_str()))));
        keys.extend(self.stream.as_ref().map(|stream| ("stream", text(stream))));
        keys.push(("confirm", Value::Boolean(self.confirm)));
        let secrets = [
            ("creds", &self.creds),
            ("nkey", &self.nkey),
            ("token", &self.token),
            ("user", &self.user),
            ("password", &self.password),
        ];
        keys.extend(
            secrets.into_iter().filter_map(|(key, secret)| secret.as_ref().map(|secret| (key, hidden(secret)))),
        );
        keys.extend(self.content.shown());
        keys
    }

    fn address(&self) -> Option<String> {
        self.url.as_ref().map(|url| url.shown_url(shown_servers))
    }

    fn sink(&self, build: &Build<'_>) -> Result<Arc<dyn Sink>, ConfigError> {
        let url = build.optional_secret("url", self.url.as_ref())?;
        let secret = |key, given: &Option<SecretRef>| build.optional_secret(key, given.as_ref());
        let settings = NatsSettings {
            stream: self.stream.clone(),
            confirm: self.confirm,
            creds: secret("creds", &self.creds)?,
            nkey: secret("nkey", &self.nkey)?,
            token: secret("token", &self.token)?,
            user: secret("user", &self.user)?,
            password: secret("password", &self.password)?,
            content: self.content.clone(),
            timeout: build.timeout(),
            tls: build.tls()?,
            ..NatsSettings::new(
                url.unwrap_or_else(|| Secret::new("")),
                self.subject.clone().unwrap_or_else(|| Template::fixed("")),
            )
        };
        Ok(Arc::new(NatsSink::new(settings).map_err(|error| build.problem(error))?))
    }
}
