//! The keys of a destination of kind "celery": a broker, and the routes of its tasks.

use std::sync::Arc;

use pillarbox::{Pattern, Sink};
use toml::Value;

use super::settings::{CeleryQueue, CeleryRoute, CelerySettings, QueueType};
use crate::Secret;
use crate::celery::CelerySink;
use crate::config::shown::{Key, chosen, hidden, number, table, text};
use crate::config::{ConfigError, Json, SecretRef, Section};
use crate::redact;
use crate::registry::{Build, Implied, Kind, Target};

/// The kind's name in the configuration.
pub const KIND: &str = "celery";
/// The variable with the broker's URL, for a relay without a configuration.
pub const BROKER_VARIABLE: &str = "PILLARBOX_BROKER_URL";

const QUEUE_TYPES: [(&str, QueueType); 2] = [("classic", QueueType::Classic), ("quorum", QueueType::Quorum)];
/// The number of sends at once. Each takes a whole batch, so two are enough.
const CONCURRENCY: usize = 2;

/// `kind = "celery"`
#[derive(Debug, Clone, Copy)]
pub struct Celery;

/// A Celery broker, as it was configured. The secrets are looked up when the sink is built.
#[derive(Debug, Clone)]
pub struct CeleryTarget {
    /// The broker's URL.
    pub broker: Option<SecretRef>,
    /// The password of the sentinels.
    pub sentinel_password: Option<SecretRef>,
    /// Every other key.
    pub settings: CelerySettings,
}

impl Kind for Celery {
    fn name(&self) -> &'static str {
        KIND
    }

    fn read(&self, section: &mut Section<'_>) -> Arc<dyn Target> {
        let default = CelerySettings::new("");
        let settings = CelerySettings {
            default_queue: section.take("default_queue").unwrap_or(default.default_queue),
            default_exchange: section.take("default_exchange"),
            default_exchange_type: section.take("default_exchange_type").unwrap_or(default.default_exchange_type),
            default_routing_key: section.take("default_routing_key"),
            queue_type: section.choose("queue_type", &QUEUE_TYPES).unwrap_or(default.queue_type),
            queues: section.section("queues").named_sections().into_iter().map(read_queue).collect(),
            routes: section.sections("routes").into_iter().map(read_route).collect(),
            declare: section.take("declare").unwrap_or(default.declare),
            task: section.take("task"),
            key_prefix: section.take("key_prefix").unwrap_or(default.key_prefix),
            priority_steps: section.take("priority_steps").unwrap_or(default.priority_steps),
            separator: section.take("separator").unwrap_or(default.separator),
            master_name: section.take("master_name"),
            ..CelerySettings::new("")
        };
        let advice = format_args!(
            "write the broker's URL, like \"amqp://user:password@host:5672//\", or \"env:{BROKER_VARIABLE}\""
        );
        let broker = section.require("broker", advice);
        Arc::new(CeleryTarget { broker, sentinel_password: section.take("sentinel_password"), settings })
    }

    fn concurrency(&self) -> Option<usize> {
        Some(CONCURRENCY)
    }

    fn flags(&self) -> Option<&'static str> {
        Some("PILLARBOX_CELERY")
    }

    fn implied(&self) -> Option<Implied> {
        Some(Implied { variable: BROKER_VARIABLE, key: "broker" })
    }
}

