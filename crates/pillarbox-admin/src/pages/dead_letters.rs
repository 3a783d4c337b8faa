//! `/dead-letters`: failed events by destination and error, and their retry.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::State as Using;
use axum::response::Response;
use chrono::{DateTime, Utc};
use pillarbox::store::Group;

use super::chart::{Bar, spark};
use super::frame::{Frame, Looking, shown};
use super::narrowed::Narrowed;
use super::words::{self, When};
use crate::asked::{Asked, WINDOW_HOURS};
use crate::desk::{Desk, ago};
use crate::refusal::Refusal;

const REFRESH: u32 = 10;
/// The windows: hours, and their names.
const WINDOWS: [(u32, &str); 4] = [(1, "last hour"), (24, "last day"), (168, "last week"), (720, "last 30 days")];

#[derive(Template)]
#[template(path = "dead_letters.html")]
struct DeadLettersPage {
    frame: Frame,
    narrowed: Narrowed,
    hours: u32,
    windows: [(u32, &'static str); 4],
    destinations: Vec<String>,
    groups: Vec<Shown>,
    total: String,
    /// The time that the search reached, if there is more.
    reached: Option<When>,
    looked_at: String,
    /// The link that retries all that match the filter.
    retry: String,
    /// The link to the list of the events.
    events: String,
}

/// A group of dead letters.
struct Shown {
    number: usize,
    destination: String,
    error: String,
    sample: String,
    count: String,
    first: When,
    last: When,
    event_types: String,
    bars: Vec<(Bar, bool)>,
    /// The chart as text, for screen readers.
    told: String,
    retry: String,
    events: String,
}

pub(super) async fn list(
    looking: Looking,
    Using(desk): Using<Arc<Desk>>,
    Asked(narrowed): Asked<Narrowed>,
) -> Result<Response, Refusal> {
    let hours = narrowed.hours()?.unwrap_or(WINDOW_HOURS);
    // Every link of the page carries the window that it shows.
    let narrowed = Narrowed { state: Narrowed::failed().state, hours: hours.to_string(), ..narrowed };
    let window = Duration::from_secs(3600 * u64::from(hours));
    let found = desk.dead_letters(&narrowed.filter()?, ago(window)).await?;
    let now = Utc::now();
    let total: u64 = found.groups.iter().map(|group| group.count).sum();
    let mut groups: Vec<Shown> = Vec::with_capacity(found.groups.len());
    for (place, group) in found.groups.iter().enumerate() {
        groups.push(Shown::of(place + 1, group, &narrowed, now));
    }
    Ok(shown(&DeadLettersPage {
        frame: looking.frame("Dead letters", REFRESH),
        hours,
        windows: WINDOWS,
        destinations: desk.destination_names(),
        groups,
        total: words::number(total),
        reached: found.reached.filter(|_| !found.complete).map(|at| When::new(at, now)),
        looked_at: words::number(found.looked_at),
        retry: narrowed.link("/bulk", &[("action", "retry")]),
        events: narrowed.link("/events", &[]),
        narrowed,
    }))
}

impl Shown {
    fn of(number: usize, group: &Group, narrowed: &Narrowed, now: DateTime<Utc>) -> Self {
        let destination = group.destination.clone().unwrap_or_default();
        let key = [
            ("action", "retry"),
            ("grouped", "1"),
            ("group_destination", destination.as_str()),
            ("group_error", group.error.as_str()),
        ];
        // Without this, the filter's own destination would be in the link twice.
        let of_destination = Narrowed { destination: destination.clone(), ..narrowed.clone() };
        Self {
            number,
            error: group.error.clone(),
            sample: group.sample.clone(),
            count: words::number(group.count),
            first: When::new(group.first_at, now),
            last: When::new(group.last_at, now),
            event_types: group.event_types.join(", "),
            bars: spark(&group.over_time),
            told: format!("Over time, oldest first: {}", counts(&group.over_time)),
            retry: narrowed.link("/bulk", &key),
            events: of_destination.link("/events", &[]),
            destination,
        }
    }
}

fn counts(over_time: &[u64]) -> String {
    over_time.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
