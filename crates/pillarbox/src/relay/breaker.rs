//! The breaker: decides whether a destination is down. Pure: callers pass in the time.

use std::time::{Duration, Instant};

use crate::retry::LONGEST_WAIT;

/// When a destination counts as down, and how often it is probed then.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BreakerSettings {
    /// The number of consecutive outages, with no send getting through between, that opens the breaker.
    pub threshold: u32,
    /// The wait before the first probe. It doubles with each probe that fails.
    pub base: Duration,
    /// The longest wait between probes.
    pub cap: Duration,
    /// After this many failed probes, and again each time that number has doubled, another event becomes the probe: the event
    /// itself may be the cause.
    pub patience: u32,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { threshold: 3, base: Duration::from_secs(1), cap: Duration::from_secs(10), patience: 8 }
    }
}

/// The meaning of an outage for the event that met it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// The outage may be short: try again after this long.
    Hiccup(Duration),
    /// This outage opened the breaker.
    Opened,
    /// The breaker was open already.
    Down,
}

#[derive(Debug)]
pub(super) struct Breaker {
    settings: BreakerSettings,
    state: State,
    /// The number of failed probes since the destination last answered.
    probes: u32,
    openings: u64,
}

#[derive(Debug)]
enum State {
    /// If ajar (half-open), no event probes, and the next event decides.
    Closed {
        outages: u32,
        ajar: bool,
    },
    Open {
        since: Instant,
        probe_at: Instant,
    },
}

impl Breaker {
    pub(super) fn new(settings: BreakerSettings) -> Self {
        Self { settings, state: State::Closed { outages: 0, ajar: false }, probes: 0, openings: 0 }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// Notes that the destination answered a send that began at `sent`, with success or with an error. Returns whether that
    /// ended an outage. A send that began before the breaker opened proves nothing: the destination may have asked for a
    /// pause since.
    pub(super) fn alive(&mut self, sent: Instant) -> bool {
        if matches!(self.state, State::Open { since, .. } if sent < since) {
            return false;
        }
        let was_open = matches!(self.state, State::Open { .. } | State::Closed { ajar: true, .. });
        self.state = State::Closed { outages: 0, ajar: false };
        self.probes = 0;
        was_open
    }

    /// Notes an outage that an event met. The destination may have asked for a pause.
    pub(super) fn outage(&mut self, now: Instant, asked: Option<Duration>) -> Met {
        let State::Closed { outages, ajar } = &mut self.state else { return Met::Down };
        *outages += 1;
        if *ajar {
            self.probes += 1;
        }
        // A destination that asks for a pause is not asked three times.
        if *outages < self.settings.threshold && asked.is_none() {
            return Met::Hiccup(self.settings.base);
        }
        self.state = State::Open { since: now, probe_at: now + self.pause(asked) };
        self.openings += 1;
        Met::Opened
    }

    /// Returns the number of times that the breaker has opened. A probe of an earlier opening is obsolete.
    pub(super) fn openings(&self) -> u64 {
        self.openings
    }

    /// Notes a probe that failed.
    pub(super) fn still_down(&mut self, now: Instant, asked: Option<Duration>) {
        if let State::Open { since, .. } = self.state {
            self.probes += 1;
            self.state = State::Open { since, probe_at: now + self.pause(asked) };
        }
    }

    /// Returns whether it is time to probe with another event.
    pub(super) fn wants_another(&self) -> bool {
        let patience = self.settings.patience.max(1);
        self.is_open() && self.probes.is_multiple_of(patience) && (self.probes / patience).is_power_of_two()
    }

    /// Sets the breaker ajar, because no event probes any more: the next event decides.
    pub(super) fn ajar(&mut self) {
        self.state = State::Closed { outages: self.settings.threshold.saturating_sub(1), ajar: true };
    }

    /// Returns whether the next event decides.
    pub(super) fn is_ajar(&self) -> bool {
        matches!(self.state, State::Closed { ajar: true, .. })
    }

    /// Returns when to probe next, if the breaker is open.
    pub(super) fn probe_at(&self) -> Option<Instant> {
        match self.state {
            State::Open { probe_at, .. } => Some(probe_at),
            State::Closed { .. } => None,
        }
    }

    fn pause(&self, asked: Option<Duration>) -> Duration {
        let own = self.settings.base.saturating_mul(1 << self.probes.min(16)).min(self.settings.cap);
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
        assert!(!breaker.alive(now));
        assert_eq!(breaker.outage(now, None), Met::Hiccup(SECOND));
        assert_eq!(breaker.outage(now, None), Met::Hiccup(SECOND));
        assert_eq!(breaker.outage(now, None), Met::Opened);
        assert_eq!(breaker.outage(now, None), Met::Down);
        assert!(breaker.alive(now));
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
    fn now_and_then_another_event_is_the_probe_and_what_was_learnt_is_not_forgotten() {
        let (mut breaker, now) = (breaker(), Instant::now());
        let mut another = Vec::new();
        for probe in 1..=40 {
            while !breaker.is_open() {
                breaker.outage(now, None);
            }
            breaker.still_down(now, None);
            if breaker.wants_another() {
                another.push(probe);
                breaker.ajar();
            }
        }
        // After the change of the probe, the first outage of the new one counts, too.
        assert_eq!(another, [8, 15, 30]);
        assert_eq!(breaker.probe_at().unwrap() - now, 10 * SECOND);
    }

    #[test]
    fn an_answer_to_what_was_sent_before_it_opened_does_not_close_it() {
        let (mut breaker, before) = (breaker(), Instant::now());
        let now = before + SECOND;
        assert_eq!(breaker.outage(now, Some(90 * SECOND)), Met::Opened);
        assert!(!breaker.alive(before));
        assert!(breaker.is_open());
        assert!(breaker.alive(now));
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
