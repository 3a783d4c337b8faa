//! The axes of charts: round numbers, round durations and round times. Pure.

use std::time::Duration;

use chrono::{DateTime, DurationRound, TimeDelta, Utc};

use super::{HEIGHT, WIDTH, short};
use crate::pages::words;

/// A labelled place on an axis.
#[derive(Debug, PartialEq)]
pub(in crate::pages) struct Tick {
    /// The place in the chart's coordinates, for its line.
    pub(in crate::pages) line: String,
    /// The place in percent, for its label.
    pub(in crate::pages) percent: String,
    /// How the label is aligned: `start` and `end` at the ends of the axis, otherwise `middle`.
    pub(in crate::pages) anchor: &'static str,
    pub(in crate::pages) text: String,
}

impl Tick {
    /// Returns a tick at this share of the height.
    fn up(share: f64, text: String) -> Self {
        let from_top = 1.0 - share;
        Self { line: short(HEIGHT * from_top), percent: short(100.0 * from_top), anchor: "end", text }
    }

    /// Returns a tick at this share of the width.
    fn along(share: f64, text: String) -> Self {
        let anchor = match share {
            ..0.03 => "start",
            0.97.. => "end",
            _ => "middle",
        };
        Self { line: short(WIDTH * share), percent: short(100.0 * share), anchor, text }
    }
}

/// A scale of counts, from zero to a round number.
pub(super) struct Linear {
    step: u64,
    steps: u64,
}

impl Linear {
    /// Returns a scale of at most five steps of 1, 2 or 5 times a power of ten.
    pub(super) fn up_to(highest: u64) -> Self {
        let mut step = 1_u64;
        for factor in [2, 5, 10].into_iter().cycle() {
            if highest.div_ceil(step) <= 5 {
                break;
            }
            let decade = 10_u64.pow(step.ilog10());
            step = decade.saturating_mul(factor);
        }
        Self { step, steps: highest.div_ceil(step).max(2) }
    }

    pub(super) fn share(&self, count: u64) -> f64 {
        count as f64 / (self.step * self.steps) as f64
    }

    pub(super) fn ticks(&self) -> Vec<Tick> {
        let tick = |step: u64| Tick::up(step as f64 / self.steps as f64, words::number(step * self.step));
        (0..=self.steps).map(tick).collect()
    }
}

/// Round durations, in microseconds, about a decade apart.
const LADDER: [(u64, &str); 13] = [
    (10, "10 µs"),
    (100, "100 µs"),
    (1_000, "1 ms"),
    (10_000, "10 ms"),
    (100_000, "100 ms"),
    (1_000_000, "1 s"),
    (10_000_000, "10 s"),
    (60_000_000, "1 min"),
    (600_000_000, "10 min"),
    (3_600_000_000, "1 h"),
    (36_000_000_000, "10 h"),
    (432_000_000_000, "5 d"),
    (4_320_000_000_000, "50 d"),
];

/// A logarithmic scale of durations, so that a median is visible beside a p99 that is a hundred times as long.
pub(super) struct Logarithmic {
    low: usize,
    high: usize,
}

impl Logarithmic {
    /// Returns a scale from one round duration to another.
    pub(super) fn around(lowest: Duration, longest: Duration) -> Self {
        let last = LADDER.len() - 1;
        let low = LADDER.iter().rposition(|(micros, _)| *micros <= micros_of(lowest)).unwrap_or(0).min(last - 1);
        let high = LADDER.iter().position(|(micros, _)| *micros >= micros_of(longest)).unwrap_or(last);
        Self { low, high: high.max(low + 1) }
    }

    pub(super) fn share(&self, time: Duration) -> f64 {
        self.place(micros_of(time)).clamp(0.0, 1.0)
    }

    fn place(&self, micros: u64) -> f64 {
        let log = |micros: u64| (micros.max(1) as f64).log10();
        let (low, high) = (log(LADDER[self.low].0), log(LADDER[self.high].0));
        (log(micros) - low) / (high - low)
    }

