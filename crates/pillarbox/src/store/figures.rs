//! Figures that relays keep in the table for people: what each destination did, minute by minute, and how each relay
//! finds it. Nothing here decides anything about an event.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Parts of each doubling, so that a quantile is at most an eighth off.
const PARTS: usize = 4;
/// What is shorter counts as this, in microseconds, as a power of two.
const SHORTEST: u32 = 7;
/// About fifty days.
const DOUBLINGS: usize = 35;

/// How long things took, as a histogram: it can be added up over minutes and relays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Latency {
    counts: Vec<u64>,
}

impl Latency {
    /// How many parts there are.
    pub(crate) const BUCKETS: usize = DOUBLINGS * PARTS;

    /// The part in which this duration is counted.
    pub(crate) fn bucket(took: Duration) -> usize {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1 << SHORTEST);
        let doubling = micros.ilog2();
        let part = (micros >> (doubling - PARTS.ilog2())) as usize % PARTS;
        ((doubling - SHORTEST) as usize * PARTS + part).min(Self::BUCKETS - 1)
    }

    /// Where a part ends, in microseconds.
    fn end(bucket: usize) -> u64 {
        let (doubling, part) = (bucket / PARTS, bucket % PARTS);
        (((PARTS + part + 1) as u64) << (doubling as u32 + SHORTEST)) / PARTS as u64
    }

    pub(crate) fn of_counts(mut counts: Vec<u64>) -> Self {
        let used = counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        counts.truncate(used);
        Self { counts }
    }

    /// One more.
    pub fn add(&mut self, took: Duration) {
        let bucket = Self::bucket(took);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
    }

    /// All of the other's, too.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
    }

    /// How many were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// What this share of them did not exceed, as nearly as is known: `quantile(0.95)`.
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

/// What a destination did in a minute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Minute {
    /// Its beginning, by the relay's clock.
    pub at: DateTime<Utc>,
    /// Its name.
    pub destination: String,
    /// Events that it confirmed.
    pub delivered: u64,
    /// Attempts that failed, those in an outage, too.
    pub failed: u64,
    /// Events that became dead letters because of it.
    pub given_up: u64,
    /// From commit to confirmation, of those delivered.
    pub latency: Latency,
}

impl Minute {
    /// In which nothing happened.
    pub fn new(at: DateTime<Utc>, destination: impl Into<String>) -> Self {
        Self { at, destination: destination.into(), delivered: 0, failed: 0, given_up: 0, latency: Latency::default() }
    }

    /// Whether nothing happened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.delivered + self.failed + self.given_up == 0
    }

    /// What happened elsewhere or later, too.
    pub fn merge(&mut self, other: &Self) {
        self.delivered += other.delivered;
        self.failed += other.failed;
        self.given_up += other.given_up;
        self.latency.merge(&other.latency);
    }
}

/// Those of the same minute and destination become one; they come in that order.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
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

/// A destination, as one relay finds it at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LaneView {
    /// Its name.
    pub destination: String,
    /// Nothing is sent there, because the configuration or people said so.
    pub paused: bool,
    /// The breaker is open: it is down, and its events wait for it.
    pub down: bool,
    /// It is behind: what comes is parked until its queue is short.
    pub congested: bool,
    /// Events that wait in the relay.
    pub queued: u64,
    /// Events that are being sent.
    pub sending: u64,
    /// What went wrong last; not gone when it is over.
    pub last_error: Option<String>,
    /// When that was, by the relay's clock.
    pub last_error_at: Option<DateTime<Utc>>,
}

impl LaneView {
    /// Open, with nothing to do.
    pub fn new(destination: impl Into<String>) -> Self {
        Self {
            destination: destination.into(),
            paused: false,
            down: false,
            congested: false,
            queued: 0,
            sending: 0,
            last_error: None,
            last_error_at: None,
        }
    }
}

/// What a relay writes down for people.
#[derive(Debug, Clone, Copy)]
pub struct Told<'a> {
    /// The relay.
    pub relay: Uuid,
    /// Minutes as they are now, in place of what was told of them before.
    pub minutes: &'a [Minute],
    /// Its destinations; none when nothing has changed.
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