fn read_queue((name, mut section): (String, Section<'_>)) -> (String, CeleryQueue) {
    let default = CeleryQueue::default();
    let queue = CeleryQueue {
        exchange: section.take("exchange"),
        exchange_type: section.take("exchange_type").unwrap_or(default.exchange_type),
        routing_key: section.take("routing_key"),
        arguments: section.take("arguments").map(|Json(table)| table).unwrap_or_default(),
        durable: section.take("durable").unwrap_or(default.durable),
    };
    section.finish();
    (name, queue)
}

fn read_route(mut section: Section<'_>) -> CeleryRoute {
    let tasks: Option<String> = section.require("tasks", r#"write a pattern for task names, like "orders.*""#);
    let route = CeleryRoute {
        tasks: Pattern::new(tasks.unwrap_or_default()),
        queue: section.take("queue"),
        exchange: section.take("exchange"),
        routing_key: section.take("routing_key"),
        priority: section.take("priority"),
    };
    section.finish();
    route
}

impl Target for CeleryTarget {
    fn shown(&self) -> Vec<Key> {
        let settings = &self.settings;
        let mut keys = Vec::new();
        keys.extend(self.broker.as_ref().map(|broker| ("broker", text(broker.shown_url(redact::without_login)))));
        keys.push(("default_queue", text(&settings.default_queue)));
        keys.extend(settings.default_exchange.as_ref().map(|name| ("default_exchange", text(name))));
        keys.push(("default_exchange_type", text(&settings.default_exchange_type)));
        keys.extend(settings.default_routing_key.as_ref().map(|name| ("default_routing_key", text(name))));
        keys.push(("queue_type", chosen(&QUEUE_TYPES, settings.queue_type)));
        keys.push(("declare", Value::Boolean(settings.declare)));
        keys.extend(settings.task.as_ref().map(|task| ("task", text(task))));
        keys.push(("key_prefix", text(&settings.key_prefix)));
        keys.push(("priority_steps", Value::Array(settings.priority_steps.iter().map(|step| number(*step)).collect())));
        keys.push(("separator", text(&settings.separator)));
        keys.extend(settings.master_name.as_ref().map(|name| ("master_name", text(name))));
        keys.extend(self.sentinel_password.as_ref().map(|password| ("sentinel_password", hidden(password))));
        keys.push(("queues", table(settings.queues.iter().map(|(name, queue)| (name.as_str(), shown_queue(queue))))));
        keys.push(("routes", Value::Array(settings.routes.iter().map(shown_route).collect())));
        keys
    }

    fn address(&self) -> Option<String> {
        self.broker.as_ref().map(|broker| broker.shown_url(redact::origin))
    }

    fn untestable(&self) -> Option<&'static str> {
        Some(
            "is a Celery broker: it takes tasks, and a worker would run the test as one; `pillarbox doctor` checks that the broker \
             can be reached, and a harmless task of the application checks the workers",
        )
    }

    fn sink(&self, build: &Build<'_>) -> Result<Arc<dyn Sink>, ConfigError> {
        let broker = build.optional_secret("broker", self.broker.as_ref())?;
        let settings = CelerySettings {
            broker: broker.unwrap_or_else(|| Secret::new("")),
            sentinel_password: build.optional_secret("sentinel_password", self.sentinel_password.as_ref())?,
            timeout: build.timeout(),
            tls: build.tls()?,
            ..self.settings.clone()
        };
        Ok(Arc::new(CelerySink::new(settings).map_err(|error| build.problem(error))?))
    }
}

fn shown_queue(queue: &CeleryQueue) -> Value {
    let mut keys = vec![("exchange_type", text(&queue.exchange_type)), ("durable", Value::Boolean(queue.durable))];
    keys.extend(queue.exchange.as_ref().map(|name| ("exchange", text(name))));
    keys.extend(queue.routing_key.as_ref().map(|name| ("routing_key", text(name))));
    keys.extend(Value::try_from(&queue.arguments).ok().map(|arguments| ("arguments", arguments)));
    table(keys)
}

fn shown_route(route: &CeleryRoute) -> Value {
    let mut keys = vec![("tasks", text(route.tasks.as_str()))];
    keys.extend(route.queue.as_ref().map(|name| ("queue", text(name))));
    keys.extend(route.exchange.as_ref().map(|name| ("exchange", text(name))));
    keys.extend(route.routing_key.as_ref().map(|name| ("routing_key", text(name))));
    keys.extend(route.priority.map(|priority| ("priority", number(priority))));
    table(keys)
}
