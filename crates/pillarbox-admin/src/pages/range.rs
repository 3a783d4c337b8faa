//! The range of charts and metrics: how far back a page looks. Pure.

use std::time::Duration;

use chrono::TimeDelta;
use serde::Deserialize;

use super::chart::Steps;

/// Relays' metrics are kept for a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub(super) enum Range {
    #[serde(rename = "15m")]
    Quarter,
    #[default]
    #[serde(rename = "1h")]
    Hour,
    #[serde(rename = "6h")]
    Hours,
    #[serde(rename = "24h")]
    Day,
}

/// The query of a page with a range. `did` is the notice of an action.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RangeAsked {
    #[serde(default)]
    pub(super) range: Range,
    #[allow(dead_code, reason = "the frame reads it")]
    did: Option<String>,
}

/// A link to a range.
pub(super) struct Choice {
    /// The value of the query parameter.
    pub(super) name: &'static str,
    pub(super) label: &'static str,
    pub(super) is_chosen: bool,
}

impl Range {
    const ALL: [Self; 4] = [Self::Quarter, Self::Hour, Self::Hours, Self::Day];

    /// Returns the value of the query parameter, and the label.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Quarter => ("15m", "15 min"),
            Self::Hour => ("1h", "1 h"),
            Self::Hours => ("6h", "6 h"),
            Self::Day => ("24h", "24 h"),
        }
    }

    fn minutes(self) -> u32 {
        match self {
            Self::Quarter => 15,
            Self::Hour => 60,
            Self::Hours => 6 * 60,
            Self::Day => 24 * 60,
        }
    }

    pub(super) fn window(self) -> Duration {
        Duration::from_secs(u64::from(self.minutes()) * 60)
    }

    /// Returns the window in words: `in the last hour`.
    pub(super) fn told(self) -> &'static str {
        match self {
            Self::Quarter => "in the last 15 minutes",
            Self::Hour => "in the last hour",
            Self::Hours => "in the last 6 hours",
            Self::Day => "in the last 24 hours",
        }
    }

    /// Returns the steps of the charts: at most a hundred, and about six labelled times.
    pub(super) fn steps(self) -> Steps {
        let (step, labels) = match self {
            Self::Quarter => (1, 5),
            Self::Hour => (1, 10),
            Self::Hours => (5, 60),
            Self::Day => (15, 4 * 60),
        };
        Steps { step: TimeDelta::minutes(step), labels: TimeDelta::minutes(labels) }
    }

    pub(super) fn choices(self) -> Vec<Choice> {
        let choice = |range: Self| {
            let (name, label) = range.names();
            Choice { name, label, is_chosen: range == self }
        };
        Self::ALL.into_iter().map(choice).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_at_most_a_hundred_columns_and_a_few_labels() {
        for range in Range::ALL {
            let steps = range.steps();
            let columns = i64::from(range.minutes()) / steps.step.num_minutes();
            assert!((15..=100).contains(&columns), "{range:?}: {columns}");
            let labels = i64::from(range.minutes()) / steps.labels.num_minutes();
            assert!((3..=6).contains(&labels), "{range:?}: {labels}");
        }
        assert_eq!(Range::Day.window(), Duration::from_secs(86_400));
        let chosen: Vec<&str> =
            Range::Hours.choices().iter().filter(|choice| choice.is_chosen).map(|choice| choice.name).collect();
        assert_eq!(chosen, ["6h"]);
    }
}
