//! The admin's jobs and sessions.

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use super::get::one;
use super::{Asked, Call, Database, Row, Through, Transaction, act, database};
use crate::error::{DriverError, StoreError};
use crate::store::act::{Marked, Retried};
use crate::store::desk::{AdminStore, JobAction, JobLease, JobState, JobStep, JobView, NewJob, SessionLimits};
use crate::store::row::{answers, distinct, kept};

/// The number of jobs that are kept.
const KEPT: usize = 50;

#[async_trait]
impl<D: Database> AdminStore for D {
    async fn start_job(
        &self,
        job: &NewJob,
        token: Uuid,
        lasts: Duration,
        most: usize,
    ) -> Result<Option<JobView>, StoreError> {
        start(self, job, token, lasts, most).await.map_err(database("starting a job"))
    }

    async fn claim_job(&self, token: Uuid, lasts: Duration) -> Result<Option<JobView>, StoreError> {
        let call = Call::new(D::statements().job_claim).bind(token).bind(lasts.as_secs_f64());
        first(self, call).await.map_err(database("claiming a job"))
    }

    async fn renew_job(&self, lease: JobLease) -> Result<bool, StoreError> {
        let call = held(D::statements().job_renew, lease).bind(lease.lasts.as_secs_f64());
        is_done(self, call).await.map_err(database("renewing the lease of a job"))
    }

    async fn step_job(&self, step: &JobStep<'_>) -> Result<Option<usize>, StoreError> {
        self::step(self, step).await.map_err(database("working on a job"))
    }

    async fn fail_job(&self, lease: JobLease, error: &str) -> Result<bool, StoreError> {
        let call = held(D::statements().job_fail, lease).bind(kept(error).into_owned());
        is_done(self, call).await.map_err(database("ending a job"))
    }

    async fn cancel_job(&self, id: Uuid, who: &str) -> Result<bool, StoreError> {
        cancel(self, id, who).await.map_err(database("cancelling a job"))
    }

    async fn job(&self, id: Uuid) -> Result<Option<JobView>, StoreError> {
        first(self, Call::new(D::statements().job).bind(id)).await.map_err(database("reading a job"))
    }

    async fn jobs(&self, most: usize) -> Result<Vec<JobView>, StoreError> {
        jobs(self, most).await.map_err(database("reading jobs"))
    }

    async fn begin_session(&self, hash: &str, name: &str, limits: SessionLimits) -> Result<(), StoreError> {
        begin_session(self, hash, name, limits).await.map_err(database("starting a session"))
    }

    async fn find_session(&self, hash: &str, limits: SessionLimits) -> Result<Option<String>, StoreError> {
        find_session(self, hash, limits).await.map_err(database("reading a session"))
    }

    async fn end_session(&self, hash: &str) -> Result<(), StoreError> {
        let call = Call::new(D::statements().session_end).bind(hash);
        is_done(self, call).await.map(drop).map_err(database("ending a session"))
    }
}

async fn start<D: Database>(
    store: &D,
    job: &NewJob,
    token: Uuid,
    lasts: Duration,
    most: usize,
) -> Result<Option<JobView>, DriverError> {
    let sql = D::statements();
    let mut tx = store.begin(Through::People).await?;
    let line = act::audit_line::<D>(&job.who, job.action.as_str(), &job.target, Some(0));
    let line = one(tx.rows(line).await?)?.number("id")?;
    let reason = if let JobAction::Fail { reason } = &job.action { reason } else { "" };
    let call = Call::new(sql.job_start)
        .bind(job.id)
        .bind(job.action.as_str())
        .bind(kept(reason).into_owned())
        .bind(job.scope.as_str())
        .bind(kept(&job.target).into_owned())
        .bind(job.who.as_str())
        .bind(job.rate.unwrap_or_default())
        .bind(job.expected)
        .bind(job.expected_more)
        .bind(line)
        .bind(token)
        .bind(lasts.as_secs_f64())
        .bind(most);
    // On an early return, the audit entry is rolled back with the dropped transaction.
    let Some(started) = tx.rows(call).await?.first().map(read).transpose()? else { return Ok(None) };
    tx.done(Call::new(sql.job_forget).bind(KEPT)).await?;
    tx.commit().await?;
    Ok(Some(started))
}

