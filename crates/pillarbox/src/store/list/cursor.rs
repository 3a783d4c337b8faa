//! The end of a page of a list, as an opaque text that is safe in a link.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize, Serializer};
use uuid::Uuid;

/// The end of a page of a list. It is valid for the list that it came from, and does not expire: newly emitted events do not
/// move it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(pub(super) Place);

/// A place in one of the list orders: a time in the store's own notation (empty is before all times), the `seq`, and for
/// parked events the destination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Place {
    #[serde(rename = "i")]
    Id(Uuid),
    #[serde(rename = "w")]
    Waiting(String, i64),
    #[serde(rename = "p")]
    Parked(String, i64, String),
    #[serde(rename = "f")]
    Failed(String, i64),
    #[serde(rename = "d")]
    Delivered(String, i64),
}

/// A cursor that is malformed, or belongs to another list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the cursor does not belong to this list; use the cursor of the previous page, or none for the first page")]
pub struct BadCursor;

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_string(&self.0).map_err(|_| fmt::Error)?;
        f.write_str(&URL_SAFE_NO_PAD.encode(text))
    }
}

impl FromStr for Cursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Self, BadCursor> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| BadCursor)?;
        let place: Place = serde_json::from_slice(&bytes).map_err(|_| BadCursor)?;
        let texts = match &place {
            Place::Id(_) => ["", ""],
            Place::Waiting(at, _) | Place::Failed(at, _) | Place::Delivered(at, _) => [at.as_str(), ""],
            Place::Parked(at, _, on) => [at.as_str(), on.as_str()],
        };
        // A database's text cannot hold NUL.
        if texts.iter().any(|text| text.contains('\0')) { Err(BadCursor) } else { Ok(Self(place)) }
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
        let at = || "2026-02-25T12:34:56.789Z".to_owned();
        let places = [
            Place::Id(Uuid::now_v7()),
            Place::Waiting(at(), -1),
            Place::Failed("-9223372036854775808".to_owned(), 7),
            Place::Delivered(String::new(), i64::MAX),
            Place::Parked(at(), 7, "a destination, größer & more".to_owned()),
            Place::Parked(at(), 7, String::new()),
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
            "i 7",
            r#"{"i":7}"#,
            r#"{"w":["7"]}"#,
            r#"{"w":[7,7]}"#,
            r#"{"w":["7",7,7]}"#,
            r#"{"w":["7",9223372036854775808]}"#,
            r#"{"z":["7",7]}"#,
            r#"{"w":["7",7]} "w""#,
            r#"{"p":["7",7,"\u0000"]}"#,
            r#"{"f":["\u0000",7]}"#,
        ] {
            assert_eq!(encoded(text).parse::<Cursor>(), Err(BadCursor), "{text}");
        }
        for text in ["%", "äöü", "i 7"] {
            assert_eq!(text.parse::<Cursor>(), Err(BadCursor), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_cursor_or_refused(text in "\\PC{0,64}", json in r#"\{"[iwpfdz]":\[?("?[0-9a-f-]{0,40}"?,?){0,4}\]?\}"#) {
            let _ = text.parse::<Cursor>();
            if let Ok(cursor) = URL_SAFE_NO_PAD.encode(json).parse::<Cursor>() {
                assert_eq!(cursor.to_string().parse(), Ok(cursor));
            }
        }

        #[test]
        fn any_place_survives_a_link(at in "[^\0]{0,32}", seq in proptest::num::i64::ANY, on in "[^\0]{0,32}", id: u128) {
            let (parked, waiting) = (Place::Parked(at.clone(), seq, on), Place::Waiting(at.clone(), seq));
            for place in [parked, waiting, Place::Failed(at.clone(), seq), Place::Delivered(at, seq), Place::Id(Uuid::from_u128(id))] {
                let cursor = Cursor(place);
                assert_eq!(cursor.to_string().parse(), Ok(cursor));
            }
        }
    }
}
