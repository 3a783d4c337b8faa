//! The place where a claim begins to read. The front of the due index is full of entries of settled events, as long as an open
//! transaction may still see them, and every claim would walk over them. So a claim begins where the last one ended. Pure;
//! callers pass in the time.
//!
//! An event that is committed late, or given back by a relay that died, is due below that place. So the floor trails by a few
//! seconds unless there is a backlog, and now and then a claim begins at the beginning. Both take a limited share of the time.

use std::time::{Duration, Instant};

use chrono::TimeDelta;

use super::moment::Moment;

/// A place in the due index: `(next_attempt_at, seq)`.
pub(super) type Place = (Moment, i64);

/// How far the floor trails. Nearly all emitting transactions commit within this time.
const TRAIL: TimeDelta = TimeDelta::seconds(5);
/// The pause after a trailing claim, as a multiple of its duration.
const TRAIL_BUDGET: u32 = 4;
/// The minimum interval of claims that begin at the beginning.
const RESCAN: Duration = Duration::from_secs(1);
/// The pause after such a claim, as a multiple of its duration.
const RESCAN_BUDGET: u32 = 20;
/// The maximum pause. A slow claim may have been due to a slow moment of the database.
const LONGEST_REST: Duration = Duration::from_secs(30);

/// The place where the next claim begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
    /// At the beginning. This claim also finds expired leases and events that were passed over.
    Beginning,
    /// A few seconds below the end of the last claim.
    Trailing,
    /// At the end of the last claim, because there is a backlog.
    End,
}

#[derive(Debug)]
pub(super) struct Floor {
    /// The last event that was read.
    end: Option<Place>,
    /// Whether the last claim was full, so that there are more events above it.
    full: bool,
    rescan_at: Option<Instant>,
    /// When an event below was last released.
    reset_at: Option<Instant>,
    trail_at: Option<Instant>,
}

impl Floor {
    pub(super) fn new() -> Self {
        Self { end: None, full: false, rescan_at: None, reset_at: None, trail_at: None }
    }

    /// Returns a floor that has just begun at the beginning, and need not do so for long.
    pub(super) fn after_a_rescan() -> Self {
        let later = Instant::now() + Duration::from_secs(3600);
        Self { end: Some(beginning()), full: true, rescan_at: Some(later), reset_at: None, trail_at: None }
    }

    /// Returns where to begin now.
    pub(super) fn next(&self, now: Instant) -> Start {
        if self.end.is_none() || self.rescan_at.is_none_or(|at| at <= now) {
            Start::Beginning
        } else if self.full || self.trail_at.is_some_and(|at| at > now) {
            Start::End
        } else {
            Start::Trailing
        }
    }

    /// Returns the place to begin at.
    pub(super) fn place(&self, from: Start) -> Place {
        match (from, self.end) {
            (Start::Beginning, _) | (_, None) => beginning(),
            (Start::Trailing, Some((moment, _))) => (moment.earlier_by(TRAIL), 0),
            (Start::End, Some(end)) => end,
        }
    }

    /// Records a claim: where it began, how long it took, its last event, and whether it was full.
    pub(super) fn read(&mut self, from: Start, began: Instant, now: Instant, last: Option<Place>, full: bool) {
        let took = now.saturating_duration_since(began);
        match from {
            // The claim may have missed events that were released meanwhile.
            Start::Beginning if self.reset_at.is_some_and(|at| at >= began) => {}
            Start::Beginning => self.rescan_at = Some(now + (took * RESCAN_BUDGET).clamp(RESCAN, LONGEST_REST)),
            Start::Trailing => self.trail_at = Some(now + took * TRAIL_BUDGET),
            Start::End => {}
        }
        // A full claim that began below the end means that there are more events between its last event and the end.
        self.end = if full { last.or(self.end) } else { self.end.max(last) };
        self.full = full;
    }

