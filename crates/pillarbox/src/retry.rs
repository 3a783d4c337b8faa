//! Retry: computes the backoff of a failed delivery. Pure: callers pass in randomness, and the clock is the database's.

use std::time::Duration;

/// The longest wait, even if a destination asks for more. Clocks and databases have limits, and a time that cannot be written
/// would keep the relay from settling anything.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// The backoff: `delay = min(base * 2^(failures - 1), cap)`, plus up to `jitter` of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryPolicy {
    /// The delay after the first failure.
    pub base: Duration,
    /// The longest delay before jitter.
    pub cap: Duration,
    /// The largest random addition, as a share of the delay: 0.1 is up to 10 %.
    pub jitter: f64,
    /// The number of failures after which an event is a dead letter; 0 means never.
    pub max_attempts: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { base: Duration::from_secs(60), cap: Duration::from_secs(3600), jitter: 0.1, max_attempts: 5 }
    }
}

impl RetryPolicy {
    /// Returns the wait after this many failures. `chance` is in `[0, 1)`.
    #[must_use]
    pub fn delay(&self, failures: u32, chance: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        let delay = self.base.saturating_mul(1 << doublings).min(self.cap).min(LONGEST_WAIT);
        delay + delay.mul_f64(self.jitter * chance)
    }

    /// Returns whether an event with this limit of its own has used its attempts.
    #[must_use]
    pub fn exhausted(&self, failures: u32, own_limit: Option<u32>) -> bool {
        match own_limit.unwrap_or(self.max_attempts) {
            0 => false,
            limit => failures >= limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(policy: RetryPolicy, failures: u32, chance: f64) -> f64 {
        policy.delay(failures, chance).as_secs_f64()
    }

    #[test]
    fn the_delay_doubles_up_to_the_cap() {
        let policy = RetryPolicy::default();
        let delays: Vec<f64> = (1..=8).map(|failures| seconds(policy, failures, 0.0)).collect();
        assert_eq!(delays, [60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0, 3600.0]);
        assert_eq!(seconds(policy, u32::MAX, 0.0), 3600.0);
        let endless = RetryPolicy { base: Duration::MAX, cap: Duration::MAX, ..policy };
        assert_eq!(endless.delay(1, 0.0), LONGEST_WAIT);
    }

    #[test]
    fn jitter_adds_its_share_at_most() {
        let policy = RetryPolicy::default();
        assert_eq!(seconds(policy, 1, 0.5), 63.0);
        assert!(seconds(policy, 1, 0.999) < 66.0);
    }

    #[test]
    fn an_events_own_limit_counts_before_the_policys_and_zero_never_ends() {
        let policy = RetryPolicy::default();
        assert!(!policy.exhausted(4, None));
        assert!(policy.exhausted(5, None));
        assert!(policy.exhausted(1, Some(1)));
        assert!(!policy.exhausted(u32::MAX, Some(0)));
    }
}
