//! Metrics that relays write to the database for people: the results of each destination per minute, and each relay's view of
//! its destinations. They decide nothing about an event.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The number of buckets per doubling, so that a quantile is at most an eighth off.
const PARTS: usize = 4;
/// The shortest duration as a power of two, in microseconds. Shorter durations count as this.
const SHORTEST: u32 = 7;
/// The number of doublings, up to about fifty days.
const DOUBLINGS: usize = 35;

/// A histogram of durations that can be added up over minutes and relays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Latency {
    counts: Vec<u64>,
}

impl Latency {
    /// The number of buckets.
    pub(crate) const BUCKETS: usize = DOUBLINGS * PARTS;

    /// Returns the bucket that counts this duration.
    pub(crate) fn bucket(took: Duration) -> usize {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1 << SHORTEST);
        let doubling = micros.ilog2();
        let part = (micros >> (doubling - PARTS.ilog2())) as usize % PARTS;
        ((doubling - SHORTEST) as usize * PARTS + part).min(Self::BUCKETS - 1)
    }

    /// Returns the upper end of a bucket, in microseconds.
    fn end(bucket: usize) -> u64 {
        let (doubling, part) = (bucket / PARTS, bucket % PARTS);
        (((PARTS + part + 1) as u64) << (doubling as u32 + SHORTEST)) / PARTS as u64
    }

    pub(crate) fn of_counts(mut counts: Vec<u64>) -> Self {
        let used = counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        counts.truncate(used);
        Self { counts }
    }

    /// Counts one more duration.
    pub fn add(&mut self, took: Duration) {
        let bucket = Self::bucket(took);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
    }

    /// Adds the counts of the other histogram.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
    }

    /// Returns the number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the approximate duration that this share did not exceed: `quantile(0.95)`.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let wanted = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let reaches = |count: &u64| {
            seen += count;
            seen >= wanted
        };
        let bucket = self.counts.iter().position(reaches)?;
        let begin = bucket.checked_sub(1).map_or(0, Self::end);
        Some(Duration::from_micros(u64::midpoint(begin, Self::end(bucket))))
    }
}

/// The results of a destination in one minute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Minute {
    /// The beginning of the minute, by the relay's clock.
    pub at: DateTime<Utc>,
    /// The destination's name.
    pub destination: String,
    /// The number of events that it confirmed.
    pub delivered: u64,
    /// The number of failed attempts, including attempts during an outage.
    pub failed: u64,
    /// The number of events that became dead letters because of it.
    pub given_up: u64,
    /// The time from commit to confirmation of the delivered events.
    pub latency: Latency,
    /// The response time of the receiver, from the start of a send to its answer. A send without an answer does not count.
    pub response: Latency,
}

impl Minute {
    /// Creates a minute without results.
    pub fn new(at: DateTime<Utc>, destination: impl Into<String>) -> Self {
        Self {
            at,
            destination: destination.into(),
            delivered: 0,
            failed: 0,
            given_up: 0,
            latency: Latency::default(),
            response: Latency::default(),
        }
    }

    /// Returns whether the minute has no results.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.delivered + self.failed + self.given_up == 0
    }

    /// Adds the results of another relay or a later report.
    pub fn merge(&mut self, other: &Self) {
        self.delivered += other.delivered;
        self.failed += other.failed;
        self.given_up += other.given_up;
        self.latency.merge(&other.latency);
        self.response.merge(&other.response);
    }
}

/// Merges neighbouring entries of the same minute and destination. The entries must be in that order.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) fn merged(minutes: impl IntoIterator<Item = Minute>) -> Vec<Minute> {
    let mut merged: Vec<Minute> = Vec::new();
    for minute in minutes {
        match merged.last_mut() {
            Some(last) if last.at == minute.at && last.destination == minute.destination => last.merge(&minute),
            _ => merged.push(minute),
        }
    }
    merged
}

/// A destination, as one relay sees it at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LaneView {
    /// The destination's name.
    pub destination: String,
    /// Whether sending is paused, by the configuration or by a person.
    pub paused: bool,
    /// Whether the destination is down: its breaker is open, or it has not answered since. Its events are parked, and probes
    /// go on.
    pub down: bool,
    /// Whether the rate is limited: by the configuration, by a destination that is slower than its events come in, or by a
    /// destination that asked to slow down. If it asked, it may be [`down`](Self::down), too.
    pub limited: bool,
    /// When the current outage began, by the relay's clock.
    pub down_since: Option<DateTime<Utc>>,
    /// When the destination is probed next, by the relay's clock. Without a time, the next event is the probe.
    pub probe_at: Option<DateTime<Utc>>,
    /// When the last outage ended, by the relay's clock.
    pub recovered_at: Option<DateTime<Utc>>,
    /// The number of events in the relay's queue.
    pub queued: u64,
    /// The number of events that are being sent.
    pub sending: u64,
    /// The last error. It is kept after the destination recovers.
    pub last_error: Option<String>,
    /// When the attempt that met the last error began, by the relay's clock.
    pub last_error_at: Option<DateTime<Utc>>,
}

impl LaneView {
    /// Creates the view of an idle destination with a closed breaker.
    pub fn new(destination: impl Into<String>) -> Self {
        Self {
            destination: destination.into(),
            paused: false,
            down: false,
            limited: false,
            down_since: None,
            probe_at: None,
            recovered_at: None,
            queued: 0,
            sending: 0,
            last_error: None,
            last_error_at: None,
        }
    }
}

/// The metrics that a relay writes for people.
#[derive(Debug, Clone, Copy)]
pub struct Told<'a> {
    /// The relay.
    pub relay: Uuid,
    /// Current minutes. They replace earlier reports of the same minutes.
    pub minutes: &'a [Minute],
    /// The relay's destinations; empty when nothing has changed.
    pub lanes: &'a [LaneView],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_ends_where_the_next_begins() {
        for bucket in 0..Latency::BUCKETS - 1 {
            let end = Latency::end(bucket);
            assert_eq!(Latency::bucket(Duration::from_micros(end - 1)), bucket);
            assert_eq!(Latency::bucket(Duration::from_micros(end)), bucket + 1);
        }
        assert_eq!(Latency::bucket(Duration::ZERO), 0);
        assert_eq!(Latency::bucket(Duration::MAX), Latency::BUCKETS - 1);
    }

    #[test]
    fn a_quantile_is_at_most_an_eighth_off() {
        let mut latency = Latency::default();
        (1..=1000).for_each(|millis| latency.add(Duration::from_millis(millis)));
        assert_eq!(latency.count(), 1000);
        for (share, millis) in [(0.5, 500.0), (0.95, 950.0), (0.99, 990.0)] {
            let told = latency.quantile(share).unwrap().as_secs_f64() * 1000.0;
            assert!((told / millis - 1.0).abs() < 0.125, "{share}: {told}");
        }
        assert_eq!(Latency::default().quantile(0.5), None);
    }

    #[test]
    fn what_is_added_up_counts_as_if_it_had_been_one() {
        let (mut one, mut other, mut all) = (Latency::default(), Latency::default(), Latency::default());
        for millis in [1, 3, 900] {
            one.add(Duration::from_millis(millis));
            all.add(Duration::from_millis(millis));
        }
        other.add(Duration::from_secs(70));
        all.add(Duration::from_secs(70));
        one.merge(&other);
        assert_eq!(one, all);
        assert_eq!(Latency::of_counts(vec![0, 2, 0, 0]).counts, [0, 2]);
    }
}
