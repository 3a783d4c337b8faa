//! Wake: hints that there may be something to claim, and the pace of polling between them. Polling finds every event whose
//! hint was lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// Wakes a relay. Cheap to clone; give one to any code that commits events in the relay's process.
#[derive(Debug, Clone, Default)]
pub struct Waker(Arc<Bell>);

#[derive(Debug, Default)]
struct Bell {
    ring: Notify,
    gone: Notify,
    is_gone: AtomicBool,
    /// Whether notifications arrive, once a store has reported it.
    notified: Mutex<Option<bool>>,
}

impl Waker {
    /// Wakes the relay, because there may be something to claim.
    pub fn wake(&self) {
        self.0.ring.notify_one();
    }

    /// Waits until the relay is woken. An earlier wake is not lost.
    pub(super) async fn woken(&self) {
        self.0.ring.notified().await;
    }

    /// Waits until the relay has stopped. For stores.
    pub async fn relay_gone(&self) {
        let gone = self.0.gone.notified();
        tokio::pin!(gone);
        gone.as_mut().enable();
        if !self.0.is_gone.load(Ordering::Acquire) {
            gone.await;
        }
    }

    /// Sets whether the database notifies of new events from now on. For stores.
    pub fn set_notified(&self, notified: bool) {
        *self.0.notified.lock().unwrap_or_else(PoisonError::into_inner) = Some(notified);
        // So that the pace changes at once.
        self.wake();
    }

