//! Jobs of the API: preview, start, read, cancel.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::problem::{Undone, Unread};
use crate::access::{Operator, Viewer};
use crate::asked::{At, Body, FilterAsked, WINDOW_HOURS, maybe_object, object, storable};
use crate::desk::acting::check_reason;
use crate::desk::{Action, Desk, GroupKey, Job, JobScope, JobState, ago};
use crate::refusal::Refusal;

type AtDesk = State<Arc<Desk>>;

/// The action on each event
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum ActionName {
    /// Make dead letters due now
    Retry,
    /// Emit delivered or failed events again; `filter.state` chooses which
    Replay,
    /// Mark pending events failed
    Fail,
}

/// The dead letters of one destination and one error
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct GroupNamed {
    destination: Option<String>,
    /// The error as `/dead-letters` returns it. Without `filter.failed_since`, only dead letters of the last 168 hours
    /// match
    error: String,
}

/// The events of a job: all that match the filter and, for dead letters, only those of the group
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PreviewAsked {
    action: ActionName,
    #[serde(default, deserialize_with = "object")]
    filter: FilterAsked,
    #[serde(default, deserialize_with = "maybe_object")]
    group: Option<GroupNamed>,
    /// For `replay`: the only destination that receives the new events; all their destinations by default
    destination: Option<String>,
}

/// Work on many events
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JobAsked {
    action: ActionName,
    #[serde(default, deserialize_with = "object")]
    filter: FilterAsked,
    #[serde(default, deserialize_with = "maybe_object")]
    group: Option<GroupNamed>,
    /// For `replay`: the only destination that receives the new events; all their destinations by default. Without
    /// `filter.destination`, the job has only events that are routed to it
    destination: Option<String>,
    /// The maximum number of events per second; no limit by default
    #[schema(minimum = 0.001, maximum = 100000)]
    rate: Option<f64>,
    /// For `fail`: the reason, which becomes part of the events' errors
    #[serde(default)]
    #[schema(max_length = 500)]
    reason: String,
}

fn scope(mut asked: FilterAsked, group: Option<GroupNamed>, replay_to: Option<String>) -> Result<JobScope, Refusal> {
    let group = group.map(|group| {
        let named = [Some(group.error.clone()), group.destination.clone()];
        named.into_iter().try_for_each(|text| storable("group", text).map(drop))?;
        Ok::<_, Refusal>(GroupKey { destination: group.destination, error: group.error })
    });
    if group.is_some() {
        // The default window of `/dead-letters`.
        let usual = || ago(Duration::from_secs(u64::from(WINDOW_HOURS) * 3600));
        asked.failed_since = asked.failed_since.or_else(|| Some(usual()));
    }
    Ok(JobScope { filter: asked.filter()?, group: group.transpose()?, replay_to: storable("destination", replay_to)? })
}

fn action(name: ActionName, reason: String) -> Action {
    match name {
        ActionName::Retry => Action::Retry,
        ActionName::Replay => Action::Replay,
        ActionName::Fail => Action::Fail { reason },
    }
}

/// The number of events of a job
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Preview {
    count: u64,
    /// Whether there may be more events than that
    at_least: bool,
}

/// The state of a job
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = JobState)]
enum JobStateName {
    Running,
    Done,
    Cancelled,
    Failed,
}

/// A job and its progress
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct JobView {
    id: Uuid,
    action: ActionName,
    /// The events of the job, as text
    target: String,
    who: String,
    state: JobStateName,
    /// Why it failed
    error: Option<String>,
    started_at: DateTime<Utc>,
    ended_at: Option<DateTime<Utc>>,
    /// The number of events when the job started
    total: u64,
    /// Whether there were more than `total`
    total_is_at_least: bool,
    /// The number of events that have been tried
    done: u64,
    changed: u64,
    /// The number of events that had changed and were left alone
    refused: u64,
    /// The maximum number of events per second
    rate: Option<f64>,
    /// Events per second so far
    speed: f64,
    /// When the job will be done, at its speed so far
    ends_about: Option<DateTime<Utc>>,
}

