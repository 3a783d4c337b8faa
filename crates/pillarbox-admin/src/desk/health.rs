//! The health of a destination, in one word. Pages, API, terminal and documentation use the same words.

use std::time::Duration;

use chrono::{DateTime, DurationRound, TimeDelta, Utc};
use pillarbox::store::{LaneView, Minute};
use serde::Serialize;

use super::metrics::Metrics;

/// The window of the attempts that decide whether a destination is failing.
pub const RECENT: Duration = Duration::from_secs(5 * 60);
/// A destination with a smaller share of successful attempts is failing.
pub const ENOUGH: f64 = 0.95;

/// The health of a destination: the worst that a living relay reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Health {
    /// No living relay knows it.
    #[default]
    Unknown,
    /// It gets its events.
    Healthy,
    /// It answers, but fewer than 95 % of the attempts of the last five minutes succeeded.
    Failing,
    /// It gets its events more slowly than they come in: because of its rate in the configuration, because it is slow, or
    /// because it asked to slow down (429).
    #[serde(rename = "rate limited")]
    RateLimited,
    /// Its breaker is open: its events are parked, and probes go on.
    Down,
    /// Nothing is sent to it.
    Paused,
}

impl Health {
    /// Returns the word for people: `unknown`, `healthy`, `failing`, `rate limited`, `down` or `paused`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Healthy => "healthy",
            Self::Failing => "failing",
            Self::RateLimited => "rate limited",
            Self::Down => "down",
            Self::Paused => "paused",
        }
    }

    /// Returns the health that one relay reports. Whether a destination is failing is decided over all relays.
    #[must_use]
    pub fn of(lane: &LaneView) -> Self {
        match lane {
            lane if lane.paused => Self::Paused,
            lane if lane.limited => Self::RateLimited,
            lane if lane.down => Self::Down,
            _ => Self::Healthy,
        }
    }
}

/// Returns the results of the last five minutes. Minutes of an outage that has ended since do not count. The minute in which it
/// ended counts only if an attempt failed that began after the end.
pub(super) fn recent<'a>(
    minutes: impl IntoIterator<Item = &'a Minute>,
    recovered_at: Option<DateTime<Utc>>,
    last_error_at: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
) -> Metrics {
    let since = now - TimeDelta::from_std(RECENT).unwrap_or_default();
    let ended = recovered_at.map(|at| match last_error_at > Some(at) {
        true => at.duration_trunc(TimeDelta::minutes(1)).unwrap_or(at),
        false => at,
    });
    let since = ended.map_or(since, |ended| ended.max(since));
    Metrics::of(minutes.into_iter().filter(|minute| minute.at >= since))
}

/// Returns whether too many attempts of this period failed.
pub(super) fn is_failing(recent: &Metrics) -> bool {
    recent.failed > 0 && recent.success_rate().is_some_and(|rate| rate < ENOUGH)
}

/// Returns the minute in which the failures began that lasted until now: those before it are more than five minutes older. The
/// answer goes back only as far as the given minutes do.
pub(super) fn failing_since<'a>(
    minutes: impl IntoIterator<Item = &'a Minute>,
    now: DateTime<Utc>,
) -> Option<DateTime<Utc>> {
    let gap = TimeDelta::from_std(RECENT).unwrap_or_default();
    let mut failed: Vec<_> = minutes.into_iter().filter(|minute| minute.failed > 0).map(|minute| minute.at).collect();
    failed.sort_unstable();
    let mut began = None;
    for at in failed.into_iter().rev() {
        if began.unwrap_or(now) - at > gap + TimeDelta::minutes(1) {
            break;
        }
        began = Some(at);
    }
    began
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_the_same_in_json() {
        let all =
            [Health::Unknown, Health::Healthy, Health::Failing, Health::RateLimited, Health::Down, Health::Paused];
        for health in all {
            assert_eq!(serde_json::to_value(health).unwrap(), health.as_str());
        }
        assert!(all.is_sorted());
    }

    #[test]
    fn a_destination_that_asked_to_slow_down_is_rate_limited_and_not_down() {
        let mut lane = LaneView::new("mail");
        assert_eq!(Health::of(&lane), Health::Healthy);
        lane.down = true;
        assert_eq!(Health::of(&lane), Health::Down);
        lane.limited = true;
        assert_eq!(Health::of(&lane), Health::RateLimited);
        lane.paused = true;
        assert_eq!(Health::of(&lane), Health::Paused);
    }

    #[test]
    fn failures_of_the_last_five_minutes_count_unless_an_outage_has_ended_since() {
        let now: DateTime<Utc> = "2026-03-01T12:30:20Z".parse().unwrap();
        let minute = |ago: i64, delivered, failed| {
            let mut minute = Minute::new(now - TimeDelta::seconds(20) - TimeDelta::minutes(ago), "mail");
            (minute.delivered, minute.failed) = (delivered, failed);
            minute
        };
        let ago = |seconds: Option<i64>| seconds.map(|seconds| now - TimeDelta::seconds(seconds));
        let failing = |minutes: &[Minute], recovered: Option<i64>, failed: Option<i64>| {
            is_failing(&recent(minutes, ago(recovered), ago(failed), now))
        };
        assert!(!failing(&[], None, None));
        assert!(failing(&[minute(4, 9, 1)], None, Some(250)));
        assert!(!failing(&[minute(5, 9, 1)], None, Some(310)), "too long ago");
        assert!(!failing(&[minute(4, 95, 5)], None, Some(250)));
        assert!(failing(&[minute(4, 94, 6)], None, Some(250)));
        let outage = [minute(4, 0, 6), minute(3, 2, 4), minute(1, 3, 0)];
        assert!(!failing(&outage, Some(190), Some(195)), "the outage has ended");
        assert!(failing(&outage, Some(190), Some(189)), "it failed after that");
        assert!(failing(&[minute(4, 0, 6), minute(1, 3, 1)], Some(190), Some(70)));
    }

    #[test]
    fn failures_began_in_the_first_minute_of_those_that_follow_each_other() {
        let now: DateTime<Utc> = "2026-03-01T12:30:20Z".parse().unwrap();
        let at = |ago: i64| now - TimeDelta::seconds(20) - TimeDelta::minutes(ago);
        let since = |failed: &[i64]| {
            let minutes = failed.iter().map(|ago| {
                let mut minute = Minute::new(at(*ago), "mail");
                minute.failed = 1;
                minute
            });
            failing_since(&minutes.chain([Minute::new(at(3), "mail")]).collect::<Vec<_>>(), now)
        };
        assert_eq!(since(&[]), None);
        assert_eq!(since(&[40]), None, "they have ended");
        assert_eq!(since(&[1, 4, 9, 2]), Some(at(9)));
        assert_eq!(since(&[1, 4, 20, 21]), Some(at(4)), "the earlier ones had ended");
    }
}
