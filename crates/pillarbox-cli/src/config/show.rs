//! What is in force, for people and for programs: every key with its value, secrets as `***`.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use pillarbox_sinks::celery::{CeleryQueue, CeleryRoute};
use serde_json::Map;
use toml::Value;

use super::Settings;
use super::admin::{ROLES, UserSettings};
use super::destination::{CeleryKeys, DestinationSettings, FORMATS, Format, HttpKeys, KINDS, QUEUE_TYPES, Target};
use super::log::FORMATS as LOG_FORMATS;
use super::relay::{CLAIM_BY, ON_DELIVERED, ON_FAILED, ORDER, Ordered, UNROUTED};
use super::secret::SecretRef;
use super::source::KINDS as SOURCES;
use super::value::Size;

/// A table as it would stand in the file.
pub(crate) struct Shown {
    place: Place,
    keys: Vec<(&'static str, Value)>,
}

enum Place {
    Section(&'static str),
    Destination(String),
    Route,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Section(name) => writeln!(f, "[{name}]")?,
            Place::Route => writeln!(f, "[[routes]]")?,
            Place::Destination(name) if is_bare(name) => writeln!(f, "[destinations.{name}]")?,
            Place::Destination(name) => writeln!(f, "[destinations.{}]", text(name))?,
        }
        self.keys.iter().try_for_each(|(key, value)| writeln!(f, "{key} = {value}"))
    }
}

