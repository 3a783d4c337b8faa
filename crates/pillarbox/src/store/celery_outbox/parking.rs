//! Parking: the tasks that this store delayed because the broker is down, and how many tasks may be claimed meanwhile. The rows
//! have no column for it, so it is kept in memory. Pure: no database.
//!
//! While the broker is down nothing is claimed. When the relay unparks some tasks, as a probe or because the broker is up
//! again, that many may be claimed. The first result from the broker opens the gate for all.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};

use crate::delivery::UNROUTED;

/// The maximum number of remembered rows. Other rows wait for the end of their cooldown.
const REMEMBERED: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Parking {
    /// The destination that tasks were parked on.
    on: Option<String>,
    gate: Gate,
    /// The rows that were claimed since the gate is ajar. Only their results count.
    tried: BTreeSet<i64>,
    /// The rows that were parked here, with their `updated_at` unless another program has changed them.
    rows: BTreeMap<i64, DateTime<Utc>>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Gate {
    /// All tasks may be claimed.
    #[default]
    Open,
    /// No task may be claimed.
    Closed,
    /// This many tasks may be claimed, and their result is not yet known.
    Ajar(usize),
}

impl Parking {
    /// Records parked rows. Unrouted rows wait for no destination, so they are ignored.
    pub(super) fn park(&mut self, on: &str, rows: impl IntoIterator<Item = (i64, DateTime<Utc>)>) {
        if on == UNROUTED {
            return;
        }
        self.on = Some(on.to_owned());
        let rows: Vec<(i64, DateTime<Utc>)> = rows.into_iter().collect();
        // Rows that were claimed before an unpark may be parked after it. They say nothing of what was unparked, for whose result
        // the relay waits.
        if self.gate == Gate::Open || rows.iter().any(|(id, _)| self.tried.contains(id)) {
            self.gate = Gate::Closed;
        }
        let room = REMEMBERED.saturating_sub(self.rows.len());
        self.rows.extend(rows.into_iter().take(room));
    }

    /// Records that the destination responded to a task.
    pub(super) fn answered(&mut self) {
        if matches!(self.gate, Gate::Ajar(_)) {
            self.gate = Gate::Open;
            self.forget_if_over();
        }
    }

    /// Returns how many of `limit` tasks may be claimed.
    pub(super) fn room(&self, limit: usize) -> usize {
        match self.gate {
            Gate::Open => limit,
            Gate::Closed => 0,
            Gate::Ajar(room) => room.min(limit),
        }
    }

    /// Records claimed tasks.
    pub(super) fn claimed(&mut self, ids: impl ExactSizeIterator<Item = i64>) {
        if let Gate::Ajar(room) = &mut self.gate {
            *room = room.saturating_sub(ids.len());
            self.tried.extend(ids);
        }
    }

    /// Returns the destination that tasks are parked on.
    pub(super) fn on(&self) -> Option<&str> {
        self.on.as_deref()
    }

    /// Unparks up to `limit` rows, oldest first, and returns them. Returns `None` if nothing is parked on this destination.
    pub(super) fn unpark(&mut self, on: &str, limit: usize) -> Option<Vec<(i64, DateTime<Utc>)>> {
        if self.on.as_deref() != Some(on) {
            return None;
        }
        if self.gate != Gate::Open {
            self.gate = Gate::Ajar(limit);
            self.tried.clear();
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
        parking.claimed([1, 2].into_iter());
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
        parking.claimed([1].into_iter());
        parking.park("celery", [(1, THEN)]);
        parking.answered();
        assert_eq!(parking.room(100), 0);
        assert_eq!(ids(parking.unpark("celery", 8)), [1]);
    }

    #[test]
    fn what_was_claimed_before_an_unpark_does_not_close_the_gate_after_it() {
        let mut parking = parked([1]);
        assert_eq!(ids(parking.unpark("celery", 8)), [1]);
        parking.park("celery", [(2, THEN)]);
        assert_eq!(parking.room(100), 8);
        parking.claimed([1].into_iter());
        parking.park("celery", [(3, THEN)]);
        assert_eq!(parking.room(100), 7);
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
