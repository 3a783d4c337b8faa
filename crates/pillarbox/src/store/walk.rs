//! The walk of claims through due events: where the next claim begins, and when the events below that place are read again.
//! Pure: callers pass in the time, and places have the order of the store's due events.
//!
//! The front of the due index is expensive to read. It has entries of settled events, as long as an open transaction may still
//! see them. It also has due events that cannot be taken: events that wait for others of their aggregates, and events that
//! other relays hold. So a claim begins at the end of the part that was read.
//!
//! Events below the end become due when they are committed late, given back or no longer blocked. Three kinds of reads find
//! them, each in a limited share of the time. Without a backlog, the tail begins a few seconds below the end. If events were
//! left below the end, the front page is read again soon. From time to time, a rescan reads from the beginning.
//!
//! Claims without an order leave no events below the end, because no event is blocked.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chrono::TimeDelta;

use super::{Ask, Order};

#[cfg(test)]
mod tests;

/// How far the tail begins below the end. Nearly all emitting transactions commit within this time.
const TRAIL_SPAN: TimeDelta = TimeDelta::seconds(5);
/// The pause after a tail that begins below the end.
const TRAIL: Pace = Pace { share: 4, least: Duration::ZERO };
/// The pause after a read of the front that finds nothing.
const FRONT: Pace = Pace { share: 10, least: Duration::from_millis(20) };
/// The pause after a rescan, if only events that were committed late or given back can be below the end.
const RESCAN: Pace = Pace { share: 20, least: Duration::from_secs(1) };
/// The pause after a rescan, if events were left below the end.
const RESCAN_LEFT: Pace = Pace { share: 20, least: Duration::from_millis(100) };
/// The maximum pause. A slow read may have been due to a slow moment of the database.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The number of rescan pages that a claim without other events reads. A claim that may have others reads one.
const PAGES: usize = 4;
/// The minimum size of an ordered page, even if fewer events are asked for.
const LEAST_PAGE: usize = 100;

/// How soon a part is read again: after a multiple of the time that it took, and at least after a minimum.
struct Pace {
    share: u32,
    least: Duration,
}

impl Pace {
    fn pause(&self, took: Duration) -> Duration {
        (took * self.share).clamp(self.least, LONGEST_PAUSE)
    }
}

/// A place in the order of due events.
pub(super) trait Place: Clone + Ord {
    /// Returns the place that is earlier by this span; `None` means the beginning.
    fn earlier_by(&self, span: TimeDelta) -> Option<Self>;
}

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

/// The progress of claims.
#[derive(Debug)]
pub(super) struct Walk<P> {
    /// The due events up to here were read, and taken unless `left` is set. `None` means the beginning.
    end: Option<P>,
    /// Whether the last page was full, so that there are more events after the end.
    full: bool,
    /// Whether events up to the end were due and not taken.
    left: bool,
    /// When the part just below the end, or the front page if events were left, is read again.
    below_at: Option<Instant>,
    /// The progress of a rescan; `None` when no rescan is running.
    rescan: Option<Rescan<P>>,
    rescan_at: Option<Instant>,
    /// When the end was last lowered by `back_to`.
    back_at: Option<Instant>,
}

#[derive(Debug)]
struct Rescan<P> {
    began: Instant,
    place: Option<P>,
    /// The number of events that were not taken.
    left: usize,
    /// The number of events that were blocked.
    blocked: usize,
    spent: Duration,
}

/// The part to read next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leg {
    /// The first page.
    Front,
    /// The events after the end.
    Tail,
    /// The events after the end, and those a few seconds below it.
    Trail,
    /// All events from the beginning, a page at a time.
    Rescan,
}

/// One page to read: this many due events after a place, or from the beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step<P> {
    leg: Leg,
    pub(super) after: Option<P>,
    pub(super) rows: usize,
    /// Whether to hold the events by locks. Most of such a page is free, because no earlier claim left any of it behind.
    pub(super) locks: bool,
    pub(super) began: Instant,
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
    /// Whether there may be more events after it.
    pub(super) full: bool,
}

