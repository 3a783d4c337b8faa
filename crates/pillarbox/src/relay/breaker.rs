//! The breaker: whether a destination is down. Pure: the time is given.

use std::time::{Duration, Instant};

use crate::retry::LONGEST_WAIT;

/// When a destination counts as down, and how often it is probed then.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BreakerSettings {
    /// So many outages in a row, with nothing getting through between, open it.
    pub threshold: u32,
    /// The wait before the first probe; it doubles with each probe that fails.
    pub base: Duration,
    /// What the doubling stops at.
    pub cap: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { threshold: 3, base: Duration::from_secs(1), cap: Duration::from_secs(10) }
    }
}

/// What an outage means for the event that met it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// Perhaps a hiccup: try again after this long.
    Hiccup(Duration),
    /// This one opened the breaker.
    Opened,
    /// The breaker was open already.
    Down,
}

#[derive(Debug)]
pub(super) struct Breaker {
    settings: BreakerSettings,
    state: State,
}

#[derive(Debug)]
enum State {
    Closed { outages: u32 },
    Open { probes: u32, probe_at: Instant },
}

impl Breaker {
    pub(super) fn new(settings: BreakerSettings) -> Self {
        Self { settings, state: State::Closed { outages: 0 } }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// The destination answered, whatever it said. Answers whether that closed the breaker.
    pub(super) fn alive(&mut self) -> bool {
        let was_open = self.is_open();
        self.state = State::Closed { outages: 0 };
        was_open
    }

    /// An event met an outage; the destination may have asked for a pause.
    pub(super) fn outage(&mut self, now: Instant, asked: Option<Duration>) -> Met {
        let State::Closed { outages } = &mut self.state else { return Met::Down };
        *outages += 1;
        // One that names its pause means it: no need to ask it three times.
        if *outages < self.settings.threshold && asked.is_none() {
            return Met::Hiccup(self.settings.base);
        }
        self.state = State::Open { probes: 0, probe_at: now + self.pause(0, asked) };
        Met::Opened
    }

    /// A probe failed.
    pub(super) fn still_down(&mut self, now: Instant, asked: Option<Duration>) {
        if let State::Open { probes, .. } = self.state {
            let probes = probes + 1;
            self.state = State::Open { probes, probe_at: now + self.pause(probes, asked) };
        }
    }

    /// There is nothing to probe with any more: the next event decides. Answers how long a last probe had better wait.
    pub(super) fn ajar(&mut self) -> Duration {
        self.state = State::Closed { outages: self.settings.threshold.saturating_sub(1) };
        self.settings.cap
    }

    /// When to probe next, if it is open.
    pub(super) fn probe_at(&self) -> Option<Instant> {
        match self.state {
            State::Open { probe_at, .. } => Some(probe_at),
            State::Closed { .. } => None,
        }
    }

    fn pause(&self, probes: u32, asked: Option<Duration>) -> Duration {
        let own = self.settings.base.saturating_mul(1 << probes.min(16)).min(self.settings.cap);
        own.max(asked.unwrap_or_default()).min(LONGEST_WAIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn breaker() -> Breaker {
        Breaker::new(BreakerSettings::default())
    }

    #[test]
    fn three_outages_in_a_row_open_it_and_one_answer_closes_it() {
        let (mut breaker, now) = (breaker(), Instant::now());
        assert_eq!(breaker.outage(now, None), Met::Hiccup(SECOND));
        assert_eq!(breaker.outage(now, None), Met::Hiccup(SECOND));
        assert!(!breaker.alive());
        assert_eq!(breaker.outage(now, None), Met::Hiccup(SECOND));
        assert_eq!(breaker.outage(now, None), Met::Hiccup(SECOND));
        assert_eq!(breaker.outage(now, None), Met::Opened);
        assert_eq!(breaker.outage(now, None), Met::Down);
        assert!(breaker.alive());
        assert!(!breaker.is_open());
    }

    #[test]
    fn probes_come_less_and_less_often_up_to_the_cap() {
        let (mut breaker, now) = (breaker(), Instant::now());
        assert_eq!((0..3).map(|_| breaker.outage(now, None)).last(), Some(Met::Opened));
        let mut waits = Vec::new();
        for _ in 0..7 {
            waits.push((breaker.probe_at().unwrap() - now).as_secs());
            breaker.still_down(now, None);
        }
        assert_eq!(waits, [1, 2, 4, 8, 10, 10, 10]);
    }

    #[test]
    fn a_pause_that_is_asked_for_opens_it_at_once_and_is_kept() {
        let (mut breaker, now) = (breaker(), Instant::now());
        assert_eq!(breaker.outage(now, Some(90 * SECOND)), Met::Opened);
        assert_eq!(breaker.probe_at().unwrap() - now, 90 * SECOND);
        breaker.still_down(now, Some(Duration::MAX));
        assert_eq!(breaker.probe_at().unwrap() - now, LONGEST_WAIT);
    }

    #[test]
    fn ajar_lets_the_next_event_decide() {
        let (mut breaker, now) = (breaker(), Instant::now());
        assert_eq!((0..3).map(|_| breaker.outage(now, None)).last(), Some(Met::Opened));
        breaker.ajar();
        assert!(!breaker.is_open());
        assert_eq!(breaker.outage(now, None), Met::Opened);
    }
}
