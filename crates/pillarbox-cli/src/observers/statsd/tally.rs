//! The metrics to send next, as lines of the DogStatsD protocol in datagrams. Pure, except for randomness.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;
use std::time::Duration;

/// The maximum number of different names. Further names become `other`, so that the server is not flooded with tags.
const NAMES: usize = 1000;
const OTHER: &str = "other";
/// The maximum number of values of one timing that are sent, with their share of all values as the sample rate.
const SAMPLES: usize = 50;
/// The size of a datagram that fits into one packet on every network.
const DATAGRAM: usize = 1400;

pub(super) struct Tally {
    prefix: String,
    /// `,service:shop`
    constant: String,
    names: HashSet<String>,
    counters: HashMap<Key, u64>,
    timings: HashMap<Key, Sample>,
    gauges: BTreeMap<&'static str, f64>,
}

/// A metric and its tags, as text: `task_name:orders.process`.
#[derive(PartialEq, Eq, Hash, PartialOrd, Ord, Clone)]
struct Key(&'static str, String);

#[derive(Default)]
struct Sample {
    seen: usize,
    kept: Vec<f64>,
}

/// A name and a value.
type Tag<'a> = (&'static str, &'a str);

impl Tally {
    pub(super) fn new(prefix: &str, tags: &BTreeMap<String, String>) -> Self {
        let constant = tags.iter().map(|(name, value)| format!(",{}:{}", clean(name), clean(value))).collect();
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}.") };
        let (counters, timings) = (HashMap::new(), HashMap::new());
        Self { prefix, constant, names: HashSet::new(), counters, timings, gauges: BTreeMap::new() }
    }

    pub(super) fn count(&mut self, metric: &'static str, tags: &[Tag<'_>]) {
        let key = self.key(metric, tags);
        *self.counters.entry(key).or_default() += 1;
    }

    pub(super) fn time(&mut self, metric: &'static str, tags: &[Tag<'_>], took: Duration) {
        let key = self.key(metric, tags);
        self.timings.entry(key).or_default().add(took.as_secs_f64() * 1000.0);
    }

    pub(super) fn gauge(&mut self, metric: &'static str, value: f64) {
        self.gauges.insert(metric, value);
    }

    /// Returns the key. The first tag's value is a name chosen by users, so the number of different values is unbounded.
    fn key(&mut self, metric: &'static str, tags: &[Tag<'_>]) -> Key {
        let mut text = String::new();
        for (position, (name, value)) in tags.iter().enumerate() {
            let value = if position == 0 && !self.knows(value) { OTHER } else { value };
            let comma = if position == 0 { "" } else { "," };
            // Writing to a string cannot fail.
            let _ = write!(text, "{comma}{name}:{}", clean(value));
        }
        Key(metric, text)
    }

    fn knows(&mut self, name: &str) -> bool {
        self.names.contains(name) || (self.names.len() < NAMES && self.names.insert(name.to_owned()))
    }

    /// Returns everything since the last call, as datagrams.
    pub(super) fn take(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        for (metric, value) in std::mem::take(&mut self.gauges) {
            lines.push(self.line(&Key(metric, String::new()), format_args!("{value}|g")));
        }
        for (key, count) in std::mem::take(&mut self.counters) {
            lines.push(self.line(&key, format_args!("{count}|c")));
        }
        for (key, sample) in std::mem::take(&mut self.timings) {
            let rate = if sample.seen > sample.kept.len() {
                format!("|@{:.6}", sample.kept.len() as f64 / sample.seen as f64)
            } else {
                String::new()
            };
            lines.extend(sample.kept.iter().map(|value| self.line(&key, format_args!("{value:.3}|ms{rate}"))));
        }
        packed(lines)
    }

    fn line(&self, Key(metric, tags): &Key, value: std::fmt::Arguments<'_>) -> String {
        let all = format!("{tags}{}", self.constant);
        let all = all.trim_start_matches(',');
        let hash = if all.is_empty() { "" } else { "|#" };
        format!("{}{metric}:{value}{hash}{all}", self.prefix)
    }
}

