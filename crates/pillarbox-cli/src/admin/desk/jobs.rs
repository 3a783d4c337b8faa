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
use super::acting::given_up_because;
use super::{Desk, DeskError, Wanted};

mod walk;

/// How many jobs run at once.
const RUNNING: usize = 4;
/// How many are remembered.
const KEPT: usize = 50;
/// How long a preview may look.
const GLANCE: Duration = Duration::from_millis(250);
/// Events per second that somebody may ask for.
pub(crate) const RATES: RangeInclusive<f64> = 0.001..=100_000.0;

/// What is done to each event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Retry,
    Replay,
    Fail { reason: String },
}

impl Action {
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Replay => "replay",
            Self::Fail { .. } => "fail",
        }
    }
}

/// Which events: those that are wanted and, of dead letters, only those of one group.
#[derive(Debug, Clone, Default)]
pub(crate) struct Choice {
    pub(crate) wanted: Wanted,
    pub(crate) group: Option<GroupKey>,
}

/// What the dead letters of a group have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupKey {
    pub(crate) destination: Option<String>,
    /// Folded.
    pub(crate) error: String,
}

/// How many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Preview {
    pub(crate) count: u64,
    /// There may be more: counting them all would take too long.
    pub(crate) at_least: bool,
}

/// All jobs of this process.
#[derive(Default)]
pub(crate) struct Jobs {
    kept: Mutex<VecDeque<Arc<Job>>>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: Uuid,
    pub(crate) action: Action,
    pub(crate) target: String,
    pub(crate) who: String,
    pub(crate) started_at: DateTime<Utc>,
    /// Events per second at most.
    pub(crate) rate: Option<f64>,
    pub(crate) expected: Preview,
    started: Instant,
    progress: Mutex<Progress>,
    cancelled: watch::Sender<bool>,
}

/// How far it is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    /// Events that were tried.
    pub(crate) done: u64,
    pub(crate) changed: u64,
    /// Were no longer as they should be.
    pub(crate) refused: u64,
    pub(crate) ended: Option<Ended>,
}

#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) at: DateTime<Utc>,
    pub(crate) took: Duration,
    pub(crate) how: How,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum How {
    Done,
    Cancelled,
    Failed(String),
}

