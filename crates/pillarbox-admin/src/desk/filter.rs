//! The filter of events, before it gets the routes that a store needs to search by destination.

use chrono::{DateTime, Utc};
use pillarbox::Routes;
use pillarbox::store::{Filter, State, ToDestination};

/// A filter of events; each field that is set narrows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// The state.
    pub state: Option<State>,
    /// The event type; `*` matches any characters.
    pub event_type: Option<String>,
    /// The exact aggregate type.
    pub aggregate_type: Option<String>,
    /// The exact aggregate id.
    pub aggregate_id: Option<String>,
    /// Parked on this destination, or on `unrouted`.
    pub parked_on: Option<String>,
    /// Routed to this destination, or failed on it.
    pub destination: Option<String>,
    /// Part of the id, type, aggregate, key or error.
    pub search: Option<String>,
    /// Emitted at or after this time.
    pub since: Option<DateTime<Utc>>,
    /// Emitted before this time.
    pub until: Option<DateTime<Utc>>,
    /// Failed at or after this time: the window of a list of dead letters.
    pub failed_since: Option<DateTime<Utc>>,
    /// Only events with failed attempts, delivered ones too.
    pub had_failures: bool,
}

impl EventFilter {
    /// Returns the store's filter, with the destination resolved by the routes.
    pub(super) fn with_routes(&self, routes: &Routes) -> Filter {
        let to = |name: &String| ToDestination { name: name.clone(), routes: routes.clone() };
        Filter {
            state: self.state,
            event_type: self.event_type.clone(),
            aggregate_type: self.aggregate_type.clone(),
            aggregate_id: self.aggregate_id.clone(),
            parked_on: self.parked_on.clone(),
            destination: self.destination.as_ref().map(to),
            search: self.search.clone(),
            since: self.since,
            until: self.until,
            failed_since: self.failed_since,
            had_failures: self.had_failures,
        }
    }

    /// Returns the filter as text for the audit and for lists of jobs: `state=failed type=order.*`, or `all`.
    #[must_use]
    pub fn shown(&self) -> String {
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
            self.had_failures.then(|| "had_failures".to_owned()),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { "all".to_owned() } else { parts.join(" ") }
    }
}
