//! Which events people want to see, before the routes are looked at.

use chrono::{DateTime, Utc};
use pillarbox::store::{Filter, State, ToDestination};

use super::Desk;

/// Each field that is set narrows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) state: Option<State>,
    /// `*` stands for anything.
    pub(crate) event_type: Option<String>,
    pub(crate) aggregate_type: Option<String>,
    pub(crate) aggregate_id: Option<String>,
    pub(crate) parked_on: Option<String>,
    /// Routed to it, or failed on it.
    pub(crate) destination: Option<String>,
    /// Part of its id, type, aggregate, key or error.
    pub(crate) search: Option<String>,
    /// Emitted at or after.
    pub(crate) since: Option<DateTime<Utc>>,
    /// Emitted before.
    pub(crate) until: Option<DateTime<Utc>>,
    /// Failed at or after: the window of a list of dead letters.
    pub(crate) failed_since: Option<DateTime<Utc>>,
}

impl Desk {
    pub(super) fn filter(&self, wanted: &Wanted) -> Filter {
        let to = |name: &String| ToDestination { name: name.clone(), routes: self.routes.clone() };
        Filter {
            state: wanted.state,
            event_type: wanted.event_type.clone(),
            aggregate_type: wanted.aggregate_type.clone(),
            aggregate_id: wanted.aggregate_id.clone(),
            parked_on: wanted.parked_on.clone(),
            destination: wanted.destination.as_ref().map(to),
            search: wanted.search.clone(),
            since: wanted.since,
            until: wanted.until,
            failed_since: wanted.failed_since,
        }
    }
}

impl Wanted {
    /// For the audit and for lists of jobs: `state=failed type=order.*`, or `all`.
    pub(crate) fn shown(&self) -> String {
        let text = |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("{name}={value}"));
        let moment = |name: &str, value: Option<DateTime<Utc>>| value.map(|at| format!("{name}={}", at.to_rfc3339()));
        let parts = [
            self.state.map(|state| format!("state={}", state.as_str())),
            text("type", &self.event_type),
            text("aggregate", &self.aggregate_type),
            text("id", &self.aggregate_id),
            text("parked_on", &self.parked_on),
            text("destination", &self.destination),
            text("search", &self.search),
            moment("since", self.since),
            moment("until", self.until),
            moment("failed_since", self.failed_since),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { "all".to_owned() } else { parts.join(" ") }
    }
}
