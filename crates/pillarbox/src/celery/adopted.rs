//! Converts a row of django-celery-outbox into the recorded form: the message that its own relay and Celery would have made of
//! it. Arguments and signatures are passed on as text, neither parsed nor serialised again.
//!
//! Pure: callers pass in the time from which `expires` and `countdown` are counted.

use std::borrow::Cow;

use chrono::{DateTime, NaiveDate, NaiveDateTime, TimeDelta, Utc};
use serde_json::value::{RawValue, to_raw_value};

use super::fields::{Fields, Object, text};
use super::protocol::Embed;
use super::recorded::{Body, Recorded};

/// The columns of a row of `celery_outbox` that the message depends on. JSON columns are text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AdoptedRow<'a> {
    pub(crate) task_id: &'a str,
    pub(crate) task_name: &'a str,
    pub(crate) args: &'a str,
    pub(crate) kwargs: &'a str,
    pub(crate) options: &'a str,
    pub(crate) sentry_trace_id: Option<&'a str>,
    pub(crate) sentry_baggage: Option<&'a str>,
    pub(crate) structlog_context: Option<&'a str>,
}

/// Options that become the header of the same name.
const HEADERS: [&str; 10] = [
    "shadow",
    "group_index",
    "retries",
    "root_id",
    "parent_id",
    "ignore_result",
    "replaced_task_nesting",
    "argsrepr",
    "kwargsrepr",
    "origin",
];

/// Options for Celery's publisher, which are not part of a message.
const NOT_SENT: [&str; 19] = [
    "add_to_parent",
    "app",
    "compression",
    "confirm_timeout",
    "connection",
    "declare",
    "exchange_type",
    "immediate",
    "mandatory",
    "producer",
    "publisher",
    "result_cls",
    "retry",
    "retry_policy",
    "router",
    "serializer",
    "task_id",
    "task_type",
    "timeout",
];

impl AdoptedRow<'_> {
    /// Returns the payload of the row's event. A row that cannot be a message gets a payload that is refused with the reason
    /// when it is sent, so that it does not block other rows.
    pub(crate) fn payload(&self, now: DateTime<Utc>) -> Box<RawValue> {
        let written = self.recorded(now).and_then(|recorded| Ok(to_raw_value(&recorded)?));
        written
            .unwrap_or_else(|Wrong(why)| Recorded::refused(&format!("the row cannot be sent as a Celery task: {why}")))
    }

    fn recorded(&self, now: DateTime<Utc>) -> Result<Recorded<'_>, Wrong> {
        let mut options = Options::read(self.options)?;
        let args = part("args", self.args, "[", "[]")?;
        let kwargs = part("kwargs", self.kwargs, "{", "{}")?;
        let (callbacks, errbacks) = (options.take_list("link")?, options.take_list("link_error")?);
        let embed = Embed {
            callbacks: callbacks.as_deref(),
            errbacks: errbacks.as_deref(),
            chain: options.take_kind("chain", "[")?,
            chord: options.take_kind("chord", "{")?,
        };
        let mut message = Recorded::new(Body::of_task(args, kwargs, &embed));
        message.queue = options.take_text("queue")?;
        // In Celery, an empty exchange means that the queue decides.
        message.exchange = options.take_text("exchange")?.filter(|name| !name.is_empty());
        message.routing_key = options.take_text("routing_key")?;
        message.route_name = options.take_text("route_name")?;
        let custom = options.take_kind("headers", "{")?;
        message.headers = self.headers(&mut options, now)?;
        self.add_context(&mut message.headers, custom)?;
        let expires = message.headers.contains("expires");
        message.properties = options.into_properties(expires)?;
        Ok(message)
    }

    fn headers<'o>(&self, options: &mut Options<'o>, now: DateTime<Utc>) -> Result<Fields<'o>, Wrong> {
        let mut headers = Fields::new();
        headers.set("task", self.task_name)?;
        headers.set("id", self.task_id)?;
        let eta = options.take_time("eta", None)?.or(options.take_time("countdown", Some(now))?);
        for (name, value) in [("eta", eta), ("expires", options.take_time("expires", Some(now))?)] {
            if let Some(value) = value {
                headers.set_raw(name, value.into_owned());
            }
        }
        for name in HEADERS {
            if let Some(value) = options.take(name) {
                headers.set_raw(name, value.to_owned());
            }
        }
        // Celery treats an empty one as missing.
        if headers.text("root_id").is_some_and(|id| id.is_empty()) {
            headers.take("root_id");
        }
        if let Some(group) = options.take("group_id") {
            headers.set_raw("group", group.to_owned());
        }
        headers.set("timelimit", &[options.take("time_limit"), options.take("soft_time_limit")])?;
        if let Some(names) = options.take("stamped_headers") {
            headers.set_raw("stamps", to_raw_value(&options.take_stamps(names)?)?);
            headers.set_raw("stamped_headers", names.to_owned());
        }
        Ok(headers)
    }

    /// Adds custom headers and the context of Sentry and structlog. Sentry reads its own in a header named `headers` on
    /// workers, and beside the other headers elsewhere. django-structlog reads its own on workers.
    fn add_context(&self, headers: &mut Fields<'_>, custom: Option<&RawValue>) -> Result<(), Wrong> {
        if let Some(custom) = custom {
            for (name, value) in serde_json::from_str::<Object<'_>>(custom.get())?.0 {
                headers.set_raw(name.into_owned(), value.to_owned());
            }
        }
        let mut nested = Fields::new();
        for (name, value) in [("sentry-trace", self.sentry_trace_id), ("baggage", self.sentry_baggage)] {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                headers.set(name, value)?;
                nested.set(name, value)?;
            }
        }
        if !nested.is_empty() {
            headers.set("headers", &nested)?;
        }
        if let Some(context) = self.structlog_context.and_then(structlog_context) {
            headers.set("__django_structlog__", &context)?;
        }
        Ok(())
    }
}

