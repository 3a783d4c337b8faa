//! A job's way through its events: page by page along the store's order, so that none is visited twice.

use chrono::{DateTime, Utc};
use pillarbox::StoreError;
use pillarbox::store::{Cursor, EventView, Filter, Inspect, State, Turn, fold_error};
use uuid::Uuid;

use super::GroupKey;

/// Events of one page, and of one transaction at most.
pub(super) const PAGE: usize = 200;

/// The events of a job.
pub(super) struct Chosen {
    pub(super) filter: Filter,
    pub(super) group: Option<GroupKey>,
}

/// Where a walk is.
pub(super) struct Walk {
    chosen: Chosen,
    /// What has changed since is not of this job: it may be there because of it.
    began_at: Option<DateTime<Utc>>,
    after: Option<Cursor>,
    ended: bool,
}

/// A part of the way.
pub(super) struct Stretch {
    /// The job's events, perhaps none.
    pub(super) ids: Vec<Uuid>,
    /// The place behind it; `None` at the end.
    pub(super) next: Option<Cursor>,
}

impl Walk {
    /// Begins behind a place, or at the beginning.
    pub(super) fn new(mut chosen: Chosen, began_at: Option<DateTime<Utc>>, after: Option<Cursor>) -> Self {
        chosen.filter.until = chosen.filter.until.into_iter().chain(began_at).min();
        Self { chosen, began_at, after, ended: false }
    }

    /// Returns the next events without going there; `None` at the end.
    pub(super) async fn next(&self, store: &dyn Inspect, most: usize) -> Result<Option<Stretch>, StoreError> {
        if self.ended {
            return Ok(None);
        }
        let turn = Turn { after: self.after.clone(), limit: most, oldest_first: true };
        let page = store.list(&self.chosen.filter, &turn).await?;
        // Dead letters and delivered events are listed by when they became that.
        let by_change = matches!(self.chosen.filter.state, Some(State::Failed | State::Delivered));
        let past = by_change && self.began_at.is_some_and(|began_at| page.reached >= Some(began_at));
        let ids = page.events.iter().filter(|event| self.has(event)).map(|event| event.id).collect();
        Ok(Some(Stretch { ids, next: page.next.filter(|_| !past) }))
    }

    /// Goes behind it.
    pub(super) fn go_on(&mut self, stretch: &Stretch) {
        self.after.clone_from(&stretch.next);
        self.ended = stretch.next.is_none();
    }

    fn has(&self, event: &EventView) -> bool {
        let in_group =
            |group: &GroupKey| group.destination == event.failed_on && group.error == fold_error(&event.error_message);
        self.began_at.is_none_or(|began_at| event.updated_at < began_at)
            && self.chosen.group.as_ref().is_none_or(in_group)
    }
}
