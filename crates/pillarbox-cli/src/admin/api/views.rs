//! What the API answers, as the document describes it: views of their own, made from what the desk has, so that what is
//! promised to programs does not change with what is kept.

use std::time::Duration;

use chrono::{DateTime, Utc};
use pillarbox::store::AuditView;
use serde::Serialize;
use utoipa::ToSchema;

pub(super) use self::events::{EventFull, EventPage};
pub(super) use self::figures::{Destinations, Minutes, Overview, Relays};

mod events;
mod figures;

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