/// Whether TOML wants no quotes around it.
fn is_bare(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

impl Settings {
    /// In the order of the default file.
    pub(crate) fn shown(&self) -> Vec<Shown> {
        let mut shown = vec![
            self.shown_database(),
            self.shown_source(),
            self.shown_relay(),
            self.shown_metrics(),
            self.shown_tracing(),
            self.shown_log(),
        ];
        shown.extend(self.destinations.iter().map(shown_destination));
        shown.extend(self.shown_routes());
        shown.push(self.shown_admin());
        shown
    }

    /// The same as one JSON value, in the shape of the file.
    pub(crate) fn shown_json(&self) -> serde_json::Value {
        let (mut all, mut destinations, mut routes) = (Map::new(), Map::new(), Vec::new());
        for Shown { place, keys } in self.shown() {
            let keys: Map<_, _> = keys.into_iter().map(|(key, value)| (key.to_owned(), json(value))).collect();
            match place {
                Place::Section(name) => drop(all.insert(name.to_owned(), keys.into())),
                Place::Destination(name) => drop(destinations.insert(name, keys.into())),
                Place::Route => routes.push(keys),
            }
        }
        all.insert("destinations".to_owned(), destinations.into());
        all.insert("routes".to_owned(), routes.into());
        all.into()
    }

    fn shown_database(&self) -> Shown {
        let settings = self.database.settings();
        let keys = vec![
            ("url", text(self.database.shown())),
            ("schema", text(self.database.schema())),
            ("connections", Value::Integer(settings.connections.into())),
            ("deadline", duration(settings.deadline)),
            ("connect_timeout", duration(settings.connect_timeout)),
        ];
        Shown { place: Place::Section("database"), keys }
    }

    fn shown_source(&self) -> Shown {
        let keys = vec![("kind", chosen(&SOURCES, self.source.kind)), ("cooldown", duration(self.source.cooldown))];
        Shown { place: Place::Section("source"), keys }
    }

    fn shown_relay(&self) -> Shown {
        let relay = &self.relay;
        let retry = [
            ("base", duration(relay.retry.base)),
            ("cap", duration(relay.retry.cap)),
            ("jitter", Value::Float(relay.retry.jitter)),
            ("max_attempts", Value::Integer(relay.retry.max_attempts.into())),
        ];
        let breaker = [
            ("threshold", Value::Integer(relay.breaker.threshold.into())),
            ("base", duration(relay.breaker.base)),
            ("cap", duration(relay.breaker.cap)),
            ("patience", Value::Integer(relay.breaker.patience.into())),
        ];
        let cleanup = [
            ("every", duration(relay.cleanup_every.unwrap_or_default())),
            ("delivered_after", duration(relay.retention.delivered_after)),
            ("failed_after", duration(relay.retention.failed_after)),
            ("batch", number(relay.retention.batch)),
        ];
        let (ordered, on_failed) = Ordered::of(relay.order);
        let mut keys = vec![
            ("batch_size", number(relay.batch_size)),
            ("bytes_in_flight", text(Size(relay.bytes_in_flight).to_string())),
            ("concurrency", number(relay.concurrency)),
            ("poll_interval", duration(relay.poll_interval)),
            ("lease", duration(relay.lease)),
            ("shutdown_timeout", duration(relay.shutdown_timeout)),
            ("on_delivered", chosen(&ON_DELIVERED, relay.on_delivered)),
            ("claim_by", chosen(&CLAIM_BY, relay.claim_by)),
            ("order", chosen(&ORDER, ordered)),
            ("order_on_failed", chosen(&ON_FAILED, on_failed)),
            ("unrouted", chosen(&UNROUTED, relay.unrouted)),
            ("retry", table(retry)),
            ("breaker", table(breaker)),
            ("cleanup", table(cleanup)),
        ];
        keys.extend(self.liveness_file.as_ref().map(|path| ("liveness_file", text(path.display().to_string()))));
        Shown { place: Place::Section("relay"), keys }
    }

    fn shown_metrics(&self) -> Shown {
        let metrics = &self.metrics;
        let mut keys = vec![
            ("prefix", text(&metrics.prefix)),
            ("tags", table(metrics.tags.iter().map(|(name, value)| (name.as_str(), text(value))))),
            ("every", duration(metrics.every)),
        ];
        keys.extend(metrics.listen.map(|listen| ("listen", text(listen.to_string()))));
        keys.extend(metrics.statsd.as_ref().map(|server| ("statsd", text(server))));
        Shown { place: Place::Section("metrics"), keys }
    }

    fn shown_admin(&self) -> Shown {
        let admin = &self.admin;
        let texts = |texts: &[String]| Value::Array(texts.iter().map(text).collect());
        let mut keys = vec![("listen", text(admin.listen.shown()))];
        keys.extend(admin.tls.iter().flat_map(|tls| {
            let path = |path: &Path| text(path.display().to_string());
            [("tls_certificate", path(&tls.certificate)), ("tls_key", path(&tls.key))]
        }));
        keys.push(("hosts", texts(&admin.hosts)));
        keys.push(("behind_tls_proxy", Value::Boolean(admin.behind_tls_proxy)));
        keys.push(("trusted_proxies", texts(&admin.trusted_proxies.shown())));
        keys.push(("mask", texts(&admin.mask.shown())));
        keys.push(("users", table(admin.users.iter().map(|user| (user.name.as_str(), shown_user(user))))));
        Shown { place: Place::Section("admin"), keys }
    }

    fn shown_tracing(&self) -> Shown {
        let tracing = &self.tracing;
        let by_variable = || text("by the variables OTEL_…");
        let mut keys = vec![
            ("headers", table(tracing.headers.iter().map(|(name, value)| (name.as_str(), hidden(value))))),
            ("service_name", tracing.service_name.as_ref().map_or_else(by_variable, text)),
            ("sample", tracing.sample.map_or_else(by_variable, Value::Float)),
        ];
        keys.extend(tracing.endpoint.as_ref().map(|endpoint| ("endpoint", text(shown_url(&endpoint.url)))));
        keys.extend(tracing.ca_file.as_ref().map(|path| ("ca_file", text(path.display().to_string()))));
        Shown { place: Place::Section("tracing"), keys }
    }

    fn shown_log(&self) -> Shown {
        Shown { place: Place::Section("log"), keys: vec![("format", chosen(&LOG_FORMATS, self.log))] }
    }

    fn shown_routes(&self) -> impl Iterator<Item = Shown> {
        self.routes.iter().map(|route| Shown {
            place: Place::Route,
            keys: vec![
                ("events", text(route.events.as_str())),
                ("aggregates", text(route.aggregates.as_str())),
                ("to", Value::Array(route.to.iter().map(text).collect())),
            ],
        })
    }
}

fn shown_user(user: &UserSettings) -> Value {
    let mut keys = vec![("role", chosen(&ROLES, user.role))];
    keys.extend(user.password.as_ref().map(|password| ("password", hidden(password))));
    keys.extend(user.token.as_ref().map(|token| ("token", hidden(token))));
    table(keys)
}

/// A request to an HTTP receiver, without what lets somebody in.
pub(crate) struct ShownRequest {
    pub(crate) url: String,
    pub(crate) cloud_events: bool,
    pub(crate) signed: bool,
    /// Names, and what a shell puts in place of their values.
    pub(crate) secret_headers: Vec<(String, String)>,
}

impl DestinationSettings {
    /// Where it is, for whoever may look: of a URL only scheme, host and port, because its path is often its password.
    pub(crate) fn shown_address(&self) -> Option<String> {
        match &self.to {
            Target::Http(keys) => keys.url.as_ref().map(origin),
            Target::Celery(keys) => keys.broker.as_ref().map(origin),
            Target::Discard => None,
        }
    }

    /// `None` when it does not speak HTTP.
    pub(crate) fn shown_request(&self) -> Option<ShownRequest> {
        let Target::Http(keys) = &self.to else { return None };
        let bearer =
            keys.bearer.as_ref().map(|token| ("authorization".to_owned(), format!("Bearer {}", in_shell(token))));
        let headers = keys.headers.iter().map(|(name, value)| (name.clone(), in_shell(value)));
        Some(ShownRequest {
            url: keys.url.as_ref().map(origin).unwrap_or_default(),
            cloud_events: keys.format == Format::CloudEvents,
            signed: !keys.secrets.is_empty(),
            secret_headers: bearer.into_iter().chain(headers).collect(),
        })
    }
}

/// `https://receiver.example/***`
fn origin(url: &SecretRef) -> String {
    let SecretRef::Plain(url) = url else { return url.shown() };
    let Some((scheme, rest)) = url.expose().split_once("://") else { return "***".to_owned() };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let path = if matches!(path, "" | "/") { path } else { "/***" };
    format!("{scheme}://{host}{path}")
}

/// The variable that has it, if that is where it is.
fn in_shell(secret: &SecretRef) -> String {
    match secret {
        SecretRef::Env(name) if is_bare(name) => format!("${name}"),
        _ => "***".to_owned(),
    }
}

fn shown_destination(destination: &DestinationSettings) -> Shown {
    let mut keys = vec![("kind", chosen(&KINDS, destination.kind()))];
    match &destination.to {
        Target::Http(http) => keys.extend(shown_http(http)),
        Target::Celery(celery) => keys.extend(shown_celery(celery)),
        Target::Discard => {}
    }
    keys.extend(destination.ca_file.as_ref().map(|path| ("ca_file", text(path.display().to_string()))));
    keys.push(("timeout", duration(destination.timeout)));
    keys.push(("concurrency", number(destination.concurrency)));
    keys.extend(destination.rate.map(|rate| ("rate", Value::Float(rate))));
    keys.push(("paused", Value::Boolean(destination.paused)));
    Shown { place: Place::Destination(destination.name.clone()), keys }
}

fn shown_http(http: &HttpKeys) -> Vec<(&'static str, Value)> {
    let mut keys = Vec::new();
    keys.extend(http.url.as_ref().map(|url| ("url", text(origin(url)))));
    keys.push(("secrets", Value::Array(http.secrets.iter().map(hidden).collect())));
    keys.extend(http.bearer.as_ref().map(|bearer| ("bearer", hidden(bearer))));
    keys.push(("headers", table(http.headers.iter().map(|(name, value)| (name.as_str(), hidden(value))))));
    keys.extend(http.connect_timeout.map(|timeout| ("connect_timeout", duration(timeout))));
    keys.push(("allow_private", Value::Boolean(http.allow_private)));
    keys.push(("format", chosen(&FORMATS, http.format)));
    keys
}

fn shown_celery(celery: &CeleryKeys) -> Vec<(&'static str, Value)> {
    let settings = &celery.settings;
    let mut keys = Vec::new();
    keys.extend(celery.broker.as_ref().map(|broker| ("broker", text(shown_url(broker)))));
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
    keys.extend(celery.sentinel_password.as_ref().map(|password| ("sentinel_password", hidden(password))));
    keys.push(("queues", table(settings.queues.iter().map(|(name, queue)| (name.as_str(), shown_queue(queue))))));
    keys.push(("routes", Value::Array(settings.routes.iter().map(shown_celery_route).collect())));
    keys
}

fn shown_queue(queue: &CeleryQueue) -> Value {
    let mut keys = vec![("exchange_type", text(&queue.exchange_type)), ("durable", Value::Boolean(queue.durable))];
    keys.extend(queue.exchange.as_ref().map(|name| ("exchange", text(name))));
    keys.extend(queue.routing_key.as_ref().map(|name| ("routing_key", text(name))));
    keys.extend(Value::try_from(&queue.arguments).ok().map(|arguments| ("arguments", arguments)));
    table(keys)
}

fn shown_celery_route(route: &CeleryRoute) -> Value {
    let mut keys = vec![("tasks", text(route.tasks.as_str()))];
    keys.extend(route.queue.as_ref().map(|name| ("queue", text(name))));
    keys.extend(route.exchange.as_ref().map(|name| ("exchange", text(name))));
    keys.extend(route.routing_key.as_ref().map(|name| ("routing_key", text(name))));
    keys.extend(route.priority.map(|priority| ("priority", number(priority))));
    table(keys)
}

/// Of a URL everything but what stands for a password: rather too little than too much.
fn shown_url(url: &SecretRef) -> String {
    let SecretRef::Plain(url) = url else { return url.shown() };
    let Some((scheme, rest)) = url.expose().split_once("://") else { return "***".to_owned() };
    let (user, place) = rest.rsplit_once('@').map_or(("", rest), |(_, place)| ("***@", place));
    match place.split_once('?') {
        Some((place, _)) => format!("{scheme}://{user}{place}?***"),
        None => format!("{scheme}://{user}{place}"),
    }
}

fn hidden(secret: &SecretRef) -> Value {
    text(secret.shown())
}

fn text(text: impl Into<String>) -> Value {
    Value::String(text.into())
}

fn number<N: TryInto<i64>>(number: N) -> Value {
    Value::Integer(number.try_into().unwrap_or(i64::MAX))
}

fn duration(duration: Duration) -> Value {
    text(humantime::format_duration(duration).to_string())
}

fn chosen<T: Copy + PartialEq>(choices: &[(&str, T)], choice: T) -> Value {
    text(choices.iter().find(|(_, one)| *one == choice).map_or("", |(name, _)| *name))
}

fn table<'a>(keys: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    Value::Table(keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn json(value: Value) -> serde_json::Value {
    serde_json::to_value(value).unwrap_or_default()
}