impl<P> Page<P> {
    /// Returns the result of a page without an order, whose events were all taken.
    pub(super) fn taken(taken: usize, until: Option<P>, step: &Step<P>) -> Self {
        Self { seen: taken, free: taken, taken, until, full: taken >= step.rows }
    }
}

/// The pages of one claim, until a page yields events.
#[derive(Debug)]
pub(super) struct Steps {
    limit: usize,
    whole: bool,
    ordered: bool,
    /// Whether the claim begins above the beginning even without a backlog.
    pub(super) trails: bool,
    /// Whether the claim holds new events by locks.
    pub(super) locks: bool,
    began: Instant,
    legs: Vec<Leg>,
    /// The number of rescan pages left to read.
    pages: usize,
}

impl Steps {
    /// Ends a leg, or all legs if everything was read.
    fn pop(&mut self, is_everything: bool) {
        if is_everything {
            self.legs.clear();
        }
        self.legs.pop();
    }
}

impl<P> Default for Walk<P> {
    fn default() -> Self {
        Self { end: None, full: false, left: false, below_at: None, rescan: None, rescan_at: None, back_at: None }
    }
}

impl<P: Place> Walk<P> {
    /// Begins a claim. With `whole`, it reads everything before it returns an empty claim.
    pub(super) fn begin(&self, ask: &Ask<'_>, now: Instant) -> Steps {
        let mut legs = vec![Leg::Rescan, Leg::Tail];
        let is_due = self.rescan_at.is_none_or(|at| at <= now);
        if is_due {
            // Before the tail, because a tail that always has events must not prevent a rescan.
            legs.push(Leg::Rescan);
        }
        if self.left && self.below_at.is_none_or(|at| at <= now) {
            legs.push(Leg::Front);
        }
        let pages = if is_due { 1 } else { PAGES };
        let (limit, whole, ordered) = (ask.limit, ask.whole, ask.order != Order::None);
        Steps { limit, whole, ordered, trails: false, locks: false, began: now, legs, pages }
    }

    /// Returns the next page to read; `None` when the claim finds nothing.
    pub(super) fn next(&mut self, steps: &mut Steps, now: Instant) -> Option<Step<P>> {
        let (leg, after) = match *steps.legs.last()? {
            Leg::Tail | Leg::Trail => self.tail(steps.trails, now),
            Leg::Front => (Leg::Front, None),
            Leg::Rescan if self.rescans(steps) => {
                steps.pages = steps.pages.saturating_sub(1);
                (Leg::Rescan, self.rescan.get_or_insert_with(|| Rescan::begin(now)).place.clone())
            }
            Leg::Rescan => {
                steps.legs.pop();
                steps.pages = PAGES;
                return self.next(steps, now);
            }
        };
        let locks = steps.locks && matches!(leg, Leg::Tail | Leg::Trail);
        let rows = if steps.ordered && !locks { steps.limit.max(LEAST_PAGE) } else { steps.limit };
        Some(Step { leg, after, rows, locks, began: now })
    }

    fn tail(&self, trails: bool, now: Instant) -> (Leg, Option<P>) {
        let is_below_due = self.below_at.is_none_or(|at| at <= now);
        match &self.end {
            Some(end) if self.full || self.left || (trails && !is_below_due) => (Leg::Tail, Some(end.clone())),
            Some(end) if trails => (Leg::Trail, end.earlier_by(TRAIL_SPAN)),
            _ => (Leg::Tail, None),
        }
    }

    fn rescans(&self, steps: &Steps) -> bool {
        let is_time = self.rescan.is_some() || self.rescan_at.is_none_or(|at| at <= steps.began);
        steps.whole || (is_time && steps.pages > 0)
    }

