//! The outages of a destination, for people: since when it is down, when it is probed, whether it asked to slow down. The
//! breaker decides; nothing here does. Times of day are by the host's clock.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use crate::relay::breaker::Breaker;
use crate::sink::SendError;

/// How long a destination counts as rate limited after it asked to slow down.
const SLOWED: Duration = Duration::from_secs(15);

#[derive(Debug, Default)]
pub(in crate::relay) struct Outage {
    since: Option<DateTime<Utc>>,
    probe_at: Option<DateTime<Utc>>,
    ended_at: Option<DateTime<Utc>>,
    /// When the destination last asked to slow down, if that was its last outage.
    slowed_at: Option<Instant>,
}

impl Outage {
    /// Notes an outage that the breaker has already counted.
    pub(in crate::relay) fn note(&mut self, breaker: &Breaker, error: &SendError, now: Instant, today: DateTime<Utc>) {
        self.slowed_at = asks_to_slow_down(error).then_some(now);
        if let Some(at) = breaker.probe_at() {
            self.since.get_or_insert(today);
            self.probe_at = Some(today + at.saturating_duration_since(now));
        }
    }

    /// Notes that the destination answers again.
    pub(in crate::relay) fn end(&mut self, today: DateTime<Utc>) {
        self.ended_at = Some(today);
        (self.since, self.probe_at) = (None, None);
    }

    /// Returns when the current outage began.
    pub(in crate::relay) fn since(&self) -> Option<DateTime<Utc>> {
        self.since
    }

    /// Returns when the last outage ended.
    pub(in crate::relay) fn ended_at(&self) -> Option<DateTime<Utc>> {
        self.ended_at
    }

    /// Returns when the destination is probed next. Without a time, the next event is the probe.
    pub(in crate::relay) fn probe_at(&self, breaker: &Breaker) -> Option<DateTime<Utc>> {
        self.probe_at.filter(|_| breaker.is_open())
    }

    /// Returns whether the destination asked to slow down: in this outage, or shortly before.
    pub(in crate::relay) fn is_slowed(&self, now: Instant) -> bool {
        self.slowed_at.is_some_and(|at| self.since.is_some() || now.saturating_duration_since(at) < SLOWED)
    }
}

/// Returns whether the destination asks for fewer events: status 429, or a wait that it names. A server that fails (5xx) is down,
/// also if it names a wait.
fn asks_to_slow_down(error: &SendError) -> bool {
    error.status == Some(429) || error.after.is_some() && error.status.is_none_or(|status| status < 500)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::breaker::BreakerSettings;

    const SECOND: Duration = Duration::from_secs(1);

    fn today() -> DateTime<Utc> {
        "2026-03-01T08:15:00Z".parse().unwrap()
    }

    fn met(outage: &mut Outage, breaker: &mut Breaker, error: &SendError, now: Instant, today: DateTime<Utc>) {
        breaker.outage(now, error.after);
        outage.note(breaker, error, now, today);
    }

    #[test]
    fn an_outage_begins_when_the_breaker_opens_and_ends_with_an_answer() {
        let (mut outage, mut breaker) = (Outage::default(), Breaker::new(BreakerSettings::default()));
        let (now, error) = (Instant::now(), SendError::unavailable("connection refused"));
        met(&mut outage, &mut breaker, &error, now, today());
        met(&mut outage, &mut breaker, &error, now, today());
        assert_eq!((outage.since(), outage.probe_at(&breaker)), (None, None));
        met(&mut outage, &mut breaker, &error, now, today());
        assert_eq!((outage.since(), outage.probe_at(&breaker)), (Some(today()), Some(today() + SECOND)));
        // Another event probes: the outage goes on.
        breaker.ajar();
        assert_eq!((outage.since(), outage.probe_at(&breaker)), (Some(today()), None));
        let later = today() + 9 * SECOND;
        met(&mut outage, &mut breaker, &error, now + 9 * SECOND, later);
        assert_eq!(outage.since(), Some(today()));
        assert!(outage.probe_at(&breaker) > Some(later));
        outage.end(later);
        assert_eq!((outage.since(), outage.ended_at()), (None, Some(later)));
        assert!(!outage.is_slowed(now));
    }

    #[test]
    fn a_destination_that_asks_for_a_pause_is_limited_and_one_that_fails_is_not() {
        let limited = |error: SendError| {
            let (mut outage, mut breaker) = (Outage::default(), Breaker::new(BreakerSettings::default()));
            let now = Instant::now();
            met(&mut outage, &mut breaker, &error, now, today());
            outage.end(today());
            [outage.is_slowed(now), outage.is_slowed(now + SLOWED)]
        };
        let error = || SendError::unavailable("no");
        assert_eq!(limited(error().answered(429, "")), [true, false]);
        assert_eq!(limited(error().after(Some(SECOND))), [true, false]);
        assert_eq!(limited(error().answered(503, "").after(Some(SECOND))), [false, false]);
        assert_eq!(limited(error()), [false, false]);
    }
}