/// Returns the context of the code that emitted the task, or `None` if it cannot be read, as in the Python relay. A task in
/// the context is the parent of this one.
fn structlog_context(text: &str) -> Option<Fields<'_>> {
    let mut context: Fields<'_> = serde_json::from_str(text).ok()?;
    if let Some(parent) = context.take("task_id") {
        context.set_raw("parent_task_id", parent.into_owned());
    }
    Some(context).filter(|context| !context.is_empty())
}

/// The problem of a row. The text does not quote values: they may be personal data, and errors are stored and logged.
struct Wrong(String);

impl From<serde_json::Error> for Wrong {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<String> for Wrong {
    fn from(what: String) -> Self {
        Self(what)
    }
}

fn kind(json: &str) -> &'static str {
    match json.as_bytes().first() {
        Some(b'[') => "a list",
        Some(b'{') => "an object",
        Some(b'"') => "text",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

/// Reads a column whose JSON must begin with `opens`. `null` means empty.
fn part<'a>(column: &str, json: &'a str, opens: &str, empty: &'static str) -> Result<&'a RawValue, Wrong> {
    let json = if json == "null" { empty } else { json };
    if !json.starts_with(opens) {
        return Err(format!("{column} is {}, it must be {}", kind(json), kind(opens)).into());
    }
    serde_json::from_str(json).map_err(|error| format!("{column} cannot be read: {error}").into())
}

/// The options of a row that are not used yet. A `null` counts as missing.
struct Options<'a>(Object<'a>);

impl<'a> Options<'a> {
    fn read(json: &'a str) -> Result<Self, Wrong> {
        if !json.starts_with('{') {
            return Err(format!("options is {}, it must be an object", kind(json)).into());
        }
        let mut options: Object<'a> =
            serde_json::from_str(json).map_err(|error| format!("options cannot be read: {error}"))?;
        options.0.retain(|_, value| value.get() != "null");
        Ok(Self(options))
    }

    fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        self.0.0.remove(name)
    }

