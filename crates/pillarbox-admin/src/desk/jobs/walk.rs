//! Walks through the events of a job, page by page in the store's order, so that no event is visited twice.

use chrono::{DateTime, Utc};
use pillarbox::StoreError;
use pillarbox::store::{Cursor, EventView, Filter, Inspect, Paging, State, fold_error};
use uuid::Uuid;

use super::GroupKey;

/// The maximum number of events of one page and of one transaction.
pub(super) const PAGE: usize = 200;

/// The events of a job.
pub(super) struct Chosen {
    pub(super) filter: Filter,
    pub(super) group: Option<GroupKey>,
}

/// The position of a walk.
pub(super) struct Walk {
    chosen: Chosen,
    /// When the job began. Events that changed later are not part of it: the job itself may have changed them.
    began_at: Option<DateTime<Utc>>,
    after: Option<Cursor>,
    ended: bool,
}

/// One page of a walk.
pub(super) struct Stretch {
    /// The job's events, perhaps none.
    pub(super) ids: Vec<Uuid>,
    /// The cursor after this page; `None` at the end.
    pub(super) next: Option<Cursor>,
}

impl Walk {
    /// Begins after a cursor, or at the beginning.
    pub(super) fn new(mut chosen: Chosen, began_at: Option<DateTime<Utc>>, after: Option<Cursor>) -> Self {
        chosen.filter.until = chosen.filter.until.into_iter().chain(began_at).min();
        Self { chosen, began_at, after, ended: false }
    }

    /// Returns the next page without advancing; `None` at the end.
    pub(super) async fn next(&self, store: &dyn Inspect, most: usize) -> Result<Option<Stretch>, StoreError> {
        if self.ended {
            return Ok(None);
        }
        let turn = Paging { after: self.after.clone(), limit: most, oldest_first: true, ..Paging::default() };
        let page = store.list(&self.chosen.filter, &turn).await?;
        // Dead letters and delivered events are listed by the time of that change.
        let by_change = matches!(self.chosen.filter.state, Some(State::Failed | State::Delivered));
        let past = by_change && self.began_at.is_some_and(|began_at| page.reached >= Some(began_at));
        let ids = page.events.iter().filter(|event| self.has(event)).map(|event| event.id).collect();
        Ok(Some(Stretch { ids, next: page.next.filter(|_| !past) }))
    }

    /// Advances past this page.
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
