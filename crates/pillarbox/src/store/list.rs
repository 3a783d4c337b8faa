//! Lists of events as people ask for them: what a filter narrows, and a page of it. Pure: which way through the table a
//! filter takes stands in `list/stretch.rs`, and how that is read, with the stores.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::inspect::{EventView, State};
use crate::route::Routes;

mod cursor;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod stretch;

pub use cursor::{BadCursor, Cursor};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) use stretch::{BUDGET, Bound, Passed, Plan, Stretch, Way};

/// How many events of an aggregate a look-up finds.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) const FOUND: usize = 50;
/// How many neighbours of an event are told, before and behind it.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) const NEIGHBOURS: usize = 10;
/// How many events before and behind it they are looked for among, if no index knows them.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) const NEAR: usize = 5_000;

/// Which events to list; each field that is set narrows it.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// In this state.
    pub state: Option<State>,
    /// Event type; `*` stands for anything.
    pub event_type: Option<String>,
    /// Exactly this aggregate type.
    pub aggregate_type: Option<String>,
    /// Exactly this aggregate id.
    pub aggregate_id: Option<String>,
    /// Parked on this destination.
    pub parked_on: Option<String>,
    /// Of this destination.
    pub destination: Option<ToDestination>,
    /// Part of its id, type, aggregate, key or error, whatever the case.
    pub search: Option<String>,
    /// Emitted at or after.
    pub since: Option<DateTime<Utc>>,
    /// Emitted before.
    pub until: Option<DateTime<Utc>>,
    /// Failed at or after. It matches dead letters only: nothing else has failed.
    pub failed_since: Option<DateTime<Utc>>,
}

#[cfg(any(feature = "postgres", feature = "sqlite"))]
impl Filter {
    /// A database's text holds no NUL, and one of them refuses to look for it.
    pub(crate) fn can_match(&self) -> bool {
        let Self { event_type, aggregate_type, aggregate_id, parked_on, search, destination, .. } = self;
        let texts = [event_type, aggregate_type, aggregate_id, parked_on, search].into_iter().flatten();
        let names = destination.iter().map(|to| &to.name);
        !texts.chain(names).any(|text| text.contains('\0'))
    }
}

/// A destination, and what leads there: an event is of it if its route leads there, if it is parked on it, or if a delivery
/// or a failed attempt that is kept names it.
#[derive(Debug, Clone)]
pub struct ToDestination {
    /// The destination's name.
    pub name: String,
    /// The routes, of which the first that matches decides.
    pub routes: Routes,
}

/// Which part of a list, and how much of it.
#[derive(Debug, Clone, Default)]
pub struct Turn {
    /// Behind this place: the `next` of the page before.
    pub after: Option<Cursor>,
    /// At most so many; 0 means 50.
    pub limit: usize,
    /// The oldest first. Otherwise the newest: by when they were emitted or, of delivered and failed ones, by when that
    /// happened. What waits (pending, due, scheduled, sending, parked) is always listed in the order in which it is due,
    /// and what is parked behind what is not, by what it waits for.
    pub oldest_first: bool,
}

impl Turn {
    /// The first page, of so many.
    #[must_use]
    pub fn first(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// The page behind this place.
    #[must_use]
    pub fn after(self, cursor: Cursor) -> Self {
        Self { after: Some(cursor), ..self }
    }

    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(crate) fn most(&self) -> usize {
        if self.limit == 0 { 50 } else { self.limit }
    }
}

/// A page of a list. What it costs has a bound, whatever the filter: a page looks at so many events and no more. One that
/// has found few, or none, and has a `next` has not seen the end.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct Page {
    /// What was found, in the list's order.
    pub events: Vec<EventView>,
    /// Where to go on; `None` at the end.
    pub next: Option<Cursor>,
    /// How many events were looked at.
    pub looked_at: u64,
    /// How far that led, in the time by which the list is ordered.
    pub reached: Option<DateTime<Utc>>,
}
