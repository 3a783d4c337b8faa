//! Work on many events at once: all of a group of dead letters, or all that a filter finds, in batches and at a rate that
//! receivers can bear. A job is a row of the database, and so is its progress: any process can look at it and cancel it, and
//! when the process that works on it is gone, another one goes on where it stopped.

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use pillarbox::store::{Depth, Filter, JobView, NewJob, State};
pub use pillarbox::store::{JobAction as Action, JobState};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::Instant;
use uuid::Uuid;

use self::scope::Stored;
use self::walk::{Chosen, Walk};
use self::work::{LEASE, Worker};
use super::acting::given_up_because;
use super::{Desk, DeskError, EventFilter};

mod scope;
mod walk;
mod work;

/// How many jobs run at once, in all processes together.
const RUNNING: usize = 4;
/// How many jobs a list has.
const LISTED: usize = 50;
/// How long a preview may look.
const GLANCE: Duration = Duration::from_millis(250);
/// The rates that a job may have, in events per second.
pub const RATES: RangeInclusive<f64> = 0.001..=100_000.0;

/// The events of a job: those that the filter finds and, of dead letters, only those of one group.
#[derive(Debug, Clone, Default)]
pub struct JobScope {
    /// Narrows it.
    pub filter: EventFilter,
    /// One group of dead letters.
    pub group: Option<GroupKey>,
}

/// What the dead letters of a group have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupKey {
    /// The destination that did not get them.
    pub destination: Option<String>,
    /// Their error, with numbers and ids folded.
    pub error: String,
}

/// How many events a job is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preview {
    /// Events that were found.
    pub count: u64,
    /// There may be more: counting all would take too long.
    pub at_least: bool,
}

/// A job and its progress at one moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Job {
    /// Its id.
    pub id: Uuid,
    /// What it does to each event.
    pub action: Action,
    /// Its events, in words.
    pub target: String,
    /// Who started it.
    pub who: String,
    /// Events per second at most.
    pub rate: Option<f64>,
    /// How many events there were when it started.
    pub expected: Preview,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
    /// How long it has run.
    pub took: Duration,
    /// Where it is.
    pub state: JobState,
    /// Why it failed.
    pub error: Option<String>,
    /// Events that were tried.
    pub done: u64,
    /// Events that were changed.
    pub changed: u64,
    /// Events that had changed since, and were left alone.
    pub refused: u64,
}

impl From<JobView> for Job {
    fn from(view: JobView) -> Self {
        let NewJob { id, action, target, who, rate, expected, expected_more, .. } = view.job;
        Self {
            id,
            action,
            target,
            who,
            rate,
            expected: Preview { count: expected, at_least: expected_more },
            started_at: view.started_at,
            ended_at: view.ended_at,
            took: view.took,
            state: view.state,
            error: (view.state == JobState::Failed).then_some(view.error),
            done: view.done,
            changed: view.changed,
            refused: view.done.saturating_sub(view.changed),
        }
    }
}

impl Job {
    /// Returns whether it has not ended.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state == JobState::Running
    }

    /// Returns the events per second so far. The first batch starts at once, so the rate is the limit.
    #[must_use]
    pub fn speed(&self) -> f64 {
        let took = self.took.as_secs_f64();
        let speed = if took > 0.0 { self.done as f64 / took } else { 0.0 };
        self.rate.map_or(speed, |rate| speed.min(rate))
    }

    /// Returns when it will be done, at its speed so far.
    #[must_use]
    pub fn ends_about(&self) -> Option<DateTime<Utc>> {
        let speed = self.speed();
        if !self.is_running() || self.expected.at_least || speed <= 0.0 {
            return None;
        }
        let left = self.expected.count.saturating_sub(self.done) as f64 / speed;
        let left = Duration::try_from_secs_f64(left).ok().and_then(|left| TimeDelta::from_std(left).ok())?;
        Utc::now().checked_add_signed(left)
    }
}

/// The jobs that this process works on. They end with it, and another process goes on with them.
#[derive(Default)]
pub(super) struct Jobs(Mutex<JoinSet<()>>);

impl Jobs {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}

impl Desk {
    /// Returns how many events a job would be about.
    ///
    /// # Errors
    /// When the action cannot be done to events in this state, or the database fails.
    pub async fn preview(&self, action: &Action, scope: &JobScope) -> Result<Preview, DeskError> {
        let chosen = Chosen { filter: self.job_filter(action, scope)?, group: scope.group.clone() };
        if scope.group.is_none() && scope.filter.is_all_failed(action) {
            let failed = self.store.depth().await?.failed;
            return Ok(Preview { count: failed, at_least: failed >= Depth::EXACT });
        }
        let (mut walk, until) = (Walk::new(chosen, None, None), Instant::now() + GLANCE);
        let mut count = 0;
        while let Some(page) = walk.next(self.store.as_ref(), walk::PAGE).await? {
            count += page.ids.len() as u64;
            walk.go_on(&page);
            if Instant::now() >= until && page.next.is_some() {
                return Ok(Preview { count, at_least: true });
            }
        }
        Ok(Preview { count, at_least: false })
    }

