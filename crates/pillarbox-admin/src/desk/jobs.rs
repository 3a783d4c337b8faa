//! Work on many events at once: all of a group of dead letters, or all that a filter finds, in batches and at a rate that
//! receivers can bear. Jobs live in this process and end with it; what they have done is in the tables, and in one line of
//! the audit that grows with each batch.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use pillarbox::store::{Filter, State};
use tokio::sync::watch;
use tokio::time::Instant;
use uuid::Uuid;

use self::walk::{Chosen, Walk};
use super::acting::{check_reason, given_up_because};
use super::{Desk, DeskError, EventFilter};

mod walk;

/// How many jobs run at once.
const RUNNING: usize = 4;
/// How many are remembered.
const KEPT: usize = 50;
/// How long a preview may look.
const GLANCE: Duration = Duration::from_millis(250);
/// The rates that a job may have, in events per second.
pub const RATES: RangeInclusive<f64> = 0.001..=100_000.0;

/// What a job does to each event.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Make dead letters due now.
    Retry,
    /// Emit delivered or failed events again.
    Replay,
    /// Make dead letters of pending events.
    Fail {
        /// Stands in the events' errors.
        reason: String,
    },
}

impl Action {
    /// Returns `retry`, `replay` or `fail`.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Replay => "replay",
            Self::Fail { .. } => "fail",
        }
    }

    /// Refuses a reason that is too long for the events' errors.
    pub(crate) fn check_reason(reason: &str) -> Result<(), DeskError> {
        check_reason(reason)
    }
}

/// The events of a job: those that the filter finds and, of dead letters, only those of one group.
#[derive(Debug, Clone, Default)]
pub struct JobScope {
    /// Narrows it.
    pub filter: EventFilter,
    /// One group of dead letters.
    pub group: Option<GroupKey>,
}

/// What the dead letters of a group have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobState {
    /// It works, or waits for its rate.
    Running,
    /// All of it is done.
    Done,
    /// Somebody has ended it.
    Cancelled,
    /// The database failed.
    Failed,
}

