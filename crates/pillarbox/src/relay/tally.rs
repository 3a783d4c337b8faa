//! The results of a lane since they were last read. Every event is counted, so counting a success takes no lock.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::load::lock;
use super::metrics::minute_of;
use crate::sink::SendError;
use crate::store::{Latency, Minute};

/// A failed attempt is counted for the minute in which it began, but at most this long ago: rows of older minutes are written
/// and forgotten.
const LATEST: Duration = Duration::from_secs(120);

pub(super) struct Tally {
    delivered: AtomicU64,
    given_up: AtomicU64,
    latency: Box<[AtomicU64]>,
    response: Box<[AtomicU64]>,
    failures: Mutex<Failures>,
}

#[derive(Default)]
struct Failures {
    /// Failed attempts by the minute in which they began. The counts are read every few seconds; without the minute, failures of
    /// an outage could be counted for the minute after its end.
    by_minute: BTreeMap<DateTime<Utc>, u64>,
    /// The last error. Reading does not reset it.
    last: Option<(DateTime<Utc>, String)>,
}

fn buckets() -> Box<[AtomicU64]> {
    std::iter::repeat_with(AtomicU64::default).take(Latency::BUCKETS).collect()
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            delivered: AtomicU64::default(),
            given_up: AtomicU64::default(),
            latency: buckets(),
            response: buckets(),
            failures: Mutex::default(),
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
        let now = Utc::now();
        let mut failures = lock(&self.failures);
        *failures.by_minute.entry(minute_of(now - took.min(LATEST))).or_default() += 1;
        failures.last = Some((now - took, error.message.clone()));
    }

    pub(super) fn gave_up(&self) {
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn last_error(&self) -> Option<(DateTime<Utc>, String)> {
        lock(&self.failures).last.clone()
    }

    /// Returns the counts since the last call: those of this minute, and failures of earlier ones.
    pub(super) fn take(&self, minute: DateTime<Utc>, destination: &str) -> Vec<Minute> {
        let taken = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        let failures = std::mem::take(&mut lock(&self.failures).by_minute);
        let failed = failures.into_iter().map(|(at, failed)| Minute { failed, ..Minute::new(at, destination) });
        let others = Minute {
            delivered: taken(&self.delivered),
            given_up: taken(&self.given_up),
            latency: Latency::of_counts(self.latency.iter().map(taken).collect()),
            response: Latency::of_counts(self.response.iter().map(taken).collect()),
            ..Minute::new(minute, destination)
        };
        failed.chain([others]).collect()
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
        let minutes = tally.take(now, "mail");
        let minute = minutes.last().unwrap();
        assert_eq!((minute.delivered, minute.latency.count(), minute.response.count()), (1, 1, 2));
        assert!(minute.latency.quantile(0.5) > Some(Duration::from_secs(50)));
        assert!(minute.response.quantile(0.99) < Some(Duration::from_millis(25)));
        assert!(tally.take(now, "mail").iter().all(Minute::is_empty));
    }

    #[test]
    fn failures_of_an_outage_are_not_counted_for_the_minute_after_it() {
        let tally = Tally::default();
        let now = Utc::now();
        for took in [Duration::from_secs(60), Duration::from_secs(60), Duration::from_secs(3600)] {
            tally.failed(&SendError::unavailable("503"), took);
        }
        let (now, earlier): (Vec<Minute>, Vec<Minute>) =
            tally.take(minute_of(now), "mail").into_iter().partition(|minute| minute.at >= minute_of(now));
        let failed = |minutes: &[Minute]| minutes.iter().map(|minute| minute.failed).sum::<u64>();
        assert_eq!((failed(&now), failed(&earlier)), (0, 3));
        let oldest = earlier.iter().map(|minute| minute.at).min();
        assert!(oldest > Some(Utc::now() - 2 * LATEST), "an older minute may be forgotten: {oldest:?}");
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
