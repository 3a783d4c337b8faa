//! The responses of the API, as its document describes them. They are types of their own, so that the API does not change
//! when the desk's types do.

use std::time::Duration;

use chrono::{DateTime, Utc};
use pillarbox::store::{AuditView, DeadLetters, Group};
use serde::Serialize;
use utoipa::ToSchema;

pub(super) use self::events::{EventFull, EventPage, Events, FoundEvents};
pub(super) use self::metrics::{Destinations, Minutes, Overview, Relays};

mod events;
mod log;
mod metrics;

/// Dead letters, grouped by destination and error
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeadLetterGroups {
    /// The beginning of the window; use it as `filter.failed_since` of a job on these dead letters
    since: DateTime<Utc>,
    groups: Vec<DeadLetterGroup>,
    /// The number of groups that were left out because there were too many
    left_out: u64,
    /// The number of dead letters that were searched, the newest first
    looked_at: u64,
    /// The time that the search reached
    reached: Option<DateTime<Utc>>,
    /// Whether the whole window was searched; otherwise the counts cover only the searched part
    complete: bool,
}

/// Dead letters with the same destination and error
#[derive(Debug, Serialize, ToSchema)]
struct DeadLetterGroup {
    destination: Option<String>,
    /// The error, with numbers and ids folded; a job's `group` names it
    error: String,
    /// One of the errors, unchanged
    sample: String,
    count: u64,
    first_at: DateTime<Utc>,
    last_at: DateTime<Utc>,
    /// Some of the event types
    event_types: Vec<String>,
    /// The number of dead letters in each of 24 parts of the window, oldest first
    over_time: Vec<u64>,
}

impl DeadLetterGroups {
    pub(super) fn new(dead: DeadLetters, since: DateTime<Utc>) -> Self {
        let group = |group: Group| DeadLetterGroup {
            destination: group.destination,
            error: group.error,
            sample: group.sample,
            count: group.count,
            first_at: group.first_at,
            last_at: group.last_at,
            event_types: group.event_types,
            over_time: group.over_time,
        };
        Self {
            since,
            groups: dead.groups.into_iter().map(group).collect(),
            left_out: dead.left_out,
            looked_at: dead.looked_at,
            reached: dead.reached,
            complete: dead.complete,
        }
    }
}

/// Actions of people, newest first
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditPage {
    entries: Vec<AuditEntry>,
    /// `before` of the next page, if there may be one
    next: Option<i64>,
}

/// An action of a person
#[derive(Debug, Serialize, ToSchema)]
struct AuditEntry {
    id: i64,
    done_at: DateTime<Utc>,
    who: String,
    what: String,
    target: String,
    /// The number of events that were changed
    events: Option<u64>,
}

impl AuditPage {
    pub(super) fn new(lines: Vec<AuditView>, limit: usize) -> Self {
        let next = lines.last().filter(|_| lines.len() == limit).map(|line| line.id);
        let entry = |line: AuditView| AuditEntry {
            id: line.id,
            done_at: line.done_at,
            who: line.who,
            what: line.what,
            target: line.target,
            events: line.events,
        };
        Self { entries: lines.into_iter().map(entry).collect(), next }
    }
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}
