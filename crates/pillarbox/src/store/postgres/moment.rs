//! Times of PostgreSQL. Their range exceeds chrono's (up to the year 294276, and infinity in both directions), and the driver
//! panics on such values. So every `timestamptz` that may have any value is read as a [`Moment`].

use bytes::BytesMut;
use chrono::{DateTime, TimeDelta, Utc};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use crate::error::DriverError;
use crate::event::readable;
use crate::store::list::{BadCursor, Bound};

/// 2000-01-01, in microseconds since the Unix epoch.
const EPOCH: i64 = 946_684_800_000_000;
/// The first and the last finite time, in microseconds since 2000-01-01.
const FINITE: (i64, i64) = (-211_813_488_000_000_000, 9_223_371_331_199_999_999);

/// A `timestamptz` exactly as the server stores it: microseconds since 2000-01-01. The smallest and the largest number are the
/// infinities, so times have the order of their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::store) struct Moment(i64);

impl Moment {
    /// Minus infinity: before everything.
    pub(in crate::store) const EARLIEST: Self = Self(i64::MIN);
    /// Infinity: after everything.
    pub(in crate::store) const LATEST: Self = Self(i64::MAX);

    /// Returns the time for people, clamped to the years 1 to 9999.
    pub(in crate::store) fn shown(self) -> DateTime<Utc> {
        let exact = self.0.checked_add(EPOCH).and_then(DateTime::from_timestamp_micros);
        readable(exact.unwrap_or(if self.0 < 0 { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC }))
    }

    /// Returns the time that is earlier by this much.
    pub(in crate::store) fn earlier_by(self, span: TimeDelta) -> Self {
        if self == Self::EARLIEST || self == Self::LATEST {
            return self;
        }
        Self::checked(self.0.saturating_sub(span.num_microseconds().unwrap_or(i64::MAX))).unwrap_or(Self::EARLIEST)
    }

    /// Returns the time as text for a cursor.
    pub(super) fn mark(self) -> String {
        self.0.to_string()
    }

    /// Converts an end of a stretch.
    pub(super) fn of(bound: &Bound) -> Result<Self, BadCursor> {
        match bound {
            Bound::At(moment) => Ok((*moment).into()),
            Bound::Latest => Ok(Self::LATEST),
            Bound::Mark(mark) if mark.is_empty() => Ok(Self::EARLIEST),
            Bound::Mark(mark) => mark.parse().ok().and_then(Self::checked).ok_or(BadCursor),
        }
    }

    /// Returns `None` for numbers that are neither finite times nor infinities; the server refuses them.
    fn checked(number: i64) -> Option<Self> {
        let known = (FINITE.0..=FINITE.1).contains(&number) || number == i64::MIN || number == i64::MAX;
        known.then_some(Self(number))
    }
}

impl From<DateTime<Utc>> for Moment {
    fn from(moment: DateTime<Utc>) -> Self {
        moment.timestamp_micros().checked_sub(EPOCH).and_then(Self::checked).unwrap_or(Self::EARLIEST)
    }
}

impl<'r> FromSql<'r> for Moment {
    fn from_sql(_: &Type, bytes: &'r [u8]) -> Result<Self, DriverError> {
        i64::from_sql(&Type::INT8, bytes).map(Self)
    }

    accepts!(TIMESTAMPTZ);
}

impl ToSql for Moment {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, DriverError> {
        self.0.to_sql(&Type::INT8, out)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use chrono::Datelike;

    use super::*;

    fn moment(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn any_number_of_the_server_can_be_shown() {
        assert_eq!(Moment(0).shown(), moment("2000-01-01T00:00:00Z"));
        for number in [i64::MIN, FINITE.0, FINITE.1, i64::MAX, EPOCH, -EPOCH] {
            let shown = Moment(number).shown();
            assert!((1..=9999).contains(&shown.year()), "{shown}");
        }
        assert!(Moment::EARLIEST < Moment(FINITE.0) && Moment(FINITE.1) < Moment::LATEST);
    }

    #[test]
    fn times_of_the_program_are_written_as_the_server_knows_them() {
        let now = moment("2026-02-25T12:34:56.789012Z");
        assert_eq!(Moment::from(now).shown(), now);
        assert_eq!(Moment::from(DateTime::<Utc>::MIN_UTC), Moment::EARLIEST);
        assert!(Moment::from(DateTime::<Utc>::MAX_UTC) < Moment::LATEST);
    }

    #[test]
    fn an_earlier_moment_stays_one_that_the_server_knows() {
        let second = TimeDelta::seconds(1);
        assert_eq!(Moment(2_000_000).earlier_by(second), Moment(1_000_000));
        assert_eq!(Moment(FINITE.0).earlier_by(second), Moment::EARLIEST);
        assert_eq!(Moment::LATEST.earlier_by(second), Moment::LATEST);
    }

    #[test]
    fn a_mark_is_read_as_it_was_written_and_no_other_is() {
        for moment in [Moment(7), Moment::EARLIEST, Moment::LATEST] {
            assert_eq!(Moment::of(&Bound::Mark(moment.mark())), Ok(moment));
        }
        assert_eq!(Moment::of(&Bound::Mark(String::new())), Ok(Moment::EARLIEST));
        for mark in ["x", "9223372036854775806", "-9223372036854775807", "2026-02-25"] {
            assert_eq!(Moment::of(&Bound::Mark(mark.to_owned())), Err(BadCursor), "{mark}");
        }
    }
}
