//! The admin's data in the database beside the events: jobs and sessions. Several processes share them.
//!
//! A process that works on a job holds a lease on it, by a token. Each batch checks the token and moves the job's cursor
//! in the transaction that changes the events. So a batch is done once or not at all, even if a process is killed. The
//! database's clock decides when a lease or a session ends.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::inspect::Inspect;
use super::list::{Cursor, ToDestination};
use crate::error::StoreError;

/// A job to start.
#[derive(Debug, Clone)]
pub struct NewJob {
    /// Its id.
    pub id: Uuid,
    /// The action on each event.
    pub action: JobAction,
    /// The selected events, as JSON. The store does not read it.
    pub scope: String,
    /// The selected events, described for people.
    pub target: String,
    /// The person who starts the job.
    pub who: String,
    /// The maximum number of events per second.
    pub rate: Option<f64>,
    /// The number of selected events.
    pub expected: u64,
    /// Whether there may be more events than `expected`.
    pub expected_more: bool,
}

/// The action of a job on each event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobAction {
    /// Makes dead letters due now.
    Retry,
    /// Emits delivered or failed events again.
    Replay,
    /// Turns pending events into dead letters.
    Fail {
        /// The error that is written to the events.
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

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// The job is not done yet, whether or not a process works on it now.
    Running,
    /// The job is done.
    Done,
    /// A person has cancelled the job.
    Cancelled,
    /// The job could not continue.
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

    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::Running, Self::Done, Self::Cancelled, Self::Failed].into_iter().find(|state| state.as_str() == text)
    }
}

/// A row of `outbox_job`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct JobView {
    /// The job as it was started.
    pub job: NewJob,
    /// The state.
    pub state: JobState,
    /// The place after which the job continues.
    pub reached: Option<Cursor>,
    /// The number of events that were tried.
    pub done: u64,
    /// The number of events that were changed.
    pub changed: u64,
    /// The error of a failed job; otherwise empty.
    pub error: String,
    /// When the job started.
    pub started_at: DateTime<Utc>,
    /// When the job ended.
    pub ended_at: Option<DateTime<Utc>>,
    /// How long the job has run, by the database's clock.
    pub took: Duration,
    /// The job's entry in the audit.
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
    /// The lease that permits the batch.
    pub lease: JobLease,
    /// The job.
    pub job: &'a JobView,
    /// The events. The list is empty if a page had no events of the job.
    pub ids: &'a [Uuid],
    /// The only destination that receives replayed events; all their destinations if there is none.
    pub only: Option<&'a ToDestination>,
    /// The place after the batch; `None` at the end.
    pub next: Option<&'a Cursor>,
}

/// The limits on the duration and the number of sessions.
#[derive(Debug, Clone, Copy)]
pub struct SessionLimits {
    /// The idle time after which a session ends.
    pub idle: Duration,
    /// The maximum age of a session.
    pub longest: Duration,
    /// The maximum number of sessions. Beyond it, the least recently used sessions end.
    pub most: usize,
}

/// The store of an admin: [`Inspect`] with jobs and sessions. Writes are on disk when a method returns.
#[async_trait]
pub trait AdminStore: Inspect {
    /// Starts a job with its entry in the audit, claimed by this token. Returns `None` when `most` jobs are already running.
    /// Deletes old jobs that have ended.
    async fn start_job(
        &self,
        job: &NewJob,
        token: Uuid,
        lasts: Duration,
        most: usize,
    ) -> Result<Option<JobView>, StoreError>;

    /// Claims the oldest running job without a valid lease.
    async fn claim_job(&self, token: Uuid, lasts: Duration) -> Result<Option<JobView>, StoreError>;

    /// Renews a lease. Returns false when the lease is lost or the job has ended.
    async fn renew_job(&self, lease: JobLease) -> Result<bool, StoreError>;

    /// Runs a batch, adds it to the audit and moves the job's cursor, all in one transaction. Without a next place, the job
    /// is done. Returns the number of changed events. Returns `None` when the lease is lost or the job has ended; then nothing
    /// was done. Events that have changed since the job started are skipped.
    async fn step_job(&self, step: &JobStep<'_>) -> Result<Option<usize>, StoreError>;

    /// Ends a job with an error. Returns false when the lease is lost.
    async fn fail_job(&self, lease: JobLease, error: &str) -> Result<bool, StoreError>;

    /// Ends a job, even if another process works on it, with an entry in the audit. Returns false when it had already ended.
    async fn cancel_job(&self, id: Uuid, who: &str) -> Result<bool, StoreError>;

    /// Returns one job.
    async fn job(&self, id: Uuid) -> Result<Option<JobView>, StoreError>;

    /// Returns the newest jobs, the newest first.
    async fn jobs(&self, most: usize) -> Result<Vec<JobView>, StoreError>;

    /// Begins a session of this user, under the hash of its token. Deletes sessions beyond the limits.
    async fn begin_session(&self, hash: &str, name: &str, limits: SessionLimits) -> Result<(), StoreError>;

    /// Returns the name of a session's user if the session is still valid, and records that the session was used.
    async fn find_session(&self, hash: &str, limits: SessionLimits) -> Result<Option<String>, StoreError>;

    /// Ends a session.
    async fn end_session(&self, hash: &str) -> Result<(), StoreError>;
}
