//! Lists of events for people: the filter, and a page of results. Pure. `list/stretch.rs` chooses the index of a filter; the
//! stores read it.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::inspect::{EventView, State};
use crate::route::{Routes, Subject};

mod cursor;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod stretch;

pub use cursor::{BadCursor, Cursor};
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) use stretch::{BUDGET, Bound, Passed, Plan, Stretch, Way};

/// The maximum number of neighbours of an event, before and after it.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) const NEIGHBOURS: usize = 10;
/// The number of events before and after an event in which its neighbours are searched, if no index has them.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) const NEAR: usize = 5_000;

/// The events to list. Each field that is set narrows the list.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// The state.
    pub state: Option<State>,
    /// The event type; `*` matches anything.
    pub event_type: Option<String>,
    /// The exact aggregate type.
    pub aggregate_type: Option<String>,
    /// The exact aggregate id.
    pub aggregate_id: Option<String>,
    /// The destination that the event is parked on.
    pub parked_on: Option<String>,
    /// A destination that the event belongs to.
    pub destination: Option<ToDestination>,
    /// A part of its id, type, aggregate, key or error, ignoring case.
    pub search: Option<String>,
    /// The earliest time of the emit, inclusive.
    pub since: Option<DateTime<Utc>>,
    /// The latest time of the emit, exclusive.
    pub until: Option<DateTime<Utc>>,
    /// The earliest time of the failure, inclusive. It matches dead letters only.
    pub failed_since: Option<DateTime<Utc>>,
    /// Whether only events with failed attempts match, delivered ones too.
    pub had_failures: bool,
}

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
impl Filter {
    /// Returns false if a text contains NUL. No stored text contains NUL, and one database rejects it in a search.
    pub(crate) fn can_match(&self) -> bool {
        let Self { event_type, aggregate_type, aggregate_id, parked_on, search, destination, .. } = self;
        let texts = [event_type, aggregate_type, aggregate_id, parked_on, search].into_iter().flatten();
        let names = destination.iter().map(|to| &to.name);
        !texts.chain(names).any(|text| text.contains('\0'))
    }
}

/// A destination and the routes to it. An event belongs to the destination if its route leads there, if it is parked on it,
/// or if a stored delivery or failed attempt names it. If a condition of a route decides, the payloads of the listed events are read.
#[derive(Debug, Clone)]
pub struct ToDestination {
    /// The destination's name.
    pub name: String,
    /// The routes. The first route that matches decides.
    pub routes: Routes,
}

#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
impl ToDestination {
    /// Returns the other destinations of an event that is routed to this one; `None` if it is not routed here.
    pub(crate) fn others<'a>(&self, event: impl Into<Subject<'a>>) -> Option<Vec<String>> {
        self.beside(self.routes.route(event)?)
    }

    /// Returns the other ones of these destinations; `None` if this one is not among them.
    pub(crate) fn beside(&self, all: &[String]) -> Option<Vec<String>> {
        all.contains(&self.name).then(|| all.iter().filter(|name| **name != self.name).cloned().collect())
    }
}

/// The part of a list to read.
#[derive(Debug, Clone, Default)]
pub struct Paging {
    /// The place after which the page begins: the `next` of the page before.
    pub after: Option<Cursor>,
    /// The place before which the page ends: the `previous` of the page after it. If it is set, `after` is ignored.
    pub before: Option<Cursor>,
    /// The maximum number of events; 0 means 50.
    pub limit: usize,
    /// Whether the oldest events come first. By default the newest do: by emit time, or for delivered and failed events by the
    /// time of delivery or failure. Waiting events (pending, due, scheduled, sending, parked) are always listed in the order
    /// in which they are due. Parked events come after the others, by the name that they are parked on.
    pub oldest_first: bool,
}

impl Paging {
    /// Returns the first page, with this limit.
    #[must_use]
    pub fn first(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Returns the page after this place.
    #[must_use]
    pub fn after(self, cursor: Cursor) -> Self {
        Self { after: Some(cursor), before: None, ..self }
    }

    /// Returns the page before this place.
    #[must_use]
    pub fn before(self, cursor: Cursor) -> Self {
        Self { after: None, before: Some(cursor), ..self }
    }

    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    pub(crate) fn most(&self) -> usize {
        if self.limit == 0 { 50 } else { self.limit }
    }
}

/// A page of a list. Its cost is bounded for every filter, because a page examines a limited number of events. A page with few
/// or no events and a `next` has not reached the end.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct Page {
    /// The matching events, in the list's order.
    pub events: Vec<EventView>,
    /// The place to continue from; `None` at the end.
    pub next: Option<Cursor>,
    /// The place before which the previous page ends; `None` at the beginning.
    pub previous: Option<Cursor>,
    /// The number of events that were examined.
    pub looked_at: u64,
    /// The time that the page reached, in the time by which the list is ordered.
    pub reached: Option<DateTime<Utc>>,
}
