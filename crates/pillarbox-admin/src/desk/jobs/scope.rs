//! The events of a job, as its row stores them. Another version of the program may have written the row, so unknown fields
//! are an error: a job must not act on more events than were chosen.

use chrono::{DateTime, Utc};
use pillarbox::Routes;
use pillarbox::store::{Filter, State, ToDestination};
use serde::{Deserialize, Serialize};

use super::walk::Chosen;
use super::{GroupKey, JobScope};
use crate::desk::EventFilter;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stored {
    state: String,
    event_type: Option<String>,
    aggregate_type: Option<String>,
    aggregate_id: Option<String>,
    parked_on: Option<String>,
    destination: Option<String>,
    search: Option<String>,
    since: Option<DateTime<Utc>>,
    until: Option<DateTime<Utc>>,
    failed_since: Option<DateTime<Utc>>,
    #[serde(default)]
    had_failures: bool,
    group: Option<GroupKey>,
    /// Left out if there is none, so that an older version of the program can continue any other job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replay_to: Option<String>,
}

/// The events of a job, and the only destination of a replay.
pub(super) struct Scope {
    pub(super) chosen: Chosen,
    pub(super) only: Option<ToDestination>,
}

impl Stored {
    pub(super) fn new(scope: &JobScope, state: Option<State>) -> Self {
        let filter = scope.filter.clone();
        Self {
            state: state.unwrap_or(State::Failed).as_str().to_owned(),
            event_type: filter.event_type,
            aggregate_type: filter.aggregate_type,
            aggregate_id: filter.aggregate_id,
            parked_on: filter.parked_on,
            destination: filter.destination,
            search: filter.search,
            since: filter.since,
            until: filter.until,
            failed_since: filter.failed_since,
            had_failures: filter.had_failures,
            group: scope.group.clone(),
            replay_to: scope.replay_to.clone(),
        }
    }

    pub(super) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads the stored form. A destination is resolved by the routes of this process.
    pub(super) fn scope(json: &str, routes: &Routes) -> Result<Scope, String> {
        let stored: Self = serde_json::from_str(json).map_err(|error| format!("its filter cannot be read: {error}"))?;
        let state = State::parse(&stored.state).ok_or_else(|| format!("its state {:?} is unknown", stored.state))?;
        let filter = EventFilter {
            state: Some(state),
            event_type: stored.event_type,
            aggregate_type: stored.aggregate_type,
            aggregate_id: stored.aggregate_id,
            parked_on: stored.parked_on,
            destination: stored.destination,
            search: stored.search,
            since: stored.since,
            until: stored.until,
            failed_since: stored.failed_since,
            had_failures: stored.had_failures,
        };
        let filter: Filter = filter.with_routes(routes);
        let only = stored.replay_to.map(|name| ToDestination { name, routes: routes.clone() });
        Ok(Scope { chosen: Chosen { filter, group: stored.group }, only })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_read_as_it_was_written() {
        let at = "2026-11-15T20:30:00.123456Z".parse().unwrap();
        let scope = JobScope {
            filter: EventFilter {
                event_type: Some("order.*".to_owned()),
                failed_since: Some(at),
                ..EventFilter::default()
            },
            group: Some(GroupKey { destination: None, error: "the receiver answered #".to_owned() }),
            replay_to: Some("mail".to_owned()),
        };
        let json = Stored::new(&scope, Some(State::Failed)).to_json();
        let Scope { chosen, only } = Stored::scope(&json, &Routes::default()).unwrap();
        assert_eq!(only.unwrap().name, "mail");
        assert_eq!(chosen.filter.state, Some(State::Failed));
        assert_eq!((chosen.filter.event_type.as_deref(), chosen.filter.failed_since), (Some("order.*"), Some(at)));
        assert_eq!(chosen.group, scope.group);
        assert!(Stored::scope(r#"{"state":"failed","tenant":"acme"}"#, &Routes::default()).is_err());
        assert!(Stored::scope(r#"{"state":"lost"}"#, &Routes::default()).is_err());
        let all = Stored::new(&JobScope::default(), Some(State::Delivered)).to_json();
        assert!(!all.contains("replay_to"), "an older version would refuse the job: {all}");
    }
}