    pub(super) fn is_notified(&self) -> Option<bool> {
        *self.0.notified.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the relay as running, perhaps again.
    pub(super) fn employ(&self) {
        self.0.is_gone.store(false, Ordering::Release);
        *self.0.notified.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Marks the relay as stopped.
    pub(super) fn retire(&self) {
        self.0.is_gone.store(true, Ordering::Release);
        self.0.gone.notify_waiters();
    }
}

/// How long the relay must be idle or busy before it tells emitters: each change is a write.
const HYSTERESIS: Duration = Duration::from_millis(100);
/// An empty claim this soon after the last event does not count as idle. A relay that is woken for each event is done with
/// it before the next commit. It would count as idle forever, and each commit would notify, one after the other.
const BREATH: Duration = Duration::from_millis(10);
/// The first pause after the last event.
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// The shortest pause until an event is due.
const SHORTEST: Duration = Duration::from_millis(50);
/// The longest pause while an event is due that claims do not find.
const LONGEST_OVERDUE: Duration = Duration::from_millis(500);

/// The pace of claiming: pauses that double while claims are empty, and the flag that asks emitters to notify.
#[derive(Debug)]
pub(super) struct Pace {
    longest: Duration,
    pause: Duration,
    /// The next pause while an event is due that claims do not find.
    overdue: Duration,
    /// Whether the relay is idle, and since when.
    spell: Option<(bool, Instant)>,
    /// The time of the last claim that was not empty.
    found: Option<Instant>,
    flagged: bool,
    /// Whether notifications do not arrive, so that asking emitters for them is useless.
    deaf: bool,
}

impl Pace {
    pub(super) fn new(longest: Duration) -> Self {
        Self { longest, pause: FIRST_PAUSE, overdue: SHORTEST, spell: None, found: None, flagged: false, deaf: false }
    }

    /// Returns the pace of a relay that receives no notifications. It does not ask emitters for any, because each has a cost.
    pub(super) fn deaf(longest: Duration) -> Self {
        Self { deaf: true, ..Self::new(longest) }
    }

    /// Sets whether notifications arrive.
    pub(super) fn hears(&mut self, hears: bool, longest: Duration) {
        if self.deaf == hears {
            self.deaf = !hears;
            self.longest = longest;
            self.pause = FIRST_PAUSE;
        }
    }

    /// Notes whether a claim was empty. Returns the new idle flag when it must be written.
    pub(super) fn claimed(&mut self, empty: bool, now: Instant) -> Option<bool> {
        if !empty {
            self.pause = FIRST_PAUSE;
            self.overdue = SHORTEST;
            self.found = Some(now);
        }
        let idle = !self.deaf && empty && self.found.is_none_or(|found| now.duration_since(found) >= BREATH);
        let since = match self.spell {
            Some((was_idle, since)) if was_idle == idle => since,
            _ => {
                self.spell = Some((idle, now));
                now
            }
        };
        let tell = idle != self.flagged && now.duration_since(since) >= HYSTERESIS;
        tell.then_some(idle)
    }

    /// Notes that the flag was written, so that emitters know it.
    pub(super) fn told(&mut self, idle: bool) {
        self.flagged = idle;
        // A commit may have raced with the write; poll again soon.
        self.pause = FIRST_PAUSE;
    }

    /// Shortens a pause after an empty claim so that it ends when the next event is due. An event that is due already waits for
    /// others of its aggregate, or another relay holds it. It is looked for soon, and then less often.
    pub(super) fn until_due(&mut self, pause: Duration, due: Option<Duration>) -> Duration {
        match due {
            None => pause,
            Some(Duration::ZERO) => {
                let soon = self.overdue;
                self.overdue = (soon * 2).min(LONGEST_OVERDUE);
                pause.min(soon)
            }
            Some(due) => pause.min(due.max(SHORTEST)),
        }
    }

    /// Returns how long to rest after an empty claim.
    pub(super) fn rest(&mut self) -> Duration {
        let pause = self.pause.min(self.longest);
        self.pause = (self.pause * 2).min(self.longest);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn pauses_double_up_to_the_poll_interval_and_start_again_after_an_event() {
        let mut pace = Pace::new(100 * MS);
        let now = Instant::now();
        let pauses: Vec<u128> = (0..7).map(|_| pace.rest().as_millis()).collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 100, 100]);
        pace.claimed(false, now);
        assert_eq!(pace.rest(), 5 * MS);
    }

    #[test]
    fn the_flag_follows_only_spells_that_last() {
        let mut pace = Pace::new(1000 * MS);
        let now = Instant::now();
        assert_eq!(pace.claimed(true, now), None);
        assert_eq!(pace.claimed(true, now + 99 * MS), None);
        assert_eq!(pace.claimed(true, now + 100 * MS), Some(true));
        pace.told(true);
        assert_eq!(pace.claimed(true, now + 101 * MS), None);
        assert_eq!(pace.claimed(false, now + 110 * MS), None);
        assert_eq!(pace.claimed(true, now + 120 * MS), None);
        assert_eq!(pace.claimed(false, now + 130 * MS), None);
        assert_eq!(pace.claimed(false, now + 229 * MS), None);
        assert_eq!(pace.claimed(false, now + 230 * MS), Some(false));
    }

    #[test]
    fn who_finds_nothing_between_events_that_come_one_by_one_is_at_work() {
        let mut pace = Pace::new(1000 * MS);
        let now = Instant::now();
        assert_eq!(pace.claimed(true, now), None);
        assert_eq!(pace.claimed(true, now + 100 * MS), Some(true));
        pace.told(true);
        for event in 0..20 {
            let came = now + 200 * MS + 5 * event * MS;
            assert_eq!(pace.claimed(false, came), None);
            assert_eq!(pace.claimed(true, came + MS), None);
        }
        assert_eq!(pace.claimed(false, now + 300 * MS), Some(false));
        pace.told(false);
        assert_eq!(pace.claimed(true, now + 309 * MS), None);
        assert_eq!(pace.claimed(true, now + 310 * MS), None);
        assert_eq!(pace.claimed(true, now + 410 * MS), Some(true));
    }

    #[test]
    fn an_event_that_is_due_and_not_found_is_looked_for_less_and_less_often() {
        let mut pace = Pace::new(5000 * MS);
        let mut pauses = |due| (0..5).map(|_| pace.until_due(1000 * MS, due).as_millis()).collect::<Vec<_>>();
        assert_eq!(pauses(Some(Duration::ZERO)), [50, 100, 200, 400, 500]);
        assert_eq!(pauses(Some(Duration::ZERO)), [500; 5]);
        assert_eq!(pauses(Some(MS)), [50; 5]);
        assert_eq!(pauses(Some(300 * MS)), [300; 5]);
        assert_eq!(pauses(None), [1000; 5]);
        assert_eq!(pace.claimed(false, Instant::now()), None);
        assert_eq!(pace.until_due(1000 * MS, Some(Duration::ZERO)), 50 * MS);
    }

    #[test]
    fn a_deaf_relay_asks_nobody_to_notify() {
        let mut pace = Pace::deaf(100 * MS);
        let now = Instant::now();
        assert_eq!(pace.claimed(true, now), None);
        assert_eq!(pace.claimed(true, now + 1000 * MS), None);
    }

    #[test]
    fn the_pace_follows_whether_notifications_arrive() {
        let mut pace = Pace::deaf(200 * MS);
        let now = Instant::now();
        pace.hears(true, 1000 * MS);
        assert_eq!(pace.claimed(true, now), None);
        assert_eq!(pace.claimed(true, now + 100 * MS), Some(true));
        pace.told(true);
        pace.hears(false, 200 * MS);
        assert_eq!(pace.claimed(true, now + 200 * MS), None);
        assert_eq!(pace.claimed(true, now + 300 * MS), Some(false), "nobody need notify it any more");
        let pauses: Vec<u128> = (0..8).map(|_| pace.rest().as_millis()).collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 200, 200]);
    }

    #[tokio::test]
    async fn a_wake_that_came_before_is_not_lost() {
        let waker = Waker::default();
        waker.wake();
        waker.woken().await;
        waker.retire();
        waker.relay_gone().await;
    }
}
