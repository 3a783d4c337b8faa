//! Where a claim begins to read. The front of the due index is full of entries of what was settled, as long as a transaction
//! somewhere may still see it, and every claim would walk over them: so a claim begins where the one before ended. Pure;
//! time is given to it.
//!
//! What is committed late, or given back by a relay that died, is due below that. So the floor trails by a few seconds
//! unless there is a backlog, and now and then a claim begins at the beginning; both only as often as they are cheap.

use std::time::{Duration, Instant};

use chrono::TimeDelta;

use super::moment::Moment;

/// A place in the due index: `(next_attempt_at, seq)`.
pub(super) type Place = (Moment, i64);

/// How far the floor trails: transactions that emit commit within this, nearly all of them.
const TRAIL: TimeDelta = TimeDelta::seconds(5);
/// Trailing may cost this part of the time.
const TRAIL_BUDGET: u32 = 4;
/// How often a claim begins at the beginning, if that is cheap.
const SWEEP: Duration = Duration::from_secs(1);
/// Beginning at the beginning may cost this part of the time.
const SWEEP_BUDGET: u32 = 20;
/// However expensive it was: what took so long may have been the database's bad moment.
const LONGEST_REST: Duration = Duration::from_secs(30);

/// Where the next claim begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// At the beginning: this claim also finds lapsed leases and whatever was passed over.
    Beginning,
    /// A few seconds below where the last one ended.
    Trailing,
    /// Where the last one ended: there is a backlog.
    End,
}

#[derive(Debug)]
pub(super) struct Floor {
    /// The last event that was read.
    end: Option<Place>,
    /// The last claim was full, so that there is more above it.
    full: bool,
    sweep_at: Option<Instant>,
    /// When something was last let go below.
    reset_at: Option<Instant>,
    trail_at: Option<Instant>,
}

impl Floor {
    pub(super) fn new() -> Self {
        Self { end: None, full: false, sweep_at: None, reset_at: None, trail_at: None }
    }

    /// It has just begun at the beginning, and need not do so for long.
    pub(super) fn after_a_sweep() -> Self {
        let later = Instant::now() + Duration::from_secs(3600);
        Self { end: Some(beginning()), full: true, sweep_at: Some(later), reset_at: None, trail_at: None }
    }

    /// From where to read now.
    pub(super) fn next(&self, now: Instant) -> From {
        if self.end.is_none() || self.sweep_at.is_none_or(|at| at <= now) {
            From::Beginning
        } else if self.full || self.trail_at.is_some_and(|at| at > now) {
            From::End
        } else {
            From::Trailing
        }
    }

    /// The place from which on to read.
    pub(super) fn place(&self, from: From) -> Place {
        match (from, self.end) {
            (From::Beginning, _) | (_, None) => beginning(),
            (From::Trailing, Some((moment, _))) => (moment.earlier_by(TRAIL), 0),
            (From::End, Some(end)) => end,
        }
    }

    /// A claim that began there took so long and ended with this event; full: there may be more.
    pub(super) fn read(&mut self, from: From, began: Instant, now: Instant, last: Option<Place>, full: bool) {
        let took = now.saturating_duration_since(began);
        match from {
            // What was let go meanwhile it may have missed.
            From::Beginning if self.reset_at.is_some_and(|at| at >= began) => {}
            From::Beginning => self.sweep_at = Some(now + (took * SWEEP_BUDGET).clamp(SWEEP, LONGEST_REST)),
            From::Trailing => self.trail_at = Some(now + took * TRAIL_BUDGET),
            From::End => {}
        }
        // A full claim that began below says that there is more between its end and ours.
        self.end = if full { last.or(self.end) } else { self.end.max(last) };
        self.full = full;
    }

    /// Something may have been let go below: the next claim begins at the beginning.
    pub(super) fn reset(&mut self) {
        self.sweep_at = None;
        self.reset_at = Some(Instant::now());
    }

