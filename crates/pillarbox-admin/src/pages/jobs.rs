//! `/jobs`: actions on many events, their progress, and their cancellation.

use std::sync::Arc;

use askama::Template;
use axum::extract::State as Using;
use axum::response::Response;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::frame::{Frame, Looking, shown, then};
use super::words::{self, When};
use crate::access::Operator;
use crate::asked::{At, Unfilled};
use crate::desk::{Desk, Job, JobState};
use crate::refusal::Refusal;

const REFRESH: u32 = 1;
const REFRESH_ALL: u32 = 3;

#[derive(Template)]
#[template(path = "jobs.html")]
struct Jobs {
    frame: Frame,
    jobs: Vec<Shown>,
}

#[derive(Template)]
#[template(path = "job.html")]
struct JobPage {
    frame: Frame,
    job: Shown,
}

struct Shown {
    id: String,
    action: &'static str,
    target: String,
    who: String,
    state: &'static str,
    error: String,
    total: u64,
    done: u64,
    total_told: String,
    done_told: String,
    changed: String,
    refused: String,
    speed: String,
    rate: String,
    started: When,
    ended: Option<When>,
    ends_about: Option<When>,
}

impl Shown {
    fn of(job: &Job, now: DateTime<Utc>) -> Self {
        let total = words::number(job.expected.count);
        Self {
            id: job.id.to_string(),
            action: job.action.as_str(),
            target: job.target.clone(),
            who: job.who.clone(),
            state: job.state.as_str(),
            error: job.error.clone().unwrap_or_default(),
            // The bar must not be full before the end.
            total: job.expected.count.max(job.done).max(1),
            done: if job.state == JobState::Done { job.expected.count.max(job.done).max(1) } else { job.done },
            total_told: if job.expected.at_least { format!("at least {total}") } else { total },
            done_told: words::number(job.done),
            changed: words::number(job.changed),
            refused: words::number(job.refused),
            speed: words::number(job.speed().round() as u64),
            rate: job.rate.map_or_else(|| "no limit".to_owned(), |rate| format!("at most {rate} per second")),
            started: When::new(job.started_at, now),
            ended: job.ended_at.map(|at| When::new(at, now)),
            ends_about: job.ends_about().map(|at| When::new(at, now)),
        }
    }

    fn is_running(&self) -> bool {
        self.state == "running"
    }
}

pub(super) async fn list(looking: Looking, Using(desk): Using<Arc<Desk>>) -> Result<Response, Refusal> {
    let (jobs, now) = (desk.jobs().await?, Utc::now());
    let jobs = jobs.iter().map(|job| Shown::of(job, now)).collect();
    Ok(shown(&Jobs { frame: looking.frame("Jobs", REFRESH_ALL), jobs }))
}

pub(super) async fn look(
    looking: Looking,
    Using(desk): Using<Arc<Desk>>,
    At(id): At<Uuid>,
) -> Result<Response, Refusal> {
    let job = Shown::of(&desk.job(id).await?, Utc::now());
    let refresh = if job.is_running() { REFRESH } else { 0 };
    Ok(shown(&JobPage { frame: looking.frame("Jobs", refresh), job }))
}

pub(super) async fn cancel(
    Operator(who): Operator,
    Using(desk): Using<Arc<Desk>>,
    At(id): At<Uuid>,
    _: Unfilled,
) -> Result<Response, Refusal> {
    desk.cancel(id, &who.name).await?;
    Ok(then(&format!("/jobs/{id}?did=cancel")))
}
