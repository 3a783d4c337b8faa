//! Where a page of a list ended: opaque to people, safe in a link.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};
use uuid::Uuid;

/// Where a page of a list ended. It is good for the list that it came from, for as long as one likes: what has been emitted
/// since moves nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(pub(super) Place);

/// A place in one of the orders in which events can be listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Id(Uuid),
    Waiting(DateTime<Utc>, i64),
    Parked(DateTime<Utc>, i64, String),
    Failed(DateTime<Utc>, i64),
    Delivered(DateTime<Utc>, i64),
}

/// Seconds from 1970 to the end of 9999.
const MOMENTS: RangeInclusive<i64> = 0..=253_402_300_799;

/// A cursor that is none, or one of another list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this cursor is not one of this list: go on with the cursor that the page before gave, or begin without one")]
pub struct BadCursor;

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match &self.0 {
            Place::Id(id) => format!("i {id}"),
            Place::Waiting(at, seq) => format!("w {} {seq}", at.timestamp_micros()),
            Place::Failed(at, seq) => format!("f {} {seq}", at.timestamp_micros()),
            Place::Delivered(at, seq) => format!("d {} {seq}", at.timestamp_micros()),
            Place::Parked(at, seq, on) => format!("p {} {seq} {on}", at.timestamp_micros()),
        };
        f.write_str(&URL_SAFE_NO_PAD.encode(text))
    }
}

impl FromStr for Cursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Self, BadCursor> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| BadCursor)?;
        let text = String::from_utf8(bytes).map_err(|_| BadCursor)?;
        let mut parts = text.splitn(4, ' ');
        let mut part = || parts.next().ok_or(BadCursor);
        let kind = part()?;
        if kind == "i" {
            return Ok(Self(Place::Id(part()?.parse().map_err(|_| BadCursor)?)));
        }
        let micros = part()?.parse().map_err(|_| BadCursor)?;
        // Nothing happened before 1970 or will after 9999, and a database has no word for some of that.
        let at =
            DateTime::from_timestamp_micros(micros).filter(|at| MOMENTS.contains(&at.timestamp())).ok_or(BadCursor)?;
        let seq = part()?.parse().map_err(|_| BadCursor)?;
        match (kind, parts.next()) {
            ("w", None) => Ok(Self(Place::Waiting(at, seq))),
            ("f", None) => Ok(Self(Place::Failed(at, seq))),
            ("d", None) => Ok(Self(Place::Delivered(at, seq))),
            // A database's text cannot hold it.
            ("p", Some(on)) if !on.contains('\0') => Ok(Self(Place::Parked(at, seq, on.to_owned()))),
            _ => Err(BadCursor),
        }
    }
}

impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_a_link() {
        let at = DateTime::from_timestamp_micros(1_700_000_000_123_456).unwrap();
        let places = [
            Place::Id(Uuid::now_v7()),
            Place::Waiting(at, -1),
            Place::Failed(at, 7),
            Place::Delivered(at, i64::MAX),
            Place::Parked(at, 7, "a destination, größer & more".to_owned()),
            Place::Parked(at, 7, String::new()),
        ];
        for place in places {
            let cursor = Cursor(place);
            let text = cursor.to_string();
            assert!(text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_'), "{text}");
            assert_eq!(text.parse(), Ok(cursor));
        }
    }

    #[test]
    fn what_is_no_cursor_is_refused() {
        let encoded = |text: &str| URL_SAFE_NO_PAD.encode(text);
        for text in [
            "",
            "x",
            "i",
            "i 7",
            "w 7",
            "w x 7",
            "w 7 7 7",
            "p 7 7",
            "z 7 7",
            "f 9223372036854775807 1",
            "f 8000000000000000000 1",
            "f -1000001 1",
            "p 7 7 \0",
        ] {
            assert_eq!(encoded(text).parse::<Cursor>(), Err(BadCursor), "{text}");
        }
        for text in ["%", "äöü", "i 7"] {
            assert_eq!(text.parse::<Cursor>(), Err(BadCursor), "{text}");
        }
    }
}
