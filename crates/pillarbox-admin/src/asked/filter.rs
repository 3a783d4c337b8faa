//! The filter of events in requests: typed in the API, as text in pages.

use chrono::{DateTime, NaiveDateTime, Utc};
use pillarbox::store::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{bad, storable};
use crate::desk::EventFilter;
use crate::refusal::Refusal;

/// The state of an event
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StateName {
    Pending,
    Due,
    Scheduled,
    Sending,
    Parked,
    Delivered,
    Failed,
}

impl From<StateName> for State {
    fn from(name: StateName) -> Self {
        match name {
            StateName::Pending => Self::Pending,
            StateName::Due => Self::Due,
            StateName::Scheduled => Self::Scheduled,
            StateName::Sending => Self::Sending,
            StateName::Parked => Self::Parked,
            StateName::Delivered => Self::Delivered,
            StateName::Failed => Self::Failed,
        }
    }
}

impl From<State> for StateName {
    fn from(state: State) -> Self {
        match state {
            State::Pending => Self::Pending,
            State::Due => Self::Due,
            State::Scheduled => Self::Scheduled,
            State::Sending => Self::Sending,
            State::Parked => Self::Parked,
            State::Delivered => Self::Delivered,
            State::Failed => Self::Failed,
        }
    }
}

/// A filter of events; each field that is set narrows it
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[schema(as = Narrowed)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FilterAsked {
    pub(crate) state: Option<StateName>,
    /// The event type; `*` matches any characters: `order.*`
    pub(crate) event_type: Option<String>,
    pub(crate) aggregate_type: Option<String>,
    pub(crate) aggregate_id: Option<String>,
    /// Parked on this destination, or on `unrouted`
    pub(crate) parked_on: Option<String>,
    /// Routed to this destination, or failed on it
    pub(crate) destination: Option<String>,
    /// Part of the id, type, aggregate, key or error; case does not matter
    pub(crate) search: Option<String>,
    /// Emitted at or after this time
    pub(crate) since: Option<DateTime<Utc>>,
    /// Emitted before this time
    pub(crate) until: Option<DateTime<Utc>>,
    /// Failed at or after this time: the `since` of `/dead-letters`. Only dead letters match
    pub(crate) failed_since: Option<DateTime<Utc>>,
    /// Only events with failed attempts, delivered ones too
    pub(crate) had_failures: bool,
}

impl FilterAsked {
    pub(crate) fn filter(self) -> Result<EventFilter, Refusal> {
        Ok(EventFilter {
            state: self.state.map(State::from),
            event_type: storable("event_type", self.event_type)?,
            aggregate_type: storable("aggregate_type", self.aggregate_type)?,
            aggregate_id: storable("aggregate_id", self.aggregate_id)?,
            parked_on: storable("parked_on", self.parked_on)?,
            destination: storable("destination", self.destination)?,
            search: storable("search", self.search)?,
            since: self.since,
            until: self.until,
            failed_since: self.failed_since,
            had_failures: self.had_failures,
        })
    }
}

/// Reads a state from text.
pub(crate) fn state(text: &str) -> Result<StateName, Refusal> {
    let known = State::parse(text).map(StateName::from);
    known.ok_or_else(|| bad(format!("state is {text:?}, which is not a state; choose one of the list")))
}

/// Reads a time as a browser's field writes it, or with its zone.
pub(crate) fn moment(name: &str, text: &str) -> Result<DateTime<Utc>, Refusal> {
    let zoned = || DateTime::parse_from_rfc3339(text).ok().map(|at| at.to_utc());
    let plain = || {
        let formats = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"];
        formats.iter().find_map(|format| NaiveDateTime::parse_from_str(text, format).ok()).map(|at| at.and_utc())
    };
    let refusal = || bad(format!("{name} is {text:?}, but must be a date and a time, like 2026-11-15T20:30"));
    zoned().or_else(plain).ok_or_else(refusal)
}
