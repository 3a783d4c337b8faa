//! The path of a list: always along an index, in its order, from the end of the last page, for a limited number of entries.
//! Filters are applied along the way. Pure; the stores do the reading.

use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

use super::cursor::{BadCursor, Cursor, Place};
use super::{Filter, Page, Paging};
use crate::store::inspect::{EventView, State};

/// The maximum number of index entries that a page examines.
pub(crate) const BUDGET: u64 = 10_000;

/// The allowed difference between the clock of an id's writer and the database's clock. Within it, ids are found by time.
const SLACK: TimeDelta = TimeDelta::minutes(1);

/// The index to read along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// All events, by id, which follows time.
    Id,
    /// Events that are neither parked nor done, by due time.
    Waiting,
    /// Parked events, by the name they are parked on and by due time.
    Parked,
    /// Events that are parked on one destination.
    ParkedOn,
    /// Dead letters, by failure time.
    Failed,
    /// Delivered events, by delivery time.
    Delivered,
}

/// A time at which a stretch begins or ends. Stores order by their own times, which may have another range than the program's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bound {
    /// A time that a filter names.
    At(DateTime<Utc>),
    /// A time that the store wrote for a cursor; empty is before all times.
    Mark(String),
    /// After all times.
    Latest,
}

/// A part of an index between two places, both exclusive. Each way uses its own fields.
#[derive(Debug, Clone)]
pub(crate) struct Stretch {
    pub(crate) way: Way,
    /// Whether it is read from the high end to the low end.
    pub(crate) descending: bool,
    pub(crate) ids: (Uuid, Uuid),
    pub(crate) from: (Bound, i64),
    pub(crate) to: (Bound, i64),
    pub(crate) parked_on: String,
}

/// An entry that a store has read: one that matches the filter, or the last one.
pub(crate) struct Passed {
    pub(crate) event: EventView,
    /// The entry's number, counted from 1, including entries that do not match.
    pub(crate) number: u64,
    pub(crate) matches: bool,
    /// The time by which the way is ordered, as the store reads it from a cursor.
    pub(crate) mark: Option<String>,
}

/// The remaining stretches of a list, in order, and the page that is built from them.
pub(crate) struct Plan {
    stretches: std::vec::IntoIter<Stretch>,
    /// The limit of the page.
    most: usize,
    /// The place that the page begins or ends at.
    place: Option<Cursor>,
    /// Whether the list is read against its order, from `place` towards its beginning.
    backwards: bool,
    /// The places of the first event of the page and of the last entry, as they were read.
    first: Option<Cursor>,
    last: Option<Cursor>,
    page: Page,
}

impl Plan {
    /// Creates the plan of a list. The plan is empty if no event can match.
    pub(crate) fn of(filter: &Filter, paging: &Paging) -> Result<Self, BadCursor> {
        let backwards = paging.before.is_some();
        let place = paging.before.clone().or_else(|| paging.after.clone());
        let mut ways = ways(filter);
        if backwards {
            ways.reverse();
        }
        let at = match &place {
            None => 0,
            Some(cursor) => ways.iter().position(|way| way.has(cursor)).ok_or(BadCursor)?,
        };
        let stretches: Vec<Stretch> = ways[at..].iter().map(|way| Stretch::of(*way, filter, paging)).collect();
        let mut stretches = stretches.into_iter();
        if let (Some(Cursor(place)), Some(first)) = (&place, stretches.as_mut_slice().first_mut()) {
            first.go_on_from(place);
        }
        let (first, last, page) = (None, None, Page::default());
        Ok(Self { stretches, most: paging.most(), place, backwards, first, last, page })
    }

    /// Returns what to read next: a stretch, the number of events (one more than the page has room for), and the number of
    /// entries.
    pub(crate) fn next(&mut self) -> Option<(Stretch, usize, u64)> {
        if self.page.next.is_some() {
            return None;
        }
        let stretch = self.stretches.next()?;
        let (room, budget) = (self.most - self.page.events.len(), BUDGET.saturating_sub(self.page.looked_at));
        if room == 0 || budget == 0 {
            // Backwards, the place of the last entry leads to the end of the next stretch.
            self.page.next = if self.backwards { self.last.clone() } else { Some(stretch.beginning()) };
            return None;
        }
        Some((stretch, room + 1, budget))
    }

    /// Adds the entries that were read from the stretch: the matching ones, in order, and the last one. `looked_at` is their
    /// number if the stretch has ended; `full` says that it has not, because there were as many entries as were asked for.
    pub(crate) fn read(
        &mut self,
        stretch: &Stretch,
        mut entries: Vec<Passed>,
        looked_at: u64,
        budget: u64,
        full: bool,
    ) {
        let room = self.most - self.page.events.len();
        let more = entries.iter().filter(|entry| entry.matches).count() > room;
        if more {
            entries.truncate(room);
        }
        if let Some(last) = entries.last() {
            self.last = stretch.way.cursor(last).or_else(|| self.last.take());
            self.page.reached = stretch.way.moment(&last.event);
            if more || full || last.number >= budget {
                self.page.next = stretch.way.cursor(last);
            }
        }
        if self.first.is_none() {
            self.first = entries.iter().find(|entry| entry.matches).and_then(|entry| stretch.way.cursor(entry));
        }
        let on_the_way = entries.last().map_or(0, |last| last.number);
        self.page.looked_at += if more { on_the_way } else { looked_at.max(on_the_way) };
        self.page.events.extend(entries.into_iter().filter(|entry| entry.matches).map(|entry| entry.event));
    }