impl JobState {
    /// Returns `running`, `done`, `cancelled` or `failed`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
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

/// All jobs of this process.
#[derive(Default)]
pub(super) struct Jobs {
    kept: Mutex<VecDeque<Arc<Running>>>,
}

/// A job that this process works on.
struct Running {
    started: Instant,
    job: Mutex<Job>,
    cancelled: watch::Sender<bool>,
}

impl Desk {
    /// Returns how many events a job would be about.
    ///
    /// # Errors
    /// When the action cannot be done to events in this state, or the database fails.
    pub async fn preview(&self, action: &Action, scope: &JobScope) -> Result<Preview, DeskError> {
        let chosen = self.chosen(action, scope)?;
        if scope.group.is_none() && scope.filter.is_all_failed(action) {
            let failed = self.store.depth().await?.failed;
            return Ok(Preview { count: failed, at_least: failed >= pillarbox::store::Depth::EXACT });
        }
        let (mut walk, until) = (Walk::new(Arc::clone(&self.store), chosen, None), Instant::now() + GLANCE);
        let mut count = 0;
        while let Some(ids) = walk.next().await? {
            count += ids.len() as u64;
            if Instant::now() >= until && !walk.is_at_its_end() {
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
        let chosen = self.chosen(&action, scope)?;
        let expected = self.preview(&action, scope).await?;
        let running = self.jobs.admit(action, scope.shown(), rate, expected, who)?;
        let begun = async {
            let job = running.snapshot();
            let entry = self.store.open_entry(who, job.action.as_str(), &job.target).await?;
            // The audit's line has the database's clock, by which what changes from now on is told apart.
            let line = self.store.audit(Some(entry + 1), 1).await?;
            Ok((entry, line.first().map_or_else(Utc::now, |line| line.done_at)))
        };
        match begun.await {
            Ok((entry, began_at)) => {
                let walk = Walk::new(Arc::clone(&self.store), chosen, Some(began_at));
                tokio::spawn(walk::run(Arc::clone(&running), Arc::clone(&self.store), walk, entry));
                Ok(running.snapshot())
            }
            Err(error) => {
                running.end(JobState::Failed, Some("it could not be begun".to_owned()));
                Err(DeskError::Store(error))
            }
        }
    }

    /// Returns the jobs, the newest first.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn jobs(&self) -> Result<Vec<Job>, DeskError> {
        Ok(self.jobs.lock().iter().rev().map(|running| running.snapshot()).collect())
    }

    /// Returns one job.
    ///
    /// # Errors
    /// When there is no such job, or the database fails.
    pub async fn job(&self, id: Uuid) -> Result<Job, DeskError> {
        Ok(self.jobs.get(id)?.snapshot())
    }

    /// Ends a job before its next batch.
    ///
    /// # Errors
    /// When there is no such job, or the database fails.
    pub async fn cancel(&self, id: Uuid, who: &str) -> Result<Job, DeskError> {
        let running = self.jobs.get(id)?;
        let job = running.snapshot();
        if job.is_running() && !*running.cancelled.borrow() {
            self.store.open_entry(who, "cancel", &format!("{} {}", job.action.as_str(), job.target)).await?;
            running.cancel();
        }
        Ok(running.snapshot())
    }

    /// Only events to which it can be done.
    fn chosen(&self, action: &Action, scope: &JobScope) -> Result<Chosen, DeskError> {
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
        let filter = Filter { state: Some(state), ..self.filter(&scope.filter) };
        Ok(Chosen { filter, group: scope.group.clone() })
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

impl Jobs {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Running>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, id: Uuid) -> Result<Arc<Running>, DeskError> {
        let found = self.lock().iter().find(|running| running.lock().id == id).cloned();
        found.ok_or_else(|| {
            DeskError::Unknown(format!(
                "there is no job {id}; jobs are forgotten when the program ends, or {KEPT} later"
            ))
        })
    }

    fn admit(
        &self,
        action: Action,
        target: String,
        rate: Option<f64>,
        expected: Preview,
        who: &str,
    ) -> Result<Arc<Running>, DeskError> {
        let mut kept = self.lock();
        if kept.iter().filter(|running| running.lock().is_running()).count() >= RUNNING {
            return Err(DeskError::Busy(format!("{RUNNING} jobs are running already; wait for one, or cancel it")));
        }
        while kept.len() >= KEPT {
            let Some(oldest) = kept.iter().position(|running| !running.lock().is_running()) else { break };
            kept.remove(oldest);
        }
        let job = Job {
            id: Uuid::now_v7(),
            action,
            target,
            who: who.to_owned(),
            rate,
            expected,
            started_at: Utc::now(),
            ended_at: None,
            took: Duration::ZERO,
            state: JobState::Running,
            error: None,
            done: 0,
            changed: 0,
            refused: 0,
        };
        let (started, cancelled) = (Instant::now(), watch::Sender::new(false));
        let running = Arc::new(Running { started, job: Mutex::new(job), cancelled });
        kept.push_back(Arc::clone(&running));
        Ok(running)
    }
}

impl Drop for Jobs {
    /// Nobody could see or stop them any more.
    fn drop(&mut self) {
        self.lock().iter().for_each(|running| running.cancel());
    }
}

impl Running {
    fn lock(&self) -> MutexGuard<'_, Job> {
        self.job.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn snapshot(&self) -> Job {
        let mut job = self.lock().clone();
        if job.is_running() {
            job.took = self.started.elapsed();
        }
        job
    }

    fn cancel(&self) {
        self.cancelled.send_replace(true);
    }

    fn end(&self, state: JobState, error: Option<String>) {
        let mut job = self.lock();
        if job.is_running() {
            (job.state, job.error) = (state, error);
            (job.ended_at, job.took) = (Some(Utc::now()), self.started.elapsed());
        }
    }
}
