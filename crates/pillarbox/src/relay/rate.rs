//! The rate limit of a destination. Pure: the time is given.

use std::time::{Duration, Instant};

/// Lets so many through per second, evenly, with a tenth of a second's worth at once.
#[derive(Debug)]
pub(super) struct Rate {
    per_event: Duration,
    next: Option<Instant>,
}

const BURST: Duration = Duration::from_millis(100);

impl Rate {
    /// `per_second` must be positive.
    pub(super) fn new(per_second: f64) -> Self {
        Self { per_event: Duration::from_secs_f64(1.0 / per_second), next: None }
    }

    /// Takes room for so many events and answers from when on they may be sent.
    pub(super) fn take(&mut self, events: usize, now: Instant) -> Instant {
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let start = self.next.map_or(earliest, |next| next.max(earliest));
        let events = u32::try_from(events).unwrap_or(u32::MAX);
        self.next = Some(start + self.per_event.saturating_mul(events));
        start.max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_small_burst_events_are_spaced_evenly() {
        let (mut rate, now) = (Rate::new(100.0), Instant::now());
        let waits: Vec<u128> = (0..14).map(|_| (rate.take(1, now) - now).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 20, 30]);
    }

    #[test]
    fn what_was_not_used_does_not_pile_up() {
        let (mut rate, now) = (Rate::new(10.0), Instant::now());
        let later = now + Duration::from_secs(60);
        rate.take(1, now);
        let waits: Vec<u128> = (0..4).map(|_| (rate.take(1, later) - later).as_millis()).collect();
        assert_eq!(waits, [0, 0, 100, 200]);
    }
}
