//! The query parameters of the API, as its document describes them.

use chrono::{DateTime, Utc};
use pillarbox::store::Paging;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::asked::{FilterAsked, StateName, WINDOW_HOURS, bad, cursor, hours, within};
use crate::desk::{EventFilter, MOST};
use crate::refusal::Refusal;

const USUAL_LIMIT: usize = 50;

/// A page of events. A parameter that is left out does not narrow the list
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsAsked {
    /// The state of the event
    #[param(inline)]
    state: Option<StateName>,
    /// The event type; `*` matches any characters: `order.*`
    event_type: Option<String>,
    /// The exact aggregate type
    aggregate_type: Option<String>,
    /// The exact aggregate id
    aggregate_id: Option<String>,
    /// Parked on this destination, or on `unrouted`
    parked_on: Option<String>,
    /// Routed to this destination, or failed on it
    destination: Option<String>,
    /// Part of the id, type, aggregate, key or error; case does not matter
    search: Option<String>,
    /// Emitted at or after this time
    since: Option<DateTime<Utc>>,
    /// Emitted before this time
    until: Option<DateTime<Utc>>,
    /// Failed at or after this time. Only dead letters match
    failed_since: Option<DateTime<Utc>>,
    /// Only events with failed attempts, delivered ones too
    had_failures: Option<bool>,
    /// The `next` of the previous page
    cursor: Option<String>,
    /// The `previous` of the next page; instead of `cursor`
    before: Option<String>,
    /// The maximum number of events of a page; 50 by default
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// Whether the oldest events come first; the newest by default
    oldest_first: Option<bool>,
}

impl EventsAsked {
    pub(super) fn lowered(self) -> Result<(EventFilter, Paging), Refusal> {
        if self.cursor.is_some() && self.before.is_some() {
            return Err(bad("cursor and before exclude each other; send one of them"));
        }
        let place = |text: Option<String>| text.map(|text| cursor(&text)).transpose();
        let turn = Paging {
            after: place(self.cursor)?,
            before: place(self.before)?,
            limit: limit(self.limit)?,
            oldest_first: self.oldest_first.unwrap_or(false),
        };
        let asked = FilterAsked {
            state: self.state,
            event_type: self.event_type,
            aggregate_type: self.aggregate_type,
            aggregate_id: self.aggregate_id,
            parked_on: self.parked_on,
            destination: self.destination,
            search: self.search,
            since: self.since,
            until: self.until,
            failed_since: self.failed_since,
            had_failures: self.had_failures.unwrap_or(false),
        };
        Ok((asked.filter()?, turn))
    }
}

/// Dead letters. A parameter that is left out does not narrow the list
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct DeadLettersAsked {
    /// The event type; `*` matches any characters: `order.*`
    event_type: Option<String>,
    /// The exact aggregate type
    aggregate_type: Option<String>,
    /// The exact aggregate id
    aggregate_id: Option<String>,
    /// Routed to this destination, or failed on it
    destination: Option<String>,
    /// Part of the id, type, aggregate, key or error; case does not matter
    search: Option<String>,
    /// The length of the window in hours; 168 by default
    #[param(minimum = 1, maximum = 8760)]
    hours: Option<u32>,
}

impl DeadLettersAsked {
    pub(super) fn lowered(self) -> Result<(EventFilter, u32), Refusal> {
        let asked = FilterAsked {
            event_type: self.event_type,
            aggregate_type: self.aggregate_type,
            aggregate_id: self.aggregate_id,
            destination: self.destination,
            search: self.search,
            ..FilterAsked::default()
        };
        Ok((asked.filter()?, hours(self.hours.unwrap_or(WINDOW_HOURS))?))
    }
}

/// The window of the metrics
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct WindowAsked {
    /// The length of the window in minutes; 60 by default
    #[param(minimum = 1, maximum = 1440)]
    minutes: Option<u32>,
}

impl WindowAsked {
    pub(super) fn minutes(&self) -> Result<u32, Refusal> {
        within("minutes", self.minutes.unwrap_or(60), 24 * 60)
    }
}

/// The text to search for
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct FindAsked {
    /// An id, an idempotency key, or an aggregate: `Order 42`, `Order:42` or `42`
    #[param(min_length = 1)]
    pub(super) q: String,
}

/// A page of the audit
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct AuditAsked {
    /// The `next` of the previous page
    pub(super) before: Option<i64>,
    /// The maximum number of lines of a page; 50 by default
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

impl AuditAsked {
    pub(super) fn limit(&self) -> Result<usize, Refusal> {
        limit(self.limit)
    }
}

fn limit(given: Option<usize>) -> Result<usize, Refusal> {
    match given {
        None => Ok(USUAL_LIMIT),
        Some(limit @ 1..=MOST) => Ok(limit),
        Some(limit) => Err(bad(format!("limit is {limit}, but must be from 1 to {MOST}"))),
    }
}