    /// Returns the page in the list's order. A page without events is left from the place that it has reached.
    pub(crate) fn page(self) -> Page {
        let Self { mut page, first, .. } = self;
        let beside = first.or_else(|| page.next.clone());
        if self.backwards {
            page.events.reverse();
            page.previous = page.next.take();
            page.next = beside;
        } else if self.place.is_some() {
            page.previous = beside;
        }
        page
    }
}

/// Returns the ways of a filter, in order.
fn ways(filter: &Filter) -> Vec<Way> {
    if !filter.can_match() {
        return Vec::new();
    }
    if filter.failed_since.is_some() {
        let can_fail = matches!(filter.state, None | Some(State::Failed)) && filter.parked_on.is_none();
        return if can_fail { vec![Way::Failed] } else { Vec::new() };
    }
    match (filter.state, &filter.parked_on) {
        (None | Some(State::Pending | State::Parked), Some(_)) => vec![Way::ParkedOn],
        (_, Some(_)) => vec![],
        (None, None) => vec![Way::Id],
        (Some(State::Pending), None) => vec![Way::Waiting, Way::Parked],
        (Some(State::Due | State::Scheduled | State::Sending), None) => vec![Way::Waiting],
        (Some(State::Parked), None) => vec![Way::Parked],
        (Some(State::Failed), None) => vec![Way::Failed],
        (Some(State::Delivered), None) => vec![Way::Delivered],
    }
}

impl Way {
    fn has(self, cursor: &Cursor) -> bool {
        matches!(
            (self, &cursor.0),
            (Self::Id, Place::Id(_))
                | (Self::Waiting, Place::Waiting(..))
                | (Self::Parked | Self::ParkedOn, Place::Parked(..))
                | (Self::Failed, Place::Failed(..))
                | (Self::Delivered, Place::Delivered(..))
        )
    }

    /// Returns the column of the time by which the way is ordered.
    pub(crate) fn column(self) -> &'static str {
        match self {
            Self::Id => "created_at",
            Self::Waiting | Self::Parked | Self::ParkedOn => "next_attempt_at",
            Self::Failed => "updated_at",
            Self::Delivered => "delivered_at",
        }
    }

    /// Returns the time by which the way is ordered.
    fn moment(self, event: &EventView) -> Option<DateTime<Utc>> {
        match self {
            Self::Id => Some(event.created_at),
            Self::Waiting | Self::Parked | Self::ParkedOn => event.next_attempt_at,
            Self::Failed => Some(event.updated_at),
            Self::Delivered => event.delivered_at,
        }
    }

    /// Returns the cursor of an entry. `None` occurs for rows that the table's checks refuse, and for one more: an event that
    /// another program delivered without a time.
    fn cursor(self, passed: &Passed) -> Option<Cursor> {
        let Passed { event, mark, .. } = passed;
        let mark = mark.clone();
        let place = match self {
            Self::Id => Place::Id(event.id),
            Self::Waiting => Place::Waiting(mark?, event.seq),
            Self::Parked | Self::ParkedOn => Place::Parked(mark?, event.seq, event.parked_on.clone()?),
            Self::Failed => Place::Failed(mark?, event.seq),
            Self::Delivered => Place::Delivered(mark?, event.seq),
        };
        Some(Cursor(place))
    }
}

impl Stretch {
    fn of(way: Way, filter: &Filter, paging: &Paging) -> Self {
        let since = filter.since.and_then(|since| since.checked_sub_signed(SLACK));
        let until = filter.until.and_then(|until| until.checked_add_signed(SLACK));
        // Later changes of an event follow its emit. A parked event, however, may have been due long ago.
        let earliest = since.filter(|_| !matches!(way, Way::Parked | Way::ParkedOn));
        let failed_since = filter.failed_since.filter(|_| way == Way::Failed);
        let earliest = earliest.max(failed_since);
        Self {
            way,
            // Against the list's order, if the page before a place is wanted.
            descending: (matches!(way, Way::Id | Way::Failed | Way::Delivered) && !paging.oldest_first)
                != paging.before.is_some(),
            ids: (since.map_or(Uuid::nil(), first_id), until.map_or(Uuid::max(), first_id)),
            from: (earliest.map_or(Bound::Mark(String::new()), Bound::At), i64::MIN),
            to: (Bound::Latest, i64::MAX),
            parked_on: filter.parked_on.clone().unwrap_or_default(),
        }
    }

