//! Charts as shapes in a box of 1000 by 100, which the style sheet stretches. Labels stand beside the box, at places in
//! percent. Pure.

use chrono::{DateTime, TimeDelta, Utc};

pub(super) use self::axis::Tick;
use self::axis::{Linear, Logarithmic};
use super::words;
use crate::desk::Point;

mod axis;

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 100.0;

/// A rectangle.
pub(super) struct Bar {
    pub(super) x: String,
    pub(super) y: String,
    pub(super) width: String,
    pub(super) height: String,
}

/// One step in time: the place of its tooltip, and the exact values in it.
pub(super) struct Column {
    pub(super) x: String,
    pub(super) width: String,
    pub(super) when: String,
    pub(super) values: Vec<String>,
}

impl Column {
    /// Returns the values, one per line, for the script.
    pub(super) fn lines(&self) -> String {
        self.values.join("\n")
    }

    /// Returns the values in one line.
    pub(super) fn line(&self) -> String {
        format!("{}: {}", self.when, self.values.join(", "))
    }
}

/// The axes and the columns of a chart.
pub(super) struct Chart {
    pub(super) values: Vec<Tick>,
    pub(super) times: Vec<Tick>,
    pub(super) columns: Vec<Column>,
    /// The chart as text, for screen readers.
    pub(super) told: String,
}

/// The steps of a chart: their length, and the distance of the labelled times.
#[derive(Clone, Copy)]
pub(super) struct Steps {
    pub(super) step: TimeDelta,
    pub(super) labels: TimeDelta,
}

/// Delivered events, with failed attempts on top of them.
pub(super) struct Flow {
    pub(super) chart: Chart,
    pub(super) delivered: Vec<Bar>,
    pub(super) failed: Vec<Bar>,
}

/// Lines: the median, p95 and p99 from commit to delivery, and the receiver's p95.
pub(super) struct Latencies {
    pub(super) chart: Chart,
    pub(super) lines: [(&'static str, String); 4],
}

impl Flow {
    pub(super) fn draw(points: &[Point], steps: Steps) -> Self {
        let of = |point: &Point| (point.metrics.delivered, point.metrics.failed);
        let highest = points.iter().map(|point| of(point).0 + of(point).1).max().unwrap_or(0);
        let scale = Linear::up_to(highest);
        let (mut delivered, mut failed) = (Vec::new(), Vec::new());
        for (place, point) in points.iter().enumerate() {
            let (good, bad) = of(point);
            delivered.extend(bar(points.len(), place, 0.0, scale.share(good)));
            failed.extend(bar(points.len(), place, scale.share(good), scale.share(bad)));
        }
        let values = |point: &Point| {
            let (good, bad) = of(point);
            vec![format!("{} delivered", words::number(good)), format!("{} failed attempts", words::number(bad))]
        };
        let (good, bad) = points.iter().map(of).fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
        let told = format!(
            "{} events delivered and {} attempts failed, at most {} in {}",
            words::number(good),
            words::number(bad),
            words::number(highest),
            words::minutes(steps.step)
        );
        Self { chart: Chart::around(points, steps, scale.ticks(), values, told), delivered, failed }
    }
}

impl Latencies {
    pub(super) fn draw(points: &[Point], steps: Steps) -> Self {
        let of = |point: &Point| {
            let metrics = &point.metrics;
            [metrics.p50, metrics.p95, metrics.p99, metrics.response_p95]
        };
        let known = points.iter().flat_map(of).flatten();
        let (lowest, longest) = (known.clone().min().unwrap_or_default(), known.max().unwrap_or_default());
        let scale = Logarithmic::around(lowest, longest);
        let line = |which: usize| path(points.iter().map(|point| of(point)[which].map(|time| scale.share(time))));
        let values = |point: &Point| {
            let [p50, p95, p99, response] = of(point).map(words::maybe);
            vec![format!("p50 {p50}"), format!("p95 {p95}"), format!("p99 {p99}"), format!("response p95 {response}")]
        };
        let told = format!("Time from commit to delivered: highest p99 {}", words::duration(longest));
        Self {
            chart: Chart::around(points, steps, scale.ticks(), values, told),
            lines: [("p50", line(0)), ("p95", line(1)), ("p99", line(2)), ("response", line(3))],
        }
    }
}

impl Chart {
    fn around(
        points: &[Point],
        steps: Steps,
        values: Vec<Tick>,
        told_of: impl Fn(&Point) -> Vec<String>,
        told: String,
    ) -> Self {
        let width = WIDTH / points.len().max(1) as f64;
        let column = |(place, point): (usize, &Point)| Column {
            x: short(place as f64 * width),
            width: short(width),
            when: when(point.at, steps.step),
            values: told_of(point),
        };
        let ends = points.first().zip(points.last());
        Self {
            values,
            times: ends
                .map_or_else(Vec::new, |(first, last)| axis::times(first.at, last.at + steps.step, steps.labels)),
            columns: points.iter().enumerate().map(column).collect(),
            told,
        }
    }
}

/// Returns the time of a step: `12:30`, or `12:30–12:35`.
pub(super) fn when(at: DateTime<Utc>, step: TimeDelta) -> String {
    let begin = at.format("%H:%M");
    if step <= TimeDelta::minutes(1) { begin.to_string() } else { format!("{begin}–{}", (at + step).format("%H:%M")) }
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
            let (x, y) = (place as f64 * step, short(HEIGHT * (1.0 - value)));
            let (begin, end) = (short(x + step * 0.35), short(x + step * 0.65));
            let sign = if before { 'L' } else { 'M' };
            text.push_str(&format!("{sign}{begin} {y}L{end} {y}"));
        }
        before = value.is_some();
    }
    text
}

fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::desk::Metrics;

    #[test]
    fn a_line_has_gaps() {
        let line = path([Some(0.0), None, Some(1.0), Some(1.0)].into_iter());
        assert_eq!(line, "M87.5 100L162.5 100M587.5 0L662.5 0L837.5 0L912.5 0");
    }

    #[test]
    fn sparks_show_even_one_of_many() {
        let bars = spark(&[0, 1, 1000]);
        assert!(bars[0].1 && !bars[1].1);
        assert_eq!([&bars[0].0.height, &bars[1].0.height, &bars[2].0.height], ["4", "12", "100"]);
    }

    #[test]
    fn every_column_tells_its_exact_values() {
        let at: DateTime<Utc> = "2026-03-01T12:00:00Z".parse().unwrap();
        let steps = Steps { step: TimeDelta::minutes(5), labels: TimeDelta::minutes(10) };
        let point = |place: i32, delivered| {
            let mut metrics = Metrics { delivered, failed: 1, ..Metrics::default() };
            (metrics.p50, metrics.response_p95) = (Some(Duration::from_millis(20)), Some(Duration::from_millis(7)));
            Point { at: at + steps.step * place, metrics }
        };
        let points = [point(0, 0), point(1, 1204), point(2, 3)];
        let flow = Flow::draw(&points, steps);
        assert_eq!(flow.chart.columns[1].line(), "12:05–12:10: 1,204 delivered, 1 failed attempts");
        assert_eq!((flow.delivered.len(), flow.failed.len()), (2, 3));
        let times: Vec<&str> = flow.chart.times.iter().map(|tick| tick.text.as_str()).collect();
        assert_eq!(times, ["12:00", "12:10"]);
        let latencies = Latencies::draw(&points, steps);
        assert_eq!(latencies.chart.columns[0].lines(), "p50 20 ms\np95 –\np99 –\nresponse p95 7 ms");
        assert_eq!(when(at, TimeDelta::minutes(1)), "12:00");
        let none = Flow::draw(&[], steps);
        assert!(none.chart.columns.is_empty() && none.chart.times.is_empty());
    }
}
