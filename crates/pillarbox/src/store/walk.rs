//! The walk of ordered claims through what is due, a page at a time. Pure: the time is given, and places are whatever a
//! store orders its due events by.
//!
//! An aggregate that waits for long may have more due events than a page, and they stay at the front of the index; so does
//! what this relay and others hold by locks. A claim must neither see only them, nor look at all of them each time. So a
//! floor rises over every full page, and the next claim begins there. The front is looked at now and then, for what was
//! blocked for a moment only, and everything under the floor is swept from time to time, both within a share of the time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks at the front page while a floor is above it, if they find nothing and are cheap.
const FRONT: Duration = Duration::from_millis(20);
/// So many times as long as such a look took, there is none.
const FRONT_SHARE: u32 = 10;
/// Between two sweeps, at least, if something was left under the floor.
const REST: Duration = Duration::from_millis(100);
/// The same if nothing was left there but what may have been committed late.
const LONG_REST: Duration = Duration::from_secs(1);
/// So many times as long as a sweep took, there is none.
const SHARE: u32 = 20;
/// How often a claim is by lease where others are by lock: only those count what was lost.
const LEASE: Duration = Duration::from_secs(1);
/// How many pages of a sweep a claim looks at that has nothing else; one that may have looks at one.
const PAGES: usize = 4;
/// A page has at least so many events, however few are asked for.
const LEAST_PAGE: usize = 100;

/// The walk of a store: all handles on it walk together.
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

/// Where ordered claims have come to.
#[derive(Debug)]
pub(super) struct Walk<P> {
    /// What is due up to here was taken, held by somebody or blocked when it was last looked at.
    floor: Option<P>,
    /// Some of that was due and not taken.
    left: bool,
    front_at: Option<Instant>,
    /// How far a sweep under the floor has come; `None` when none is under way.
    sweep: Option<Sweep<P>>,
    sweep_at: Option<Instant>,
    /// When a claim by lease was last made.
    leased_at: Option<Instant>,
}

#[derive(Debug)]
struct Sweep<P> {
    place: Option<P>,
    blocked: usize,
    spent: Duration,
}

/// What to look at next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leg {
    Front,
    Tail,
    Sweep,
}

/// One page to look at: so many due events after a place, or from the beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step<P> {
    leg: Leg,
    pub(super) after: Option<P>,
    pub(super) rows: usize,
}

impl<P> Step<P> {
    /// Whether most of the page will be free: nothing of it was left behind by an earlier claim.
    #[cfg(feature = "postgres")]
    pub(super) fn is_new(&self) -> bool {
        self.leg == Leg::Tail
    }
}

/// What was found on a page.
#[derive(Debug, Clone)]
pub(super) struct Page<P> {
    /// Due events that were looked at.
    pub(super) seen: usize,
    /// Those that are not blocked, up to the limit.
    pub(super) free: usize,
    /// Those that were claimed.
    pub(super) taken: usize,
    /// The place of the last one.
    pub(super) until: Option<P>,
    /// How long it took.
    pub(super) took: Duration,
}

/// The pages of one claim, until one of them gives it something.
#[derive(Debug)]
pub(super) struct Steps {
    limit: usize,
    whole: bool,
    locks: bool,
    began: Instant,
    legs: Vec<Leg>,
    /// How many of a sweep are left to look at.
    pages: usize,
}

impl<P> Default for Walk<P> {
    fn default() -> Self {
        Self { floor: None, left: false, front_at: None, sweep: None, sweep_at: None, leased_at: None }
    }
}

impl<P: Clone + PartialOrd> Walk<P> {
    /// Begins a claim. `whole`: it looks at everything before it answers that there is nothing. `locks`: it locks what is
    /// new to it, and looks at no more than it can take.
    pub(super) fn begin(&self, limit: usize, whole: bool, locks: bool, now: Instant) -> Steps {
        // A tail that always has something must not keep a sweep from being made.
        let is_overdue = self.floor.is_some() && self.sweep_at.is_some_and(|at| at + REST <= now);
        let (mut legs, pages) = if is_overdue {
            (vec![Leg::Sweep, Leg::Tail, Leg::Sweep], 1)
        } else {
            (vec![Leg::Sweep, Leg::Tail], PAGES)
        };
        if self.left && self.front_at.is_none_or(|at| at <= now) {
            legs.push(Leg::Front);
        }
        Steps { limit, whole, locks, began: now, legs, pages }
    }

