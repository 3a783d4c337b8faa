//! Actions on events by id, and on destinations.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use pillarbox::sink::Tested;
use pillarbox::store::{Marked, Replayed, Retried};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::problem::Undone;
use crate::access::Operator;
use crate::asked::{At, Body, MaybeBody};
use crate::desk::{Desk, Trial, advice, kind_name};
use crate::refusal::Refusal;

type AtDesk = State<Arc<Desk>>;
type Answer<T> = Result<Json<T>, Refusal>;

/// The events to act on
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Ids {
    /// The events' ids
    #[schema(min_items = 1, max_items = 500)]
    ids: Vec<Uuid>,
}

/// The events to emit again
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct IdsAndDestination {
    /// The events' ids
    #[schema(min_items = 1, max_items = 500)]
    ids: Vec<Uuid>,
    /// The only destination that receives the new events; all their destinations by default
    destination: Option<String>,
}

/// The destination of a replay
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Only {
    /// The only destination that receives the new event; all its destinations by default
    destination: Option<String>,
}

/// The events to act on, and the reason
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct IdsAndReason {
    /// The events' ids
    #[schema(min_items = 1, max_items = 500)]
    ids: Vec<Uuid>,
    /// The reason, which becomes part of the events' error
    #[serde(default)]
    #[schema(max_length = 500)]
    reason: String,
}

/// The reason of an action
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Reason {
    /// The reason, which becomes part of the event's error
    #[serde(default)]
    #[schema(max_length = 500)]
    reason: String,
}

/// The result of an action, event by event
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Done {
    /// The number of events that were changed
    changed: usize,
    /// The events, in the order of the request
    events: Vec<DoneOne>,
}

