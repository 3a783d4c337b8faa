//! Events as rows of a table.

use chrono::{DateTime, Utc};
use pillarbox::store::{EventView, State};

use super::words::{self, When};
use crate::desk::Desk;

/// The longest error in a list, in characters.
const ERROR: usize = 300;

pub(super) struct Row {
    pub(super) id: String,
    pub(super) state: &'static str,
    pub(super) event_type: String,
    pub(super) aggregate_type: String,
    pub(super) aggregate_id: String,
    /// The names of its destinations; none if no route matches, or if routes are not known.
    pub(super) destinations: Vec<String>,
    pub(super) attempts: u32,
    pub(super) created: When,
    /// The most important detail in its state.
    pub(super) story: String,
    /// Whether it is a dead letter, which can be retried.
    pub(super) can_retry: bool,
}

impl Row {
    pub(super) fn of(event: &EventView, now: DateTime<Utc>) -> Self {
        Self {
            id: event.id.to_string(),
            state: event.state.as_str(),
            event_type: event.event_type.clone(),
            aggregate_type: event.aggregate_type.clone(),
            aggregate_id: event.aggregate_id.clone(),
            destinations: Vec::new(),
            attempts: event.attempts,
            created: When::new(event.created_at, now),
            story: story(event, now),
            can_retry: event.state == State::Failed,
        }
    }

    /// Returns the rows of a list, with their destinations.
    pub(super) fn all(events: &[EventView], desk: &Desk, now: DateTime<Utc>) -> Vec<Self> {
        let row = |event| Self { destinations: desk.goes_to(event).unwrap_or_default(), ..Self::of(event, now) };
        events.iter().map(row).collect()
    }
}

fn story(event: &EventView, now: DateTime<Utc>) -> String {
    let error = words::shortened(&event.error_message, ERROR);
    let near = |at: Option<DateTime<Utc>>| at.map(|at| When::new(at, now).near).unwrap_or_default();
    let because = if error.is_empty() { String::new() } else { format!(": {error}") };
    match event.state {
        State::Delivered => {
            let took = event.delivered_at.and_then(|at| (at - event.created_at).to_std().ok());
            took.map(|took| format!("after {}", words::duration(took))).unwrap_or_default()
        }
        State::Failed => match &event.failed_on {
            Some(destination) if !error.starts_with(destination) => format!("{destination}{because}"),
            _ => error,
        },
        State::Parked => format!("parked on {}{because}", event.parked_on.as_deref().unwrap_or("unrouted")),
        State::Scheduled => format!("{}{because}", near(event.next_attempt_at)),
        State::Sending => format!("lease ends {}", near(event.next_attempt_at)),
        State::Due | State::Pending => format!("since {}{because}", near(event.next_attempt_at)),
    }
}
