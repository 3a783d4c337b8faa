//! Metrics for people: waiting events, throughput, latency. They come from counts per minute that relays write, never from
//! the events themselves.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, DurationRound, TimeDelta, Utc};
use pillarbox::delivery::UNROUTED;
use pillarbox::store::{Depth, Filter, Latency, LogView, Minute, Paging, PausedView, RelayView, State, Waiting};

use super::destinations::DestinationStatus;
use super::health::RECENT;
use super::{Desk, DeskError, ago};

/// The period of a row of metrics.
const STEP: TimeDelta = TimeDelta::minutes(1);
/// The number of whole minutes over which the rate is computed.
const LATELY: i32 = 5;
/// The most types of unrouted events that are named.
const MOST_TYPES: usize = 4;

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
    /// The write-ahead log, if it is the outbox.
    pub log: Option<LogView>,
}

/// Rows that relays and people have written into the tables.
#[derive(Debug, Clone, Default)]
pub struct Observations {
    /// When they were read, by this host's clock.
    pub at: DateTime<Utc>,
    /// The beginning of the window.
    pub since: DateTime<Utc>,
    /// Counts per minute and destination: of the window, and at least of the last five minutes.
    pub minutes: Vec<Minute>,
    /// The relays that have written a heartbeat.
    pub relays: Vec<RelayView>,
    /// The destinations that people have paused.
    pub pauses: Vec<PausedView>,
    /// The waiting events, by the destination that they wait for.
    pub waiting: Vec<Waiting>,
    /// Some types of the events that no route matches.
    pub unrouted: Vec<String>,
    /// The first and the last dead letter.
    pub dead_letters: Option<DeadSpan>,
}

/// The time between the first and the last dead letter that are still there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadSpan {
    /// When the first one failed for good.
    pub since: DateTime<Utc>,
    /// When the last one failed for good, and its error.
    pub last: (DateTime<Utc>, String),
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
    /// The median response time of the receiver.
    pub response_p50: Option<Duration>,
    /// The 95th percentile of the response time.
    pub response_p95: Option<Duration>,
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
        let (mut metrics, mut latency, mut response) = (Self::default(), Latency::default(), Latency::default());
        for minute in minutes {
            metrics.delivered += minute.delivered;
            metrics.failed += minute.failed;
            metrics.given_up += minute.given_up;
            latency.merge(&minute.latency);
            response.merge(&minute.response);
        }
        let [p50, p95, p99] = [0.5, 0.95, 0.99].map(|share| latency.quantile(share));
        let [response_p50, response_p95] = [0.5, 0.95].map(|share| response.quantile(share));
        Self { p50, p95, p99, response_p50, response_p95, ..metrics }
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
        let (depth, log, mut observed) = tokio::try_join!(
            async { Ok(self.store.depth().await?) },
            async { Ok(self.store.log().await?) },
            self.observe(window)
        )?;
        if observed.waiting.iter().any(|waiting| waiting.on == UNROUTED) {
            observed.unrouted = self.unrouted_types().await?;
        }
        if depth.failed > 0 {
            observed.dead_letters = self.dead_span().await?;
        }
        let within: Vec<&Minute> = observed.minutes.iter().filter(|minute| minute.at >= observed.since).collect();
        Ok(Overview {
            at: observed.at,
            depth,
            series: series(observed.since, observed.at, STEP, within.iter().copied()),
            metrics: Metrics::of(within),
            destinations: observed.destinations(&self.destinations, &self.routes),
            observed,
            log,
        })
    }

    /// Reads the rows that relays and people have written.
    pub(super) async fn observe(&self, window: Duration) -> Result<Observations, DeskError> {
        let (minutes, relays, pauses, waiting) = tokio::try_join!(
            self.store.minutes(ago(window.max(RECENT))),
            self.store.relays(),
            self.store.pauses(),
            self.store.waiting()
        )?;
        Ok(Observations {
            at: Utc::now(),
            since: ago(window),
            minutes,
            relays,
            pauses,
            waiting,
            ..Observations::default()
        })
    }

    /// Returns the first and the last dead letter: one row from each end of their index.
    async fn dead_span(&self) -> Result<Option<DeadSpan>, DeskError> {
        let filter = Filter { state: Some(State::Failed), ..Filter::default() };
        let end = |oldest_first| Paging { oldest_first, ..Paging::first(1) };
        let (first, last) = (end(true), end(false));
        let (first, last) = tokio::try_join!(self.store.list(&filter, &first), self.store.list(&filter, &last))?;
        let ends = first.events.into_iter().next().zip(last.events.into_iter().next());
        Ok(ends.map(|(first, last)| DeadSpan { since: first.updated_at, last: (last.updated_at, last.error_message) }))
    }

    /// Returns the types of the events that were parked first, at a bounded cost.
    async fn unrouted_types(&self) -> Result<Vec<String>, DeskError> {
        let filter = Filter { parked_on: Some(UNROUTED.to_owned()), ..Filter::default() };
        let page = self.store.list(&filter, &Paging { limit: 100, ..Paging::default() }).await?;
        let mut types: Vec<String> = page.events.into_iter().map(|event| event.event_type).collect();
        types.sort_unstable();
        types.dedup();
        types.truncate(MOST_TYPES);
        Ok(types)
    }
}

