//! Times of MariaDB and MySQL: DATETIME(6) in UTC, without a time zone. Cursors hold them in microseconds.

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta};

use crate::store::list::{BadCursor, Bound};
use crate::store::walk;

/// Before every time.
pub(super) const EARLIEST: NaiveDateTime = day(1, 1, 1).and_time(NaiveTime::MIN);
/// After every time but the last that a column holds.
pub(super) const LATEST: NaiveDateTime = match day(9999, 12, 31).and_hms_micro_opt(23, 59, 59, 999_999) {
    Some(latest) => latest,
    None => NaiveDateTime::MAX,
};

const fn day(year: i32, month: u32, day: u32) -> NaiveDate {
    match NaiveDate::from_ymd_opt(year, month, day) {
        Some(day) => day,
        None => NaiveDate::MIN,
    }
}

/// A place in the due index: `(next_attempt_at, seq)`.
pub(super) type Place = (NaiveDateTime, i64);

/// The place before every event.
pub(super) const BEGINNING: Place = (EARLIEST, i64::MIN);

impl walk::Place for Place {
    fn earlier_by(&self, span: TimeDelta) -> Option<Self> {
        Some((self.0.checked_sub_signed(span).map_or(EARLIEST, |at| at.max(EARLIEST)), 0))
    }
}

/// Returns the time as text for a cursor.
pub(super) fn mark(at: NaiveDateTime) -> String {
    at.and_utc().timestamp_micros().to_string()
}

/// Reads the time of a cursor; empty is before all times.
pub(super) fn read_mark(mark: &str) -> Result<NaiveDateTime, BadCursor> {
    if mark.is_empty() {
        return Ok(EARLIEST);
    }
    let at = mark.parse().ok().and_then(DateTime::from_timestamp_micros).ok_or(BadCursor)?.naive_utc();
    if (EARLIEST..=LATEST).contains(&at) { Ok(at) } else { Err(BadCursor) }
}

/// Rejects a bound that no cursor of this database has.
pub(super) fn check(bound: &Bound) -> Result<(), BadCursor> {
    if let Bound::Mark(mark) = bound { read_mark(mark).map(drop) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_survives_a_cursor() {
        for at in [EARLIEST, LATEST, DateTime::from_timestamp_micros(1_771_000_000_123_456).unwrap().naive_utc()] {
            assert_eq!(read_mark(&mark(at)), Ok(at));
        }
        assert_eq!(read_mark(""), Ok(EARLIEST));
        for bad in ["x", "9223372036854775807", "-9223372036854775808", "1.5"] {
            assert_eq!(read_mark(bad), Err(BadCursor), "{bad}");
        }
    }
}