async fn step<D: Database>(store: &D, step: &JobStep<'_>) -> Result<Option<usize>, DriverError> {
    let JobStep { lease, job, ids, only, next } = step;
    let ids = distinct(ids);
    let asked = Asked { ids: &ids, unchanged_since: Some(job.started_at) };
    let mut tx = store.begin(Through::People).await?;
    let changed = match &job.job.action {
        _ if ids.is_empty() => 0,
        JobAction::Retry => {
            let told = store.retry_events(&mut tx, asked).await?;
            answers(&ids, &told, Retried::of).iter().filter(|(_, answer)| *answer == Retried::Due).count()
        }
        JobAction::Fail { reason } => {
            let told = store.fail_events(&mut tx, asked, reason).await?;
            answers(&ids, &told, Marked::of).iter().filter(|(_, answer)| *answer == Marked::Failed).count()
        }
        JobAction::Replay => act::replay_events::<D>(&mut tx, asked, *only).await?.0.len(),
    };
    let call = held(D::statements().job_step, *lease)
        .bind(next.map(ToString::to_string))
        .bind(ids.len())
        .bind(changed)
        .bind(next.is_none())
        .bind(lease.lasts.as_secs_f64());
    if tx.done(call).await? == 0 {
        return Ok(None);
    }
    if changed > 0 {
        tx.done(Call::new(D::statements().audit_add).bind(job.audit_line).bind(changed)).await?;
    }
    if !matches!(job.job.action, JobAction::Fail { .. }) {
        act::wake_relays::<D>(&mut tx, changed).await?;
    }
    tx.commit().await?;
    Ok(Some(changed))
}

async fn cancel<D: Database>(store: &D, id: Uuid, who: &str) -> Result<bool, DriverError> {
    let sql = D::statements();
    let mut tx = store.begin(Through::People).await?;
    if tx.done(Call::new(sql.job_cancel).bind(id)).await? == 0 {
        return Ok(false);
    }
    let job = one(tx.rows(Call::new(sql.job).bind(id)).await?)?;
    let target = format!("{} {}", job.text("action")?, job.text("target")?);
    tx.rows(act::audit_line::<D>(who, "cancel", &target, Some(0))).await?;
    tx.commit().await?;
    Ok(true)
}

async fn jobs<D: Database>(store: &D, most: usize) -> Result<Vec<JobView>, DriverError> {
    store.rows(Through::People, Call::new(D::statements().jobs).bind(most)).await?.iter().map(read).collect()
}

async fn begin_session<D: Database>(
    store: &D,
    hash: &str,
    name: &str,
    limits: SessionLimits,
) -> Result<(), DriverError> {
    let sql = D::statements();
    let mut tx = store.begin(Through::People).await?;
    tx.done(Call::new(sql.session_begin).bind(hash).bind(name)).await?;
    let forget = Call::new(sql.session_forget)
        .bind(limits.idle.as_secs_f64())
        .bind(limits.longest.as_secs_f64())
        .bind(limits.most);
    tx.done(forget).await?;
    tx.commit().await
}

async fn find_session<D: Database>(
    store: &D,
    hash: &str,
    limits: SessionLimits,
) -> Result<Option<String>, DriverError> {
    let sql = D::statements();
    let find =
        Call::new(sql.session_find).bind(hash).bind(limits.idle.as_secs_f64()).bind(limits.longest.as_secs_f64());
    let rows = store.rows(Through::People, find).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    if row.flag("stale")? {
        store.done(Through::People, Call::new(sql.session_seen).bind(hash)).await?;
    }
    row.text("name").map(Some)
}

/// Returns a statement whose first values are a job's id and the token of its lease.
fn held(text: &'static str, lease: JobLease) -> Call {
    Call::new(text).bind(lease.job).bind(lease.token)
}

async fn is_done<D: Database>(store: &D, call: Call) -> Result<bool, DriverError> {
    Ok(store.done(Through::People, call).await? > 0)
}

async fn first<D: Database>(store: &D, call: Call) -> Result<Option<JobView>, DriverError> {
    store.rows(Through::People, call).await?.first().map(read).transpose()
}

fn read(row: &impl Row) -> Result<JobView, DriverError> {
    let action = match row.text("action")?.as_str() {
        "retry" => JobAction::Retry,
        "replay" => JobAction::Replay,
        "fail" => JobAction::Fail { reason: row.text("reason")? },
        other => return Err(format!("the action {other:?} of a job is unknown").into()),
    };
    let state = row.text("state")?;
    Ok(JobView {
        job: NewJob {
            id: row.id("id")?,
            action,
            scope: row.text("scope")?,
            target: row.text("target")?,
            who: row.text("who")?,
            rate: row.maybe_float("rate")?,
            expected: row.count("expected")?,
            expected_more: row.flag("expected_more")?,
        },
        state: JobState::parse(&state).ok_or_else(|| format!("the state {state:?} of a job is unknown"))?,
        reached: row.maybe_text("reached")?.map(|text| text.parse()).transpose()?,
        done: row.count("done")?,
        changed: row.count("changed")?,
        error: row.text("error")?,
        started_at: row.moment("started_at")?,
        ended_at: row.maybe_moment("ended_at")?,
        took: Duration::try_from_secs_f64(row.maybe_float("took")?.unwrap_or_default()).unwrap_or_default(),
        audit_line: row.number("audit_id")?,
    })
}
