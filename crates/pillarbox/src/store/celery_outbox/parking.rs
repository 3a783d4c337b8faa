//! Parking: what this store put off because the broker is down, and how many tasks may be claimed meanwhile. A row has no
//! column for it, so it is remembered here. Pure: no database.
//!
//! While the broker is down nothing is claimed. When the relay lets some tasks back, to find out or because the broker is
//! there again, so many may be claimed; the first of them that is answered opens the way for all.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use crate::delivery::UNROUTED;

/// More are not remembered; they wait for the end of their cooldown.
const REMEMBERED: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Parking {
    /// The destination that tasks were parked on.
    on: Option<String>,
    gate: Gate,
    /// Those that were parked here, with what stands in their `updated_at` unless somebody has touched them.
    rows: BTreeMap<i64, DateTime<Utc>>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Gate {
    /// Everything may be claimed.
    #[default]
    Open,
    /// Nothing may.
    Closed,
    /// So many may, and it is not yet known what becomes of them.
    Ajar(usize),
}

impl Parking {
    /// These were parked. What has no route waits for nobody who could be down.
    pub(super) fn park(&mut self, on: &str, rows: impl IntoIterator<Item = (i64, DateTime<Utc>)>) {
        if on == UNROUTED {
            return;
        }
        self.on = Some(on.to_owned());
        self.gate = Gate::Closed;
        let room = REMEMBERED.saturating_sub(self.rows.len());
        self.rows.extend(rows.into_iter().take(room));
    }

    /// The destination has answered for a task.
    pub(super) fn answered(&mut self) {
        if matches!(self.gate, Gate::Ajar(_)) {
            self.gate = Gate::Open;
            self.forget_if_over();
        }
    }

    /// How many of so many may be claimed.
    pub(super) fn room(&self, limit: usize) -> usize {
        match self.gate {
            Gate::Open => limit,
            Gate::Closed => 0,
            Gate::Ajar(room) => room.min(limit),
        }
    }

    /// So many were.
    pub(super) fn claimed(&mut self, count: usize) {
        if let Gate::Ajar(room) = &mut self.gate {
            *room = room.saturating_sub(count);
        }
    }

    /// What tasks are parked on.
    pub(super) fn on(&self) -> Option<&str> {
        self.on.as_deref()
    }

    /// So many are let back, those first that were emitted first. Answers the rows, `None` if nothing is parked on this.
    pub(super) fn unpark(&mut self, on: &str, limit: usize) -> Option<Vec<(i64, DateTime<Utc>)>> {
        if self.on.as_deref() != Some(on) {
            return None;
        }
        if self.gate != Gate::Open {
            self.gate = Gate::Ajar(limit);
        }
        let later = self.rows.keys().nth(limit).copied();
        let kept = later.map_or_else(BTreeMap::new, |first| self.rows.split_off(&first));
        let rows = std::mem::replace(&mut self.rows, kept);
        self.forget_if_over();
        Some(rows.into_iter().collect())
    }

    fn forget_if_over(&mut self) {
        if self.gate == Gate::Open && self.rows.is_empty() {
            self.on = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEN: DateTime<Utc> = DateTime::UNIX_EPOCH;

    fn parked(ids: impl IntoIterator<Item = i64>) -> Parking {
        let mut parking = Parking::default();
        parking.park("celery", ids.into_iter().map(|id| (id, THEN)));
        parking
    }

    fn ids(rows: Option<Vec<(i64, DateTime<Utc>)>>) -> Vec<i64> {
        rows.expect("something is parked").into_iter().map(|(id, _)| id).collect()
    }

    #[test]
    fn nothing_is_claimed_until_some_are_let_back() {
        let mut parking = parked([3, 1, 2]);
        assert_eq!((parking.room(100), parking.on()), (0, Some("celery")));
        parking.answered();
        assert_eq!(parking.room(100), 0, "what was sent before says nothing");
        assert_eq!(ids(parking.unpark("celery", 2)), [1, 2]);
        assert_eq!((parking.room(100), parking.room(1)), (2, 1));
        parking.claimed(2);
        assert_eq!((parking.room(100), parking.on()), (0, Some("celery")));
    }

    #[test]
    fn an_answer_opens_the_way_and_the_rest_is_still_let_back() {
        let mut parking = parked([1, 2, 3]);
        assert_eq!(ids(parking.unpark("celery", 1)), [1]);
        parking.answered();
        assert_eq!((parking.room(100), parking.on()), (100, Some("celery")));
        assert_eq!(ids(parking.unpark("celery", 2)), [2, 3]);
        assert_eq!((parking.room(100), parking.on()), (100, None));
        assert!(parking.unpark("celery", 2).is_none());
    }

    #[test]
    fn an_outage_that_goes_on_closes_it_again() {
        let mut parking = parked([1]);
        assert_eq!(ids(parking.unpark("celery", 8)), [1]);
        parking.park("celery", [(1, THEN)]);
        parking.answered();
        assert_eq!(parking.room(100), 0);
        assert_eq!(ids(parking.unpark("celery", 8)), [1]);
    }

    #[test]
    fn room_is_given_anew_not_added_up() {
        let mut parking = parked([]);
        for _ in 0..3 {
            assert!(ids(parking.unpark("celery", 8)).is_empty());
        }
        assert_eq!(parking.room(100), 8);
    }

    #[test]
    fn what_has_no_route_and_what_is_somebody_elses_is_not_looked_at() {
        let mut parking = Parking::default();
        parking.park(UNROUTED, [(1, THEN)]);
        assert_eq!((parking.room(5), parking.on()), (5, None));
        assert!(parked([1]).unpark("other", 5).is_none());
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room_for() {
        let mut parking = parked(0..20_000);
        assert_eq!(ids(parking.unpark("celery", usize::MAX)).len(), REMEMBERED);
    }
}