    /// Lets the next claim begin at the beginning, because events below may have been released.
    pub(super) fn reset(&mut self) {
        self.rescan_at = None;
        self.reset_at = Some(Instant::now());
    }

    /// Lowers the end to this place. Events after it were passed over and are free now.
    pub(super) fn back_to(&mut self, place: Place) {
        if self.end.is_some_and(|end| place < end) {
            self.end = Some(place);
        }
        self.full = true;
    }
}

/// Returns the place before every event.
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
        assert_eq!(floor.next(now), Start::Beginning);
        floor.read(Start::Beginning, now, now + MS, Some(at(100)), true);
        assert_eq!(floor.next(now + MS), Start::End);
        assert_eq!(floor.place(Start::End), at(100));
    }

    #[test]
    fn without_a_backlog_it_trails_as_often_as_that_is_cheap() {
        let (mut floor, now) = (Floor::new(), Instant::now());
        floor.read(Start::Beginning, now, now + MS, Some(at(100)), false);
        assert_eq!(floor.next(now + MS), Start::Trailing);
        assert_eq!(floor.place(Start::Trailing), (at(95).0, 0));
        floor.read(Start::Trailing, now + MS, now + 21 * MS, None, false);
        assert_eq!(floor.next(now + 100 * MS), Start::End);
        assert_eq!(floor.next(now + 102 * MS), Start::Trailing);
    }

    #[test]
    fn every_second_or_less_often_it_begins_at_the_beginning() {
        let (mut floor, now) = (Floor::new(), Instant::now());
        floor.read(Start::Beginning, now, now + MS, Some(at(100)), true);
        assert_eq!(floor.next(now + 1000 * MS), Start::End);
        assert_eq!(floor.next(now + 1002 * MS), Start::Beginning);
        floor.read(Start::Beginning, now, now + 500 * MS, Some(at(100)), true);
        assert_eq!(floor.next(now + 10_499 * MS), Start::End);
        assert_eq!(floor.next(now + 10_501 * MS), Start::Beginning);
        floor.read(Start::Beginning, now, now, None, false);
        floor.reset();
        assert_eq!(floor.next(now), Start::Beginning);
    }

    #[test]
    fn a_rescan_does_not_make_up_for_what_is_let_go_meanwhile() {
        let (mut floor, began) = (Floor::new(), Instant::now());
        floor.reset();
        floor.read(Start::Beginning, began, began + MS, Some(at(100)), true);
        assert_eq!(floor.next(began + MS), Start::Beginning);
    }

    #[test]
    fn however_long_a_rescan_took_the_next_is_made_within_half_a_minute() {
        let (mut floor, now) = (Floor::new(), Instant::now());
        floor.read(Start::Beginning, now, now + 60_000 * MS, Some(at(100)), true);
        assert_eq!(floor.next(now + 89_000 * MS), Start::End);
        assert_eq!(floor.next(now + 90_000 * MS), Start::Beginning);
    }

    #[test]
    fn it_goes_back_to_what_was_too_large_to_be_claimed_with_the_others() {
        let (mut floor, now) = (Floor::new(), Instant::now());
        floor.read(Start::Beginning, now, now, Some(at(100)), false);
        floor.back_to(at(50));
        assert_eq!((floor.next(now), floor.place(Start::End)), (Start::End, at(50)));
        floor.back_to(at(70));
        assert_eq!(floor.place(Start::End), at(50));
    }

    #[test]
    fn what_was_found_below_is_read_on_from_there_only_if_there_is_more() {
        let (mut floor, now) = (Floor::new(), Instant::now());
        floor.read(Start::Beginning, now, now, Some(at(100)), true);
        floor.read(Start::Beginning, now, now, Some(at(50)), false);
        assert_eq!(floor.place(Start::End), at(100));
        floor.read(Start::Beginning, now, now, Some(at(50)), true);
        assert_eq!(floor.place(Start::End), at(50));
    }
}
