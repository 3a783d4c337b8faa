//! Wake: hints that there may be something to claim, and the pace of polling between them. Each is only a hint; polling
//! finds what none of them told.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// Wakes a relay. Cheap to clone; give one to whatever commits events in the relay's process.
#[derive(Debug, Clone, Default)]
pub struct Waker(Arc<Bell>);

#[derive(Debug, Default)]
struct Bell {
    ring: Notify,
    gone: Notify,
    is_gone: AtomicBool,
    /// Whether notifications arrive, once a store has said so.
    notified: Mutex<Option<bool>>,
}

impl Waker {
    /// There may be something to claim.
    pub fn wake(&self) {
        self.0.ring.notify_one();
    }

    /// Until somebody wakes the relay. A wake that came before is not lost.
    pub(super) async fn woken(&self) {
        self.0.ring.notified().await;
    }

    /// For stores: until the relay runs no more.
    pub async fn relay_gone(&self) {
        let gone = self.0.gone.notified();
        tokio::pin!(gone);
        gone.as_mut().enable();
        if !self.0.is_gone.load(Ordering::Acquire) {
            gone.await;
        }
    }

    /// For stores: whether the database tells of new events from now on.
    pub fn set_notified(&self, notified: bool) {
        *self.0.notified.lock().unwrap_or_else(PoisonError::into_inner) = Some(notified);
        // The pace changes at once.
        self.wake();
    }

    pub(super) fn is_notified(&self) -> Option<bool> {
        *self.0.notified.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The relay runs, perhaps again.
    pub(super) fn employ(&self) {
        self.0.is_gone.store(false, Ordering::Release);
        *self.0.notified.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The relay runs no more.
    pub(super) fn retire(&self) {
        self.0.is_gone.store(true, Ordering::Release);
        self.0.gone.notify_waiters();
    }
}

/// How long an idle or a busy spell must last before emitters are told: each telling is a write.
const HYSTERESIS: Duration = Duration::from_millis(100);
/// Who finds nothing so soon after the last event is not at rest. Woken for each event, a relay is done with it before the
/// next is committed, and would call itself idle for ever: and each commit would notify, one after the other.
const BREATH: Duration = Duration::from_millis(10);
/// The first pause after the last event.
const FIRST_PAUSE: Duration = Duration::from_millis(5);

/// The pace of claiming: pauses that double while nothing comes, and the flag that asks emitters to notify.
#[derive(Debug)]
pub(super) struct Pace {
    longest: Duration,
    pause: Duration,
    /// Since when it is at rest (true) or at work (false).
    spell: Option<(bool, Instant)>,
    /// When a claim last found something.
    found: Option<Instant>,
    flagged: bool,
    /// Whether there is any use in asking emitters.
    deaf: bool,
}

impl Pace {
    pub(super) fn new(longest: Duration) -> Self {
        Self { longest, pause: FIRST_PAUSE, spell: None, found: None, flagged: false, deaf: false }
    }

    /// Of a relay that no notification reaches: emitters are not asked for any, because each costs them.
    pub(super) fn deaf(longest: Duration) -> Self {
        Self { deaf: true, ..Self::new(longest) }
    }

    /// Notifications arrive, or do not any more.
    pub(super) fn hears(&mut self, hears: bool, longest: Duration) {
        if self.deaf == hears {
            self.deaf = !hears;
            self.longest = longest;
            self.pause = FIRST_PAUSE;
        }
    }

    /// A claim was empty or not. Answers the flag when it is to be written.
    pub(super) fn claimed(&mut self, empty: bool, now: Instant) -> Option<bool> {
        if !empty {
            self.pause = FIRST_PAUSE;
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

    /// The flag was written: emitters know.
    pub(super) fn told(&mut self, idle: bool) {
        self.flagged = idle;
        // A commit may have raced with it; look again soon.
        self.pause = FIRST_PAUSE;
    }

    /// How long to rest after an empty claim.
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
