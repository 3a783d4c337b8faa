//! The effective settings, for people and programs: every key with its value, secrets as `***`.

use std::fmt;
use std::path::Path;

use pillarbox::source::wal::OutboxColumns;
use pillarbox_sinks::config::Size;
use pillarbox_sinks::config::shown::{Key, chosen, duration, hidden, number, table, text};
use pillarbox_sinks::{DestinationSettings, redact};
use serde_json::Map;
use toml::Value;

use super::Settings;
use super::admin::{ROLES, UserSettings};
use super::log::FORMATS as LOG_FORMATS;
use super::relay::{CLAIM_BY, ON_DELIVERED, ON_FAILED, ORDER, Ordered, RECORD_ATTEMPTS, UNROUTED};
use super::source::KINDS as SOURCES;

/// A table as the file would have it.
pub(crate) struct Shown {
    place: Place,
    keys: Vec<Key>,
}

enum Place {
    Section(&'static str),
    Destination(String),
    Route,
    Schema,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Section(name) => writeln!(f, "[{name}]")?,
            Place::Route => writeln!(f, "[[routes]]")?,
            Place::Schema => writeln!(f, "[[schemas]]")?,
            Place::Destination(name) if is_bare(name) => writeln!(f, "[destinations.{name}]")?,
            Place::Destination(name) => writeln!(f, "[destinations.{}]", text(name))?,
        }
        self.keys.iter().try_for_each(|(key, value)| writeln!(f, "{key} = {value}"))
    }
}

/// Returns whether a TOML key needs no quotes.
fn is_bare(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

impl Settings {
    /// Returns all tables in the order of the default file.
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
        shown.extend(self.shown_schemas());
        shown.push(self.shown_admin());
        shown
    }

    /// Returns the settings as one JSON value, in the shape of the file.
    pub(crate) fn shown_json(&self) -> serde_json::Value {
        let (mut all, mut destinations) = (Map::new(), Map::new());
        let (mut routes, mut schemas) = (Vec::new(), Vec::new());
        for Shown { place, keys } in self.shown() {
            let keys: Map<_, _> = keys.into_iter().map(|(key, value)| (key.to_owned(), json(value))).collect();
            match place {
                Place::Section(name) => drop(all.insert(name.to_owned(), keys.into())),
                Place::Destination(name) => drop(destinations.insert(name, keys.into())),
                Place::Route => routes.push(keys),
                Place::Schema => schemas.push(keys),
            }
        }
        all.insert("destinations".to_owned(), destinations.into());
        all.insert("routes".to_owned(), routes.into());
        all.insert("schemas".to_owned(), schemas.into());
        all.into()
    }

    fn shown_database(&self) -> Shown {
        let limits = self.database.limits();
        let mut keys = vec![("url", text(self.database.shown()))];
        keys.extend(self.database.schema().map(|schema| ("schema", text(schema))));
        keys.extend([
            ("connections", Value::Integer(limits.connections.into())),
            ("deadline", duration(limits.deadline)),
            ("connect_timeout", duration(limits.connect_timeout)),
        ]);
        Shown { place: Place::Section("database"), keys }
    }

    fn shown_source(&self) -> Shown {
        let mut keys = vec![
            ("kind", chosen(&SOURCES, self.source.kind)),
            ("cooldown", duration(self.source.cooldown)),
            ("lease", duration(self.source.lease)),
            ("accept_failover_loss", Value::Boolean(self.source.accept_failover_loss)),
            ("tables", Value::Boolean(self.source.tables)),
            ("table", text(self.source.table.to_string())),
            ("columns", shown_columns(&self.source.table.columns)),
        ];
        keys.extend(self.source.url.as_ref().map(|url| ("url", text(redact::without_password(url.expose())))));
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
            ("record_attempts", chosen(&RECORD_ATTEMPTS, relay.record_attempts)),
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
        keys.extend(admin.user_header.iter().map(|header| ("user_header", text(header.as_str()))));
        keys.push(("mask", texts(&admin.mask.shown())));
        keys.push(("users", table(admin.users.iter().map(|user| (user.name.as_str(), shown_user(user))))));
        Shown { place: Place::Section("admin"), keys }
    }

    fn shown_tracing(&self) -> Shown {
        let tracing = &self.tracing;
        let by_variable = || text("set by the variables OTEL_…");
        let mut keys = vec![
            ("headers", table(tracing.headers.iter().map(|(name, value)| (name.as_str(), hidden(value))))),
            ("service_name", tracing.service_name.as_ref().map_or_else(by_variable, text)),
            ("sample", tracing.sample.map_or_else(by_variable, Value::Float)),
        ];
        keys.extend(
            tracing.endpoint.as_ref().map(|endpoint| ("endpoint", text(endpoint.url.shown_url(redact::without_login)))),
        );
        keys.extend(tracing.ca_file.as_ref().map(|path| ("ca_file", text(path.display().to_string()))));
        Shown { place: Place::Section("tracing"), keys }
    }

    fn shown_log(&self) -> Shown {
        Shown { place: Place::Section("log"), keys: vec![("format", chosen(&LOG_FORMATS, self.log))] }
    }

    fn shown_routes(&self) -> impl Iterator<Item = Shown> {
        self.routes.iter().map(|route| Shown {
            place: Place::Route,
            keys: [("events", text(route.events.as_str())), ("aggregates", text(route.aggregates.as_str()))]
                .into_iter()
                .chain(route.condition.as_ref().map(|condition| ("where", text(condition.as_str()))))
                .chain([("to", Value::Array(route.to.iter().map(text).collect()))])
                .collect(),
        })
    }
}

fn shown_columns(columns: &OutboxColumns) -> Value {
    let header = |(column, header): &(String, String)| match column == header {
        true => text(column),
        false => text(format!("{column}:{header}")),
    };
    let mut keys = vec![
        ("id", text(&columns.id)),
        ("aggregate_type", text(&columns.aggregate_type)),
        ("aggregate_id", text(&columns.aggregate_id)),
        ("event_type", text(&columns.event_type)),
        ("payload", text(&columns.payload)),
        ("header_columns", Value::Array(columns.header_columns.iter().map(header).collect())),
    ];
    let optional = [("created_at", &columns.created_at), ("headers", &columns.headers), ("trace", &columns.trace)];
    keys.extend(optional.into_iter().filter_map(|(key, column)| Some((key, text(column.as_ref()?)))));
    table(keys)
}

impl Settings {
    fn shown_schemas(&self) -> impl Iterator<Item = Shown> {
        self.schemas.iter().map(|schema| Shown {
            place: Place::Schema,
            keys: vec![("events", text(schema.events.as_str())), ("file", text(schema.file.display().to_string()))],
        })
    }
}

fn shown_user(user: &UserSettings) -> Value {
    let mut keys = vec![("role", chosen(&ROLES, user.role))];
    keys.extend(user.password.as_ref().map(|password| ("password", hidden(password))));
    keys.extend(user.token.as_ref().map(|token| ("token", hidden(token))));
    table(keys)
}

fn shown_destination(destination: &DestinationSettings) -> Shown {
    Shown { place: Place::Destination(destination.name.clone()), keys: destination.shown() }
}

fn json(value: Value) -> serde_json::Value {
    serde_json::to_value(value).unwrap_or_default()
}