impl Desk {
    /// How many events a job would be about.
    pub(crate) async fn preview(&self, action: &Action, choice: &Choice) -> Result<Preview, DeskError> {
        let chosen = self.chosen(action, choice)?;
        if choice.group.is_none() && choice.wanted.is_all_failed(action) {
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

    /// Starts a job. What it has to do is looked for as it goes, and what fails again meanwhile is left alone.
    pub(crate) async fn start(
        &self,
        action: Action,
        choice: &Choice,
        rate: Option<f64>,
        who: &str,
    ) -> Result<Arc<Job>, DeskError> {
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
        let chosen = self.chosen(&action, choice)?;
        let expected = self.preview(&action, choice).await?;
        let job = self.jobs.admit(action, choice.shown(), rate, expected, who)?;
        let begun = async {
            let entry = self.store.open_entry(who, job.action.as_str(), &job.target).await?;
            // The audit's line has the database's clock, by which what changes from now on is told apart.
            let line = self.store.audit(Some(entry + 1), 1).await?;
            Ok((entry, line.first().map_or_else(Utc::now, |line| line.done_at)))
        };
        match begun.await {
            Ok((entry, began_at)) => {
                let walk = Walk::new(Arc::clone(&self.store), chosen, Some(began_at));
                tokio::spawn(walk::run(Arc::clone(&job), Arc::clone(&self.store), walk, entry));
                Ok(job)
            }
            Err(error) => {
                job.end(How::Failed("it could not be begun".to_owned()));
                Err(DeskError::Store(error))
            }
        }
    }

    /// Ends a job before its next batch.
    pub(crate) async fn cancel(&self, id: Uuid, who: &str) -> Result<Arc<Job>, DeskError> {
        let job = self.jobs.get(id)?;
        if job.is_running() && !*job.cancelled.borrow() {
            self.store.open_entry(who, "cancel", &format!("{} {}", job.action.as_str(), job.target)).await?;
            job.cancel();
        }
        Ok(job)
    }

    /// Only events to which it can be done.
    fn chosen(&self, action: &Action, choice: &Choice) -> Result<Chosen, DeskError> {
        let state = choice.wanted.state;
        let state = match (action, state) {
            _ if choice.group.is_some() && state.is_some_and(|state| state != State::Failed) => Err("failed"),
            (Action::Retry, None | Some(State::Failed)) => Ok(State::Failed),
            (Action::Retry, Some(_)) => Err("failed"),
            (Action::Replay, None) if choice.group.is_some() => Ok(State::Failed),
            (Action::Replay, Some(state @ (State::Failed | State::Delivered))) => Ok(state),
            (Action::Replay, _) => Err("delivered or failed, and must be given"),
            (Action::Fail { .. }, _) if choice.group.is_some() => Err("pending: dead letters are failed already"),
            (Action::Fail { .. }, None) => Ok(State::Pending),
            (Action::Fail { .. }, Some(State::Failed | State::Delivered)) => Err("pending"),
            (Action::Fail { .. }, Some(state)) => Ok(state),
        };
        let state = state.map_err(|must| {
            DeskError::Refused(format!("state of the events to {} must be {must}; change the filter", action.as_str()))
        })?;
        let filter = Filter { state: Some(state), ..self.filter(&choice.wanted) };
        Ok(Chosen { filter, group: choice.group.clone() })
    }
}

impl Wanted {
    /// All dead letters, whose number is known without looking at them.
    fn is_all_failed(&self, action: &Action) -> bool {
        let without_state = Self { state: None, ..self.clone() };
        let failed = self.state == Some(State::Failed) || *action == Action::Retry && self.state.is_none();
        failed && without_state == Self::default()
    }
}

impl Choice {
    fn shown(&self) -> String {
        match &self.group {
            None => self.wanted.shown(),
            Some(group) => {
                let destination = group.destination.as_deref().unwrap_or("no destination");
                format!("{} of {destination}: {}", self.wanted.shown(), group.error)
            }
        }
    }
}

impl Jobs {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Job>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest first.
    pub(crate) fn all(&self) -> Vec<Arc<Job>> {
        self.lock().iter().rev().cloned().collect()
    }

    pub(crate) fn get(&self, id: Uuid) -> Result<Arc<Job>, DeskError> {
        let found = self.lock().iter().find(|job| job.id == id).cloned();
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
    ) -> Result<Arc<Job>, DeskError> {
        let mut kept = self.lock();
        if kept.iter().filter(|job| job.is_running()).count() >= RUNNING {
            return Err(DeskError::Busy(format!("{RUNNING} jobs are running already; wait for one, or cancel it")));
        }
        while kept.len() >= KEPT {
            let Some(oldest) = kept.iter().position(|job| !job.is_running()) else { break };
            kept.remove(oldest);
        }
        let job = Arc::new(Job {
            id: Uuid::now_v7(),
            action,
            target,
            who: who.to_owned(),
            started_at: Utc::now(),
            rate,
            expected,
            started: Instant::now(),
            progress: Mutex::default(),
            cancelled: watch::Sender::new(false),
        });
        kept.push_back(Arc::clone(&job));
        Ok(job)
    }
}

impl Drop for Jobs {
    /// Nobody could see or stop them any more.
    fn drop(&mut self) {
        self.lock().iter().for_each(|job| job.cancel());
    }
}

impl Job {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn progress(&self) -> Progress {
        self.lock().clone()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.lock().ended.is_none()
    }

    fn cancel(&self) {
        self.cancelled.send_replace(true);
    }

    /// Events per second so far. The first batch begins at once: what it is ahead of the rate is made good by waiting.
    pub(crate) fn speed(&self) -> f64 {
        let progress = self.lock();
        let took = progress.ended.as_ref().map_or_else(|| self.started.elapsed(), |ended| ended.took).as_secs_f64();
        let speed = if took > 0.0 { progress.done as f64 / took } else { 0.0 };
        self.rate.map_or(speed, |rate| speed.min(rate))
    }

    /// When it will be done, as it goes now.
    pub(crate) fn ends_about(&self) -> Option<DateTime<Utc>> {
        let (speed, progress) = (self.speed(), self.progress());
        if progress.ended.is_some() || self.expected.at_least || speed <= 0.0 {
            return None;
        }
        let left = self.expected.count.saturating_sub(progress.done) as f64 / speed;
        let left = Duration::try_from_secs_f64(left).ok().and_then(|left| TimeDelta::from_std(left).ok())?;
        Utc::now().checked_add_signed(left)
    }

    fn end(&self, how: How) {
        let took = self.started.elapsed();
        self.lock().ended.get_or_insert(Ended { at: Utc::now(), took, how });
    }
}
