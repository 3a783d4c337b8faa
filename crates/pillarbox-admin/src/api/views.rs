//! What the API answers, as the document describes it: views of their own, made from what the desk has, so that what is
//! promised to programs does not change with what is kept.

use std::time::Duration;

use chrono::{DateTime, Utc};
use pillarbox::store::{AuditView, DeadLetters, Group};
use serde::Serialize;
use utoipa::ToSchema;

pub(super) use self::events::{EventFull, EventPage, Events};
pub(super) use self::figures::{Destinations, Minutes, Overview, Relays};

mod events;
mod figures;

/// Dead letters by what they have in common
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeadLetterGroups {
    /// Where the window begins: give it as `filter.failed_since` to a job that is about these
    since: DateTime<Utc>,
    groups: Vec<DeadLetterGroup>,
    /// How many groups were left out, because there were too many
    left_out: u64,
    /// How many dead letters were looked at, the newest first
    looked_at: u64,
    /// How far back that led
    reached: Option<DateTime<Utc>>,
    /// All of the window was looked at; otherwise counts are of what was
    complete: bool,
}

/// Dead letters of one destination and one error
#[derive(Debug, Serialize, ToSchema)]
struct DeadLetterGroup {
    destination: Option<String>,
    /// With numbers and ids folded; a job's `group` names it
    error: String,
    /// One of the errors, as it was
    sample: String,
    count: u64,
    first_at: DateTime<Utc>,
    last_at: DateTime<Utc>,
    /// A few of them
    event_types: Vec<String>,
    /// How many in each of 24 parts of the window, the oldest first
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

/// What people did, the newest first
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditPage {
    entries: Vec<AuditEntry>,
    /// `before` of the next page, if there may be one
    next: Option<i64>,
}

/// Something that somebody did
#[derive(Debug, Serialize, ToSchema)]
struct AuditEntry {
    id: i64,
    done_at: DateTime<Utc>,
    who: String,
    what: String,
    target: String,
    /// How many events were changed
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
