//! The walk of ordered claims through due events, a page at a time. Pure: callers pass in the time, and places are in the
//! order of the store's due events.
//!
//! A blocked aggregate may have more due events than a page, and they stay at the front of the index. So do events that
//! relays hold by locks. A claim must not see only these events, and must not read all of them each time. So a floor rises
//! over every full page, and the next claim begins there. Claims read the front again now and then, for events that were
//! blocked only for a moment. From time to time a rescan reads everything below the floor. Both are limited to a share of the
//! time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The pause between two reads of the front page below a floor, if they find nothing and are cheap.
const FRONT: Duration = Duration::from_millis(20);
/// The pause after such a read, as a multiple of its duration.
const FRONT_SHARE: u32 = 10;
/// The minimum pause between two rescans, if events were left below the floor.
const REST: Duration = Duration::from_millis(100);
/// The same if only events that were committed late can be below the floor.
const LONG_REST: Duration = Duration::from_secs(1);
/// The pause after a rescan, as a multiple of its duration.
const SHARE: u32 = 20;
/// The interval of claims by lease among claims by lock. Only claims by lease count losses.
const LEASE: Duration = Duration::from_secs(1);
/// The number of rescan pages that a claim without other events reads. A claim that may have others reads one.
const PAGES: usize = 4;
/// The minimum size of a page, even if fewer events are asked for.
const LEAST_PAGE: usize = 100;

/// The walk of a store, which all its handles share.
#[derive(Debug)]
pub(super) struct SharedWalk<P>(Arc<Mutex<Walk<P>>>);

impl<P> SharedWalk<P> {
    pub(super) fn lock(&self) -> MutexGuard<'_, Walk<P>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P> Default for SharedWalk<P> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<P> Clone for SharedWalk<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// The progress of ordered claims.
#[derive(Debug)]
pub(super) struct Walk<P> {
    /// Due events up to here were taken, held or blocked when they were last read.
    floor: Option<P>,
    /// Whether some of them were due and not taken.
    left: bool,
    front_at: Option<Instant>,
    /// The progress of a rescan below the floor; `None` when no rescan is running.
    rescan: Option<Rescan<P>>,
    rescan_at: Option<Instant>,
    /// The time of the last claim by lease.
    leased_at: Option<Instant>,
}

#[derive(Debug)]
struct Rescan<P> {
    place: Option<P>,
    blocked: usize,
    spent: Duration,
}

/// The part to read next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leg {
    Front,
    Tail,
    Rescan,
}

/// One page to read: this many due events after a place, or from the beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step<P> {
    leg: Leg,
    pub(super) after: Option<P>,
    pub(super) rows: usize,
}

impl<P> Step<P> {
    /// Returns whether most of the page is likely free, because no earlier claim left any of it behind.
    #[cfg(feature = "postgres")]
    pub(super) fn is_new(&self) -> bool {
        self.leg == Leg::Tail
    }
}

/// The result of a page.
#[derive(Debug, Clone)]
pub(super) struct Page<P> {
    /// The number of due events that were read.
    pub(super) seen: usize,
    /// The number of events that are not blocked, up to the limit.
    pub(super) free: usize,
    /// The number of events that were claimed.
    pub(super) taken: usize,
    /// The place of the last event.
    pub(super) until: Option<P>,
    /// How long the page took.
    pub(super) took: Duration,
}

/// The pages of one claim, until a page yields events.
#[derive(Debug)]
pub(super) struct Steps {
    limit: usize,
    whole: bool,
    locks: bool,
    began: Instant,
    legs: Vec<Leg>,
    /// The number of rescan pages left to read.
    pages: usize,
}

impl<P> Default for Walk<P> {
    fn default() -> Self {
        Self { floor: None, left: false, front_at: None, rescan: None, rescan_at: None, leased_at: None }
    }
}