/// Jobs, the newest first
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct JobViews {
    jobs: Vec<JobView>,
}

impl From<&Job> for JobView {
    fn from(job: &Job) -> Self {
        Self {
            id: job.id,
            action: match job.action {
                Action::Retry => ActionName::Retry,
                Action::Replay => ActionName::Replay,
                Action::Fail { .. } => ActionName::Fail,
            },
            target: job.target.clone(),
            who: job.who.clone(),
            state: match job.state {
                JobState::Running => JobStateName::Running,
                JobState::Done => JobStateName::Done,
                JobState::Cancelled => JobStateName::Cancelled,
                JobState::Failed => JobStateName::Failed,
            },
            error: job.error.clone(),
            started_at: job.started_at,
            ended_at: job.ended_at,
            total: job.expected.count,
            total_is_at_least: job.expected.at_least,
            done: job.done,
            changed: job.changed,
            refused: job.refused,
            rate: job.rate,
            speed: job.speed(),
            ends_about: job.ends_about(),
        }
    }
}

/// Count the events of a job before it starts
#[utoipa::path(post, path = "/dead-letters/preview", tag = "jobs", request_body = PreviewAsked, responses((status = 200, body = Preview), Undone))]
pub(super) async fn preview(
    _: Operator,
    State(desk): AtDesk,
    Body(body): Body<PreviewAsked>,
) -> Result<Json<Preview>, Refusal> {
    let scope = scope(body.filter, body.group, body.destination)?;
    let preview = desk.preview(&action(body.action, String::new()), &scope).await?;
    Ok(Json(Preview { count: preview.count, at_least: preview.at_least }))
}

/// The latest jobs, newest first
#[utoipa::path(get, path = "/jobs", tag = "jobs", responses((status = 200, body = JobViews), Unread))]
pub(super) async fn all(_: Viewer, State(desk): AtDesk) -> Result<Json<JobViews>, Refusal> {
    Ok(Json(JobViews { jobs: desk.jobs().await?.iter().map(JobView::from).collect() }))
}

/// One job
#[utoipa::path(get, path = "/jobs/{id}", tag = "jobs", params(("id" = Uuid, Path, description = "The job's id")), responses((status = 200, body = JobView), Unread))]
pub(super) async fn one(_: Viewer, State(desk): AtDesk, At(id): At<Uuid>) -> Result<Json<JobView>, Refusal> {
    Ok(Json(JobView::from(&desk.job(id).await?)))
}

/// Start a job
#[utoipa::path(post, path = "/jobs", tag = "jobs", request_body = JobAsked, responses((status = 202, body = JobView, description = "The job was started"), Undone))]
pub(super) async fn start(
    Operator(who): Operator,
    State(desk): AtDesk,
    Body(body): Body<JobAsked>,
) -> Result<Response, Refusal> {
    let scope = scope(body.filter, body.group, body.destination)?;
    // The reason is checked for actions that do not use it, too.
    check_reason(&body.reason)?;
    let job = desk.start(action(body.action, body.reason), &scope, body.rate, &who.name).await?;
    let place = format!("{}/jobs/{}", super::BASE, job.id);
    Ok((StatusCode::ACCEPTED, [(LOCATION, place)], Json(JobView::from(&job))).into_response())
}

/// Cancel a job: it ends before its next batch
#[utoipa::path(post, path = "/jobs/{id}/cancel", tag = "jobs", params(("id" = Uuid, Path, description = "The job's id")), responses((status = 200, body = JobView), Undone))]
pub(super) async fn cancel(
    Operator(who): Operator,
    State(desk): AtDesk,
    At(id): At<Uuid>,
) -> Result<Json<JobView>, Refusal> {
    Ok(Json(JobView::from(&desk.cancel(id, &who.name).await?)))
}
