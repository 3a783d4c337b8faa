//! Chooses the target of a message as Celery does: the producer's choice, else the first route that matches, else the
//! default queue. Pure.

use std::borrow::Cow;
use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use pillarbox::celery::{Declaration, Recorded};

use super::message::Outgoing;
use super::moment;
use super::settings::{CeleryRoute, CelerySettings, DIRECT, QueueType};

/// The first exchange of native delayed delivery.
pub(super) const DELAY_EXCHANGE: &str = "celery_delayed_27";
const QUEUE_TYPE: &str = "x-queue-type";
const QUORUM: &str = "quorum";

/// The queues and routes of a destination.
pub(super) struct Routing {
    queues: BTreeMap<String, Declaration>,
    default_queue: String,
    queue_type: QueueType,
    routes: Vec<CeleryRoute>,
    /// Whether native delayed delivery is used. Celery uses it as soon as one of its queues is a quorum queue.
    delays: bool,
}

/// The target of one message.
#[derive(Debug, PartialEq)]
pub(super) struct Target<'a> {
    pub(super) exchange: Cow<'a, str>,
    pub(super) routing_key: Cow<'a, str>,
    /// The queue, if it is known.
    pub(super) queue: Option<Cow<'a, str>>,
    /// The type of the exchange, if it is known.
    pub(super) exchange_type: Option<&'a str>,
    /// The route's priority, for messages without their own.
    pub(super) priority: Option<u8>,
    /// Native delayed delivery: the seconds for which the broker holds the message back.
    pub(super) delay: Option<u32>,
}

impl Target<'_> {
    /// Returns the exchange and the routing key to publish with.
    pub(super) fn address(&self) -> (&str, Cow<'_, str>) {
        match self.delay {
            Some(seconds) => (DELAY_EXCHANGE, moment::delayed_key(seconds, &self.routing_key).into()),
            None => (&self.exchange, Cow::Borrowed(&self.routing_key)),
        }
    }

    /// Returns the target for people.
    pub(super) fn shown(&self) -> String {
        match &self.queue {
            Some(queue) => format!("the queue {queue:?}"),
            None if self.exchange.is_empty() => format!("the queue {:?}", self.routing_key),
            None => format!("a queue for {:?} of the exchange {:?}", self.routing_key, self.exchange),
        }
    }
}

impl Routing {
    pub(super) fn new(settings: &CelerySettings) -> Self {
        let name = &settings.default_queue;
        let mut queues: BTreeMap<_, _> = settings
            .queues
            .iter()
            .map(|(name, queue)| {
                let declaration = Declaration {
                    queue: name.clone(),
                    durable: queue.durable,
                    arguments: queue.arguments.clone(),
                    exchange: queue.exchange.clone().unwrap_or_else(|| name.clone()),
                    exchange_type: queue.exchange_type.clone(),
                    routing_key: queue.routing_key.clone().unwrap_or_else(|| name.clone()),
                };
                (name.clone(), declaration)
            })
            .collect();
        queues.entry(name.clone()).or_insert_with(|| {
            let mut declaration = usual(name, settings.queue_type);
            declaration.exchange_type.clone_from(&settings.default_exchange_type);
            if let Some(exchange) = &settings.default_exchange {
                declaration.exchange.clone_from(exchange);
            }
            if let Some(routing_key) = &settings.default_routing_key {
                declaration.routing_key.clone_from(routing_key);
            }
            declaration
        });
        let delays = queues.values().any(is_quorum);
        Self {
            queues,
            default_queue: name.clone(),
            queue_type: settings.queue_type,
            routes: settings.routes.clone(),
            delays,
        }
    }

