//! The overview in figures: what waits, what flows, how long it takes. Made from counts per minute that relays keep, never
//! from the events themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, DurationRound, TimeDelta, Utc};
use pillarbox::store::{Depth, Latency, Minute, RelayView};

use super::destinations::DestinationShown;
use super::{Desk, DeskError, ago};

/// What one sees first.
#[derive(Debug)]
pub(crate) struct Overview {
    /// When it was looked at, by the clock of this host.
    pub(crate) at: DateTime<Utc>,
    pub(crate) depth: Depth,
    /// Of the whole window.
    pub(crate) figures: Figures,
    /// One for each minute of the window, the oldest first.
    pub(crate) series: Vec<Point>,
    pub(crate) relays: Vec<RelayView>,
    pub(crate) destinations: Vec<DestinationShown>,
}

/// What happened within some time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Figures {
    pub(crate) delivered: u64,
    /// Attempts.
    pub(crate) failed: u64,
    /// Events.
    pub(crate) given_up: u64,
    /// From commit to delivered.
    pub(crate) p50: Option<Duration>,
    pub(crate) p95: Option<Duration>,
    pub(crate) p99: Option<Duration>,
}

/// A minute of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub(crate) at: DateTime<Utc>,
    pub(crate) figures: Figures,
}

impl Figures {
    pub(crate) fn of<'a>(minutes: impl IntoIterator<Item = &'a Minute>) -> Self {
        let (mut figures, mut latency) = (Self::default(), Latency::default());
        for minute in minutes {
            figures.delivered += minute.delivered;
            figures.failed += minute.failed;
            figures.given_up += minute.given_up;
            latency.merge(&minute.latency);
        }
        let [p50, p95, p99] = [0.5, 0.95, 0.99].map(|share| latency.quantile(share));
        Self { p50, p95, p99, ..figures }
    }

    /// Of the attempts; `None` when there were none.
    pub(crate) fn success_rate(&self) -> Option<f64> {
        let attempts = self.delivered + self.failed;
        (attempts > 0).then(|| self.delivered as f64 / attempts as f64)
    }
}

impl Desk {
    /// Of the last so many minutes.
    pub(crate) async fn overview(&self, window: Duration) -> Result<Overview, DeskError> {
        let since = ago(window);
        let (depth, minutes, relays, pauses) =
            tokio::try_join!(self.store.depth(), self.store.minutes(since), self.store.relays(), self.store.pauses())?;
        let at = Utc::now();
        Ok(Overview {
            at,
            depth,
            figures: Figures::of(&minutes),
            series: series(since, at, &minutes),
            destinations: self.shown_destinations(&minutes, &relays, &pauses),
            relays,
        })
    }
}

/// Minutes in which nothing happened are there too.
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
    by_minute.into_iter().map(|(at, minutes)| Point { at, figures: Figures::of(minutes) }).collect()
}
