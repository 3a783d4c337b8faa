//! The way that a list takes: always along an index, in its order, from where the last page ended, for so many entries and
//! no more. Filters are looked at on the way. Pure; the stores read what is asked for here.

use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

use super::cursor::{BadCursor, Cursor, Place};
use super::{Filter, Page, Turn};
use crate::store::inspect::{EventView, State};

/// How many entries of an index a page looks at.
pub(crate) const BUDGET: u64 = 10_000;

/// An id's time is that of its writer's clock: how far from the database's one it may be, and still be found by time.
const SLACK: TimeDelta = TimeDelta::minutes(1);

/// Along which index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// All, by id, which follows time.
    Id,
    /// What is neither parked nor done, by when it is due.
    Waiting,
    /// What is parked, by what on and by when it was due.
    Parked,
    /// What is parked on one destination.
    ParkedOn,
    /// Dead letters, by when they became that.
    Failed,
    /// What was delivered, by when.
    Delivered,
}

/// A moment at which a stretch begins or ends. Stores order by their own moments, which may be others than the program's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bound {
    /// As a filter names it.
    At(DateTime<Utc>),
    /// As the store wrote it down for a cursor; nothing is before all moments.
    Mark(String),
    /// After all moments.
    Latest,
}

/// A stretch of a way: between two places, neither of them included. Of the fields, each way knows its own.
#[derive(Debug, Clone)]
pub(crate) struct Stretch {
    pub(crate) way: Way,
    /// From the high end to the low one.
    pub(crate) descending: bool,
    pub(crate) ids: (Uuid, Uuid),
    pub(crate) from: (Bound, i64),
    pub(crate) to: (Bound, i64),
    pub(crate) parked_on: String,
}

/// An entry that a store has passed: one that the filter matches, or the last one.
pub(crate) struct Passed {
    pub(crate) event: EventView,
    /// Counted from 1, with those that the filter did not match.
    pub(crate) number: u64,
    pub(crate) matches: bool,
    /// The moment by which the way is ordered, as the store will read it in a cursor.
    pub(crate) mark: Option<String>,
}

/// The stretches of a list from a place on, one behind the other, and the page that is made of them.
pub(crate) struct Plan {
    stretches: std::vec::IntoIter<Stretch>,
    /// The limit of the page.
    most: usize,
    page: Page,
}

impl Plan {
    /// Nothing at all, if no event can be so.
    pub(crate) fn of(filter: &Filter, turn: &Turn) -> Result<Self, BadCursor> {
        let ways = ways(filter);
        let at = match &turn.after {
            None => 0,
            Some(cursor) => ways.iter().position(|way| way.has(cursor)).ok_or(BadCursor)?,
        };
        let stretches: Vec<Stretch> = ways[at..].iter().map(|way| Stretch::of(*way, filter, turn)).collect();
        let mut stretches = stretches.into_iter();
        if let (Some(Cursor(place)), Some(first)) = (&turn.after, stretches.as_mut_slice().first_mut()) {
            first.go_on_from(place);
        }
        Ok(Self { stretches, most: turn.most(), page: Page::default() })
    }

    /// What is to be read next: a stretch, one more event than the page has room for, and so many entries.
    pub(crate) fn next(&mut self) -> Option<(Stretch, usize, u64)> {
        if self.page.next.is_some() {
            return None;
        }
        let stretch = self.stretches.next()?;
        let (room, budget) = (self.most - self.page.events.len(), BUDGET.saturating_sub(self.page.looked_at));
        if room == 0 || budget == 0 {
            self.page.next = Some(stretch.beginning());
            return None;
        }
        Some((stretch, room + 1, budget))
    }

    /// What was read of that stretch: what matches, in order, and the last entry. `looked_at` is how many there were, if the
    /// stretch has come to its end.
    pub(crate) fn read(&mut self, stretch: &Stretch, mut entries: Vec<Passed>, looked_at: u64, budget: u64) {
        let room = self.most - self.page.events.len();
        let more = entries.iter().filter(|entry| entry.matches).count() > room;
        if more {
            entries.truncate(room);
        }
        if let Some(last) = entries.last() {
            self.page.reached = stretch.way.moment(&last.event);
            if more || last.number >= budget {
                self.page.next = stretch.way.cursor(last);
            }
        }
        let on_the_way = entries.last().map_or(0, |last| last.number);
        self.page.looked_at += if more { on_the_way } else { looked_at.max(on_the_way) };
        self.page.events.extend(entries.into_iter().filter(|entry| entry.matches).map(|entry| entry.event));
    }