    /// Returns the target of a message. `delays`: whether the broker has native delayed delivery.
    pub(super) fn resolve<'a>(&'a self, message: &'a Outgoing<'_>, now: DateTime<Utc>, delays: bool) -> Target<'a> {
        let recorded = &message.recorded;
        let mut target = self.target(message.route_name(), recorded);
        let is_routed = |kind| kind != DIRECT;
        let asked = recorded.delayed || (self.delays && target.exchange_type.is_some_and(is_routed));
        if delays && asked && !target.routing_key.is_empty() {
            target.delay = moment::delay(&recorded.headers, now);
        }
        target
    }

    fn target<'a>(&'a self, name: &str, recorded: &'a Recorded<'_>) -> Target<'a> {
        let known = recorded.queue.as_deref().filter(|name| !name.is_empty());
        if let (Some(exchange), Some(routing_key)) = (&recorded.exchange, &recorded.routing_key) {
            let exchange_type = self.type_of(exchange, known, recorded);
            return Target {
                exchange: Cow::Borrowed(exchange),
                routing_key: Cow::Borrowed(routing_key),
                queue: known.map(Cow::Borrowed),
                exchange_type,
                priority: None,
                delay: None,
            };
        }
        let route = self.routes.iter().find(|route| route.tasks.matches(name));
        let exchange = recorded.exchange.as_deref().or(route.and_then(|route| route.exchange.as_deref()));
        let routing_key = recorded.routing_key.as_deref().or(route.and_then(|route| route.routing_key.as_deref()));
        let queue = known.or(route.and_then(|route| route.queue.as_deref())).unwrap_or(&self.default_queue);
        let configured = self.queues.get(queue);
        let exchange_type = configured.map_or(DIRECT, |queue| queue.exchange_type.as_str());
        let given = exchange.filter(|name| !name.is_empty()).zip(routing_key.filter(|key| !key.is_empty()));
        // A direct queue is reached by its name through the default exchange, regardless of its bindings.
        let (exchange, routing_key) = match (given, configured) {
            (Some(given), _) => given,
            (None, Some(configured)) if exchange_type != DIRECT => {
                (exchange.unwrap_or(&configured.exchange), routing_key.unwrap_or(&configured.routing_key))
            }
            (None, _) => ("", queue),
        };
        let is_meant = given.is_none() || known.is_some() || route.is_some_and(|route| route.queue.is_some());
        Target {
            exchange: Cow::Borrowed(exchange),
            routing_key: Cow::Borrowed(routing_key),
            queue: is_meant.then_some(Cow::Borrowed(queue)),
            exchange_type: is_meant.then_some(exchange_type),
            priority: route.and_then(|route| route.priority),
            delay: None,
        }
    }

    /// Returns the type of an exchange that the producer chose: from the recorded declarations, or else from the
    /// configuration.
    fn type_of<'a>(&'a self, exchange: &str, queue: Option<&str>, recorded: &'a Recorded<'_>) -> Option<&'a str> {
        if exchange.is_empty() {
            return Some(DIRECT);
        }
        let told = recorded.declare.iter().find(|declared| declared.exchange == exchange);
        let configured = || queue.and_then(|name| self.queues.get(name)).filter(|queue| queue.exchange == exchange);
        let by_exchange = || self.queues.values().find(|queue| queue.exchange == exchange);
        told.or_else(configured).or_else(by_exchange).map(|queue| queue.exchange_type.as_str())
    }

    /// Returns the declarations that must precede the message.
    pub(super) fn declarations<'a>(
        &'a self,
        recorded: &'a Recorded<'_>,
        target: &Target<'_>,
    ) -> Vec<Cow<'a, Declaration>> {
        if !recorded.declare.is_empty() {
            return recorded.declare.iter().map(Cow::Borrowed).collect();
        }
        let name = match &target.queue {
            Some(queue) => queue.as_ref(),
            None if target.exchange.is_empty() => target.routing_key.as_ref(),
            None => return Vec::new(),
        };
        let declaration = self.queues.get(name).map_or_else(|| Cow::Owned(usual(name, self.queue_type)), Cow::Borrowed);
        vec![declaration]
    }
}

/// The declaration of a queue that is not configured, as Celery creates missing queues.
fn usual(name: &str, queue_type: QueueType) -> Declaration {
    let mut arguments = serde_json::Map::new();
    if queue_type == QueueType::Quorum {
        arguments.insert(QUEUE_TYPE.to_owned(), QUORUM.into());
    }
    Declaration {
        queue: name.to_owned(),
        durable: true,
        arguments,
        exchange: name.to_owned(),
        exchange_type: DIRECT.to_owned(),
        routing_key: name.to_owned(),
    }
}

fn is_quorum(queue: &Declaration) -> bool {
    queue.arguments.get(QUEUE_TYPE).is_some_and(|kind| kind == QUORUM)
}

#[cfg(test)]
mod tests {
    use pillarbox::StoredEvent;
    use serde_json::{Value, json};

    use super::*;
    use crate::celery::settings::CeleryQueue;

