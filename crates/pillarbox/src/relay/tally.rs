//! The results of a lane since they were last read. Every event is counted, so counting a success takes no lock.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::load::lock;
use crate::sink::SendError;
use crate::store::{Latency, Minute};

pub(super) struct Tally {
    delivered: AtomicU64,
    failed: AtomicU64,
    given_up: AtomicU64,
    latency: Box<[AtomicU64]>,
    response: Box<[AtomicU64]>,
    /// The last error. Reading does not reset it.
    last_error: Mutex<Option<(DateTime<Utc>, String)>>,
}

fn buckets() -> Box<[AtomicU64]> {
    std::iter::repeat_with(AtomicU64::default).take(Latency::BUCKETS).collect()
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            delivered: AtomicU64::default(),
            failed: AtomicU64::default(),
            given_up: AtomicU64::default(),
            latency: buckets(),
            response: buckets(),
            last_error: Mutex::default(),
        }
    }
}

impl Tally {
    /// Counts an event that the destination accepted after `took`. The latency is by the host's clock, which decides nothing.
    pub(super) fn sent(&self, emitted_at: DateTime<Utc>, took: Duration) {
        let latency = Utc::now().signed_duration_since(emitted_at).to_std().unwrap_or_default();
        self.latency[Latency::bucket(latency)].fetch_add(1, Ordering::Relaxed);
        self.delivered.fetch_add(1, Ordering::Relaxed);
        self.responded(took);
    }

    /// Counts the response time of a destination that answered, with success or with an error.
    pub(super) fn responded(&self, took: Duration) {
        self.response[Latency::bucket(took)].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a failed attempt. Its time is when it began: an attempt that began during an outage is part of the outage, even if
    /// its error arrives later.
    pub(super) fn failed(&self, error: &SendError, took: Duration) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        *lock(&self.last_error) = Some((Utc::now() - took, error.message.clone()));
    }

    pub(super) fn gave_up(&self) {
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn last_error(&self) -> Option<(DateTime<Utc>, String)> {
        lock(&self.last_error).clone()
    }

    /// Returns the counts since the last call, for this minute.
    pub(super) fn take(&self, at: DateTime<Utc>, destination: &str) -> Minute {
        let taken = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        Minute {
            delivered: taken(&self.delivered),
            failed: taken(&self.failed),
            given_up: taken(&self.given_up),
            latency: Latency::of_counts(self.latency.iter().map(taken).collect()),
            response: Latency::of_counts(self.response.iter().map(taken).collect()),
            ..Minute::new(at, destination)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_response_time_is_counted_apart_from_the_time_since_commit() {
        let tally = Tally::default();
        let now = Utc::now();
        tally.sent(now - chrono::TimeDelta::seconds(60), Duration::from_millis(20));
        tally.failed(&SendError::retry("no"), Duration::from_millis(20));
        tally.responded(Duration::from_millis(20));
        let minute = tally.take(now, "mail");
        assert_eq!((minute.delivered, minute.latency.count(), minute.response.count()), (1, 1, 2));
        assert!(minute.latency.quantile(0.5) > Some(Duration::from_secs(50)));
        assert!(minute.response.quantile(0.99) < Some(Duration::from_millis(25)));
        assert!(tally.take(now, "mail").is_empty());
    }

    #[test]
    fn the_time_of_an_error_is_when_its_attempt_began() {
        let (tally, recovered_at) = (Tally::default(), Utc::now());
        tally.failed(&SendError::unavailable("503"), Duration::from_secs(2));
        assert!(
            tally.last_error().is_some_and(|(at, _)| at < recovered_at),
            "it began before the destination recovered"
        );
        tally.failed(&SendError::unavailable("503"), Duration::ZERO);
        assert!(tally.last_error().is_some_and(|(at, _)| at >= recovered_at));
    }
}
