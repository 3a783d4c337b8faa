//! The keys of a destination of kind "amqp".

use std::sync::Arc;

use pillarbox::Sink;
use toml::Value;

use super::settings::{AmqpDeclare, AmqpSettings, QueueType};
use crate::Secret;
use crate::Template;
use crate::amqp::AmqpSink;
use crate::config::shown::{Key, chosen, table, text};
use crate::config::{ConfigError, SecretRef, Section};
use crate::content::Content;
use crate::redact;
use crate::registry::{Build, Kind, Target};

/// The kind's name in the configuration.
pub const KIND: &str = "amqp";

const QUEUE_TYPES: [(&str, QueueType); 2] = [("classic", QueueType::Classic), ("quorum", QueueType::Quorum)];
/// The number of sends at once. Each takes a whole batch, so two are enough.
const CONCURRENCY: usize = 2;

/// `kind = "amqp"`
#[derive(Debug, Clone, Copy)]
pub struct Amqp;

/// A broker, as it was configured. The URL is looked up when the sink is built.
#[derive(Debug, Clone)]
struct AmqpTarget {
    url: Option<SecretRef>,
    settings: AmqpSettings,
}

impl Kind for Amqp {
    fn name(&self) -> &'static str {
        KIND
    }

    fn read(&self, section: &mut Section<'_>) -> Arc<dyn Target> {
        let advice = "write the broker's URL, like \"amqp://user:password@host:5672/vhost\", or \"env:AMQP_URL\"";
        let url = section.require("url", advice);
        let exchange: Option<Template> = section.take("exchange");
        let advice = "write the routing key, like \"{event_type}\", or the name of a queue";
        let routing_key: Option<Template> = section.require("routing_key", advice);
        let has_declare = section.has("declare");
        let declare = read_declare(section.section("declare"));
        let default = AmqpSettings::new("", routing_key.unwrap_or_else(|| Template::fixed("")));
        let settings = AmqpSettings {
            exchange: exchange.unwrap_or_else(|| default.exchange.clone()),
            mandatory: section.take("mandatory").unwrap_or(default.mandatory),
            persistent: section.take("persistent").unwrap_or(default.persistent),
            declare: has_declare.then_some(declare),
            content: Content::read(section),
            ..default
        };
        Arc::new(AmqpTarget { url, settings })
    }

    fn concurrency(&self) -> Option<usize> {
        Some(CONCURRENCY)
    }
}

fn read_declare(mut section: Section<'_>) -> AmqpDeclare {
    let declare = AmqpDeclare {
        exchange_type: section.take("exchange_type"),
        queue: section.take("queue"),
        binding: section.take("binding"),
        queue_type: section.choose("queue_type", &QUEUE_TYPES).unwrap_or_default(),
    };
    if declare.queue.is_none() && declare.binding.is_some() {
        section.problem("binding", "is set, but there is no queue to bind; set queue");
    }
    section.finish();
    declare
}

impl Target for AmqpTarget {
    fn shown(&self) -> Vec<Key> {
        let settings = &self.settings;
        let mut keys = Vec::new();
        keys.extend(self.url.as_ref().map(|url| ("url", text(url.shown_url(redact::without_login)))));
        keys.push(("exchange", text(settings.exchange.as_str())));
        keys.push(("routing_key", text(settings.routing_key.as_str())));
        keys.push(("mandatory", Value::Boolean(settings.mandatory)));
        keys.push(("persistent", Value::Boolean(settings.persistent)));
        keys.extend(settings.declare.as_ref().map(|declare| ("declare", shown_declare(declare))));
        keys.extend(settings.content.shown());
        keys
    }

    fn address(&self) -> Option<String> {
        self.url.as_ref().map(|url| url.shown_url(redact::origin))
    }

    fn sink(&self, build: &Build<'_>) -> Result<Arc<dyn Sink>, ConfigError> {
        let url = build.optional_secret("url", self.url.as_ref())?;
        let settings = AmqpSettings {
            url: url.unwrap_or_else(|| Secret::new("")),
            timeout: build.timeout(),
            tls: build.tls()?,
            ..self.settings.clone()
        };
        Ok(Arc::new(AmqpSink::new(settings).map_err(|error| build.problem(error))?))
    }
}

fn shown_declare(declare: &AmqpDeclare) -> Value {
    let mut keys = Vec::new();
    keys.extend(declare.exchange_type.as_ref().map(|kind| ("exchange_type", text(kind))));
    keys.extend(declare.queue.as_ref().map(|queue| ("queue", text(queue.as_str()))));
    keys.extend(declare.binding.as_ref().map(|binding| ("binding", text(binding.as_str()))));
    keys.push(("queue_type", chosen(&QUEUE_TYPES, declare.queue_type)));
    table(keys)
}
