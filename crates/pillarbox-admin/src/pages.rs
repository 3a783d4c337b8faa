//! The pages for people, rendered on the server. They get their data from the desk. Every action is a form that ends in a
//! redirect, and everything works without JavaScript. They know no store.
//!
//! | address | page |
//! |---|---|
//! | `/` | overview: problems, waiting events, throughput, latency, destinations, the write-ahead log, relays: `range` (`15m`, `1h`, `6h`, `24h`) |
//! | `/events` | the list: `state`, `event_type`, `aggregate_type`, `aggregate_id`, `destination`, `parked_on`, `search`, `since`, `until`, `when` (a year, month, day or hour), `had_failures=1`, `oldest_first=1`, `cursor`, `before` |
//! | `/search?q=` | an exact id, key or aggregate, else the list with the text as `search` |
//! | `/chosen` | the question before an action on events: `action` (`retry`, `replay`, `fail`), `id` (many), `back` |
//! | `/events/{id}` | one event; `/events/{id}/payload` is its whole payload, as a download; `/events/{id}/replay` asks where to |
//! | `/dead-letters` | groups by destination and error: `hours`, `destination`, `event_type`, `aggregate_type`, `aggregate_id`, `search` |
//! | `/bulk` | preview of a job: `action` (`retry`, `replay`, `fail`), the filter of the list, `grouped=1`, `group_destination`, `group_error` |
//! | `/destinations` | each with its health, waiting events and metrics: `range` |
//! | `/jobs`, `/jobs/{id}` | actions on many events and their progress |
//! | `/audit` | actions of users: `before` |
//! | `/login` | for users without a session |
//!
//! An unknown parameter is refused.
//!
//! Forms, all with the field `csrf`: `POST /events/{id}/retry`, `/events/{id}/fail` (`reason`), `/events/{id}/replay`
//! (`destination`), `/chosen` (and `destination`, `reason`), `/bulk` (and `rate`, `reason`), `/jobs/{id}/cancel`, `/destinations/{name}/pause`, `/destinations/{name}/resume`,
//! `/destinations/{name}/test`,
//! `/logout`.
//!
//! The script updates elements with `data-live`. Rows carry `data-event`, `data-state`, `data-destination`, `data-group`,
//! `data-job`, `data-audit`, `data-problem`, and the card of the log `data-log`.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn;
use axum::routing::{get, post};

use crate::asked::refuse_unknown;
use crate::desk::Desk;

pub(crate) use self::frame::then;

mod audit;
mod bulk;
mod chart;
mod chosen;
mod dead_letters;
mod destinations;
mod event;
mod events;
mod frame;
mod jobs;
mod log;
mod narrowed;
mod overview;
mod payload;
mod problems;
mod range;
mod rows;
mod search;
mod span;
mod tested;
mod words;

pub(crate) fn routes(desk: &Arc<Desk>) -> Router {
    Router::new()
        .route("/", get(overview::look))
        .route("/events", get(events::list))
        .route("/search", get(search::look))
        .route("/chosen", get(chosen::ask).post(chosen::act))
        .route("/events/{id}", get(event::look))
        .route("/events/{id}/payload", get(event::payload))
        .route("/events/{id}/retry", post(event::retry))
        .route("/events/{id}/fail", post(event::fail))
        .route("/events/{id}/replay", get(chosen::ask_replay).post(event::replay))
        .route("/dead-letters", get(dead_letters::list))
        .route("/bulk", get(bulk::preview).post(bulk::start))
        .route("/destinations", get(destinations::list))
        .route("/destinations/{name}/pause", post(destinations::pause))
        .route("/destinations/{name}/resume", post(destinations::resume))
        .route("/destinations/{name}/test", post(destinations::test))
        .route("/jobs", get(jobs::list))
        .route("/jobs/{id}", get(jobs::look))
        .route("/jobs/{id}/cancel", post(jobs::cancel))
        .route("/audit", get(audit::list))
        .with_state(Arc::clone(desk))
        .layer(from_fn(refuse_unknown))
}
