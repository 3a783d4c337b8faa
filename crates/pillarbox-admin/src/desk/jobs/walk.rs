//! A job's way through its events: page by page along the store's order, so that none is visited twice, batch by batch at
//! the job's rate.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use pillarbox::StoreError;
use pillarbox::store::{
    Cursor, Entry, EventView, Filter, Inspect, Marked, Replayed, Retried, Selection, State, Turn, fold_error,
};
use tokio::time::Instant;
use uuid::Uuid;

use super::{Action, GroupKey, JobState, Running};

/// Events of one page, and of one transaction at most.
const BATCH: usize = 200;

/// The events of a job.
pub(super) struct Chosen {
    pub(super) filter: Filter,
    pub(super) group: Option<GroupKey>,
}

/// Where a walk is.
pub(super) struct Walk {
    store: Arc<dyn Inspect>,
    chosen: Chosen,
    /// What has changed since is not of this job: it may be there because of it.
    began_at: Option<DateTime<Utc>>,
    after: Option<Cursor>,
    ended: bool,
}

impl Walk {
    pub(super) fn new(store: Arc<dyn Inspect>, mut chosen: Chosen, began_at: Option<DateTime<Utc>>) -> Self {
        chosen.filter.until = chosen.filter.until.into_iter().chain(began_at).min();
        Self { store, chosen, began_at, after: None, ended: false }
    }

    pub(super) fn is_at_its_end(&self) -> bool {
        self.ended
    }

    /// The next events, perhaps none of a page; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Uuid>>, StoreError> {
        if self.ended {
            return Ok(None);
        }
        let turn = Turn { after: self.after.take(), limit: BATCH, oldest_first: true };
        let page = self.store.list(&self.chosen.filter, &turn).await?;
        // Dead letters and delivered events are listed by when they became that.
        let by_change = matches!(self.chosen.filter.state, Some(State::Failed | State::Delivered));
        let past = by_change && self.began_at.is_some_and(|began_at| page.reached >= Some(began_at));
        self.ended = page.next.is_none() || past;
        self.after = page.next;
        Ok(Some(page.events.iter().filter(|event| self.has(event)).map(|event| event.id).collect()))
    }

    fn has(&self, event: &EventView) -> bool {
        let in_group =
            |group: &GroupKey| group.destination == event.failed_on && group.error == fold_error(&event.error_message);
        self.began_at.is_none_or(|began_at| event.updated_at < began_at)
            && self.chosen.group.as_ref().is_none_or(in_group)
    }
}

/// Works until all of it is done, or it is cancelled.
pub(super) async fn run(running: Arc<Running>, store: Arc<dyn Inspect>, mut walk: Walk, entry: i64) {
    match work(&running, store.as_ref(), &mut walk, entry).await {
        Ok(state) => running.end(state, None),
        Err(error) => {
            tracing::warn!(job = %running.lock().id, %error, "job failed before it was done");
            running.end(JobState::Failed, Some(error.to_string()));
        }
    }
}

async fn work(running: &Running, store: &dyn Inspect, walk: &mut Walk, line: i64) -> Result<JobState, StoreError> {
    // It may be long ago that a page was read.
    let entry = Entry::Adding { line, unchanged_since: walk.began_at };
    let (action, rate) = {
        let job = running.lock();
        (job.action.clone(), job.rate)
    };
    let mut pace = Pace::new(rate);
    let mut cancelled = running.cancelled.subscribe();
    while let Some(ids) = walk.next().await? {
        for batch in ids.chunks(pace.batch()) {
            let stopped = tokio::select! {
                biased;
                _ = cancelled.wait_for(|cancelled| *cancelled) => true,
                () = pace.wait_for(batch.len()) => false,
            };
            if stopped {
                return Ok(JobState::Cancelled);
            }
            let changed = act(&action, store, batch, entry).await?;
            let mut job = running.lock();
            job.done += batch.len() as u64;
            job.changed += changed;
            job.refused += (batch.len() as u64).saturating_sub(changed);
        }
        if *cancelled.borrow() {
            return Ok(JobState::Cancelled);
        }
    }
    Ok(JobState::Done)
}

/// Answers how many were changed.
async fn act(action: &Action, store: &dyn Inspect, ids: &[Uuid], entry: Entry<'_>) -> Result<u64, StoreError> {
    let changed = match action {
        Action::Retry => {
            let answers = store.retry(&Selection::Ids(ids.to_vec()), entry).await?;
            answers.iter().filter(|(_, retried)| *retried == Retried::Due).count()
        }
        Action::Replay => {
            let answers = store.replay(ids, entry).await?;
            answers.iter().filter(|(_, replayed)| matches!(replayed, Replayed::As { .. })).count()
        }
        Action::Fail { reason } => {
            let answers = store.fail(ids, reason, entry).await?;
            answers.iter().filter(|(_, marked)| *marked == Marked::Failed).count()
        }
    };
    Ok(changed as u64)
}

/// No more than so many a second.
struct Pace {
    rate: Option<f64>,
    next: Instant,
}

impl Pace {
    fn new(rate: Option<f64>) -> Self {
        Self { rate, next: Instant::now() }
    }

    /// At most a second's worth.
    fn batch(&self) -> usize {
        self.rate.map_or(BATCH, |rate| (rate as usize).clamp(1, BATCH))
    }

    /// Until so many may go.
    async fn wait_for(&mut self, events: usize) {
        let Some(rate) = self.rate else { return };
        tokio::time::sleep_until(self.next).await;
        let took = Duration::from_secs_f64(events as f64 / rate);
        self.next = self.next.max(Instant::now()) + took;
    }
}
