//! Finds parts of JSON text that the databases' JSON cannot store. The input is valid JSON; this reads it once.

/// The deepest nesting that SQLite's JSON allows.
const DEPTH_LIMIT: usize = 1000;
/// The most digits of a number in PostgreSQL, before and after the decimal point.
const DIGITS_LIMITS: (i64, i64) = (131_072, 16_383);

const NUL: &str = "a NUL character (U+0000)";
const HALF: &str = "half of a surrogate pair";
const LONG: &str = "a number with too many digits for the database";
const DEEP: &str = "more than 1000 levels of arrays and objects";

/// Returns the first part of the text that cannot be stored, if there is one.
pub(crate) fn unstorable(text: &str) -> Option<&'static str> {
    let mut rest = text.as_bytes();
    let mut depth = 0_usize;
    while let Some((first, after)) = rest.split_first() {
        rest = match first {
            b'"' => match string(after) {
                Ok(after) => after,
                Err(what) => return Some(what),
            },
            b'0'..=b'9' => match number(rest) {
                Some(after) => after,
                None => return Some(LONG),
            },
            b'[' | b'{' if depth == DEPTH_LIMIT => return Some(DEEP),
            b'[' | b'{' => {
                depth += 1;
                after
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                after
            }
            _ => after,
        };
    }
    None
}

/// Reads a string after its opening quote, and returns the rest after the closing one.
fn string(mut rest: &[u8]) -> Result<&[u8], &'static str> {
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\')) {
        rest = &rest[at..];
        if rest[0] == b'"' {
            return Ok(&rest[1..]);
        }
        rest = match escaped_unit(rest) {
            Some(0) => return Err(NUL),
            Some(0xD800..=0xDBFF) => match escaped_unit(&rest[6..]) {
                Some(0xDC00..=0xDFFF) => &rest[12..],
                _ => return Err(HALF),
            },
            Some(0xDC00..=0xDFFF) => return Err(HALF),
            Some(_) => &rest[6..],
            None => rest.get(2..).unwrap_or_default(),
        };
    }
    Ok(&[])
}

/// Returns the code unit of a `\uXXXX` escape at the start of the text.
fn escaped_unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Reads a number without its sign, and returns the rest. Returns `None` if it has too many digits.
fn number(text: &[u8]) -> Option<&[u8]> {
    let (before, rest) = digits(text);
    let (after, rest) = rest.strip_prefix(b".").map_or((0, rest), digits);
    let (exponent, rest) = match rest {
        [b'e' | b'E', rest @ ..] => exponent(rest)?,
        _ => (0, rest),
    };
    (before + exponent <= DIGITS_LIMITS.0 && after - exponent <= DIGITS_LIMITS.1).then_some(rest)
}

fn exponent(text: &[u8]) -> Option<(i64, &[u8])> {
    let signed = text.strip_prefix(b"+").unwrap_or(text);
    let (count, rest) = digits(signed.strip_prefix(b"-").unwrap_or(signed));
    let written = &signed[..signed.len() - rest.len()];
    // More digits than an i64 has are too many in any case.
    let exponent = if count > 18 { return None } else { std::str::from_utf8(written).ok()?.parse().ok()? };
    Some((exponent, rest))
}

/// Returns the number of digits at the start of the text, and the rest.
fn digits(text: &[u8]) -> (i64, &[u8]) {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count.try_into().unwrap_or(i64::MAX), &text[count..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_json_can_be_stored() {
        for text in [
            "{}",
            "null",
            r#"{"a": [1, -2.50, 3e10, 1E-7, true, "\\u0000 \" \n \u00e9 \ud83d\ude00 [[[ 1e999999"]}"#,
            r#""""#,
            r#"{"\\": "\\\\"}"#,
            "1.7976931348623157e308",
            "18446744073709551615",
        ] {
            assert_eq!(unstorable(text), None, "{text}");
        }
    }

    #[test]
    fn characters_that_jsonb_refuses_are_found() {
        assert_eq!(unstorable(r#"["a", "b\u0000"]"#), Some(NUL));
        assert_eq!(unstorable(r#"{"\u0000": 1}"#), Some(NUL));
        assert_eq!(unstorable(r#""\\\u0000""#), Some(NUL));
        assert_eq!(unstorable(r#""\ud800""#), Some(HALF));
        assert_eq!(unstorable(r#""\ud800\ud800""#), Some(HALF));
        assert_eq!(unstorable(r#""\udc00\ud800""#), Some(HALF));
    }

    #[test]
    fn numbers_end_where_postgres_ends() {
        for text in ["1e131071", "1e-16383", "-1e+131071", "12e131070", "0.01e-16381"] {
            assert_eq!(unstorable(text), None, "{text}");
        }
        let too_long =
            ["1e131072", "1e-16384", "-1e+131072", "1.5e-16383", "[1E99999999999999999999]", "1e-9223372036854775808"];
        for text in too_long {
            assert_eq!(unstorable(text), Some(LONG), "{text}");
        }
        assert_eq!(unstorable(&"9".repeat(131_072)), None);
        assert_eq!(unstorable(&"9".repeat(131_073)), Some(LONG));
        assert_eq!(unstorable(&format!("0.{}", "9".repeat(16_384))), Some(LONG));
    }

    #[test]
    fn depth_ends_where_sqlite_ends() {
        let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(unstorable(&nested(DEPTH_LIMIT)), None);
        assert_eq!(unstorable(&nested(DEPTH_LIMIT + 1)), Some(DEEP));
        assert_eq!(unstorable(&format!("[{}]", [nested(900), nested(900)].join(","))), None);
    }

    proptest::proptest! {
        #[test]
        fn any_text_can_be_scanned(text in r#"[\[\]{}",:\\uUdD08eE.+\-\PC]{0,64}"#) {
            let _ = unstorable(&text);
        }

        /// The scan finds a NUL wherever a JSON reader finds one, and only there.
        #[test]
        fn a_nul_is_found_wherever_it_is(texts in proptest::collection::vec("\\PC{0,8}", 1..6), at in 0_usize..6) {
            let mut texts = texts;
            assert_eq!(unstorable(&serde_json::json!({ "a": texts, "b": { "c": 1.5 } }).to_string()), None);
            let at = at % texts.len();
            texts[at].push('\0');
            assert_eq!(unstorable(&serde_json::json!({ "a": texts }).to_string()), Some(NUL));
        }
    }
}
