//! A year, a month, a day or an hour, to narrow a list by date. Pure.

use chrono::{DateTime, Datelike, Days, Months, NaiveDate, TimeDelta, Timelike, Utc};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Span {
    Year(NaiveDate),
    Month(NaiveDate),
    Day(NaiveDate),
    Hour(NaiveDate, u32),
}

/// A span to go to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// The span as a URL contains it.
    pub(super) value: String,
    pub(super) name: String,
    /// Whether it is the current span.
    pub(super) here: bool,
}

impl Span {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let day = |text: &str| NaiveDate::parse_from_str(text, "%Y-%m-%d").ok();
        match text.len() {
            4 => day(&format!("{text}-01-01")).map(Self::Year),
            7 => day(&format!("{text}-01")).map(Self::Month),
            10 => day(text).map(Self::Day),
            13 => {
                let (date, hour) = text.split_once('T')?;
                Some(Self::Hour(day(date)?, hour.parse().ok().filter(|hour| *hour < 24)?))
            }
            _ => None,
        }
    }

    fn value(self) -> String {
        match self {
            Self::Year(day) => day.format("%Y").to_string(),
            Self::Month(day) => day.format("%Y-%m").to_string(),
            Self::Day(day) => day.format("%Y-%m-%d").to_string(),
            Self::Hour(day, hour) => format!("{}T{hour:02}", day.format("%Y-%m-%d")),
        }
    }

    fn name(self) -> String {
        match self {
            Self::Year(day) => day.format("%Y").to_string(),
            Self::Month(day) => day.format("%b").to_string(),
            Self::Day(day) => day.format("%-d").to_string(),
            Self::Hour(_, hour) => format!("{hour:02}:00"),
        }
    }

    fn step(self, here: bool) -> Step {
        Step { value: self.value(), name: self.name(), here }
    }

    /// Returns the beginning and the end, which is exclusive.
    pub(super) fn range(self) -> (DateTime<Utc>, DateTime<Utc>) {
        let start = |day: NaiveDate| day.and_time(chrono::NaiveTime::MIN).and_utc();
        let end = |day: Option<NaiveDate>| day.map_or(DateTime::<Utc>::MAX_UTC, start);
        match self {
            Self::Year(day) => (start(day), end(day.checked_add_months(Months::new(12)))),
            Self::Month(day) => (start(day), end(day.checked_add_months(Months::new(1)))),
            Self::Day(day) => (start(day), end(day.checked_add_days(Days::new(1)))),
            Self::Hour(day, hour) => {
                let from = start(day) + TimeDelta::hours(hour.into());
                (from, from + TimeDelta::hours(1))
            }
        }
    }

    /// Returns the year, the month and the day that contain the span, and the span itself.
    pub(super) fn path(self) -> Vec<Step> {
        let (depth, day) = match self {
            Self::Year(day) => (1, day),
            Self::Month(day) => (2, day),
            Self::Day(day) => (3, day),
            Self::Hour(day, _) => (4, day),
        };
        let whole = [Self::Year(first(day, 1)), Self::Month(first(day, day.month())), Self::Day(day), self];
        whole.into_iter().take(depth).map(|span| span.step(span.value() == self.value())).collect()
    }

    /// Returns the smaller spans within this one that have begun.
    pub(super) fn parts(self, now: DateTime<Utc>) -> Vec<Step> {
        let parts: Vec<Self> = match self {
            Self::Year(day) => (1..=12).map(|month| Self::Month(first(day, month))).collect(),
            Self::Month(day) => day.iter_days().take_while(|one| one.month() == day.month()).map(Self::Day).collect(),
            Self::Day(day) => (0..24).map(|hour| Self::Hour(day, hour)).collect(),
            Self::Hour(..) => Vec::new(),
        };
        parts.into_iter().filter(|part| part.range().0 <= now).map(|part| part.step(false)).collect()
    }

    /// Returns the spans to start from.
    pub(super) fn beginnings(now: DateTime<Utc>) -> Vec<Step> {
        let today = now.date_naive();
        let named = |span: Self, name: &str| Step { name: name.to_owned(), ..span.step(false) };
        let mut steps = vec![named(Self::Hour(today, now.hour()), "This hour"), named(Self::Day(today), "Today")];
        steps.extend(today.pred_opt().map(|day| named(Self::Day(day), "Yesterday")));
        let month = first(today, today.month());
        steps.push(named(Self::Month(month), "This month"));
        steps.extend(month.checked_sub_months(Months::new(1)).map(|month| named(Self::Month(month), "Last month")));
        steps.push(named(Self::Year(first(today, 1)), "This year"));
        steps
    }
}

fn first(day: NaiveDate, month: u32) -> NaiveDate {
    NaiveDate::from_ymd_opt(day.year(), month, 1).unwrap_or(day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_have_an_end() {
        let range = |text| Span::parse(text).map(Span::range).map(|(from, to)| (from.to_string(), to.to_string()));
        let expected = |from: &str, to: &str| Some((format!("{from}:00:00 UTC"), format!("{to}:00:00 UTC")));
        assert_eq!(range("2026"), expected("2026-01-01 00", "2027-01-01 00"));
        assert_eq!(range("2026-12"), expected("2026-12-01 00", "2027-01-01 00"));
        assert_eq!(range("2028-02-29"), expected("2028-02-29 00", "2028-03-01 00"));
        assert_eq!(range("2026-11-15T23"), expected("2026-11-15 23", "2026-11-16 00"));
        for wrong in ["", "20", "2026-13", "2026-02-30", "2026-11-15T24", "2026-11-15 20", "ümläut!"] {
            assert_eq!(range(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn one_goes_down_and_up() {
        let now = Span::parse("2026-11-15T20").unwrap().range().0;
        let names = |steps: Vec<Step>| steps.into_iter().map(|step| step.name).collect::<Vec<_>>().join(" ");
        let span = |text| Span::parse(text).unwrap();
        assert_eq!(names(span("2026-11-15T20").path()), "2026 Nov 15 20:00");
        assert_eq!(names(span("2026").parts(now)), "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov");
        assert_eq!(span("2024-02").parts(now).len(), 29);
        assert_eq!(span("2026-11-15").parts(now).len(), 21);
        assert!(span("2026-11-15T20").parts(now).is_empty());
    }
}