/// The result of an action for one event
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DoneOne {
    id: Uuid,
    /// The event's new state, or why nothing was changed
    result: DoneResult,
    /// The id of the new event that a replay emitted
    replayed_as: Option<Uuid>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum DoneResult {
    /// Due now, with its attempts reset
    Due,
    /// Marked failed
    Failed,
    /// Emitted again, as a new event
    Replayed,
    /// Being sent right now: nothing was changed
    BeingSent,
    /// Already delivered: nothing was changed
    Delivered,
    /// Already a dead letter: nothing was changed
    FailedAlready,
    /// Not delivered yet: nothing was changed
    Pending,
    /// Not routed to the destination: nothing was changed
    NotRouted,
    /// There is no such event
    Unknown,
}

impl Done {
    fn new(events: Vec<DoneOne>) -> Self {
        let is_change =
            |one: &&DoneOne| matches!(one.result, DoneResult::Due | DoneResult::Failed | DoneResult::Replayed);
        Self { changed: events.iter().filter(is_change).count(), events }
    }

    fn retried(answers: Vec<(Uuid, Retried)>) -> Self {
        let one = |(id, retried)| {
            let result = match retried {
                Retried::Due => DoneResult::Due,
                Retried::BeingSent => DoneResult::BeingSent,
                Retried::Delivered => DoneResult::Delivered,
                Retried::Unknown => DoneResult::Unknown,
            };
            DoneOne { id, result, replayed_as: None }
        };
        Self::new(answers.into_iter().map(one).collect())
    }

    fn failed(answers: Vec<(Uuid, Marked)>) -> Self {
        let one = |(id, marked)| {
            let result = match marked {
                Marked::Failed => DoneResult::Failed,
                Marked::BeingSent => DoneResult::BeingSent,
                Marked::Delivered => DoneResult::Delivered,
                Marked::Already => DoneResult::FailedAlready,
                Marked::Unknown => DoneResult::Unknown,
            };
            DoneOne { id, result, replayed_as: None }
        };
        Self::new(answers.into_iter().map(one).collect())
    }

    fn replayed(answers: Vec<(Uuid, Replayed)>) -> Self {
        let one = |(id, replayed)| {
            let (result, replayed_as) = match replayed {
                Replayed::As { id } => (DoneResult::Replayed, Some(id)),
                Replayed::Pending => (DoneResult::Pending, None),
                Replayed::NotRouted => (DoneResult::NotRouted, None),
                Replayed::Unknown => (DoneResult::Unknown, None),
            };
            DoneOne { id, result, replayed_as }
        };
        Self::new(answers.into_iter().map(one).collect())
    }

    /// Turns the result of a single event into a response: 404 for an unknown event, 409 for one that was not changed.
    fn single(self) -> Answer<Self> {
        use axum::http::StatusCode;
        let Some(one) = self.events.first() else { return Ok(Json(self)) };
        let conflict = |what: &str| Err(Refusal::new(StatusCode::CONFLICT, format!("event {} {what}", one.id)));
        match one.result {
            DoneResult::Due | DoneResult::Failed | DoneResult::Replayed => Ok(Json(self)),
            DoneResult::BeingSent => conflict("is being sent right now; nothing was changed: try again later"),
            DoneResult::Delivered => conflict("is already delivered; nothing was changed: use replay to send it again"),
            DoneResult::FailedAlready => conflict("is already a dead letter; nothing was changed"),
            DoneResult::Pending => conflict("is not delivered yet; nothing was changed: use retry to make it due now"),
            DoneResult::NotRouted => {
                conflict("is not routed to this destination; nothing was changed: see its goes_to")
            }
            DoneResult::Unknown => Err(Refusal::new(
                StatusCode::NOT_FOUND,
                format!("there is no event {}; it may have been cleaned up", one.id),
            )),
        }
    }
}

/// Make events due now, with their attempts reset
#[utoipa::path(post, path = "/events/retry", tag = "events", request_body = Ids, responses((status = 200, body = Done), Undone))]
pub(super) async fn retry(Operator(who): Operator, State(desk): AtDesk, Body(body): Body<Ids>) -> Answer<Done> {
    Ok(Json(Done::retried(desk.retry(body.ids, &who.name).await?)))
}

/// Mark events failed
#[utoipa::path(post, path = "/events/fail", tag = "events", request_body = IdsAndReason, responses((status = 200, body = Done), Undone))]
pub(super) async fn fail(Operator(who): Operator, State(desk): AtDesk, Body(body): Body<IdsAndReason>) -> Answer<Done> {
    Ok(Json(Done::failed(desk.fail(&body.ids, &body.reason, &who.name).await?)))
}

/// Emit delivered or failed events again, as new events, to all their destinations or to one
#[utoipa::path(post, path = "/events/replay", tag = "events", request_body = IdsAndDestination, responses((status = 200, body = Done), Undone))]
pub(super) async fn replay(
    Operator(who): Operator,
    State(desk): AtDesk,
    Body(body): Body<IdsAndDestination>,
) -> Answer<Done> {
    Ok(Json(Done::replayed(desk.replay(&body.ids, body.destination.as_deref(), &who.name).await?)))
}

/// Make an event due now, with its attempts reset
#[utoipa::path(post, path = "/events/{id}/retry", tag = "events", params(("id" = Uuid, Path, description = "The event's id")), responses((status = 200, body = Done), Undone))]
pub(super) async fn retry_one(Operator(who): Operator, State(desk): AtDesk, At(id): At<Uuid>) -> Answer<Done> {
    Done::retried(desk.retry(vec![id], &who.name).await?).single()
}

/// Mark an event failed
#[utoipa::path(post, path = "/events/{id}/fail", tag = "events", params(("id" = Uuid, Path, description = "The event's id")), request_body = Reason, responses((status = 200, body = Done), Undone))]
pub(super) async fn fail_one(
    Operator(who): Operator,
    State(desk): AtDesk,
    At(id): At<Uuid>,
    Body(body): Body<Reason>,
) -> Answer<Done> {
    Done::failed(desk.fail(&[id], &body.reason, &who.name).await?).single()
}

/// Emit a delivered or failed event again, as a new event, to all its destinations or to one
#[utoipa::path(post, path = "/events/{id}/replay", tag = "events", params(("id" = Uuid, Path, description = "The event's id")), request_body(content = Option<Only>, description = "The only destination; without a body, all of the event's"), responses((status = 200, body = Done), Undone))]
pub(super) async fn replay_one(
    Operator(who): Operator,
    State(desk): AtDesk,
    At(id): At<Uuid>,
    MaybeBody(only): MaybeBody<Only>,
) -> Answer<Done> {
    let only = only.and_then(|only| only.destination);
    Done::replayed(desk.replay(&[id], only.as_deref(), &who.name).await?).single()
}

/// Whether the destination is paused now, and whether that changed
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Paused {
    destination: String,
    paused: bool,
    /// Whether the request changed it
    changed: bool,
}

/// Send nothing to a destination until it is resumed
#[utoipa::path(post, path = "/destinations/{name}/pause", tag = "destinations", params(("name" = String, Path, description = "The destination's name")), responses((status = 200, body = Paused), Undone))]
pub(super) async fn pause(Operator(who): Operator, State(desk): AtDesk, At(name): At<String>) -> Answer<Paused> {
    let changed = desk.pause(&name, &who.name).await?;
    Ok(Json(Paused { destination: name, paused: true, changed }))
}

/// End a pause
#[utoipa::path(post, path = "/destinations/{name}/resume", tag = "destinations", params(("name" = String, Path, description = "The destination's name")), responses((status = 200, body = Paused), Undone))]
pub(super) async fn resume(Operator(who): Operator, State(desk): AtDesk, At(name): At<String>) -> Answer<Paused> {
    let changed = desk.resume(&name, &who.name).await?;
    Ok(Json(Paused { destination: name, paused: false, changed }))
}

/// The result of a test event
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TestAnswer {
    destination: String,
    /// The id of the test event, as the receiver got it
    id: Uuid,
    /// Whether the receiver confirmed it
    delivered: bool,
    /// The time from the send to the response
    took_seconds: f64,
    /// The receiver's status code, if its protocol has them
    status_code: Option<u16>,
    /// Why it was not delivered
    error: Option<String>,
    /// `retry`, `reject`, `unavailable` or `timeout`
    error_kind: Option<&'static str>,
    /// The beginning of the response of a receiver that did not accept it
    answer: Option<String>,
    /// What the error means for events, and what to do
    advice: Option<&'static str>,
}

impl From<Trial> for TestAnswer {
    fn from(trial: Trial) -> Self {
        let Trial { destination, tested: Tested { id, took, result, .. }, .. } = trial;
        let (receipt, error) = (result.as_ref().ok(), result.as_ref().err());
        Self {
            destination,
            id,
            delivered: receipt.is_some(),
            took_seconds: took.as_secs_f64(),
            status_code: receipt.map_or_else(|| error.and_then(|error| error.status), |receipt| receipt.status),
            error: error.map(|error| error.message.clone()),
            error_kind: error.map(|error| kind_name(error.kind)),
            answer: error.and_then(|error| error.answer.clone()),
            advice: error.map(|error| advice(error.kind)),
        }
    }
}

/// Send a signed test event to a destination, also if it is paused. It is marked as a test, and stored nowhere
#[utoipa::path(post, path = "/destinations/{name}/test", tag = "destinations", params(("name" = String, Path, description = "The destination's name")), responses((status = 200, body = TestAnswer), Undone))]
pub(super) async fn test(Operator(who): Operator, State(desk): AtDesk, At(name): At<String>) -> Answer<TestAnswer> {
    Ok(Json(desk.test(&name, &who.name).await?.into()))
}
