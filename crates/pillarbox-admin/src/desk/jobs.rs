//! Jobs: actions on many events, either a group of dead letters or all that match a filter, in batches and at a rate that
//! receivers can take. A job and its progress are a row of the database. So any process can show it and cancel it, and if
//! its process dies, another one continues where it stopped.

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

/// The number of jobs that run at once, in all processes together.
const RUNNING: usize = 4;
/// The number of jobs in a list.
const LISTED: usize = 50;
/// The time limit of a preview.
const GLANCE: Duration = Duration::from_millis(250);
/// The allowed rates of a job, in events per second.
pub const RATES: RangeInclusive<f64> = 0.001..=100_000.0;

/// The events of a job: all that match the filter and, for dead letters, only those of one group.
#[derive(Debug, Clone, Default)]
pub struct JobScope {
    /// The filter.
    pub filter: EventFilter,
    /// One group of dead letters.
    pub group: Option<GroupKey>,
    /// For a replay: the only destination that receives the new events. Without a destination in the filter, the job has
    /// only events that are routed to it.
    pub replay_to: Option<String>,
}

/// The destination and the error that the dead letters of a group share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupKey {
    /// The destination that the deliveries failed on.
    pub destination: Option<String>,
    /// Their error, with numbers and ids folded.
    pub error: String,
}

/// The number of events of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preview {
    /// The number of events that were found.
    pub count: u64,
    /// Whether there may be more: counting all would take too long.
    pub at_least: bool,
}

/// A job and its progress at one moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Job {
    /// Its id.
    pub id: Uuid,
    /// The action on each event.
    pub action: Action,
    /// The events, as text.
    pub target: String,
    /// The user who started it.
    pub who: String,
    /// The maximum number of events per second.
    pub rate: Option<f64>,
    /// The number of events when it started.
    pub expected: Preview,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
    /// How long it has run.
    pub took: Duration,
    /// The state.
    pub state: JobState,
    /// Why it failed.
    pub error: Option<String>,
    /// The number of events that were tried.
    pub done: u64,
    /// The number of events that were changed.
    pub changed: u64,
    /// The number of events that had changed since and were left alone.
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
    /// Returns whether the job has not ended.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state == JobState::Running
    }

    /// Returns the events per second so far. The first batch starts at once, so the rate is the upper limit.
    #[must_use]
    pub fn speed(&self) -> f64 {
        let took = self.took.as_secs_f64();
        let speed = if took > 0.0 { self.done as f64 / took } else { 0.0 };
        self.rate.map_or(speed, |rate| speed.min(rate))
    }

    /// Returns when the job will be done, at its speed so far.
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

/// The jobs that this process works on. They stop with the process, and another process continues them.
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
    /// Returns the number of events that a job would have.
    ///
    /// # Errors
    /// Fails if the action is not possible for events in this state, if the destination of a replay is unknown, or if the
    /// database fails.
    pub async fn preview(&self, action: &Action, scope: &JobScope) -> Result<Preview, DeskError> {
        self.count(action, &self.checked_scope(action, scope).await?).await
    }

    async fn count(&self, action: &Action, scope: &JobScope) -> Result<Preview, DeskError> {
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

    /// Starts a job. It searches for its events while it runs, and skips events that fail again after its start.
    ///
    /// # Errors
    /// Fails if the action is not possible for events in this state, if the destination of a replay is unknown, if the rate is
    /// outside [`RATES`], if too many jobs are running, or if the database fails.
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
        let scope = &self.checked_scope(&action, scope).await?;
        let expected = self.count(&action, scope).await?;
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
            DeskError::Busy(format!("{RUNNING} jobs are running already; wait until one ends, or cancel one"))
        })?;
        self.jobs.spawn(self.worker().work(started.clone(), token));
        Ok(started.into())
    }

    /// Continues jobs whose process has died, until the desk is dropped.
    pub(crate) fn adopt_jobs(&self) {
        self.jobs.spawn(self.worker().adopt());
    }

    fn worker(&self) -> Worker {
        Worker { store: Arc::clone(&self.store), routes: self.routes.clone() }
    }

    /// Returns the latest jobs, newest first.
    ///
    /// # Errors
    /// Fails if the database fails.
    pub async fn jobs(&self) -> Result<Vec<Job>, DeskError> {
        Ok(self.store.jobs(LISTED).await?.into_iter().map(Job::from).collect())
    }

    /// Returns one job.
    ///
    /// # Errors
    /// Fails if there is no such job, or if the database fails.
    pub async fn job(&self, id: Uuid) -> Result<Job, DeskError> {
        let found = self.store.job(id).await?.map(Job::from);
        found.ok_or_else(|| DeskError::Unknown(format!("there is no job {id}; old jobs are deleted")))
    }

    /// Cancels a job, whichever process works on it. It stops before its next batch.
    ///
    /// # Errors
    /// Fails if there is no such job, or if the database fails.
    pub async fn cancel(&self, id: Uuid, who: &str) -> Result<Job, DeskError> {
        self.job(id).await?;
        self.store.cancel_job(id, who).await?;
        self.job(id).await
    }

    /// Returns the scope with the filter of its only destination, so that a job has no events that it cannot replay.
    async fn checked_scope(&self, action: &Action, scope: &JobScope) -> Result<JobScope, DeskError> {
        let mut scope = scope.clone();
        if let Some(name) = &scope.replay_to {
            if *action != Action::Replay {
                let what = format!("a destination is for replay only; {} without it", action.as_str());
                return Err(DeskError::Refused(what));
            }
            self.check_destination(name).await?;
            scope.filter.destination = scope.filter.destination.or_else(|| scope.replay_to.clone());
        }
        Ok(scope)
    }

    /// Returns the filter with the state that the action needs.
    fn job_filter(&self, action: &Action, scope: &JobScope) -> Result<Filter, DeskError> {
        let state = scope.filter.state;
        let state = match (action, state) {
            _ if scope.group.is_some() && state.is_some_and(|state| state != State::Failed) => Err("failed"),
            (Action::Retry, None | Some(State::Failed)) => Ok(State::Failed),
            (Action::Retry, Some(_)) => Err("failed"),
            (Action::Replay, None) if scope.group.is_some() => Ok(State::Failed),
            (Action::Replay, Some(state @ (State::Failed | State::Delivered))) => Ok(state),
            (Action::Replay, _) => Err("set to delivered or failed"),
            (Action::Fail { .. }, _) if scope.group.is_some() => Err("pending; dead letters have already failed"),
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
    /// Returns whether the filter means all dead letters. Their number is known without a search.
    fn is_all_failed(&self, action: &Action) -> bool {
        let without_state = Self { state: None, ..self.clone() };
        let failed = self.state == Some(State::Failed) || *action == Action::Retry && self.state.is_none();
        failed && without_state == Self::default()
    }
}

impl JobScope {
    fn shown(&self) -> String {
        let events = match &self.group {
            None => self.filter.shown(),
            Some(group) => {
                let destination = group.destination.as_deref().unwrap_or("no destination");
                format!("{} of {destination}: {}", self.filter.shown(), group.error)
            }
        };
        match &self.replay_to {
            None => events,
            Some(name) => format!("{events}, only to {name}"),
        }
    }
}
