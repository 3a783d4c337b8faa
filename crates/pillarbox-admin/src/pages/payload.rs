//! A payload for people: indented, coloured, and cut if it is long. Pure.

use crate::opaque::OpaqueView;
use crate::pretty::pretty;

/// The maximum number of bytes that a page shows.
const LONGEST: usize = 64 << 10;

/// A payload on a page.
pub(super) struct Payload {
    /// Each part with its CSS class; brackets and the like have none.
    pub(super) parts: Vec<(&'static str, String)>,
    /// Whether the payload is cut.
    pub(super) cut: bool,
    /// The size in bytes.
    pub(super) size: usize,
}

impl Payload {
    /// The bytes of an opaque payload, or the reason why they are not shown.
    pub(super) fn of_bytes(opaque: &OpaqueView) -> Self {
        let text = opaque.hex.clone().or_else(|| opaque.problem.clone());
        let text = text.unwrap_or_else(|| "hidden, because values of payloads are masked".to_owned());
        Self { parts: vec![("", text)], cut: opaque.is_cut(), size: opaque.size.unwrap_or_default() }
    }

    pub(super) fn of(json: &str) -> Self {
        let beginning = first_bytes(json, LONGEST);
        let text = pretty(beginning);
        let shown = first_bytes(&text, LONGEST);
        Self { parts: coloured(shown), cut: beginning.len() < json.len() || shown.len() < text.len(), size: json.len() }
    }
}

fn first_bytes(text: &str, most: usize) -> &str {
    if text.len() <= most { text } else { &text[..text.floor_char_boundary(most)] }
}

fn coloured(text: &str) -> Vec<(&'static str, String)> {
    let mut parts: Vec<(&'static str, String)> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (class, length) = match first {
            '"' => {
                let length = string_length(rest);
                let is_key = rest[length..].trim_start().starts_with(':');
                (if is_key { "key" } else { "text" }, length)
            }
            '-' | '0'..='9' => {
                ("digits", length_while(rest, |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.')))
            }
            'a'..='z' => ("word", length_while(rest, |c| c.is_ascii_lowercase())),
            _ => {
                ("", length_while(rest, |c| !(c == '"' || c == '-' || c.is_ascii_alphanumeric())).max(first.len_utf8()))
            }
        };
        parts.push((class, rest[..length].to_owned()));
        rest = &rest[length..];
    }
    parts
}

fn length_while(text: &str, is: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is(c)).unwrap_or(text.len())
}

/// Returns the length of a string with its quotes. A string that was cut extends to the end.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (place, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return place + 1,
            _ => escaped = !escaped && c == '\\',
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_apart_and_nothing_is_lost() {
        let payload = Payload::of(r#"{"a \"b":[-1.5e3,"x: \\",true],"ü":null}"#);
        let of =
            |class| payload.parts.iter().filter(|part| part.0 == class).map(|part| part.1.as_str()).collect::<Vec<_>>();
        assert_eq!(of("key"), [r#""a \"b""#, r#""ü""#]);
        assert_eq!((of("text"), of("digits"), of("word")), (vec![r#""x: \\""#], vec!["-1.5e3"], vec!["true", "null"]));
        let whole: String = payload.parts.iter().map(|part| part.1.as_str()).collect();
        assert_eq!(whole, pretty(r#"{"a \"b":[-1.5e3,"x: \\",true],"ü":null}"#));
        assert!(!payload.cut);
    }

    #[test]
    fn a_long_one_is_cut_at_a_character() {
        let payload = Payload::of(&format!("\"{}\"", "ü".repeat(1 << 20)));
        assert!(payload.cut && payload.size > 2 << 20);
        let shown: usize = payload.parts.iter().map(|part| part.1.len()).sum();
        assert!((LONGEST - 1..=LONGEST).contains(&shown));
        assert!(Payload::of(&format!("[{}1]", "1,".repeat(40 << 10))).cut);
    }
}
