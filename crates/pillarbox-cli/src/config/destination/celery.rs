//! The keys of a destination of kind "celery": a broker, and where on it tasks go.

use pillarbox::Pattern;
use pillarbox_sinks::celery::{CeleryQueue, CeleryRoute, CelerySettings, QueueType};

use super::super::secret::SecretRef;
use super::super::section::Section;
use super::super::value::Json;

pub(in crate::config) const QUEUE_TYPES: [(&str, QueueType); 2] =
    [("classic", QueueType::Classic), ("quorum", QueueType::Quorum)];
/// Sends at once: each takes a whole batch, so that a few are plenty.
pub(super) const CONCURRENCY: usize = 2;

/// As it was written; the secrets are looked up when something is to be sent.
#[derive(Debug, Clone)]
pub(crate) struct CeleryKeys {
    pub(crate) broker: Option<SecretRef>,
    pub(crate) sentinel_password: Option<SecretRef>,
    /// Everything else.
    pub(crate) settings: CelerySettings,
}

pub(super) fn lower(section: &mut Section<'_>) -> CeleryKeys {
    let default = CelerySettings::new("");
    let settings = CelerySettings {
        default_queue: section.take("default_queue").unwrap_or(default.default_queue),
        default_exchange: section.take("default_exchange"),
        default_exchange_type: section.take("default_exchange_type").unwrap_or(default.default_exchange_type),
        default_routing_key: section.take("default_routing_key"),
        queue_type: section.choose("queue_type", &QUEUE_TYPES).unwrap_or(default.queue_type),
        queues: section.section("queues").named_sections().into_iter().map(lower_queue).collect(),
        routes: section.sections("routes").into_iter().map(lower_route).collect(),
        declare: section.take("declare").unwrap_or(default.declare),
        task: section.take("task"),
        key_prefix: section.take("key_prefix").unwrap_or(default.key_prefix),
        priority_steps: section.take("priority_steps").unwrap_or(default.priority_steps),
        separator: section.take("separator").unwrap_or(default.separator),
        master_name: section.take("master_name"),
        ..CelerySettings::new("")
    };
    CeleryKeys { broker: section.take("broker"), sentinel_password: section.take("sentinel_password"), settings }
}

fn lower_queue((name, mut section): (String, Section<'_>)) -> (String, CeleryQueue) {
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

fn lower_route(mut section: Section<'_>) -> CeleryRoute {
    if !section.has("tasks") {
        section.problem("tasks", r#"is missing; write the task names it is for, like "orders.*""#);
    }
    let tasks: Option<String> = section.take("tasks");
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
