//! Metrics for people: waiting events, throughput, latency. They come from counts per minute that relays write, never from
//! the events themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, DurationRound, TimeDelta, Utc};
use pillarbox::store::{Depth, Latency, Minute, PausedView, RelayView};

use super::destinations::DestinationStatus;
use super::{Desk, DeskError, ago};

/// The state of an outbox at one moment.
#[derive(Debug)]
#[non_exhaustive]
pub struct Overview {
    /// When it was read, by this host's clock.
    pub at: DateTime<Utc>,
    /// The number of waiting events.
    pub depth: Depth,
    /// Metrics of the whole window.
    pub metrics: Metrics,
    /// Metrics of each minute of the window, oldest first.
    pub series: Vec<Point>,
    /// The destinations by name.
    pub destinations: Vec<DestinationStatus>,
    /// The rows that relays and people have written.
    pub observed: Observations,
}

/// Rows that relays and people have written into the tables.
#[derive(Debug, Clone, Default)]
pub struct Observations {
    /// Counts per minute and destination.
    pub minutes: Vec<Minute>,
    /// The relays that have written a heartbeat.
    pub relays: Vec<RelayView>,
    /// The destinations that people have paused.
    pub pauses: Vec<PausedView>,
}

/// Metrics of a period.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct Metrics {
    /// The number of delivered events.
    pub delivered: u64,
    /// The number of failed attempts.
    pub failed: u64,
    /// The number of events that became dead letters.
    pub given_up: u64,
    /// The median latency from commit to delivery.
    pub p50: Option<Duration>,
    /// The 95th percentile of the latency.
    pub p95: Option<Duration>,
    /// The 99th percentile of the latency.
    pub p99: Option<Duration>,
}

/// The metrics of a minute.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Point {
    /// The beginning of the minute.
    pub at: DateTime<Utc>,
    /// The metrics of the minute.
    pub metrics: Metrics,
}

impl Metrics {
    /// Returns the sum of these minutes.
    pub fn of<'a>(minutes: impl IntoIterator<Item = &'a Minute>) -> Self {
        let (mut metrics, mut latency) = (Self::default(), Latency::default());
        for minute in minutes {
            metrics.delivered += minute.delivered;
            metrics.failed += minute.failed;
            metrics.given_up += minute.given_up;
            latency.merge(&minute.latency);
        }
        let [p50, p95, p99] = [0.5, 0.95, 0.99].map(|share| latency.quantile(share));
        Self { p50, p95, p99, ..metrics }
    }

    /// Returns the share of attempts that succeeded; `None` if there were none.
    #[must_use]
    pub fn success_rate(&self) -> Option<f64> {
        let attempts = self.delivered + self.failed;
        (attempts > 0).then(|| self.delivered as f64 / attempts as f64)
    }
}

impl Desk {
    /// Returns the waiting events, and the metrics of the last `window`.
    ///
    /// # Errors
    /// Fails if the database fails.
    pub async fn overview(&self, window: Duration) -> Result<Overview, DeskError> {
        let since = ago(window);
        let (depth, minutes, relays, pauses) =
            tokio::try_join!(self.store.depth(), self.store.minutes(since), self.store.relays(), self.store.pauses())?;
        let (at, observed) = (Utc::now(), Observations { minutes, relays, pauses });
        Ok(Overview {
            at,
            depth,
            metrics: Metrics::of(&observed.minutes),
            series: series(since, at, &observed.minutes),
            destinations: observed.destinations(&self.destinations, &self.routes),
            observed,
        })
    }
}

/// Returns one point per minute, also for minutes without deliveries and failures.
fn series(since: DateTime<Utc>, until: DateTime<Utc>, minutes: &[Minute]) -> Vec<Point> {
    let mut by_minute: BTreeMap<DateTime<Utc>, Vec<&Minute>> = BTreeMap::new();
    let step = TimeDelta::minutes(1);
    let mut at = since.duration_trunc(step).unwrap_or(since) + step;
    while at <= until {
        by_minute.insert(at, Vec::new());
        at += step;
    }
    for minute in minutes {
        by_minute.entry(minute.at).or_default().push(minute);
    }
    by_minute.into_iter().map(|(at, minutes)| Point { at, metrics: Metrics::of(minutes) }).collect()
}
