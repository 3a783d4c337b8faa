//! `/events/{id}`: all details of one event, and the actions on it.

use std::sync::Arc;

use askama::Template;
use axum::extract::State as Using;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use pillarbox::store::{EventView, Marked, Replayed, Retried, State};
use serde::Deserialize;
use uuid::Uuid;

use super::frame::{Frame, Looking, shown, then};
use super::payload::Payload;
use super::rows::Row;
use super::words::{self, When};
use crate::access::login::place;
use crate::access::{Operator, Viewer};
use crate::asked::{At, Filled};
use crate::desk::{Desk, EventStory, Moment, What, WholePayload};
use crate::refusal::Refusal;

/// The page refreshes at this interval, in seconds, while the event may still change.
const REFRESH: u32 = 3;

#[derive(Template)]
#[template(path = "event.html")]
struct EventPage {
    frame: Frame,
    id: String,
    state: &'static str,
    event_type: String,
    error: String,
    fields: Vec<(&'static str, String)>,
    moments: Vec<(&'static str, When)>,
    goes_to: Option<Vec<String>>,
    trace_id: Option<String>,
    replay_of: Option<String>,
    replay_to: Option<String>,
    steps: Vec<Step>,
    payload: Payload,
    size: String,
    /// The content type of an opaque payload.
    content_type: Option<String>,
    headers: Vec<(String, String)>,
    deliveries: Vec<Delivery>,
    /// Commands by destination.
    requests: Vec<(String, String)>,
    neighbours: Vec<Row>,
    can_retry: bool,
    can_fail: bool,
    can_replay: bool,
}

/// A step of the timeline.
struct Step {
    class: &'static str,
    at: When,
    title: String,
    error: String,
    answer: Option<String>,
}

struct Delivery {
    destination: String,
    status: String,
    attempts: u32,
    at: Option<When>,
    error: String,
}

pub(super) async fn look(
    looking: Looking,
    Using(desk): Using<Arc<Desk>>,
    At(id): At<Uuid>,
) -> Result<Response, Refusal> {
    let (event, mut neighbours) = tokio::try_join!(desk.event(id), desk.neighbours(id))?;
    if !neighbours.iter().any(|neighbour| neighbour.id == id) {
        neighbours.push(event.detail.event.clone());
    }
    neighbours.sort_by_key(|neighbour| neighbour.seq);
    let lasts = matches!(event.detail.event.state, State::Delivered | State::Failed);
    let frame = looking.frame("Events", if lasts { 0 } else { REFRESH });
    Ok(shown(&EventPage::of(frame, event, &neighbours, Utc::now())))
}

impl EventPage {
    fn of(frame: Frame, shown: EventStory, neighbours: &[EventView], now: DateTime<Utc>) -> Self {
        let (detail, event) = (&shown.detail, &shown.detail.event);
        let opaque = shown.opaque.as_ref();
        let payload = opaque.map_or_else(|| Payload::of(detail.payload.get()), Payload::of_bytes);
        let others: Vec<Row> = neighbours.iter().map(|event| Row::of(event, now)).collect();
        let waits = matches!(event.state, State::Pending | State::Due | State::Scheduled | State::Parked);
        Self {
            frame,
            id: event.id.to_string(),
            state: event.state.as_str(),
            event_type: event.event_type.clone(),
            error: event.error_message.clone(),
            fields: fields(event),
            moments: moments(event, now),
            steps: shown.timeline.iter().map(|moment| Step::of(moment, now)).collect(),
            size: words::number(payload.size as u64),
            content_type: opaque.map(|opaque| opaque.content_type.clone()),
            payload,
            headers: detail.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            deliveries: detail
                .deliveries
                .iter()
                .map(|delivery| Delivery {
                    status: match &shown.replay_to {
                        Some(only) if *only != delivery.destination => "skipped".to_owned(),
                        _ => delivery.status.to_string(),
                    },
                    destination: delivery.destination.clone(),
                    attempts: delivery.attempts,
                    at: delivery.delivered_at.or(delivery.next_attempt_at).map(|at| When::new(at, now)),
                    error: delivery.error.clone(),
                })
                .collect(),
            requests: shown.requests.iter().map(|one| (one.destination.clone(), one.command.clone())).collect(),
            neighbours: others,
            can_retry: matches!(event.state, State::Failed | State::Scheduled | State::Parked),
            can_fail: waits,
            can_replay: matches!(event.state, State::Delivered | State::Failed),
            goes_to: shown.goes_to,
            trace_id: shown.trace_id,
            replay_of: shown.replay_of.filter(|id| id.parse::<Uuid>().is_ok()),
            replay_to: shown.replay_to,
        }
    }
}

fn fields(event: &EventView) -> Vec<(&'static str, String)> {
    let limit = match event.max_attempts {
        None => "the relay's limit".to_owned(),
        Some(0) => "no limit".to_owned(),
        Some(limit) => format!("a limit of {limit}"),
    };
    let mut fields = vec![
        ("Aggregate", format!("{} {}", event.aggregate_type, event.aggregate_id)),
        ("Idempotency key", event.idempotency_key.clone()),
        ("Id", event.id.to_string()),
        ("Sequence", event.seq.to_string()),
        ("Failures", format!("{}, of {limit}", event.attempts)),
    ];
    if event.claims > 0 {
        fields.push(("Lost claims", event.claims.to_string()));
    }
    fields.extend(event.parked_on.as_ref().map(|on| ("Parked on", on.clone())));
    fields.extend(event.failed_on.as_ref().map(|on| ("Failed on", on.clone())));
    fields
}

fn moments(event: &EventView, now: DateTime<Utc>) -> Vec<(&'static str, When)> {
    let mut moments = vec![("Emitted", event.created_at), ("Changed", event.updated_at)];
    moments.extend(event.delivered_at.map(|at| ("Delivered", at)));
    let next = if event.state == State::Sending { "Lease ends" } else { "Due" };
    moments.extend(event.next_attempt_at.map(|at| (next, at)));
    moments.into_iter().map(|(name, at)| (name, When::new(at, now))).collect()
}

impl Step {
    fn of(moment: &Moment, now: DateTime<Utc>) -> Self {
        let (class, title, error, answer) = match &moment.what {
            What::Committed => ("", "Committed".to_owned(), "", None),
            What::Failed { number, destination, took_ms, status_code, error, answer } => {
                let code = status_code.map(|code| format!(", status {code}")).unwrap_or_default();
                let title = format!("Attempt {number} to {destination} failed after {took_ms} ms{code}");
                ("failed", title, error.as_str(), answer.clone().filter(|answer| !answer.is_empty()))
            }
            What::Succeeded { number, destination, took_ms, status_code } => {
                let code = status_code.map(|code| format!("{code}, ")).unwrap_or_default();
                ("delivered", format!("Attempt {number} to {destination} delivered, {code}{took_ms} ms"), "", None)
            }
            What::DeliveredTo { destination } => ("delivered", format!("Delivered to {destination}"), "", None),
            What::Delivered => ("delivered", "Delivered".to_owned(), "", None),
            What::GivenUp { error } => ("failed", "Failed for good".to_owned(), error.as_str(), None),
            What::Parked { on, error } => ("parked", format!("Parked on {on}"), error.as_str(), None),
            What::Next => ("scheduled", "Next attempt".to_owned(), "", None),
        };
        Self { class, at: When::new(moment.at, now), title, error: error.to_owned(), answer }
    }
}

/// Returns the whole payload as a download, which the browser does not display.
pub(super) async fn payload(_: Viewer, Using(desk): Using<Arc<Desk>>, At(id): At<Uuid>) -> Result<Response, Refusal> {
    // Never the content type of the event: a browser must not take the bytes for a page.
    let (kind, suffix, body) = match desk.payload(id).await? {
        WholePayload::Json(json) => ("application/json", "json", json.get().as_bytes().to_vec()),
        WholePayload::Bytes(bytes) => ("application/octet-stream", "bin", bytes),
    };
    let kept = format!("attachment; filename=\"{id}.{suffix}\"");
    Ok(([(CONTENT_TYPE, kind.to_owned()), (CONTENT_DISPOSITION, kept)], body).into_response())
}

/// The page to return to after an action; the event itself if it is empty.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RetryAsked {
    back: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct FailAsked {
    back: String,
    reason: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ReplayAsked {
    back: String,
    /// The only destination; all if it is empty.
    destination: String,
}

/// Redirects to a list, or to the event with a notice of the action.
fn to(back: &str, id: Uuid, did: &str) -> Response {
    match back {
        "" => then(&format!("/events/{id}?did={did}")),
        back => then(place(Some(back))),
    }
}

pub(super) async fn retry(
    Operator(who): Operator,
    Using(desk): Using<Arc<Desk>>,
    At(id): At<Uuid>,
    Filled(asked): Filled<RetryAsked>,
) -> Result<Response, Refusal> {
    match desk.retry(vec![id], &who.name).await?.first() {
        Some((_, Retried::Due)) => Ok(to(&asked.back, id, "retry")),
        Some((_, Retried::BeingSent)) => Err(not_now()),
        Some((_, Retried::Delivered)) => Err(unchanged("it is already delivered; replay it to send it again")),
        Some((_, Retried::Unknown)) | None => Err(gone()),
    }
}

pub(super) async fn fail(
    Operator(who): Operator,
    Using(desk): Using<Arc<Desk>>,
    At(id): At<Uuid>,
    Filled(asked): Filled<FailAsked>,
) -> Result<Response, Refusal> {
    match desk.fail(&[id], &asked.reason, &who.name).await?.first() {
        Some((_, Marked::Failed)) => Ok(to(&asked.back, id, "fail")),
        Some((_, Marked::BeingSent)) => Err(not_now()),
        Some((_, Marked::Delivered)) => Err(unchanged("it is already delivered")),
        Some((_, Marked::Already)) => Err(unchanged("it is already a dead letter")),
        Some((_, Marked::Unknown)) | None => Err(gone()),
    }
}

pub(super) async fn replay(
    Operator(who): Operator,
    Using(desk): Using<Arc<Desk>>,
    At(id): At<Uuid>,
    Filled(asked): Filled<ReplayAsked>,
) -> Result<Response, Refusal> {
    let only = Some(asked.destination.as_str()).filter(|name| !name.is_empty());
    match desk.replay(&[id], only, &who.name).await?.first() {
        Some((_, Replayed::As { id })) => Ok(to(&asked.back, *id, "replay")),
        Some((_, Replayed::Pending)) => Err(unchanged("it is not delivered yet; retry it to make it due now")),
        Some((_, Replayed::NotRouted)) => Err(unchanged("no route leads it to this destination")),
        Some((_, Replayed::Unknown)) | None => Err(gone()),
    }
}

fn unchanged(why: &str) -> Refusal {
    Refusal::new(StatusCode::CONFLICT, format!("nothing was changed: {why}"))
}

fn not_now() -> Refusal {
    unchanged("it is being sent right now; try again in a moment")
}

fn gone() -> Refusal {
    Refusal::new(StatusCode::NOT_FOUND, "there is no such event; it may have been cleaned up")
}
