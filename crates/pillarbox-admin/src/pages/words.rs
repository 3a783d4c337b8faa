//! Numbers and times for people. Pure.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

/// Formats a number: `1,234,567`.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a duration in two places: `840 ms`, `2.4 s`, `3 min`, `5 h 10 min`, `12 d`.
pub(super) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 if duration.as_millis() == 0 => format!("{} µs", duration.as_micros()),
        0 => format!("{} ms", duration.as_millis()),
        1..10 => format!("{:.1} s", duration.as_secs_f64()).replace(".0 s", " s"),
        10..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Formats a number of bytes: `980 B`, `64 KiB`, `9.8 GiB`.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut value, mut unit) = (bytes as f64 / 1024.0, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(value < 10.0);
    format!("{value:.digits$} {}", UNITS[unit])
}

/// Formats a count that may be a lower bound: `10,000+`.
pub(super) fn counted(count: u64, at_least: bool) -> String {
    if at_least { format!("{}+", number(count)) } else { number(count) }
}

/// Formats a number of events: `1 event waits`, `37 events wait`.
pub(super) fn waiting(count: u64, at_least: bool) -> String {
    if count == 1 { "1 event waits".to_owned() } else { format!("{} events wait", counted(count, at_least)) }
}

/// Formats a step in time: `minute`, `5 minutes`.
pub(super) fn minutes(step: TimeDelta) -> String {
    match step.num_minutes() {
        ..=1 => "minute".to_owned(),
        minutes => format!("{minutes} minutes"),
    }
}

/// Formats a duration that may be unknown, such as a quantile.
pub(super) fn maybe(duration_: Option<Duration>) -> String {
    duration_.map_or_else(|| "–".to_owned(), duration)
}

/// Formats a share: `99.95 %`. It is never rounded up to 100.
pub(super) fn share(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 99.99 && percent < 100.0 { "99.99 %".to_owned() } else { format!("{}", Percent(percent)) }
}

struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:.2}", self.0);
        write!(f, "{} %", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// A time, for machines and for people.
#[derive(Debug, Clone)]
pub(super) struct When {
    /// The time to the microsecond.
    pub(super) exact: String,
    /// `3 min ago`, `in 12 s`.
    pub(super) near: String,
    /// `2026-11-15 20:31:07`.
    pub(super) plain: String,
}

impl When {
    pub(super) fn new(at: DateTime<Utc>, now: DateTime<Utc>) -> Self {
        let (past, distance) = match (now - at).to_std() {
            Ok(distance) => (true, distance),
            Err(_) => (false, (at - now).to_std().unwrap_or_default()),
        };
        let near = match (past, distance.as_secs()) {
            (_, 0) => "now".to_owned(),
            (true, _) => format!("{} ago", coarse(distance)),
            (false, _) => format!("in {}", coarse(distance)),
        };
        let exact = at.to_rfc3339_opts(SecondsFormat::Micros, true);
        Self { exact, near, plain: at.format("%Y-%m-%d %H:%M:%S").to_string() }
    }

    /// Returns a time that may come soon: `in 12 s`, and `now` when it has passed.
    pub(super) fn soon(at: DateTime<Utc>, now: DateTime<Utc>) -> Self {
        let when = Self::new(at, now);
        if at > now { when } else { Self { near: "now".to_owned(), ..when } }
    }

    /// Returns the beginning of something that lasts: `13 min`.
    pub(super) fn lasting(since: DateTime<Utc>, now: DateTime<Utc>) -> Self {
        Self { near: age((now - since).to_std().unwrap_or_default()), ..Self::new(since, now) }
    }
}

/// Formats an age: `0 s`, `45 s`, `13 min`.
pub(super) fn age(age: Duration) -> String {
    if age < Duration::from_secs(1) { "0 s".to_owned() } else { coarse(age) }
}

fn coarse(distance: Duration) -> String {
    duration(Duration::from_secs(distance.as_secs()))
}

/// Returns the first characters of a text, with a mark if there are more.
pub(super) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_are_short() {
        assert_eq!([number(0), number(999), number(1000), number(1_234_567)], ["0", "999", "1,000", "1,234,567"]);
        let of = |millis| duration(Duration::from_millis(millis));
        assert_eq!([of(840), of(2_400), of(70_000)], ["840 ms", "2.4 s", "70 s"]);
        assert_eq!([of(200_000), of(9_000_000), of(864_000_000)], ["3 min", "2 h", "10 d"]);
        assert_eq!([share(1.0), share(0.999_999), share(0.5), share(0.1234)], ["100 %", "99.99 %", "50 %", "12.34 %"]);
    }

    #[test]
    fn a_moment_is_told_from_now() {
        let now = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
        let at = |seconds| When::new(now + TimeDelta::seconds(seconds), now).near;
        assert_eq!([at(0), at(-3), at(-300), at(45)], ["now", "3 s ago", "5 min ago", "in 45 s"]);
        assert_eq!(When::new(now, now).plain, "2023-11-14 22:13:20");
        let second = TimeDelta::seconds(1);
        assert_eq!([When::soon(now + second * 4, now).near, When::soon(now - second * 4, now).near], ["in 4 s", "now"]);
        assert_eq!([When::lasting(now - second * 800, now).near, When::lasting(now, now).near], ["13 min", "0 s"]);
    }

    #[test]
    fn counts_are_told_in_words() {
        assert_eq!(
            [waiting(1, false), waiting(37, false), waiting(10_000, true)],
            ["1 event waits", "37 events wait", "10,000+ events wait"]
        );
        assert_eq!([minutes(TimeDelta::minutes(1)), minutes(TimeDelta::minutes(15))], ["minute", "15 minutes"]);
    }

    #[test]
    fn texts_are_cut_at_characters() {
        assert_eq!([shortened("größer", 3), shortened("abc", 3)], ["grö…", "abc"]);
    }
}
