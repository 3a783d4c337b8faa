//! What the admin keeps in the database beside the events: jobs and sessions. Several processes share them.
//!
//! A process that works on a job holds a lease on it, by a token. Each batch presents the token in the transaction that
//! changes the events, and moves the job's cursor there: a batch is done once, or not at all, whoever is killed when. The
//! database's clock decides when a lease or a session ends.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::inspect::Inspect;
use super::list::Cursor;
use crate::error::StoreError;

/// A job to start.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// Its id.
    pub id: Uuid,
    /// What it does to each event.
    pub action: JobAction,
    /// Which events, as JSON. The store does not read it.
    pub scope: String,
    /// The same for people.
    pub target: String,
    /// Who starts it.
    pub who: String,
    /// Events per second at most.
    pub rate: Option<f64>,
    /// How many events there are.
    pub expected: u64,
    /// There may be more than `expected`.
    pub expected_more: bool,
}

/// What a job does to each event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobAction {
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

impl JobAction {
    /// Returns `retry`, `replay` or `fail`.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Replay => "replay",
            Self::Fail { .. } => "fail",
        }
    }
}

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// It is not done yet, whether or not a process works on it now.
    Running,
    /// All of it is done.
    Done,
    /// Somebody has ended it.
    Cancelled,
    /// It could not go on.
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

    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::Running, Self::Done, Self::Cancelled, Self::Failed].into_iter().find(|state| state.as_str() == text)
    }
}

/// A row of `outbox_job`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct JobView {
    /// As it was started.
    pub job: NewJob,
    /// Where it is.
    pub state: JobState,
    /// The place behind which it goes on.
    pub reached: Option<Cursor>,
    /// Events that were tried.
    pub done: u64,
    /// Events that were changed.
    pub changed: u64,
    /// Why it failed; empty when it did not.
    pub error: String,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
    /// How long it has run, by the database's clock.
    pub took: Duration,
    /// Its line in the audit.
    pub audit_line: i64,
}

/// The lease of a process on a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobLease {
    /// The job's id.
    pub job: Uuid,
    /// The token of this claim.
    pub token: Uuid,
    /// How long the lease lasts from now on.
    pub lasts: Duration,
}

/// A batch of a job.
#[derive(Debug)]
pub struct JobStep<'a> {
    /// The lease that allows it.
    pub lease: JobLease,
    /// The job.
    pub job: &'a JobView,
    /// The events; none when a page of the list had none of the job's.
    pub ids: &'a [Uuid],
    /// The place behind the batch; `None` at the end.
    pub next: Option<&'a Cursor>,
}

/// How long sessions last, and how many there are.
#[derive(Debug, Clone, Copy)]
pub struct SessionLimits {
    /// A session ends when it was not used for so long.
    pub idle: Duration,
    /// And so long after it began.
    pub longest: Duration,
    /// Beyond this many, those that were not used for the longest end.
    pub most: usize,
}

/// The store of an admin: people's side of an outbox, with jobs and sessions. What it writes is on disk when it returns.
#[async_trait]
pub trait AdminStore: Inspect {
    /// Starts a job with its line in the audit, claimed by this token. Returns `None` when `most` are running already.
    /// Forgets old jobs that have ended.
    async fn start_job(
        &self,
        job: &NewJob,
        token: Uuid,
        lasts: Duration,
        most: usize,
    ) -> Result<Option<JobView>, StoreError>;

    /// Claims the oldest running job that nobody holds a lease on.
    async fn claim_job(&self, token: Uuid, lasts: Duration) -> Result<Option<JobView>, StoreError>;

    /// Renews a lease. Returns false when it is lost, or the job has ended.
    async fn renew_job(&self, lease: JobLease) -> Result<bool, StoreError>;

    /// Does a batch, adds it to the audit and moves the job's cursor, all in one transaction. The job is done when there is
    /// no next place. Returns how many events were changed, or `None` when the lease is lost or the job has ended: nothing
    /// was done then. Events that have changed since the job started are left alone.
    async fn step_job(&self, step: &JobStep<'_>) -> Result<Option<usize>, StoreError>;

    /// Ends a job with an error. Returns false when the lease is lost.
    async fn fail_job(&self, lease: JobLease, error: &str) -> Result<bool, StoreError>;

    /// Ends a job, whoever works on it, with a line in the audit. Returns false when it had ended already.
    async fn cancel_job(&self, id: Uuid, who: &str) -> Result<bool, StoreError>;

    /// Returns one job.
    async fn job(&self, id: Uuid) -> Result<Option<JobView>, StoreError>;

    /// Returns the newest jobs, the newest first.
    async fn jobs(&self, most: usize) -> Result<Vec<JobView>, StoreError>;

    /// Begins a session of this user, under the hash of its token. Removes sessions beyond the limits.
    async fn begin_session(&self, hash: &str, name: &str, limits: SessionLimits) -> Result<(), StoreError>;

    /// Returns the name of a session's user, if the session still lasts, and notes that it is used.
    async fn find_session(&self, hash: &str, limits: SessionLimits) -> Result<Option<String>, StoreError>;

    /// Ends a session.
    async fn end_session(&self, hash: &str) -> Result<(), StoreError>;
}