    /// Records the result of a page.
    pub(super) fn saw(&mut self, steps: &mut Steps, step: &Step<P>, page: Page<P>, now: Instant) {
        let is_limited = page.free >= steps.limit && step.rows > steps.limit;
        let has_more = page.taken > 0 && (page.taken < page.free || is_limited);
        match step.leg {
            Leg::Rescan => self.rescanned(steps, step, page, has_more, now),
            // The next claim reads the same page.
            _ if has_more => {}
            Leg::Front => {
                if page.taken == 0 {
                    self.below_at = Some(now + FRONT.pause(now - step.began));
                }
                steps.pop(false);
            }
            Leg::Tail | Leg::Trail => {
                if step.leg == Leg::Trail {
                    self.below_at = Some(now + TRAIL.pause(now - step.began));
                }
                if !page.full {
                    // A claim by lock does not see events that have lost leases.
                    let is_everything = step.after.is_none() && !step.locks;
                    steps.pop(is_everything);
                }
                self.rise(step, page, now);
            }
        }
    }

    fn rise(&mut self, step: &Step<P>, page: Page<P>, now: Instant) {
        if self.is_back_since(step.began) {
            return;
        }
        let leaves = page.taken < page.seen;
        self.full = page.full;
        if page.full {
            if leaves && !self.left {
                let soon = now + RESCAN_LEFT.least;
                self.below_at = Some(now + FRONT.least);
                self.rescan_at = self.rescan_at.map(|at| at.min(soon));
            }
            self.left |= leaves;
            // Possibly lower than the end: then there are more events between the two.
            self.end = page.until.or(self.end.take());
        } else if !leaves {
            self.end = self.end.take().max(page.until);
        }
    }

    fn rescanned(&mut self, steps: &mut Steps, step: &Step<P>, page: Page<P>, has_more: bool, now: Instant) {
        let Some(mut rescan) = self.rescan.take() else {
            // Another claim has ended it.
            return steps.pop(false);
        };
        rescan.spent += now - step.began;
        // No event is left below this page, so the tail can read it, and go on after it.
        let is_clear = !self.left && rescan.left == 0;
        if has_more && !is_clear {
            self.rescan = Some(rescan);
            return;
        }
        rescan.left += page.seen.saturating_sub(page.taken);
        rescan.blocked += page.seen.saturating_sub(page.free);
        let is_over = !page.full || page.until >= self.end;
        if !(is_over || has_more || (is_clear && rescan.left == 0)) {
            rescan.place = page.until.or(rescan.place);
            self.rescan = Some(rescan);
            return;
        }
        steps.pop(!page.full);
        if !self.is_back_since(rescan.began.min(step.began)) {
            if rescan.left == 0 {
                self.end = if page.full { page.until } else { self.end.take().max(page.until) };
                (self.full, self.left) = (page.full, false);
            } else if has_more || rescan.blocked * 2 < step.rows {
                // The next claims take the rest of the page, or the blocked events are few enough to read each time.
                (self.end, self.left) = (None, false);
            } else {
                (self.end, self.left) = (self.end.take().max(page.until), true);
            }
        }
        let pace = if self.left { RESCAN_LEFT } else { RESCAN };
        self.rescan_at = Some(now + pace.pause(rescan.spent));
    }

    /// Lowers the end to this place, because events after it were given back, or were passed over and are free now. A claim
    /// that is being made does not raise it again.
    #[cfg(any(feature = "postgres", test))]
    pub(super) fn back_to(&mut self, place: Option<P>, now: Instant) {
        if place < self.end {
            self.end = place;
        }
        self.full = true;
        self.back_at = Some(now);
    }

    fn is_back_since(&self, began: Instant) -> bool {
        self.back_at.is_some_and(|at| at >= began)
    }

    /// Returns the place after which the next due event is searched for. With `trails`, events far below the end are left to
    /// rescans.
    #[cfg(any(feature = "mysql", feature = "postgres", test))]
    pub(super) fn due_after(&self, trails: bool) -> Option<P> {
        self.end.as_ref().filter(|_| trails && !self.left)?.earlier_by(TRAIL_SPAN)
    }

    /// Sets the time of the next rescan.
    #[cfg(any(feature = "postgres", test))]
    pub(super) fn rescan_at(&mut self, at: Instant) {
        self.rescan_at = Some(at);
    }
}

impl<P> Rescan<P> {
    fn begin(now: Instant) -> Self {
        Self { began: now, place: None, left: 0, blocked: 0, spent: Duration::ZERO }
    }
}