impl<P: Clone + PartialOrd> Walk<P> {
    /// Begins a claim. With `whole`, it reads everything before it returns an empty claim. With `locks`, it locks events that
    /// are new to it, and reads no more events than it can take.
    pub(super) fn begin(&self, limit: usize, whole: bool, locks: bool, now: Instant) -> Steps {
        // A tail that always has events must not prevent a rescan.
        let is_overdue = self.floor.is_some() && self.rescan_at.is_some_and(|at| at + REST <= now);
        let (mut legs, pages) = if is_overdue {
            (vec![Leg::Rescan, Leg::Tail, Leg::Rescan], 1)
        } else {
            (vec![Leg::Rescan, Leg::Tail], PAGES)
        };
        if self.left && self.front_at.is_none_or(|at| at <= now) {
            legs.push(Leg::Front);
        }
        Steps { limit, whole, locks, began: now, legs, pages }
    }

    /// Records a claim by lease.
    #[cfg(feature = "postgres")]
    pub(super) fn leased(&mut self, at: Instant) {
        self.leased_at = Some(at);
    }

    /// Returns whether it is time for a claim by lease. If so, the current claim is recorded as one.
    #[cfg(feature = "postgres")]
    pub(super) fn leases(&mut self, now: Instant) -> bool {
        let leases = self.leased_at.is_none_or(|at| at + LEASE <= now);
        if leases {
            self.leased_at = Some(now);
        }
        leases
    }

    /// Returns the next page to read; `None` when the claim finds nothing.
    pub(super) fn next(&mut self, steps: &mut Steps) -> Option<Step<P>> {
        let leg = *steps.legs.last()?;
        let locks = steps.locks && leg == Leg::Tail;
        let rows = if locks { steps.limit } else { steps.limit.max(LEAST_PAGE) };
        match leg {
            Leg::Front => Some(Step { leg, after: None, rows }),
            Leg::Tail => Some(Step { leg, after: self.floor.clone(), rows }),
            Leg::Rescan => {
                let is_time = steps.whole || self.rescan.is_some() || self.rescan_at.is_none_or(|at| at <= steps.began);
                if self.floor.is_none() || !is_time || (steps.pages == 0 && !steps.whole) {
                    steps.legs.pop();
                    steps.pages = PAGES;
                    return self.next(steps);
                }
                steps.pages = steps.pages.saturating_sub(1);
                let rescan = self.rescan.get_or_insert(Rescan { place: None, blocked: 0, spent: Duration::ZERO });
                Some(Step { leg, after: rescan.place.clone(), rows })
            }
        }
    }

    /// Records the result of a page.
    pub(super) fn saw(&mut self, steps: &mut Steps, step: &Step<P>, page: Page<P>) {
        let is_cut = page.free >= steps.limit && step.rows > steps.limit;
        if page.taken > 0 && (page.taken < page.free || is_cut) {
            // The page has more events for the next claim.
            return;
        }
        let is_full = page.seen >= step.rows;
        match step.leg {
            Leg::Front => {
                if page.taken == 0 {
                    self.front_at = Some(steps.began + (page.took * FRONT_SHARE).max(FRONT));
                }
                steps.legs.pop();
            }
            Leg::Tail if is_full => self.rise(page.taken < page.seen, page.until, steps.began),
            Leg::Tail => {
                steps.legs.pop();
            }
            Leg::Rescan => self.rescanned(steps, step, page, is_full),
        }
    }

    fn rise(&mut self, leaves: bool, until: Option<P>, now: Instant) {
        if leaves && !self.left {
            self.front_at = Some(now + FRONT);
            self.rescan_at = Some(now + REST);
        } else if self.floor.is_none() {
            self.rescan_at = Some(now + LONG_REST);
        }
        self.left |= leaves;
        self.floor = until;
    }

