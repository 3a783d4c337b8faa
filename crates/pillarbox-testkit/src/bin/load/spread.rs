//! The distribution of durations: percentiles, in milliseconds.

use serde_json::{Value, json};

/// Returns percentiles of durations in nanoseconds. Negative ones count as zero: a handler ran before its commit returned.
pub(crate) fn spread(mut took: Vec<i64>) -> Value {
    took.sort_unstable();
    let at = |part: f64| {
        let place = ((took.len() as f64 * part) as usize).min(took.len().saturating_sub(1));
        took.get(place).map_or(0.0, |nanos| (*nanos).max(0) as f64 / 1e6)
    };
    json!({
        "count": took.len(),
        "p50": at(0.5),
        "p90": at(0.9),
        "p99": at(0.99),
        "p999": at(0.999),
        "max": at(1.0),
    })
}
