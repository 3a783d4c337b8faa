//! The walk of ordered claims through what is due, a page at a time. Pure: the time is given, and places are whatever a
//! store orders its due events by.
//!
//! An aggregate that waits for long may have more due events than a page, and they stay at the front of the index. A claim
//! must neither see only them, nor look at all of them each time. So a floor rises over pages that are mostly blocked, and
//! claims begin there; the front is looked at now and then, for what was blocked for a moment only, and everything under
//! the floor is swept from time to time, within a share of the time that is proportionate to what it costs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks at the front page while a floor is above it.
const FRONT: Duration = Duration::from_millis(20);
/// Between two sweeps, at least.
const REST: Duration = Duration::from_millis(100);
/// So many times as long as a sweep took, there is none.
const SHARE: u32 = 20;
/// How many pages of a sweep one claim looks at.
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
    /// What is due up to here was blocked when it was last looked at.
    floor: Option<P>,
    front_at: Option<Instant>,
    /// How far a sweep under the floor has come; `None` when none is under way.
    sweep: Option<Sweep<P>>,
    sweep_at: Option<Instant>,
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
    began: Instant,
    legs: Vec<Leg>,
    swept: usize,
}

impl<P> Default for Walk<P> {
    fn default() -> Self {
        Self { floor: None, front_at: None, sweep: None, sweep_at: None }
    }
}

impl<P: Clone + PartialOrd> Walk<P> {
    /// Begins a claim. `whole`: it looks at everything before it answers that there is nothing.
    pub(super) fn begin(&self, limit: usize, whole: bool, now: Instant) -> Steps {
        let mut legs = vec![Leg::Sweep, Leg::Tail];
        // A tail that always has something must not keep a sweep from being made.
        if self.floor.is_some() && self.sweep_at.is_some_and(|at| at + REST <= now) {
            legs = vec![Leg::Tail, Leg::Sweep];
        }
        if self.floor.is_some() && self.front_at.is_none_or(|at| at + FRONT <= now) {
            legs.push(Leg::Front);
        }
        Steps { limit, whole, began: now, legs, swept: 0 }
    }

    /// The next page to look at; `None` when the claim has nothing.
    pub(super) fn next(&mut self, steps: &mut Steps) -> Option<Step<P>> {
        let leg = *steps.legs.last()?;
        let rows = match (&self.floor, leg) {
            (None, _) => steps.limit.max(LEAST_PAGE),
            (Some(_), _) => steps.limit.saturating_mul(2).max(LEAST_PAGE),
        };
        match leg {
            Leg::Front => {
                self.front_at = Some(steps.began);
                Some(Step { leg, after: None, rows })
            }
            Leg::Tail => Some(Step { leg, after: self.floor.clone(), rows }),
            Leg::Sweep => {
                let is_time = steps.whole || self.sweep.is_some() || self.sweep_at.is_none_or(|at| at <= steps.began);
                if self.floor.is_none() || !is_time || (steps.swept >= PAGES && !steps.whole) {
                    steps.legs.pop();
                    return self.next(steps);
                }
                steps.swept += 1;
                let sweep = self.sweep.get_or_insert(Sweep { place: None, blocked: 0, spent: Duration::ZERO });
                Some(Step { leg, after: sweep.place.clone(), rows })
            }
        }
    }

    /// A page was looked at.
    pub(super) fn saw(&mut self, steps: &mut Steps, step: &Step<P>, page: Page<P>) {
        if page.taken > 0 && (page.taken < page.free || page.free >= steps.limit) {
            // There is more to claim on this page, next time.
            return;
        }
        let is_full = page.seen >= step.rows;
        let is_blocked = page.free < steps.limit && page.free * 2 < page.seen;
        match step.leg {
            Leg::Front => {
                steps.legs.pop();
            }
            Leg::Tail if is_full && is_blocked => self.rise(page.until, steps.began),
            Leg::Tail => {
                steps.legs.pop();
            }
            Leg::Sweep => self.swept(steps, step, page, is_full),
        }
    }

    fn rise(&mut self, until: Option<P>, now: Instant) {
        if self.floor.is_none() {
            self.front_at = Some(now);
            self.sweep_at = Some(now + REST);
        }
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
            }
            self.sweep_at = Some(steps.began + (sweep.spent * SHARE).max(REST));
            self.sweep = None;
            steps.legs.pop();
        }
    }
}