    pub(crate) fn page(self) -> Page {
        self.page
    }
}

/// The ways of a filter, one behind the other.
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

    /// The column of the time by which it is ordered.
    pub(crate) fn column(self) -> &'static str {
        match self {
            Self::Id => "created_at",
            Self::Waiting | Self::Parked | Self::ParkedOn => "next_attempt_at",
            Self::Failed => "updated_at",
            Self::Delivered => "delivered_at",
        }
    }

    /// The time by which it is ordered.
    fn moment(self, event: &EventView) -> Option<DateTime<Utc>> {
        match self {
            Self::Id => Some(event.created_at),
            Self::Waiting | Self::Parked | Self::ParkedOn => event.next_attempt_at,
            Self::Failed => Some(event.updated_at),
            Self::Delivered => event.delivered_at,
        }
    }

    /// `None` is for rows that the table's checks refuse, but for one: delivered by another program, without a moment.
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
    fn of(way: Way, filter: &Filter, turn: &Turn) -> Self {
        let since = filter.since.and_then(|since| since.checked_sub_signed(SLACK));
        let until = filter.until.and_then(|until| until.checked_add_signed(SLACK));
        // What happens to an event happens after it was emitted; but a parked one may have been due long ago.
        let earliest = since.filter(|_| !matches!(way, Way::Parked | Way::ParkedOn));
        let failed_since = filter.failed_since.filter(|_| way == Way::Failed);
        let earliest = earliest.max(failed_since);
        Self {
            way,
            descending: matches!(way, Way::Id | Way::Failed | Way::Delivered) && !turn.oldest_first,
            ids: (since.map_or(Uuid::nil(), first_id), until.map_or(Uuid::max(), first_id)),
            from: (earliest.map_or(Bound::Mark(String::new()), Bound::At), i64::MIN),
            to: (Bound::Latest, i64::MAX),
            parked_on: filter.parked_on.clone().unwrap_or_default(),
        }
    }

    /// Dead letters that became that at this moment or later, the newest first.
    pub(crate) fn failed_since(filter: &Filter, oldest: DateTime<Utc>) -> Self {
        let failed_since = filter.failed_since.max(Some(oldest));
        Self::of(Way::Failed, &Filter { failed_since, ..filter.clone() }, &Turn::default())
    }

    /// The statement with this way in it, which is one of our own texts.
    pub(crate) fn put_into(&self, statement: &str, way: &str) -> String {
        statement.replace("{way}", way).replace("{direction}", if self.descending { "DESC" } else { "ASC" })
    }

    /// Filters are looked at on the way, whatever the place.
    fn go_on_from(&mut self, place: &Place) {
        match place {
            Place::Id(id) if self.descending => self.ids.1 = self.ids.1.min(*id),
            Place::Id(id) => self.ids.0 = self.ids.0.max(*id),
            Place::Parked(at, seq, on) => {
                self.from = (Bound::Mark(at.clone()), *seq);
                // One destination stays that one.
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

    /// The place before the first entry of a stretch that nothing has been read of: only of those that come behind others.
    fn beginning(&self) -> Cursor {
        Cursor(Place::Parked(String::new(), i64::MIN, self.parked_on.clone()))
    }
}

/// The least UUID v7 of a moment.
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
        let after = |place| Turn { after: Some(Cursor(place)), ..Turn::default() };
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
        assert!(Plan::of(&filter, &Turn::default()).unwrap().next().is_none());
        let delivered = Filter { state: Some(State::Delivered), failed_since: Some(Utc::now()), ..Filter::default() };
        assert!(Plan::of(&delivered, &Turn::default()).unwrap().next().is_none());
    }

    #[test]
    fn dead_letters_of_a_window_are_read_from_its_beginning() {
        let since = Utc::now();
        let filter = Filter { failed_since: Some(since), ..Filter::default() };
        for oldest_first in [false, true] {
            let turn = Turn { oldest_first, ..Turn::default() };
            let (stretch, ..) = Plan::of(&filter, &turn).unwrap().next().unwrap();
            assert_eq!((stretch.way, stretch.from), (Way::Failed, (Bound::At(since), i64::MIN)));
            assert_eq!(stretch.descending, !oldest_first);
        }
    }
}