impl Overview {
    /// Returns the number of events delivered per minute, over the last five whole minutes.
    #[must_use]
    pub fn delivered_per_minute(&self) -> u64 {
        let until = self.at.duration_trunc(STEP).unwrap_or(self.at);
        let lately = (until - STEP * LATELY)..until;
        let minutes = self.observed.minutes.iter().filter(|minute| lately.contains(&minute.at));
        minutes.map(|minute| minute.delivered).sum::<u64>() / u64::from(LATELY.unsigned_abs())
    }

    /// Returns the metrics of each step of the window, oldest first. Steps begin at round times.
    #[must_use]
    pub fn series_by(&self, step: TimeDelta) -> Vec<Point> {
        let within = self.observed.minutes.iter().filter(|minute| minute.at >= self.observed.since);
        series(self.observed.since, self.at, step, within)
    }
}

/// Returns one point per step, also for steps without deliveries and failures.
fn series<'a>(
    since: DateTime<Utc>,
    until: DateTime<Utc>,
    step: TimeDelta,
    minutes: impl IntoIterator<Item = &'a Minute>,
) -> Vec<Point> {
    let begin = |at: DateTime<Utc>| at.duration_trunc(step).unwrap_or(at);
    let mut by_step: BTreeMap<DateTime<Utc>, Vec<&Minute>> = BTreeMap::new();
    let mut at = begin(since) + step;
    while at <= until {
        by_step.insert(at, Vec::new());
        at += step;
    }
    for minute in minutes {
        // The part of a step at the beginning of the window would look like a drop.
        if let Some(minutes) = by_step.get_mut(&begin(minute.at)) {
            minutes.push(minute);
        }
    }
    by_step.into_iter().map(|(at, minutes)| Point { at, metrics: Metrics::of(minutes) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_begin_at_round_times_and_have_all_their_minutes() {
        let at = |text: &str| -> DateTime<Utc> { text.parse().unwrap() };
        let minute = |text: &str| Minute { delivered: 1, ..Minute::new(at(text), "mail") };
        let minutes = [
            minute("2026-03-01T10:32:00Z"),
            minute("2026-03-01T10:45:00Z"),
            minute("2026-03-01T10:59:00Z"),
            minute("2026-03-01T11:29:00Z"),
        ];
        let (since, until) = (at("2026-03-01T10:31:10Z"), at("2026-03-01T11:31:10Z"));
        let points = series(since, until, TimeDelta::minutes(15), &minutes);
        let found: Vec<(String, u64)> =
            points.iter().map(|point| (point.at.format("%H:%M").to_string(), point.metrics.delivered)).collect();
        let wanted = [("10:45", 2), ("11:00", 0), ("11:15", 1), ("11:30", 0)].map(|(at, count)| (at.to_owned(), count));
        assert_eq!(found, wanted);
        assert_eq!(series(since, until, TimeDelta::minutes(1), &minutes).len(), 60);
    }
}
