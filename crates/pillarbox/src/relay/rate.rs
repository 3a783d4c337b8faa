//! The rate limit of a destination. Pure: callers pass in the time.

use std::time::{Duration, Instant};

/// Allows a number of events per second, evenly spaced, with a burst of a tenth of a second's worth.
#[derive(Debug)]
pub(super) struct Rate {
    per_event: Duration,
    next: Option<Instant>,
}

const BURST: Duration = Duration::from_millis(100);
/// The longest interval between events, for any rate. It keeps times within the range of the clock.
const RAREST: Duration = Duration::from_secs(86_400);

impl Rate {
    /// `per_second` must be positive.
    pub(super) fn new(per_second: f64) -> Self {
        let per_event = Duration::try_from_secs_f64(1.0 / per_second).map_or(RAREST, |apart| apart.min(RAREST));
        Self { per_event, next: None }
    }

    /// Returns when the next event may be sent.
    pub(super) fn ready_at(&self, now: Instant) -> Instant {
        self.next.map_or(now, |next| next.max(now))
    }

    /// Notes that this many events are sent now.
    pub(super) fn spend(&mut self, events: usize, now: Instant) {
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let start = self.next.map_or(earliest, |next| next.max(earliest));
        let events = u32::try_from(events).unwrap_or(u32::MAX);
        self.next = Some(start + self.per_event.saturating_mul(events));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_small_the_rate_there_is_a_next_event() {
        let (mut rate, now) = (Rate::new(f64::MIN_POSITIVE), Instant::now());
        rate.spend(usize::MAX, now);
        assert!(rate.ready_at(now) > now);
    }

    #[test]
    fn after_a_small_burst_events_are_spaced_evenly() {
        let (mut rate, now) = (Rate::new(100.0), Instant::now());
        let waits: Vec<u128> = (0..14).map(|_| wait(&mut rate, now)).collect();
        assert_eq!(waits, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 20, 30]);
    }

    fn wait(rate: &mut Rate, now: Instant) -> u128 {
        let wait = rate.ready_at(now) - now;
        rate.spend(1, now);
        wait.as_millis()
    }

    #[test]
    fn what_was_not_used_does_not_pile_up() {
        let (mut rate, now) = (Rate::new(10.0), Instant::now());
        let later = now + Duration::from_secs(60);
        rate.spend(1, now);
        let waits: Vec<u128> = (0..4).map(|_| wait(&mut rate, later)).collect();
        assert_eq!(waits, [0, 0, 100, 200]);
    }
}