impl Sample {
    /// Adds a value. Every value has the same probability of being kept.
    fn add(&mut self, value: f64) {
        self.seen += 1;
        if self.kept.len() < SAMPLES {
            self.kept.push(value);
        } else if let Some(place) = self.kept.get_mut(rand::random_range(0..self.seen)) {
            *place = value;
        }
    }
}

/// Replaces characters that have a meaning in the protocol.
fn clean(text: &str) -> String {
    text.chars().map(|c| if matches!(c, ',' | '|' | '#' | '\n' | '\r') { '_' } else { c }).collect()
}

/// Packs as many lines into each datagram as fit.
fn packed(lines: Vec<String>) -> Vec<String> {
    let mut datagrams: Vec<String> = Vec::new();
    for line in lines {
        match datagrams.last_mut() {
            Some(last) if last.len() + 1 + line.len() <= DATAGRAM => {
                last.push('\n');
                last.push_str(&line);
            }
            _ => datagrams.push(line),
        }
    }
    datagrams
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(tags: &[(&str, &str)]) -> Tally {
        let tags = tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Tally::new("celery_outbox", &tags)
    }

    fn lines(tally: &mut Tally) -> Vec<String> {
        let mut lines: Vec<String> =
            tally.take().iter().flat_map(|datagram| datagram.lines()).map(str::to_owned).collect();
        lines.sort();
        lines
    }

    #[test]
    fn lines_are_those_of_dogstatsd_and_come_once() {
        let mut tally = tally(&[("service", "shop")]);
        tally.count("messages.published", &[("task_name", "orders.process")]);
        tally.count("messages.published", &[("task_name", "orders.process")]);
        tally.count("messages.failed", &[("task_name", "a,b|c"), ("exception_type", "retry")]);
        tally.time("send_latency_ms", &[("task_name", "orders.process")], Duration::from_micros(12_345));
        tally.time("batch.duration_ms", &[], Duration::from_millis(7));
        tally.gauge("queue.depth", 3.0);
        let expected = [
            "celery_outbox.batch.duration_ms:7.000|ms|#service:shop",
            "celery_outbox.messages.failed:1|c|#task_name:a_b_c,exception_type:retry,service:shop",
            "celery_outbox.messages.published:2|c|#task_name:orders.process,service:shop",
            "celery_outbox.queue.depth:3|g|#service:shop",
            "celery_outbox.send_latency_ms:12.345|ms|#task_name:orders.process,service:shop",
        ];
        assert_eq!(lines(&mut tally), expected);
        assert!(tally.take().is_empty());
    }

    #[test]
    fn without_prefix_and_tags_there_are_none() {
        let mut tally = Tally::new("", &BTreeMap::new());
        tally.gauge("queue.depth", 0.0);
        assert_eq!(tally.take(), ["queue.depth:0|g"]);
    }

    #[test]
    fn names_are_bounded_and_so_are_the_values_of_a_timing() {
        let mut tally = tally(&[]);
        for number in 0..NAMES + 10 {
            tally.count("messages.published", &[("task_name", &format!("task{number}"))]);
        }
        let counted = lines(&mut tally);
        assert_eq!(counted.len(), NAMES + 1);
        assert!(counted.contains(&"celery_outbox.messages.published:10|c|#task_name:other".to_owned()));

        (0..SAMPLES * 4).for_each(|_| tally.time("batch.duration_ms", &[], Duration::from_millis(1)));
        let timed = lines(&mut tally);
        assert_eq!(timed.len(), SAMPLES);
        assert_eq!(timed[0], "celery_outbox.batch.duration_ms:1.000|ms|@0.250000");
    }

    #[test]
    fn a_datagram_fits_into_a_packet() {
        let mut tally = tally(&[]);
        for number in 0..200 {
            tally.count("messages.published", &[("task_name", &format!("task{number}"))]);
        }
        let datagrams = tally.take();
        assert!(datagrams.len() > 5 && datagrams.iter().all(|datagram| datagram.len() <= DATAGRAM));
    }
}
