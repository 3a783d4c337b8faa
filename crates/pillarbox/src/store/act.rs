//! Actions of people on events, and their results. Pure. Every action writes an entry to `outbox_audit`, in its own
//! transaction.

use chrono::{DateTime, Utc};
use serde::Serialize;
use uuid::Uuid;

use super::list::Filter;

/// The audit entry of an action. An action that changes nothing has none.
#[derive(Debug, Clone, Copy)]
pub enum Entry<'a> {
    /// A new entry.
    Anew {
        /// The person.
        who: &'a str,
        /// The target: an id, or a filter in words.
        target: &'a str,
    },
    /// The entry that [`Inspect::open_entry`](super::Inspect::open_entry) began. The changed events are added to its count.
    Adding {
        /// The entry's id.
        line: i64,
        /// If set, events that have changed since then are skipped, because they are no longer the events that were selected.
        unchanged_since: Option<DateTime<Utc>>,
    },
}

impl Entry<'_> {
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    pub(crate) fn unchanged_since(&self) -> Option<DateTime<Utc>> {
        match self {
            Self::Anew { .. } => None,
            Self::Adding { unchanged_since, .. } => *unchanged_since,
        }
    }
}

/// The events that a person wants to retry.
#[derive(Debug, Clone)]
pub enum Selection {
    /// The events with these ids.
    Ids(Vec<Uuid>),
    /// The dead letters that the filter matches, oldest first, up to this many.
    Failed(Filter, usize),
}

/// The result of retrying an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Retried {
    /// The event is due now, with its attempts reset.
    Due,
    /// The event is being sent. Nothing was changed.
    BeingSent,
    /// The event was delivered. Nothing was changed.
    Delivered,
    /// There is no such event.
    Unknown,
}

/// The result of marking an event as failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Marked {
    /// The event is now a dead letter.
    Failed,
    /// The event already was a dead letter. Nothing was changed.
    Already,
    /// The event is being sent. Nothing was changed.
    BeingSent,
    /// The event was delivered. Nothing was changed.
    Delivered,
    /// There is no such event.
    Unknown,
}

/// The result of replaying an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "result")]
pub enum Replayed {
    /// The event is sent again as a new event, which is due now.
    As {
        /// The new event's id.
        id: Uuid,
    },
    /// The event is still pending. Nothing was done.
    Pending,
    /// No route leads the event to the only destination that was asked for. Nothing was done.
    NotRouted,
    /// There is no such event.
    Unknown,
}

/// The header of a replay that holds the id of the original event.
pub const REPLAY_OF: &str = "pillarbox-replay-of";

/// The header of a replay to a single destination, with its name. The event's other destinations do not receive the replay.
pub const REPLAY_TO: &str = "pillarbox-replay-to";

/// The separator between an event's key and the number of its replay.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) const REPLAY: &str = "#replay-";

/// Returns the key of an event without its replay number, shortened to leave room for another number.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) fn key_of_replays(key: &str) -> String {
    /// The column's length, minus the separator and a number.
    const ROOM: usize = 255 - REPLAY.len() - 10;
    let original = key
        .rsplit_once(REPLAY)
        .filter(|(_, number)| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()));
    original.map_or(key, |(original, _)| original).chars().take(ROOM).collect()
}

#[cfg(all(test, any(feature = "mysql", feature = "postgres", feature = "sqlite")))]
mod tests {
    use super::*;

    #[test]
    fn a_replay_of_a_replay_is_one_of_the_first() {
        assert_eq!(key_of_replays("Order:1"), "Order:1");
        assert_eq!(key_of_replays("Order:1#replay-12"), "Order:1");
        assert_eq!(key_of_replays("Order:1#replay-"), "Order:1#replay-");
        assert_eq!(key_of_replays("Order:1#replay-x"), "Order:1#replay-x");
        assert_eq!(key_of_replays(&"é".repeat(255)).chars().count(), 237);
    }
}