    /// Starts a job. It searches for its events as it goes, and leaves alone what fails again meanwhile.
    ///
    /// # Errors
    /// When the action cannot be done to events in this state, the rate is out of [`RATES`], too many jobs are running, or
    /// the database fails.
    pub async fn start(
        &self,
        action: Action,
        scope: &JobScope,
        rate: Option<f64>,
        who: &str,
    ) -> Result<Job, DeskError> {
        if rate.is_some_and(|rate| !RATES.contains(&rate)) {
            return Err(DeskError::Refused(format!(
                "rate must be events per second, from {} to {}; leave it out for no limit",
                RATES.start(),
                RATES.end()
            )));
        }
        let action = match action {
            Action::Fail { reason } => Action::Fail { reason: given_up_because(&reason, who)? },
            other => other,
        };
        let expected = self.preview(&action, scope).await?;
        let state = self.job_filter(&action, scope)?.state;
        let job = NewJob {
            id: Uuid::now_v7(),
            action,
            scope: Stored::new(scope, state).to_json(),
            target: scope.shown(),
            who: who.to_owned(),
            rate,
            expected: expected.count,
            expected_more: expected.at_least,
        };
        let token = Uuid::new_v4();
        let started = self.store.start_job(&job, token, LEASE, RUNNING).await?;
        let started = started.ok_or_else(|| {
            DeskError::Busy(format!("{RUNNING} jobs are running already; wait for one, or cancel it"))
        })?;
        self.jobs.spawn(self.worker().work(started.clone(), token));
        Ok(started.into())
    }

    /// Goes on with jobs whose process is gone, for as long as the desk is there.
    pub(crate) fn adopt_jobs(&self) {
        self.jobs.spawn(self.worker().adopt());
    }

    fn worker(&self) -> Worker {
        Worker { store: Arc::clone(&self.store), routes: self.routes.clone() }
    }

    /// Returns the newest jobs, the newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn jobs(&self) -> Result<Vec<Job>, DeskError> {
        Ok(self.store.jobs(LISTED).await?.into_iter().map(Job::from).collect())
    }

    /// Returns one job.
    ///
    /// # Errors
    /// When there is no such job, or the database fails.
    pub async fn job(&self, id: Uuid) -> Result<Job, DeskError> {
        let found = self.store.job(id).await?.map(Job::from);
        found.ok_or_else(|| DeskError::Unknown(format!("there is no job {id}; only the newest {LISTED} are kept")))
    }

    /// Cancels a job, whichever process works on it: no further batch is done.
    ///
    /// # Errors
    /// When there is no such job, or the database fails.
    pub async fn cancel(&self, id: Uuid, who: &str) -> Result<Job, DeskError> {
        self.job(id).await?;
        self.store.cancel_job(id, who).await?;
        self.job(id).await
    }

    /// Returns the filter with the state of events to which the action can be done.
    fn job_filter(&self, action: &Action, scope: &JobScope) -> Result<Filter, DeskError> {
        let state = scope.filter.state;
        let state = match (action, state) {
            _ if scope.group.is_some() && state.is_some_and(|state| state != State::Failed) => Err("failed"),
            (Action::Retry, None | Some(State::Failed)) => Ok(State::Failed),
            (Action::Retry, Some(_)) => Err("failed"),
            (Action::Replay, None) if scope.group.is_some() => Ok(State::Failed),
            (Action::Replay, Some(state @ (State::Failed | State::Delivered))) => Ok(state),
            (Action::Replay, _) => Err("delivered or failed, and must be given"),
            (Action::Fail { .. }, _) if scope.group.is_some() => Err("pending: dead letters are failed already"),
            (Action::Fail { .. }, None) => Ok(State::Pending),
            (Action::Fail { .. }, Some(State::Failed | State::Delivered)) => Err("pending"),
            (Action::Fail { .. }, Some(state)) => Ok(state),
        };
        let state = state.map_err(|must| {
            DeskError::Refused(format!("state of the events to {} must be {must}; change the filter", action.as_str()))
        })?;
        Ok(Filter { state: Some(state), ..scope.filter.with_routes(&self.routes) })
    }
}

impl EventFilter {
    /// All dead letters, whose number is known without looking at them.
    fn is_all_failed(&self, action: &Action) -> bool {
        let without_state = Self { state: None, ..self.clone() };
        let failed = self.state == Some(State::Failed) || *action == Action::Retry && self.state.is_none();
        failed && without_state == Self::default()
    }
}

impl JobScope {
    fn shown(&self) -> String {
        match &self.group {
            None => self.filter.shown(),
            Some(group) => {
                let destination = group.destination.as_deref().unwrap_or("no destination");
                format!("{} of {destination}: {}", self.filter.shown(), group.error)
            }
        }
    }
}