    /// What comes after this was passed over, and is free now.
    pub(super) fn back_to(&mut self, place: Place) {
        if self.end.is_some_and(|end| place < end) {
            self.end = Some(place);
        }
        self.full = true;
    }
}

/// Before every event.
pub(super) fn beginning() -> Place {
    (Moment::EARLIEST, i64::MIN)
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(second: i64) -> Place {
        ((DateTime::UNIX_EPOCH + TimeDelta::seconds(second)).into(), second)
    }

    #[test]
    fn a_backlog_is_read_on_where_the_last_claim_ended() {
        let (mut floor, now) = (Floor::new(), Instant::now());
        assert_eq!(floor.next(now), From::Beginning);
        floor.read(From::Beginning, now, now + MS, Some(at(100)), true);
        assert_eq!(floor.next(now + MS), From::End);
        assert_eq!(floor.place(From::End), at(100));
    }

    #[test]
    fn without_a_backlog_it_trails_as_often_as_that_is_cheap() {
        let (mut floor, now) = (Floor::new(), Instant::now());
        floor.read(From::Beginning, now, now + MS, Some(at(100)), false);
        assert_eq!(floor.next(now + MS), From::Trailing);
        assert_eq!(floor.place(From::Trailing), (at(95).0, 0));
        floor.read(From::Trailing, now + MS, now + 21 * MS, None, false);
        assert_eq!(floor.next(now + 100 * MS), From::End);
        assert_eq!(floor.next(now + 102 * MS), From::Trailing);
    }

    #[test]
    fn every_second_or_less_often_it_begins_at_the_beginning() {
        let (mut floor, now) = (Floor::new(), Instant::now());
        floor.read(From::Beginning, now, now + MS, Some(at(100)), true);
        assert_eq!(floor.next(now + 1000 * MS), From::End);
        assert_eq!(floor.next(now + 1002 * MS), From::Beginning);
        floor.read(From::Beginning, now, now + 500 * MS, Some(at(100)), true);
        assert_eq!(floor.next(now + 10_499 * MS), From::End);
        assert_eq!(floor.next(now + 10_501 * MS), From::Beginning);
        floor.read(From::Beginning, now, now, None, false);
        floor.reset();
        assert_eq!(floor.next(now), From::Beginning);
    }

    #[test]
    fn a_sweep_does_not_make_up_for_what_is_let_go_meanwhile() {
        let (mut floor, began) = (Floor::new(), Instant::now());
        floor.reset();
        floor.read(From::Beginning, began, began + MS, Some(at(100)), true);
        assert_eq!(floor.next(began + MS), From::Beginning);
    }

    #[test]
    fn however_long_a_sweep_took_the_next_is_made_within_half_a_minute() {
        let (mut floor, now) = (Floor::new(), Instant::now());
        floor.read(From::Beginning, now, now + 60_000 * MS, Some(at(100)), true);
        assert_eq!(floor.next(now + 89_000 * MS), From::End);
        assert_eq!(floor.next(now + 90_000 * MS), From::Beginning);
    }

    #[test]
    fn it_goes_back_to_what_was_too_large_to_be_claimed_with_the_others() {
        let (mut floor, now) = (Floor::new(), Instant::now());
        floor.read(From::Beginning, now, now, Some(at(100)), false);
        floor.back_to(at(50));
        assert_eq!((floor.next(now), floor.place(From::End)), (From::End, at(50)));
        floor.back_to(at(70));
        assert_eq!(floor.place(From::End), at(50));
    }

    #[test]
    fn what_was_found_below_is_read_on_from_there_only_if_there_is_more() {
        let (mut floor, now) = (Floor::new(), Instant::now());
        floor.read(From::Beginning, now, now, Some(at(100)), true);
        floor.read(From::Beginning, now, now, Some(at(50)), false);
        assert_eq!(floor.place(From::End), at(100));
        floor.read(From::Beginning, now, now, Some(at(50)), true);
        assert_eq!(floor.place(From::End), at(50));
    }
}