    /// A claim by lease was made then.
    #[cfg(feature = "postgres")]
    pub(super) fn leased(&mut self, at: Instant) {
        self.leased_at = Some(at);
    }

    /// Whether it is time for a claim by lease, which this one will be then.
    #[cfg(feature = "postgres")]
    pub(super) fn leases(&mut self, now: Instant) -> bool {
        let leases = self.leased_at.is_none_or(|at| at + LEASE <= now);
        if leases {
            self.leased_at = Some(now);
        }
        leases
    }

    /// The next page to look at; `None` when the claim has nothing.
    pub(super) fn next(&mut self, steps: &mut Steps) -> Option<Step<P>> {
        let leg = *steps.legs.last()?;
        let locks = steps.locks && leg == Leg::Tail;
        let rows = if locks { steps.limit } else { steps.limit.max(LEAST_PAGE) };
        match leg {
            Leg::Front => Some(Step { leg, after: None, rows }),
            Leg::Tail => Some(Step { leg, after: self.floor.clone(), rows }),
            Leg::Sweep => {
                let is_time = steps.whole || self.sweep.is_some() || self.sweep_at.is_none_or(|at| at <= steps.began);
                if self.floor.is_none() || !is_time || (steps.pages == 0 && !steps.whole) {
                    steps.legs.pop();
                    steps.pages = PAGES;
                    return self.next(steps);
                }
                steps.pages = steps.pages.saturating_sub(1);
                let sweep = self.sweep.get_or_insert(Sweep { place: None, blocked: 0, spent: Duration::ZERO });
                Some(Step { leg, after: sweep.place.clone(), rows })
            }
        }
    }

    /// A page was looked at.
    pub(super) fn saw(&mut self, steps: &mut Steps, step: &Step<P>, page: Page<P>) {
        let is_cut = page.free >= steps.limit && step.rows > steps.limit;
        if page.taken > 0 && (page.taken < page.free || is_cut) {
            // There is more to claim on this page, next time.
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
            Leg::Sweep => self.swept(steps, step, page, is_full),
        }
    }

    fn rise(&mut self, leaves: bool, until: Option<P>, now: Instant) {
        if leaves && !self.left {
            self.front_at = Some(now + FRONT);
            self.sweep_at = Some(now + REST);
        } else if self.floor.is_none() {
            self.sweep_at = Some(now + LONG_REST);
        }
        self.left |= leaves;
        self.floor = until;
    }

    fn swept(&mut self, steps: &mut Steps, step: &Step<P>, page: Page<P>, is_full: bool) {
        let Some(sweep) = &mut self.sweep else { return };
        sweep.blocked += page.seen.saturating_sub(page.free);
        sweep.spent += page.took;
        let is_over = !is_full || page.until >= self.floor;
        if page.until.is_some() {
            sweep.place = page.until;
        }
        if is_over {
            // Few enough to look at each time.
            if sweep.blocked * 2 < step.rows {
                self.floor = None;
                self.left = false;
            }
            let rest = if self.left { REST } else { LONG_REST };
            self.sweep_at = Some(steps.began + (sweep.spent * SHARE).max(rest));
            self.sweep = None;
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

    /// Due events at the places from 0 on; a claim takes those that are free.
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

        /// How many a claim takes.
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
    fn what_becomes_free_under_the_floor_is_found_by_a_sweep() {
        let mut table = Table::new(10_000, 0);
        assert_eq!(table.claim(false), 0);
        table.rows[5000] = Row::Free;
        assert_eq!(table.claim(false), 0, "not at once");
        table.now += Duration::from_secs(10);
        let claims = (0..20).position(|_| table.claim(false) == 1);
        assert!(claims.is_some(), "a few pages at a time");
    }

    #[test]
    fn a_busy_tail_does_not_keep_a_sweep_from_being_made() {
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
