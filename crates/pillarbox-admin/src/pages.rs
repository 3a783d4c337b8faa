//! The pages for people, rendered on the server. They get their data from the desk. Every action is a form that ends in a
//! redirect, and everything works without JavaScript. They know no store.
//!
//! | address | page |
//! |---|---|
//! | `/` | overview: waiting events, throughput, latency, relays, destinations |
//! | `/events` | the list: `state`, `event_type`, `aggregate_type`, `aggregate_id`, `destination`, `parked_on`, `search`, `since`, `until`, `when` (a year, month, day or hour), `oldest_first=1`, `cursor` |
//! | `/search?q=` | an exact id, key or aggregate id, else the list with the text as `search` |
//! | `/events/{id}` | one event; `/events/{id}/payload` is its whole payload, as a download |
//! | `/dead-letters` | groups by destination and error: `hours`, `destination`, `event_type`, `aggregate_type`, `aggregate_id`, `search` |
//! | `/bulk` | preview of a job: `action` (`retry`, `replay`, `fail`), the filter of the list, `grouped=1`, `group_destination`, `group_error` |
//! | `/destinations` | each with its health and metrics |
//! | `/jobs`, `/jobs/{id}` | actions on many events and their progress |
//! | `/audit` | actions of users: `before` |
//! | `/login` | for users without a session |
//!
//! Forms, all with the field `csrf`: `POST /events/{id}/retry`, `/events/{id}/fail` (`reason`), `/events/{id}/replay`,
//! `/bulk` (and `rate`, `reason`), `/jobs/{id}/cancel`, `/destinations/{name}/pause`, `/destinations/{name}/resume`,
//! `/logout`.
//!
//! The script updates elements with `data-live`. Rows carry `data-event`, `data-state`, `data-destination`, `data-group`,
//! `data-job`, `data-audit`.

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
