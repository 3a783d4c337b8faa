//! Reads of the API: each calls the desk and returns a view.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use uuid::Uuid;

use super::parameters::{AuditAsked, DeadLettersAsked, EventsAsked, FindAsked, WindowAsked};
use super::problem::Unread;
use super::views::{
    AuditPage, DeadLetterGroups, Destinations, EventFull, EventPage, Events, FoundEvents, Minutes, Overview, Relays,
};
use crate::access::Viewer;
use crate::asked::{Asked, At, bad};
use crate::desk::{Desk, WholePayload, ago};
use crate::refusal::Refusal;

type Answer<T> = Result<Json<T>, Refusal>;
type AtDesk = State<Arc<Desk>>;

/// Throughput, waiting events and latency
#[utoipa::path(get, path = "/overview", tag = "metrics", params(WindowAsked), responses((status = 200, body = Overview), Unread))]
pub(super) async fn overview(_: Viewer, State(desk): AtDesk, Asked(asked): Asked<WindowAsked>) -> Answer<Overview> {
    Ok(Json(desk.overview(minutes_long(asked.minutes()?)).await?.into()))
}

/// Deliveries and failures per minute and destination
#[utoipa::path(get, path = "/minutes", tag = "metrics", params(WindowAsked), responses((status = 200, body = Minutes), Unread))]
pub(super) async fn minutes(_: Viewer, State(desk): AtDesk, Asked(asked): Asked<WindowAsked>) -> Answer<Minutes> {
    Ok(Json(desk.minutes(minutes_long(asked.minutes()?)).await?.into()))
}

/// A page of events
///
/// The number of events searched per page is bounded. So a page may have few events, or none, and still a `next` to
/// continue with.
#[utoipa::path(get, path = "/events", tag = "events", params(EventsAsked), responses((status = 200, body = EventPage), Unread))]
pub(super) async fn events(_: Viewer, State(desk): AtDesk, Asked(asked): Asked<EventsAsked>) -> Answer<EventPage> {
    let (filter, turn) = asked.lowered()?;
    Ok(Json(desk.events(&filter, &turn).await?.into()))
}

/// One event with all details
#[utoipa::path(get, path = "/events/{id}", tag = "events", params(("id" = Uuid, Path, description = "The event's id")), responses((status = 200, body = EventFull), Unread))]
pub(super) async fn event(_: Viewer, State(desk): AtDesk, At(id): At<Uuid>) -> Answer<EventFull> {
    Ok(Json(desk.event(id).await?.into()))
}

/// Events of the same aggregate around this one
#[utoipa::path(get, path = "/events/{id}/neighbours", tag = "events", params(("id" = Uuid, Path, description = "The event's id")), responses((status = 200, body = Events), Unread))]
pub(super) async fn neighbours(_: Viewer, State(desk): AtDesk, At(id): At<Uuid>) -> Answer<Events> {
    Ok(Json(desk.neighbours(id).await?.into()))
}

/// The payload alone, with masked values hidden: JSON as it is stored, or the bytes of an opaque payload
#[utoipa::path(get, path = "/events/{id}/payload", tag = "events", params(("id" = Uuid, Path, description = "The event's id")), responses((status = 200, content((serde_json::Value = "application/json"), (Vec<u8> = "application/octet-stream"))), Unread))]
pub(super) async fn payload(_: Viewer, State(desk): AtDesk, At(id): At<Uuid>) -> Result<Response, Refusal> {
    Ok(match desk.payload(id).await? {
        WholePayload::Json(json) => ([(CONTENT_TYPE, "application/json")], json.get().to_owned()).into_response(),
        WholePayload::Bytes(bytes) => ([(CONTENT_TYPE, "application/octet-stream")], bytes).into_response(),
    })
}

/// Events with this id or idempotency key, or of this aggregate: `42`, `Order 42` or `Order:42`; the newest first
#[utoipa::path(get, path = "/find", tag = "events", params(FindAsked), responses((status = 200, body = FoundEvents), Unread))]
pub(super) async fn find(_: Viewer, State(desk): AtDesk, Asked(asked): Asked<FindAsked>) -> Answer<FoundEvents> {
    let text = asked.q.trim();
    if text.is_empty() || text.contains('\0') {
        return Err(bad("q must be an id, an idempotency key or an aggregate, such as `Order 42`"));
    }
    Ok(Json(FoundEvents::new(desk.find(text).await?, desk.kept())))
}

/// Dead letters by destination and error
#[utoipa::path(get, path = "/dead-letters", tag = "dead letters", params(DeadLettersAsked), responses((status = 200, body = DeadLetterGroups), Unread))]
pub(super) async fn dead_letters(
    _: Viewer,
    State(desk): AtDesk,
    Asked(asked): Asked<DeadLettersAsked>,
) -> Answer<DeadLetterGroups> {
    let (filter, hours) = asked.lowered()?;
    let since = ago(Duration::from_secs(u64::from(hours) * 3600));
    Ok(Json(DeadLetterGroups::new(desk.dead_letters(&filter, since).await?, since)))
}

/// Destinations with their health and recent metrics
#[utoipa::path(get, path = "/destinations", tag = "destinations", params(WindowAsked), responses((status = 200, body = Destinations), Unread))]
pub(super) async fn destinations(
    _: Viewer,
    State(desk): AtDesk,
    Asked(asked): Asked<WindowAsked>,
) -> Answer<Destinations> {
    Ok(Json(desk.destinations(minutes_long(asked.minutes()?)).await?.into()))
}

/// Relays that have written a heartbeat
#[utoipa::path(get, path = "/relays", tag = "metrics", responses((status = 200, body = Relays), Unread))]
pub(super) async fn relays(_: Viewer, State(desk): AtDesk) -> Answer<Relays> {
    Ok(Json(desk.relays().await?.into()))
}

/// Actions of people, newest first
#[utoipa::path(get, path = "/audit", tag = "audit", params(AuditAsked), responses((status = 200, body = AuditPage), Unread))]
pub(super) async fn audit(_: Viewer, State(desk): AtDesk, Asked(asked): Asked<AuditAsked>) -> Answer<AuditPage> {
    let limit = asked.limit()?;
    Ok(Json(AuditPage::new(desk.audit(asked.before, limit).await?, limit)))
}

fn minutes_long(minutes: u32) -> Duration {
    Duration::from_secs(u64::from(minutes) * 60)
}