    fn rescanned(&mut self, steps: &mut Steps, step: &Step<P>, page: Page<P>, is_full: bool) {
        let Some(rescan) = &mut self.rescan else { return };
        rescan.blocked += page.seen.saturating_sub(page.free);
        rescan.spent += page.took;
        let is_over = !is_full || page.until >= self.floor;
        if page.until.is_some() {
            rescan.place = page.until;
        }
        if is_over {
            // The blocked events are few enough to read each time.
            if rescan.blocked * 2 < step.rows {
                self.floor = None;
                self.left = false;
            }
            let rest = if self.left { REST } else { LONG_REST };
            self.rescan_at = Some(steps.began + (rescan.spent * SHARE).max(rest));
            self.rescan = None;
            steps.legs.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 100;

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Row {
        Blocked,
        Free,
        Gone,
    }

    /// Due events at the places from 0 on. A claim takes the free ones.
    struct Table {
        walk: Walk<usize>,
        rows: Vec<Row>,
        now: Instant,
        looked: usize,
    }

    impl Table {
        fn new(blocked: usize, free: usize) -> Self {
            let rows = [vec![Row::Blocked; blocked], vec![Row::Free; free]].concat();
            Self { walk: Walk::default(), rows, now: Instant::now(), looked: 0 }
        }

        /// Returns the number of events that a claim takes.
        fn claim(&mut self, whole: bool) -> usize {
            let mut steps = self.walk.begin(LIMIT, whole, false, self.now);
            while let Some(step) = self.walk.next(&mut steps) {
                let from = step.after.map_or(0, |place| place + 1);
                let there = (from..self.rows.len()).filter(|at| self.rows[*at] != Row::Gone);
                let seen: Vec<usize> = there.take(step.rows).collect();
                let free: Vec<usize> = seen.iter().copied().filter(|at| self.rows[*at] == Row::Free).collect();
                let taken = free.len().min(LIMIT);
                self.looked += seen.len();
                let (until, took) = (seen.last().copied(), Duration::from_millis(1));
                self.walk.saw(&mut steps, &step, Page { seen: seen.len(), free: taken, taken, until, took });
                if taken > 0 {
                    free.iter().take(taken).for_each(|at| self.rows[*at] = Row::Gone);
                    return taken;
                }
            }
            0
        }
    }

    #[test]
    fn without_blocked_events_every_claim_begins_where_the_last_one_ended() {
        let mut table = Table::new(0, 1000);
        for _ in 0..10 {
            assert_eq!(table.claim(false), LIMIT);
        }
        assert_eq!(table.claim(false), 0);
        assert_eq!(table.looked, 1000, "nothing is looked at twice");
    }

    #[test]
    fn a_claim_finds_what_is_behind_many_blocked_events_and_does_not_look_at_them_again_at_once() {
        let mut table = Table::new(10_000, 50);
        assert_eq!(table.claim(false), 50);
        assert!(table.looked >= 10_000);
        table.looked = 0;
        table.rows.extend([Row::Free; 50]);
        assert_eq!(table.claim(false), 50);
        assert!(table.looked < 1000, "{} looked at", table.looked);
    }

    #[test]
    fn what_becomes_free_under_the_floor_is_found_by_a_rescan() {
        let mut table = Table::new(10_000, 0);
        assert_eq!(table.claim(false), 0);
        table.rows[5000] = Row::Free;
        assert_eq!(table.claim(false), 0, "not at once");
        table.now += Duration::from_secs(10);
        let claims = (0..20).position(|_| table.claim(false) == 1);
        assert!(claims.is_some(), "a few pages at a time");
    }

    #[test]
    fn a_busy_tail_does_not_keep_a_rescan_from_being_made() {
        let mut table = Table::new(10_000, 0);
        assert_eq!(table.claim(false), 0);
        table.rows[5000] = Row::Free;
        for _ in 0..200 {
            table.now += Duration::from_millis(50);
            table.rows.extend([Row::Free; 10]);
            table.claim(false);
        }
        assert_eq!(table.rows[5000], Row::Gone);
    }

    #[test]
    fn a_claim_of_the_whole_finds_it_at_once() {
        let mut table = Table::new(10_000, 0);
        assert_eq!(table.claim(true), 0);
        table.rows[5000] = Row::Free;
        assert_eq!(table.claim(true), 1);
    }

    #[test]
    fn the_floor_goes_when_little_is_blocked() {
        let mut table = Table::new(500, 0);
        assert_eq!(table.claim(false), 0);
        assert!(table.walk.floor.is_some());
        table.rows[..460].fill(Row::Gone);
        table.now += Duration::from_secs(10);
        table.claim(false);
        assert_eq!(table.walk.floor, None);
    }
}
