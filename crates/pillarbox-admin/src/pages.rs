//! The pages for people, rendered here. What they show they have from the desk; every action is a form that ends in a
//! redirect, and everything can be read and done without JavaScript. They know no store.
//!
//! | address | page |
//! |---|---|
//! | `/` | overview: what waits, what flows, latency, relays, destinations |
//! | `/events` | the list: `state`, `event_type`, `aggregate_type`, `aggregate_id`, `destination`, `parked_on`, `search`, `since`, `until`, `when` (a year, month, day or hour), `oldest_first=1`, `cursor` |
//! | `/search?q=` | an id, a key or an aggregate id exactly, else the list with that as `search` |
//! | `/events/{id}` | one event; `/events/{id}/payload` is all of its payload, to be saved |
//! | `/dead-letters` | groups by destination and error: `hours`, `destination`, `event_type`, `aggregate_type`, `aggregate_id`, `search` |
//! | `/bulk` | how many events it would be: `action` (`retry`, `replay`, `fail`), the filter of the list, `grouped=1`, `group_destination`, `group_error` |
//! | `/destinations` | each with its health and figures |
//! | `/jobs`, `/jobs/{id}` | work on many events and how far it is |
//! | `/audit` | who did what: `before` |
//! | `/login` | for those who are not known |
//!
//! Forms, all with the field `csrf`: `POST /events/{id}/retry`, `/events/{id}/fail` (`reason`), `/events/{id}/replay`,
//! `/bulk` (and `rate`, `reason`), `/jobs/{id}/cancel`, `/destinations/{name}/pause`, `/destinations/{name}/resume`,
//! `/logout`.
//!
//! Elements with `data-live` are those that the script keeps up to date. Rows carry `data-event`, `data-state`,
//! `data-destination`, `data-group`, `data-job`, `data-audit`.

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::desk::Desk;

pub(crate) use self::frame::then;

mod audit;
mod bulk;
mod chart;
mod dead_letters;
mod destinations;
mod event;
mod events;
mod frame;
mod jobs;
mod narrowed;
mod overview;
mod payload;
mod rows;
mod span;
mod words;

pub(crate) fn routes(desk: &Arc<Desk>) -> Router {
    Router::new()
        .route("/", get(overview::look))
        .route("/events", get(events::list))
        .route("/search", get(events::search))
        .route("/events/{id}", get(event::look))
        .route("/events/{id}/payload", get(event::payload))
        .route("/events/{id}/retry", post(event::retry))
        .route("/events/{id}/fail", post(event::fail))
        .route("/events/{id}/replay", post(event::replay))
        .route("/dead-letters", get(dead_letters::list))
        .route("/bulk", get(bulk::preview).post(bulk::start))
        .route("/destinations", get(destinations::list))
        .route("/destinations/{name}/pause", post(destinations::pause))
        .route("/destinations/{name}/resume", post(destinations::resume))
        .route("/jobs", get(jobs::list))
        .route("/jobs/{id}", get(jobs::look))
        .route("/jobs/{id}/cancel", post(jobs::cancel))
        .route("/audit", get(audit::list))
        .with_state(Arc::clone(desk))
}