    fn take_kind(&mut self, name: &str, opens: &str) -> Result<Option<&'a RawValue>, Wrong> {
        let Some(value) = self.take(name) else { return Ok(None) };
        if value.get().starts_with(opens) {
            Ok(Some(value))
        } else {
            Err(format!("the option {name:?} is {}, it must be {}", kind(value.get()), kind(opens)).into())
        }
    }

    fn take_text(&mut self, name: &str) -> Result<Option<Cow<'a, str>>, Wrong> {
        let Some(value) = self.take_kind(name, "\"")? else { return Ok(None) };
        text(value).map(Some).map_err(|error| format!("the option {name:?} cannot be read: {error}").into())
    }

    /// Takes a list of signatures. A single signature becomes a list of one.
    fn take_list(&mut self, name: &str) -> Result<Option<Cow<'a, RawValue>>, Wrong> {
        match self.0.0.get(name) {
            Some(lone) if lone.get().starts_with('{') => {
                let list = to_raw_value(&[lone])?;
                self.take(name);
                Ok(Some(Cow::Owned(list)))
            }
            _ => Ok(self.take_kind(name, "[")?.map(Cow::Borrowed)),
        }
    }

    /// Takes a time as it is written, or a number of seconds after `counted_from`.
    fn take_time(
        &mut self,
        name: &str,
        counted_from: Option<DateTime<Utc>>,
    ) -> Result<Option<Cow<'a, RawValue>>, Wrong> {
        let Some(value) = self.take(name) else { return Ok(None) };
        if value.get().starts_with('"') {
            let written = text(value)?;
            if is_time(&written) {
                return Ok(Some(Cow::Borrowed(value)));
            }
        } else if let Some(from) = counted_from
            && let Ok(seconds) = value.get().parse::<f64>()
        {
            let end = seconds_after(from, seconds).ok_or_else(|| format!("the option {name:?} is out of range"))?;
            return Ok(Some(Cow::Owned(to_raw_value(&iso(end))?)));
        }
        let expected =
            if counted_from.is_some() { "an ISO 8601 time or a number of seconds" } else { "an ISO 8601 time" };
        Err(Wrong(format!("the option {name:?} is not {expected}")))
    }

    /// Takes the options that are stamps, by their names.
    fn take_stamps(&mut self, names: &RawValue) -> Result<Fields<'a>, Wrong> {
        let names: Vec<String> = serde_json::from_str(names.get())
            .map_err(|_| Wrong("the option \"stamped_headers\" is not a list of names".to_owned()))?;
        let mut stamps = Fields::new();
        for name in names {
            let value = self
                .take(&name)
                .ok_or_else(|| format!("the option {name:?}, which \"stamped_headers\" lists, is missing"))?;
            stamps.set_raw(name, value.to_owned());
        }
        Ok(stamps)
    }

    /// Returns the remaining options: AMQP's properties, by kombu's names.
    fn into_properties(mut self, expires: bool) -> Result<Fields<'a>, Wrong> {
        self.0.0.retain(|name, _| !NOT_SENT.contains(&name.as_ref()));
        let mut properties = Fields::new();
        // Next to `expires`, the expiration follows from it. Alone it is seconds here and milliseconds on the wire.
        if let Some(expiration) = self.take("expiration").filter(|_| !expires) {
            let seconds: f64 = serde_json::from_str(expiration.get())
                .map_err(|_| Wrong("the option \"expiration\" is not a number of seconds".to_owned()))?;
            properties.set("expiration", &format!("{:.0}", (seconds * 1000.0).trunc().max(0.0)))?;
        }
        for (name, value) in self.0.0 {
            properties.set_raw(name, value.to_owned());
        }
        Ok(properties)
    }
}

/// Returns whether Python would read the text as a time. A time without a zone is left to the worker.
fn is_time(text: &str) -> bool {
    let naive = ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"];
    DateTime::parse_from_rfc3339(text).is_ok()
        || naive.iter().any(|format| NaiveDateTime::parse_from_str(text, format).is_ok())
        || NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok()
}

fn seconds_after(from: DateTime<Utc>, seconds: f64) -> Option<DateTime<Utc>> {
    // Ten thousand years is more than Python's datetime can represent.
    let micros = (seconds * 1e6).round();
    if micros.abs() >= 3.2e17 {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "its range was just looked at")]
    from.checked_add_signed(TimeDelta::microseconds(micros as i64))
        .filter(|end| end.format("%Y").to_string().len() == 4)
}

/// Formats a time as Python's `isoformat` does.
fn iso(moment: DateTime<Utc>) -> String {
    let fraction = if moment.timestamp_subsec_micros() == 0 { "" } else { "%.6f" };
    moment.format(&format!("%Y-%m-%dT%H:%M:%S{fraction}+00:00")).to_string()
}

#[cfg(test)]
mod tests;
