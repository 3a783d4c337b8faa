//! Charts as shapes in a box of 1000 by 100, which the style sheet stretches, with text around them. Pure.

use std::time::Duration;

use super::words;
use crate::desk::Point;

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 100.0;

/// A rectangle.
pub(super) struct Bar {
    pub(super) x: String,
    pub(super) y: String,
    pub(super) width: String,
    pub(super) height: String,
}

/// The tooltip of one minute.
pub(super) struct Column {
    pub(super) x: String,
    pub(super) width: String,
    pub(super) told: String,
}

/// The last hour, minute by minute.
pub(super) struct Chart {
    /// The labels of the scale, from the top down.
    pub(super) scale: [String; 3],
    pub(super) times: Vec<String>,
    pub(super) columns: Vec<Column>,
    /// The chart as text, for screen readers.
    pub(super) told: String,
}

/// Delivered events, with failed attempts on top of them.
pub(super) struct Flow {
    pub(super) chart: Chart,
    pub(super) delivered: Vec<Bar>,
    pub(super) failed: Vec<Bar>,
}

/// Three lines: the median, p95 and p99.
pub(super) struct Latencies {
    pub(super) chart: Chart,
    pub(super) lines: [(&'static str, String); 3],
}

impl Flow {
    pub(super) fn draw(points: &[Point]) -> Self {
        let of = |point: &Point| (point.metrics.delivered, point.metrics.failed);
        let highest = points.iter().map(|point| of(point).0 + of(point).1).max().unwrap_or(0);
        let top = round_up(highest as f64).max(4.0);
        let (mut delivered, mut failed) = (Vec::new(), Vec::new());
        for (place, point) in points.iter().enumerate() {
            let (good, bad) = of(point);
            delivered.extend(bar(points.len(), place, 0.0, good as f64 / top));
            failed.extend(bar(points.len(), place, good as f64 / top, bad as f64 / top));
        }
        let told = |point: &Point| {
            let (good, bad) = of(point);
            format!("{}: {} delivered, {} failed attempts", time(point), words::number(good), words::number(bad))
        };
        let (good, bad) = points.iter().map(of).fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
        let summary = format!(
            "Per minute: {} events delivered and {} attempts failed in {} minutes, at most {} in one minute",
            words::number(good),
            words::number(bad),
            points.len(),
            words::number(highest)
        );
        let scale = [top, top / 2.0, 0.0].map(|value| words::number(value as u64));
        Self { chart: Chart::around(points, scale, told, summary), delivered, failed }
    }
}

impl Latencies {
    pub(super) fn draw(points: &[Point]) -> Self {
        let of = |point: &Point| [point.metrics.p50, point.metrics.p95, point.metrics.p99];
        let known = points.iter().flat_map(of).flatten();
        let (lowest, longest) = (known.clone().min().unwrap_or_default(), known.max().unwrap_or_default());
        let decades = Decades::around(lowest, longest);
        let line = |which: usize| path(points.iter().map(|point| of(point)[which].map(|time| decades.height(time))));
        let told = |point: &Point| {
            let [p50, p95, p99] = of(point).map(words::maybe);
            format!("{}: p50 {p50}, p95 {p95}, p99 {p99}", time(point))
        };
        let longest = words::duration(longest);
        let summary = format!("Time from commit to delivery, per minute: highest p99 {longest}");
        Self {
            chart: Chart::around(points, decades.scale(), told, summary),
            lines: [("p50", line(0)), ("p95", line(1)), ("p99", line(2))],
        }
    }
}

impl Chart {
    fn around(points: &[Point], scale: [String; 3], told: impl Fn(&Point) -> String, summary: String) -> Self {
        let step = WIDTH / points.len().max(1) as f64;
        let column = |(place, point): (usize, &Point)| Column {
            x: short(place as f64 * step),
            width: short(step),
            told: told(point),
        };
        let thirds = [0, points.len() / 3, points.len() * 2 / 3, points.len().saturating_sub(1)];
        Self {
            scale,
            times: thirds.iter().filter_map(|place| points.get(*place)).map(time).collect(),
            columns: points.iter().enumerate().map(column).collect(),
            told: summary,
        }
    }
}

/// A logarithmic scale in seconds, so that a median is visible beside a p99 that is a hundred times as long.
struct Decades {
    low: f64,
    high: f64,
}

impl Decades {
    /// Returns a scale from one power of ten to another.
    fn around(lowest: Duration, longest: Duration) -> Self {
        let power = |time: Duration| time.as_secs_f64().clamp(0.000_1, 1e7).log10();
        let low = power(lowest).floor();
        Self { low, high: power(longest).ceil().max(low + 1.0) }
    }

    fn height(&self, time: Duration) -> f64 {
        ((time.as_secs_f64().max(1e-9).log10() - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    fn scale(&self) -> [String; 3] {
        let told = |power: f64| words::duration(Duration::from_secs_f64(10_f64.powf(power)));
        [told(self.high), told((self.low + self.high) / 2.0), told(self.low)]
    }
}

/// Returns small bars side by side, each as high as its share of the highest.
pub(super) fn spark(counts: &[u64]) -> Vec<(Bar, bool)> {
    let highest = counts.iter().copied().max().unwrap_or(0).max(1) as f64;
    let bar = |(place, count): (usize, &u64)| {
        let share = if *count == 0 { 0.04 } else { (*count as f64 / highest).max(0.12) };
        bar(counts.len(), place, 0.0, share).map(|bar| (bar, *count == 0))
    };
    counts.iter().enumerate().filter_map(bar).collect()
}

/// Returns a bar between `from` and `from + share` of the height.
fn bar(of: usize, place: usize, from: f64, share: f64) -> Option<Bar> {
    let step = WIDTH / of.max(1) as f64;
    (share > 0.0).then(|| Bar {
        x: short(place as f64 * step + step * 0.1),
        y: short(HEIGHT * (1.0 - from - share)),
        width: short(step * 0.8),
        height: short(HEIGHT * share),
    })
}

/// Returns a line with gaps where there is no value. A value between two gaps is a short dash.
fn path(values: impl ExactSizeIterator<Item = Option<f64>>) -> String {
    let step = WIDTH / values.len().max(1) as f64;
    let (mut text, mut before) = (String::new(), false);
    for (place, value) in values.enumerate() {
        if let Some(value) = value {
            let (x, y) = (place as f64 * step, short(HEIGHT * (1.0 - value * 0.97)));
            let (begin, end) = (short(x + step * 0.35), short(x + step * 0.65));
            let sign = if before { 'L' } else { 'M' };
            text.push_str(&format!("{sign}{begin} {y}L{end} {y}"));
        }
        before = value.is_some();
    }
    text
}

/// Returns the next of 1, 2, 3, 4, 6, 8, 10, 20 …, whose halves are round too.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0]
        .into_iter()
        .map(|step| step * power)
        .find(|step| *step >= value * 0.9999)
        .unwrap_or(value)
}

fn time(point: &Point) -> String {
    point.at.format("%H:%M").to_string()
}

fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_end_at_round_numbers() {
        let values = [0.0, 1.0, 3.0, 7.0, 10.0, 11.0, 4_999.0, 5_001.0];
        assert_eq!(values.map(round_up), [0.0, 1.0, 3.0, 8.0, 10.0, 20.0, 6_000.0, 6_000.0]);
    }

    #[test]
    fn short_and_long_times_are_seen_beside_each_other() {
        let millis = Duration::from_millis;
        let decades = Decades::around(millis(53), millis(6_800));
        assert_eq!(decades.scale(), ["10 s", "316 ms", "10 ms"]);
        let heights = [millis(10), millis(100), millis(1000), millis(10_000)].map(|time| decades.height(time));
        assert!(
            heights.iter().zip([0.0, 0.333, 0.667, 1.0]).all(|(one, other)| (one - other).abs() < 0.001),
            "{heights:?}"
        );
        assert_eq!(Decades::around(Duration::ZERO, Duration::ZERO).height(Duration::ZERO), 0.0);
    }

    #[test]
    fn a_line_has_gaps() {
        let line = path([Some(0.0), None, Some(1.0), Some(1.0)].into_iter());
        assert_eq!(line, "M87.5 100L162.5 100M587.5 3L662.5 3L837.5 3L912.5 3");
    }

    #[test]
    fn sparks_show_even_one_of_many() {
        let bars = spark(&[0, 1, 1000]);
        assert!(bars[0].1 && !bars[1].1);
        assert_eq!([&bars[0].0.height, &bars[1].0.height, &bars[2].0.height], ["4", "12", "100"]);
    }
}