    fn routing() -> Routing {
        let topic = CeleryQueue {
            exchange: Some("shop".to_owned()),
            exchange_type: "topic".to_owned(),
            routing_key: Some("shop.all".to_owned()),
            ..CeleryQueue::default()
        };
        let mut delayed = topic.clone();
        delayed.exchange = Some("later".to_owned());
        delayed.arguments.insert(QUEUE_TYPE.to_owned(), QUORUM.into());
        let queues = BTreeMap::from([("topic".to_owned(), topic), ("delayed".to_owned(), delayed)]);
        let mut by_key = CeleryRoute::new("by.key", "topic");
        by_key.routing_key = Some("shop.key".to_owned());
        let exchange = CeleryRoute {
            queue: None,
            exchange: Some("x".to_owned()),
            routing_key: Some("k".to_owned()),
            ..CeleryRoute::new("by.exchange", "")
        };
        let routes = vec![by_key, exchange, CeleryRoute::new("orders.*", "orders"), CeleryRoute::new("o*", "never")];
        Routing::new(&CelerySettings { queues, routes, ..CelerySettings::new("amqp://") })
    }

    /// Returns the exchange and the routing key of a message of this task.
    fn address(task: &str, keys: &Value) -> (String, String) {
        let now = "2026-01-01T12:00:00Z".parse().unwrap();
        let mut payload =
            json!({ "celery": 1, "body": "", "headers": { "task": task, "eta": "2026-01-01T12:00:01Z" } });
        payload.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        let event = StoredEvent::task_for_tests(task, &payload.to_string());
        let message = Outgoing::new(&event, None).unwrap();
        let routing = routing();
        let target = routing.resolve(&message, now, true);
        let (exchange, routing_key) = target.address();
        (exchange.to_owned(), routing_key.into_owned())
    }

    fn goes(task: &str, keys: &Value, exchange: &str, routing_key: &str) {
        assert_eq!(address(task, keys), (exchange.to_owned(), routing_key.to_owned()), "{task} {keys}");
    }

    #[test]
    fn what_the_producer_resolved_wins() {
        goes("orders.new", &json!({ "exchange": "", "routing_key": "mine" }), "", "mine");
        goes("orders.new", &json!({ "exchange": "e", "routing_key": "" }), "e", "");
        goes("orders.new", &json!({ "queue": "mine" }), "", "mine");
        goes("orders.new", &json!({ "queue": "mine", "routing_key": "ignored" }), "", "mine");
    }

    #[test]
    fn else_the_first_route_that_matches() {
        goes("orders.new", &json!({}), "", "orders");
        goes("orders.new", &json!({ "routing_key": "ignored" }), "", "orders");
        goes("by.exchange", &json!({}), "x", "k");
        goes("any", &json!({ "route_name": "orders.x" }), "", "orders");
    }

    #[test]
    fn else_the_default_queue() {
        goes("mail.send", &json!({}), "", "celery");
        goes("mail.send", &json!({ "exchange": "half" }), "", "celery");
    }

    #[test]
    fn native_delay_is_for_what_is_not_direct_once_there_is_a_quorum_queue() {
        let bits = format!("{}1.", "0.".repeat(27));
        goes("by.key", &json!({}), DELAY_EXCHANGE, &format!("{bits}shop.key"));
        goes("t", &json!({ "queue": "delayed" }), DELAY_EXCHANGE, &format!("{bits}shop.all"));
        goes("t", &json!({ "exchange": "", "routing_key": "q", "delayed": true }), DELAY_EXCHANGE, &format!("{bits}q"));
        let known = json!({ "exchange": "shop", "routing_key": "shop.x" });
        goes("t", &known, DELAY_EXCHANGE, &format!("{bits}shop.x"));
        goes("t", &json!({ "queue": "topic", "headers": { "task": "t" } }), "shop", "shop.all");
    }

    #[test]
    fn a_queue_that_nobody_described_is_declared_as_celery_would() {
        let routing = routing();
        let event = StoredEvent::for_tests("orders.new", "{}");
        let message = Outgoing::new(&event, None).unwrap();
        let target = routing.resolve(&message, Utc::now(), true);
        let declared = routing.declarations(&message.recorded, &target);
        assert_eq!(*declared[0], usual("orders", QueueType::Classic));
        assert_eq!((declared[0].exchange.as_str(), declared[0].exchange_type.as_str()), ("orders", "direct"));
    }
}
