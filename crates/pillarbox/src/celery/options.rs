//! The options of a task, by the names of Celery's `apply_async`. In a signature they are JSON that a worker reads when the
//! signature's turn comes. In a message they become headers.

use std::time::Duration;

use chrono::{DateTime, SecondsFormat, TimeDelta, Timelike, Utc};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use super::canvas::Signature;
use super::fields::Fields;
use super::protocol::PROTOCOL_HEADERS;

/// More names of options. Celery would read a stamp of such a name as the option.
const OPTIONS: [&str; 16] = [
    "task_id",
    "countdown",
    "queue",
    "exchange",
    "routing_key",
    "priority",
    "time_limit",
    "soft_time_limit",
    "headers",
    "link",
    "link_error",
    "group_id",
    "chain",
    "chord",
    "reply_to",
    "serializer",
];

/// Returns whether the name is reserved, so that an application's header cannot have it.
pub(super) fn is_header(name: &str) -> bool {
    PROTOCOL_HEADERS.contains(&name)
}

/// Returns whether the name is reserved, so that a stamp cannot have it.
pub(super) fn is_option(name: &str) -> bool {
    PROTOCOL_HEADERS.contains(&name) || OPTIONS.contains(&name)
}

/// All options of a task.
#[derive(Debug, Clone, Default)]
pub(super) struct Options {
    pub(super) task_id: Option<String>,
    pub(super) root_id: Option<String>,
    pub(super) parent_id: Option<String>,
    pub(super) start: Option<Moment>,
    pub(super) expires: Option<Moment>,
    /// How long before its ETA the message is sent, if it is held back.
    pub(super) hold: Option<Duration>,
    pub(super) priority: Option<u8>,
    pub(super) queue: Option<String>,
    pub(super) exchange: Option<String>,
    pub(super) routing_key: Option<String>,
    pub(super) time_limit: Option<Duration>,
    pub(super) soft_time_limit: Option<Duration>,
    pub(super) shadow: Option<String>,
    pub(super) ignore_result: Option<bool>,
    pub(super) reply_to: Option<String>,
    pub(super) headers: Fields<'static>,
    pub(super) stamps: Fields<'static>,
    pub(super) link: Vec<Signature>,
    pub(super) link_error: Vec<Signature>,
    /// The id of its group, and its index in it.
    pub(super) group: Option<(String, usize)>,
    /// The tasks that follow it, in reverse order: the next one is last.
    pub(super) chain: Vec<Signature>,
}

/// A given time, or a delay from the time when the message is made.
#[derive(Debug, Clone, Copy)]
pub(super) enum Moment {
    In(Duration),
    At(DateTime<Utc>),
}

impl Moment {
    /// Returns the time, or `None` if it is beyond the calendar.
    pub(super) fn after(self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        match self {
            Self::In(duration) => now.checked_add_signed(TimeDelta::from_std(duration).ok()?),
            Self::At(moment) => Some(moment),
        }
    }
}

/// Formats a time in UTC as Python's `isoformat` does.
pub(super) fn iso(moment: DateTime<Utc>) -> String {
    let is_whole = moment.nanosecond() < 1000;
    moment.to_rfc3339_opts(if is_whole { SecondsFormat::Secs } else { SecondsFormat::Micros }, false)
}

/// Seconds, as an integer if they are whole.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Seconds {
    Whole(u64),
    Parts(f64),
}

impl From<Duration> for Seconds {
    fn from(duration: Duration) -> Self {
        if duration.subsec_nanos() == 0 { Self::Whole(duration.as_secs()) } else { Self::Parts(duration.as_secs_f64()) }
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::In(duration) => Seconds::from(*duration).serialize(serializer),
            Self::At(moment) => serializer.serialize_str(&iso(*moment)),
        }
    }
}

/// The options of a signature.
impl Serialize for Options {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = Entries(serializer.serialize_map(None)?);
        map.some("task_id", self.task_id.as_ref())?;
        map.some("root_id", self.root_id.as_ref())?;
        map.some("parent_id", self.parent_id.as_ref())?;
        let start = if let Some(Moment::In(_)) = self.start { "countdown" } else { "eta" };
        map.some(start, self.start)?;
        map.some("expires", self.expires)?;
        map.some("priority", self.priority)?;
        map.some("queue", self.queue.as_ref())?;
        map.some("exchange", self.exchange.as_ref())?;
        map.some("routing_key", self.routing_key.as_ref())?;
        map.some("time_limit", self.time_limit.map(Seconds::from))?;
        map.some("soft_time_limit", self.soft_time_limit.map(Seconds::from))?;
        map.some("shadow", self.shadow.as_ref())?;
        map.some("ignore_result", self.ignore_result)?;
        map.some("reply_to", self.reply_to.as_ref())?;
        map.some("headers", (!self.headers.is_empty()).then_some(&self.headers))?;
        map.some("link", (!self.link.is_empty()).then_some(&self.link))?;
        map.some("link_error", (!self.link_error.is_empty()).then_some(&self.link_error))?;
        map.some("group_id", self.group.as_ref().map(|(id, _)| id))?;
        map.some("group_index", self.group.as_ref().map(|(_, index)| index))?;
        map.some("chain", (!self.chain.is_empty()).then_some(&self.chain))?;
        for (name, value) in self.stamps.iter() {
            map.some(name, Some(value))?;
        }
        let stamped: Vec<&str> = self.stamps.iter().map(|(name, _)| name).collect();
        map.some("stamped_headers", (!stamped.is_empty()).then_some(stamped))?;
        map.0.end()
    }
}

struct Entries<M>(M);

impl<M: SerializeMap> Entries<M> {
    fn some(&mut self, name: &str, value: Option<impl Serialize>) -> Result<(), M::Error> {
        value.map_or(Ok(()), |value| self.0.serialize_entry(name, &value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_look_as_in_python() {
        let moment = |text: &str| iso(text.parse().unwrap());
        assert_eq!(moment("2030-01-01T00:00:00Z"), "2030-01-01T00:00:00+00:00");
        assert_eq!(moment("2030-01-01T01:00:01.000005+01:00"), "2030-01-01T00:00:01.000005+00:00");
        assert_eq!(moment("2030-01-01T00:00:00.000000999Z"), "2030-01-01T00:00:00+00:00");
    }

    #[test]
    fn what_is_not_said_is_not_written() {
        assert_eq!(serde_json::to_string(&Options::default()).unwrap(), "{}");
        let options = Options {
            start: Some(Moment::In(Duration::from_millis(2500))),
            time_limit: Some(Duration::from_secs(10)),
            ..Options::default()
        };
        assert_eq!(serde_json::to_string(&options).unwrap(), r#"{"countdown":2.5,"time_limit":10}"#);
    }
}
