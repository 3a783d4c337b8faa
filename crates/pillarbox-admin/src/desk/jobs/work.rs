//! Works on jobs: batch by batch at the job's rate, under a lease that heartbeats renew. A process that loses its lease
//! stops. If a process is killed, another one takes over: each batch moves the job's cursor in its own transaction.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::{AdminStore, JobLease, JobStep, JobView, ToDestination};
use pillarbox::{Routes, StoreError};
use tokio::time::Instant;
use uuid::Uuid;

use super::scope::{Scope, Stored};
use super::walk::{PAGE, Walk};

/// How long a process may miss its heartbeats before another one takes its job.
pub(super) const LEASE: Duration = Duration::from_secs(10);
/// The interval of heartbeats while a job waits for its rate. A heartbeat also notices that the job was cancelled.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// The interval of the search for jobs whose process has died.
const ADOPT: Duration = Duration::from_secs(3);
/// The number of database errors in a row that a job survives, and the pause after each.
const FAILURES: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// Works on jobs.
#[derive(Clone)]
pub(super) struct Worker {
    pub(super) store: Arc<dyn AdminStore>,
    pub(super) routes: Routes,
}

/// A job that this process works on.
struct Task<'a> {
    lease: JobLease,
    job: &'a JobView,
    /// The only destination of a replay.
    only: Option<&'a ToDestination>,
}

/// Whether a job continues.
enum Step {
    More,
    /// The job has ended, or another process has it.
    Over,
}

impl Worker {
    /// Continues jobs whose process has died, at most one per search.
    pub(super) async fn adopt(self) {
        let mut jobs = tokio::task::JoinSet::new();
        loop {
            tokio::time::sleep(ADOPT).await;
            while jobs.try_join_next().is_some() {}
            let token = Uuid::new_v4();
            match self.store.claim_job(token, LEASE).await {
                Ok(Some(job)) => {
                    tracing::info!(job = %job.job.id, done = job.done, "job taken over from a process that died");
                    jobs.spawn(self.clone().work(job, token));
                }
                Ok(None) => {}
                Err(error) => tracing::debug!(%error, "reading jobs failed"),
            }
        }
    }

    /// Works until the job is done or cancelled, or the lease is lost.
    pub(super) async fn work(self, job: JobView, token: Uuid) {
        let lease = JobLease { job: job.job.id, token, lasts: LEASE };
        let Scope { chosen, only } = match Stored::scope(&job.job.scope, &self.routes) {
            Ok(scope) => scope,
            Err(error) => return self.give_up(lease, &error).await,
        };
        let task = Task { lease, job: &job, only: only.as_ref() };
        let mut walk = Walk::new(chosen, Some(job.started_at), job.reached.clone());
        let mut pace = Pace::new(job.job.rate);
        let mut failures = 0;
        loop {
            match self.step(&task, &mut walk, &mut pace).await {
                Ok(Step::More) => failures = 0,
                Ok(Step::Over) => return,
                Err(error) if failures >= FAILURES => return self.give_up(lease, &error.to_string()).await,
                Err(error) => {
                    failures += 1;
                    tracing::warn!(job = %lease.job, %error, "job batch failed; retrying");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn step(&self, task: &Task<'_>, walk: &mut Walk, pace: &mut Pace) -> Result<Step, StoreError> {
        let Task { lease, job, only } = *task;
        let Some(stretch) = walk.next(self.store.as_ref(), pace.batch()).await? else { return Ok(Step::Over) };
        if !self.wait(lease, pace.next_for(stretch.ids.len())).await? {
            return Ok(Step::Over);
        }
        let step = JobStep { lease, job, ids: &stretch.ids, only, next: stretch.next.as_ref() };
        if self.store.step_job(&step).await?.is_none() {
            return Ok(Step::Over);
        }
        pace.went(stretch.ids.len());
        walk.go_on(&stretch);
        Ok(if stretch.next.is_some() { Step::More } else { Step::Over })
    }

    /// Waits for the rate and renews the lease meanwhile. Returns false if the lease is lost or the job has ended.
    async fn wait(&self, lease: JobLease, until: Instant) -> Result<bool, StoreError> {
        loop {
            let beat = Instant::now() + HEARTBEAT;
            if until <= beat {
                tokio::time::sleep_until(until).await;
                return Ok(true);
            }
            tokio::time::sleep_until(beat).await;
            if !self.store.renew_job(lease).await? {
                return Ok(false);
            }
        }
    }

    async fn give_up(&self, lease: JobLease, error: &str) {
        tracing::warn!(job = %lease.job, error, "job failed");
        if let Err(error) = self.store.fail_job(lease, error).await {
            tracing::warn!(job = %lease.job, %error, "job could not be marked as failed; another process will retry it");
        }
    }
}

/// Limits the events per second.
struct Pace {
    rate: Option<f64>,
    next: Instant,
}

impl Pace {
    fn new(rate: Option<f64>) -> Self {
        Self { rate, next: Instant::now() }
    }

    /// Returns the size of a batch: at most a second's worth.
    fn batch(&self) -> usize {
        self.rate.map_or(PAGE, |rate| (rate as usize).clamp(1, PAGE))
    }

    /// Returns when this many events may be sent.
    fn next_for(&self, events: usize) -> Instant {
        if events == 0 { Instant::now() } else { self.next }
    }

    /// Counts events that were sent.
    fn went(&mut self, events: usize) {
        if let Some(rate) = self.rate {
            let took = Duration::from_secs_f64(events as f64 / rate);
            self.next = self.next.max(Instant::now()) + took;
        }
    }
}
