//! What people do to events, and what came of it. Pure; every action leaves a line in `outbox_audit`, in its own
//! transaction.

use chrono::{DateTime, Utc};
use serde::Serialize;
use uuid::Uuid;

use super::list::Filter;

/// The line of the audit for what is done. One that changes nothing leaves none.
#[derive(Debug, Clone, Copy)]
pub enum Entry<'a> {
    /// A line of its own.
    Anew {
        /// Who does it.
        who: &'a str,
        /// To what: an id, or a filter in words.
        target: &'a str,
    },
    /// The line that [`Inspect::open_entry`](super::Inspect::open_entry) has begun: its events are counted on.
    Adding {
        /// The line.
        line: i64,
        /// Events that have changed since are left alone: they are not what was chosen then.
        unchanged_since: Option<DateTime<Utc>>,
    },
}

impl Entry<'_> {
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(crate) fn unchanged_since(&self) -> Option<DateTime<Utc>> {
        match self {
            Self::Anew { .. } => None,
            Self::Adding { unchanged_since, .. } => *unchanged_since,
        }
    }
}

/// Which events people want tried again.
#[derive(Debug, Clone)]
pub enum Selection {
    /// These.
    Ids(Vec<Uuid>),
    /// All dead letters that the filter finds, oldest first, at most so many.
    Failed(Filter, usize),
}

/// What came of asking for an event to be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Retried {
    /// It is due now, with all its attempts before it.
    Due,
    /// It is being sent at this moment: nothing was changed.
    BeingSent,
    /// It was delivered: nothing was changed.
    Delivered,
    /// There is no such event.
    Unknown,
}

/// What came of marking an event as failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Marked {
    /// It is a dead letter now.
    Failed,
    /// It was one already: nothing was changed.
    Already,
    /// It is being sent at this moment: nothing was changed.
    BeingSent,
    /// It was delivered: nothing was changed.
    Delivered,
    /// There is no such event.
    Unknown,
}

/// What came of replaying an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "result")]
pub enum Replayed {
    /// It is sent once more as this new event, which is due now.
    As {
        /// The new event's id.
        id: Uuid,
    },
    /// It is still to be delivered: nothing was done.
    Pending,
    /// There is no such event.
    Unknown,
}

/// The header by which a replay says what it is one of.
pub const REPLAY_OF: &str = "pillarbox-replay-of";

/// What stands between an event's key and the number of its replay.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) const REPLAY: &str = "#replay-";

/// The key of an event without the number of its replay, and short enough for another one.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) fn key_of_replays(key: &str) -> String {
    /// What the column holds, less the sign and a number.
    const ROOM: usize = 255 - REPLAY.len() - 10;
    let original = key
        .rsplit_once(REPLAY)
        .filter(|(_, number)| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()));
    original.map_or(key, |(original, _)| original).chars().take(ROOM).collect()
}

#[cfg(all(test, any(feature = "postgres", feature = "sqlite")))]
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
