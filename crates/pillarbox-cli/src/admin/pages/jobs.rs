//! `/jobs`: work on many events, how far it is, and ending it.

use std::sync::Arc;

use askama::Template;
use axum::extract::State as Using;
use axum::response::Response;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::super::access::Operator;
use super::super::desk::Desk;
use super::super::desk::jobs::{How, Job};
use super::super::refusal::Refusal;
use super::frame::{At, Frame, Looking, shown, then};
use super::words::{self, When};

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
        let progress = job.progress();
        let how = progress.ended.as_ref().map(|ended| &ended.how);
        let total = words::number(job.expected.count);
        Self {
            id: job.id.to_string(),
            action: job.action.as_str(),
            target: job.target.clone(),
            who: job.who.clone(),
            state: match how {
                None => "running",
                Some(How::Done) => "done",
                Some(How::Cancelled) => "cancelled",
                Some(How::Failed(_)) => "failed",
            },
            error: how
                .and_then(|how| if let How::Failed(why) = how { Some(why.clone()) } else { None })
                .unwrap_or_default(),
            // A bar that is full before the end would say something wrong.
            total: job.expected.count.max(progress.done).max(1),
            done: if matches!(how, Some(How::Done)) {
                job.expected.count.max(progress.done).max(1)
            } else {
                progress.done
            },
            total_told: if job.expected.at_least { format!("at least {total}") } else { total },
            done_told: words::number(progress.done),
            changed: words::number(progress.changed),
            refused: words::number(progress.refused),
            speed: words::number(job.speed().round() as u64),
            rate: job.rate.map_or_else(|| "no limit".to_owned(), |rate| format!("at most {rate} a second")),
            started: When::new(job.started_at, now),
            ended: progress.ended.as_ref().map(|ended| When::new(ended.at, now)),
            ends_about: job.ends_about().map(|at| When::new(at, now)),
        }
    }

    fn is_running(&self) -> bool {
        self.state == "running"
    }
}

pub(super) async fn list(looking: Looking, Using(desk): Using<Arc<Desk>>) -> Response {
    let now = Utc::now();
    let jobs = desk.jobs().all().iter().map(|job| Shown::of(job, now)).collect();
    shown(&Jobs { frame: looking.frame("Jobs", REFRESH_ALL), jobs })
}

pub(super) async fn look(
    looking: Looking,
    Using(desk): Using<Arc<Desk>>,
    At(id): At<Uuid>,
) -> Result<Response, Refusal> {
    let job = Shown::of(desk.jobs().get(id)?.as_ref(), Utc::now());
    let refresh = if job.is_running() { REFRESH } else { 0 };
    Ok(shown(&JobPage { frame: looking.frame("Jobs", refresh), job }))
}

pub(super) async fn cancel(
    Operator(who): Operator,
    Using(desk): Using<Arc<Desk>>,
    At(id): At<Uuid>,
) -> Result<Response, Refusal> {
    desk.cancel(id, &who.name).await?;
    Ok(then(&format!("/jobs/{id}?did=cancel")))
}