    pub(super) fn ticks(&self) -> Vec<Tick> {
        // With many decades, only some have a label. The top always has one.
        let apart = (self.high - self.low).div_ceil(5);
        let rungs = (self.low..=self.high).filter(|rung| (self.high - rung).is_multiple_of(apart));
        rungs.map(|rung| Tick::up(self.place(LADDER[rung].0), LADDER[rung].1.to_owned())).collect()
    }
}

fn micros_of(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the round times between two moments.
pub(super) fn times(since: DateTime<Utc>, until: DateTime<Utc>, apart: TimeDelta) -> Vec<Tick> {
    let whole = (until - since).num_seconds().max(1) as f64;
    let first = since.duration_trunc(apart).unwrap_or(since);
    let first = if first < since { first + apart } else { first };
    let all = std::iter::successors(Some(first), |at| at.checked_add_signed(apart)).take_while(|at| *at < until);
    let tick =
        |at: DateTime<Utc>| Tick::along((at - since).num_seconds() as f64 / whole, at.format("%H:%M").to_string());
    all.map(tick).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(ticks: Vec<Tick>) -> Vec<String> {
        ticks.into_iter().map(|tick| tick.text).collect()
    }

    #[test]
    fn counts_have_round_ticks_and_the_highest_fits() {
        assert_eq!(texts(Linear::up_to(0).ticks()), ["0", "1", "2"]);
        assert_eq!(texts(Linear::up_to(7).ticks()), ["0", "2", "4", "6", "8"]);
        assert_eq!(texts(Linear::up_to(1_843).ticks()), ["0", "500", "1,000", "1,500", "2,000"]);
        assert_eq!(texts(Linear::up_to(50_000).ticks()), ["0", "10,000", "20,000", "30,000", "40,000", "50,000"]);
        for highest in [1, 2, 3, 9, 10, 11, 99, 101, 4_999, 5_001, 123_456_789, u64::MAX / 100] {
            let scale = Linear::up_to(highest);
            assert!((0.3..=1.0).contains(&scale.share(highest)), "{highest}: {}", scale.share(highest));
            assert!(scale.steps <= 5, "{highest}");
        }
        let ticks = Linear::up_to(4).ticks();
        assert_eq!((ticks[0].percent.as_str(), ticks[4].percent.as_str(), ticks[1].line.as_str()), ("100", "0", "75"));
    }

    #[test]
    fn durations_have_round_ticks_at_their_places() {
        let millis = Duration::from_millis;
        let scale = Logarithmic::around(millis(53), millis(6_800));
        assert_eq!(texts(scale.ticks()), ["10 ms", "100 ms", "1 s", "10 s"]);
        let shares = [millis(10), millis(100), millis(1000), millis(10_000)].map(|time| scale.share(time));
        assert!(
            shares.iter().zip([0.0, 0.333, 0.667, 1.0]).all(|(one, other)| (one - other).abs() < 0.001),
            "{shares:?}"
        );
        assert_eq!(texts(Logarithmic::around(millis(1), Duration::from_secs(4000)).ticks()).last().unwrap(), "10 h");
        assert!(Logarithmic::around(Duration::ZERO, Duration::MAX).ticks().len() <= 7);
        assert_eq!(Logarithmic::around(Duration::ZERO, Duration::ZERO).share(Duration::ZERO), 0.0);
        assert_eq!(Logarithmic::around(Duration::MAX, Duration::MAX).share(Duration::MAX), 1.0);
    }

    #[test]
    fn times_are_round_and_stay_within_the_chart() {
        let at = |text: &str| -> DateTime<Utc> { text.parse().unwrap() };
        let (since, until) = (at("2026-03-01T10:32:00Z"), at("2026-03-01T11:32:00Z"));
        let ticks = times(since, until, TimeDelta::minutes(10));
        let places: Vec<(&str, &str)> = ticks.iter().map(|tick| (tick.text.as_str(), tick.percent.as_str())).collect();
        assert_eq!(places[..2], [("10:40", "13.3"), ("10:50", "30")]);
        assert_eq!((ticks.len(), ticks[5].anchor), (6, "middle"));
        assert_eq!(times(at("2026-03-01T10:30:00Z"), until, TimeDelta::minutes(30))[0].anchor, "start");
    }
}
