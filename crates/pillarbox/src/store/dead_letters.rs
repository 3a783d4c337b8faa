//! Dead letters, grouped by destination and folded error. Pure.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::fold::fold_error;

/// The number of parts of a window.
const PARTS: usize = 24;
/// The maximum number of event types per group.
const TYPES: usize = 5;
/// The maximum number of groups.
const GROUPS: usize = 200;

/// The dead letters of a time window, in groups.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct DeadLetters {
    /// The groups, the largest first.
    pub groups: Vec<Group>,
    /// The number of groups that were left out because there were too many.
    pub left_out: u64,
    /// The number of dead letters that were examined, the newest first.
    pub looked_at: u64,
    /// The time back to which dead letters were examined.
    pub reached: Option<DateTime<Utc>>,
    /// Whether the whole window was examined. If not, the counts cover the examined part only.
    pub complete: bool,
}

/// The dead letters of one destination and one error.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Group {
    /// The destination where they failed, if known.
    pub destination: Option<String>,
    /// The common error, as returned by [`fold_error`].
    pub error: String,
    /// The newest dead letter's error, unfolded.
    pub sample: String,
    /// The number of dead letters.
    pub count: u64,
    /// When the first of them failed.
    pub first_at: DateTime<Utc>,
    /// When the last of them failed.
    pub last_at: DateTime<Utc>,
    /// Up to five of their event types.
    pub event_types: Vec<String>,
    /// The number of dead letters in each of 24 parts of the window, the oldest first.
    pub over_time: Vec<u64>,
}

/// The columns of a dead letter that groups need.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) struct Letter {
    pub(crate) failed_at: DateTime<Utc>,
    pub(crate) failed_on: Option<String>,
    pub(crate) event_type: String,
    pub(crate) error: String,
}

/// Collects groups, from the newest letter to the oldest.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) struct Groups {
    from: DateTime<Utc>,
    to: DateTime<Utc>,
    groups: HashMap<(Option<String>, String), Group>,
}

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
impl Groups {
    /// Creates the groups of a window.
    pub(crate) fn new(from: DateTime<Utc>, to: DateTime<Utc>) -> Self {
        Self { from, to, groups: HashMap::new() }
    }

    pub(crate) fn add(&mut self, letter: Letter) {
        let part = self.part(letter.failed_at);
        let key = (letter.failed_on, fold_error(&letter.error));
        let group = self.groups.entry(key).or_insert_with_key(|(destination, error)| Group {
            destination: destination.clone(),
            error: error.clone(),
            sample: letter.error,
            count: 0,
            first_at: letter.failed_at,
            last_at: letter.failed_at,
            event_types: Vec::new(),
            over_time: vec![0; PARTS],
        });
        group.count += 1;
        group.first_at = group.first_at.min(letter.failed_at);
        group.last_at = group.last_at.max(letter.failed_at);
        group.over_time[part] += 1;
        if group.event_types.len() < TYPES && !group.event_types.contains(&letter.event_type) {
            group.event_types.push(letter.event_type);
        }
    }

    /// Returns the part of the window that a time belongs to. A time outside of the window belongs to the nearest part.
    fn part(&self, moment: DateTime<Utc>) -> usize {
        let window = (self.to - self.from).num_milliseconds().max(1) as f64;
        let at = (moment - self.from).num_milliseconds() as f64 / window;
        ((at * PARTS as f64).max(0.0) as usize).min(PARTS - 1)
    }

    /// Returns the groups, the largest first. `reached` is `None` at the end of the window.
    pub(crate) fn told(self, looked_at: u64, reached: Option<DateTime<Utc>>) -> DeadLetters {
        let mut groups: Vec<Group> = self.groups.into_values().collect();
        groups.sort_by(|a, b| b.count.cmp(&a.count).then(b.last_at.cmp(&a.last_at)).then(a.error.cmp(&b.error)));
        let left_out = groups.len().saturating_sub(GROUPS) as u64;
        groups.truncate(GROUPS);
        let complete = reached.is_none();
        DeadLetters { groups, left_out, looked_at, reached: Some(reached.unwrap_or(self.from)), complete }
    }
}

#[cfg(all(test, any(feature = "mysql", feature = "postgres", feature = "sqlite")))]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn letters_are_told_by_destination_and_error_and_over_time() {
        let from = DateTime::UNIX_EPOCH;
        let mut groups = Groups::new(from, from + TimeDelta::hours(24));
        let mut add = |hour: i64, on: Option<&str>, event_type: &str, error: &str| {
            groups.add(Letter {
                failed_at: from + TimeDelta::hours(hour),
                failed_on: on.map(str::to_owned),
                event_type: event_type.to_owned(),
                error: error.to_owned(),
            });
        };
        add(24, Some("mail"), "order.placed", "order 3 is locked");
        add(5, Some("mail"), "order.paid", "order 2 is locked");
        add(0, Some("mail"), "order.paid", "order 1 is locked");
        add(0, Some("audit"), "order.paid", "order 1 is locked");
        add(-1, None, "order.paid", "gone");
        let told = groups.told(5, None);
        assert_eq!((told.groups.len(), told.complete, told.reached, told.left_out), (3, true, Some(from), 0));
        let first = &told.groups[0];
        assert_eq!((first.destination.as_deref(), first.error.as_str()), (Some("mail"), "order # is locked"));
        assert_eq!((first.sample.as_str(), first.count), ("order 3 is locked", 3));
        assert_eq!((first.first_at, first.last_at), (from, from + TimeDelta::hours(24)));
        assert_eq!(first.event_types, ["order.placed", "order.paid"]);
        let mut over_time = [0; 24];
        over_time[0] = 1;
        over_time[5] = 1;
        over_time[23] = 1;
        assert_eq!(first.over_time, over_time);
    }

    #[test]
    fn there_are_only_so_many_groups() {
        let from = DateTime::UNIX_EPOCH;
        let mut groups = Groups::new(from, from);
        for number in 0..300 {
            let error = format!("{}!", "x".repeat(number + 1));
            groups.add(Letter { failed_at: from, failed_on: None, event_type: "a".to_owned(), error });
        }
        let told = groups.told(300, Some(from));
        assert_eq!((told.groups.len(), told.left_out, told.complete), (200, 100, false));
    }
}