    /// Returns the stretch of dead letters since `oldest`, the newest first.
    pub(crate) fn failed_since(filter: &Filter, oldest: DateTime<Utc>) -> Self {
        let failed_since = filter.failed_since.max(Some(oldest));
        Self::of(Way::Failed, &Filter { failed_since, ..filter.clone() }, &Paging::default())
    }

    /// Inserts the way, its order and the direction into the statement. All are this program's own texts.
    pub(crate) fn put_into(&self, statement: &str, way: &str) -> String {
        let order = way.rfind("ORDER BY").map_or("", |order| way[order..].trim_end());
        let direction = if self.descending { "DESC" } else { "ASC" };
        statement.replace("{way}", way).replace("{order}", order).replace("{direction}", direction)
    }

    /// Continues after a place. The filter's bounds still apply.
    fn go_on_from(&mut self, place: &Place) {
        match place {
            Place::Id(id) if self.descending => self.ids.1 = self.ids.1.min(*id),
            Place::Id(id) => self.ids.0 = self.ids.0.max(*id),
            Place::Parked(at, seq, on) => {
                let place = (Bound::Mark(at.clone()), *seq);
                if self.descending {
                    self.to = place;
                } else {
                    self.from = place;
                }
                // A list of one destination stays with it.
                if self.way == Way::Parked {
                    self.parked_on.clone_from(on);
                }
            }
            Place::Waiting(at, seq) | Place::Failed(at, seq) | Place::Delivered(at, seq) => {
                if self.descending {
                    self.to = (Bound::Mark(at.clone()), *seq);
                } else {
                    self.from = (Bound::Mark(at.clone()), *seq);
                }
            }
        }
    }

    /// Returns the place before the first entry of an unread stretch. Only stretches that follow others need it.
    fn beginning(&self) -> Cursor {
        Cursor(Place::Parked(String::new(), i64::MIN, self.parked_on.clone()))
    }
}

/// Returns the smallest UUID v7 of a time.
fn first_id(moment: DateTime<Utc>) -> Uuid {
    let milliseconds = u64::try_from(moment.timestamp_millis()).unwrap_or(0).min((1 << 48) - 1);
    Uuid::from_u128(u128::from(milliseconds) << 80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_a_moment_are_found_between_its_neighbours() {
        let id = Uuid::now_v7();
        let (seconds, nanos) = id.get_timestamp().unwrap().to_unix();
        let moment = DateTime::from_timestamp(seconds.cast_signed(), nanos).unwrap();
        assert!(first_id(moment) < id && id < first_id(moment + TimeDelta::milliseconds(1)));
        assert_eq!(first_id(DateTime::<Utc>::MIN_UTC), Uuid::nil());
        assert!(first_id(DateTime::<Utc>::MAX_UTC) < Uuid::max());
    }

    #[test]
    fn a_cursor_of_another_list_is_refused() {
        let after = |place| Paging { after: Some(Cursor(place)), ..Paging::default() };
        let failed = Filter { state: Some(State::Failed), ..Filter::default() };
        let at = || "7".to_owned();
        assert!(Plan::of(&failed, &after(Place::Failed(at(), 1))).is_ok());
        assert_eq!(Plan::of(&failed, &after(Place::Delivered(at(), 1))).err(), Some(BadCursor));
        assert_eq!(Plan::of(&Filter::default(), &after(Place::Failed(at(), 1))).err(), Some(BadCursor));
        let pending = Filter { state: Some(State::Pending), ..Filter::default() };
        let mut plan = Plan::of(&pending, &after(Place::Parked(at(), 1, "a".to_owned()))).unwrap();
        let (stretch, ..) = plan.next().unwrap();
        assert_eq!((stretch.way, stretch.parked_on.as_str(), stretch.from), (Way::Parked, "a", (Bound::Mark(at()), 1)));
        assert!(plan.next().is_none());
    }

    #[test]
    fn what_cannot_be_is_not_looked_for() {
        let filter = Filter { state: Some(State::Failed), parked_on: Some("runner".to_owned()), ..Filter::default() };
        assert!(Plan::of(&filter, &Paging::default()).unwrap().next().is_none());
        let delivered = Filter { state: Some(State::Delivered), failed_since: Some(Utc::now()), ..Filter::default() };
        assert!(Plan::of(&delivered, &Paging::default()).unwrap().next().is_none());
    }

    #[test]
    fn dead_letters_of_a_window_are_read_from_its_beginning() {
        let since = Utc::now();
        let filter = Filter { failed_since: Some(since), ..Filter::default() };
        for oldest_first in [false, true] {
            let paging = Paging { oldest_first, ..Paging::default() };
            let (stretch, ..) = Plan::of(&filter, &paging).unwrap().next().unwrap();
            assert_eq!((stretch.way, stretch.from), (Way::Failed, (Bound::At(since), i64::MIN)));
            assert_eq!(stretch.descending, !oldest_first);
        }
    }
}
