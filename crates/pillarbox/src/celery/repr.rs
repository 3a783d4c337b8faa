//! Arguments as Python writes them, for the headers `argsrepr` and `kwargsrepr`. People read them in a worker's log and in
//! Flower. Like Celery, this keeps them short and shallow, and does not escape text.
//!
//! It reads JSON text, so that numbers are shown as they were sent.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::fields::{Text, text};

/// The approximate limit of characters. Closing brackets are not counted.
const LIMIT: usize = 1024;
/// The number of levels of lists and dicts that are shown.
const LEVELS: usize = 3;

/// Returns the value as Python's `repr` does: `[42]`, `{'key': None}`.
pub(crate) fn repr(value: &RawValue) -> String {
    let mut shown = Shown::default();
    shown.value(value);
    shown.text
}

/// Returns a list as Python's `repr` shows a tuple: `(42,)`. That is the form of the arguments of `.delay(42)`.
pub(crate) fn repr_tuple(list: &RawValue) -> String {
    let mut shown = Shown::default();
    match serde_json::from_str::<Vec<&RawValue>>(list.get()) {
        Ok(items) => shown.sequence("(", &items, if items.len() == 1 { ",)" } else { ")" }),
        Err(_) => shown.value(list),
    }
    shown.text
}

/// The text written so far.
struct Shown {
    text: String,
    /// The number of characters that still fit.
    room: usize,
    level: usize,
    /// Set when the room is used up. From then on, only closing brackets are written.
    full: bool,
}

impl Default for Shown {
    fn default() -> Self {
        Self { text: String::new(), room: LIMIT, level: 0, full: false }
    }
}

impl Shown {
    fn value(&mut self, value: &RawValue) {
        let json = value.get();
        match json.as_bytes().first() {
            Some(b'[') => match serde_json::from_str::<Vec<&RawValue>>(json) {
                Ok(items) => self.sequence("[", &items, "]"),
                Err(_) => self.word(json),
            },
            Some(b'{') => match serde_json::from_str::<Pairs<'_>>(json) {
                Ok(pairs) => self.dict(&pairs.0),
                Err(_) => self.word(json),
            },
            // Half of a surrogate pair is not valid text in Rust; it is shown as it was sent.
            Some(b'"') => self.quoted(&text(value).unwrap_or(Cow::Borrowed(json))),
            Some(b'n') => self.word("None"),
            Some(b't') => self.word("True"),
            Some(b'f') => self.word("False"),
            _ => self.word(&number(json)),
        }
    }

    fn sequence(&mut self, open: &str, items: &[&RawValue], close: &str) {
        if !self.open(open, close) {
            return;
        }
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.put(", ");
            }
            self.value(item);
            if self.full {
                break;
            }
        }
        self.close(close);
    }

    fn dict(&mut self, pairs: &[(Cow<'_, str>, &RawValue)]) {
        if !self.open("{", "}") {
            return;
        }
        for (index, (key, value)) in pairs.iter().enumerate() {
            if index > 0 {
                self.put(", ");
            }
            self.quoted(key);
            self.put(": ");
            self.value(value);
            if self.full {
                break;
            }
        }
        self.close("}");
    }

    /// Opens a bracket. Returns whether its contents and the closing bracket must be written.
    fn open(&mut self, open: &str, close: &str) -> bool {
        if self.level == LEVELS {
            self.put(&format!("{open}...{close}"));
            return false;
        }
        self.put(open);
        self.level += 1;
        !self.full
    }

    fn close(&mut self, close: &str) {
        self.level -= 1;
        self.text.push_str(close);
        self.room = self.room.saturating_sub(close.len());
    }

    fn quoted(&mut self, value: &str) {
        // NUL is the only character that a database refuses in a header.
        let value = shortened(value, self.room).replace('\'', "\\'").replace('\0', "\\x00");
        self.put(&format!("'{value}'"));
    }

    fn word(&mut self, word: &str) {
        let word = shortened(word, self.room);
        self.put(&word);
    }

    fn put(&mut self, piece: &str) {
        if self.full {
            return;
        }
        if self.room == 0 {
            self.text.push_str(", ...");
            self.full = true;
            return;
        }
        self.text.push_str(piece);
        self.room = self.room.saturating_sub(piece.chars().count());
    }
}

/// Shortens a value to the room, at a space if there is one.
fn shortened(value: &str, room: usize) -> Cow<'_, str> {
    let Some((end, _)) = value.char_indices().nth(room.saturating_sub(1)) else { return Cow::Borrowed(value) };
    let end = end + value[end..].chars().next().map_or(0, char::len_utf8);
    let start = &value[..end];
    Cow::Owned(format!("{}...", start.rsplit_once(' ').map_or(start, |(before, _)| before)))
}

fn number(json: &str) -> Cow<'_, str> {
    if !json.contains(['.', 'e', 'E']) {
        return if json == "-0" { Cow::Borrowed("0") } else { Cow::Borrowed(json) };
    }
    let Ok(float) = json.parse::<f64>() else { return Cow::Borrowed(json) };
    let shown = format!("{float:?}");
    Cow::Owned(match shown.split_once('e') {
        Some((digits, exponent)) => match exponent.strip_prefix('-') {
            Some(exponent) => format!("{digits}e-{exponent:0>2}"),
            None => format!("{digits}e+{exponent:0>2}"),
        },
        None => shown,
    })
}

/// An object in the order in which it is written.
struct Pairs<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor).map(Pairs)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(Text(name)) = map.next_key()? {
            pairs.push((name, map.next_value()?));
        }
        Ok(pairs)
    }
}

// The expected values are the output of Celery 5.7's own saferepr, except for the NUL.
#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn it_looks_as_in_python() {
        for (json, tuple) in [
            ("[42]", "(42,)"),
            ("[]", "()"),
            ("[1,2]", "(1, 2)"),
            (r#"["a\u0000"]"#, r"('a\x00',)"),
            ("[null,true,false]", "(None, True, False)"),
            (r#"["it's \"q\" \n é \ud83d\ude00 \\"]"#, "('it\\'s \"q\" \n é 😀 \\',)"),
            ("[123456789012345678901234567890,-0]", "(123456789012345678901234567890, 0)"),
            (r#"[{"a":{"b":{"c":1}}},[[[[1]]]]]"#, "({'a': {'b': {...}}}, [[[...]]])"),
            (r#"[[[]],{"k":[]},{}]"#, "([[]], {'k': []}, {})"),
            (r#"[{"b":1,"a":[2,{"x":"y"}]}]"#, "({'b': 1, 'a': [2, {...}]},)"),
            (
                "[1.5,0.1,100000.0,1e16,1e-5,0.0001,1e400,-0.0,123456789012345.678,1e22,1.0]",
                "(1.5, 0.1, 100000.0, 1e+16, 1e-05, 0.0001, inf, -0.0, 123456789012345.67, 1e+22, 1.0)",
            ),
        ] {
            assert_eq!(repr_tuple(&raw(json)), tuple);
        }
        assert_eq!(repr(&raw(r#"{"ids": [42], "on": null}"#)), "{'ids': [42], 'on': None}");
    }

    #[test]
    fn it_ends_where_celery_ends() {
        for (json, end, length) in [
            (format!(r#"["{}"]"#, "x".repeat(2000)), "xxx...',)", 1031),
            (format!(r#"["{}"]"#, "ab ".repeat(600)), "ab ab...',)", 1030),
            (
                format!("[{}]", (0..1000).map(|n| n.to_string()).collect::<Vec<_>>().join(",")),
                "225, 226..., ...)",
                1033,
            ),
            (format!(r#"[[1,["{}"]],2,3]"#, "y".repeat(1020)), "yyy...']], ...)", 1037),
            (format!(r#"["{}"]"#, "x".repeat(1021)), "xxx',)", 1026),
            (format!(r#"["{}",[1],2]"#, "x".repeat(1019)), "xxx', , ...)", 1030),
            (format!(r#"["{}",[1],2]"#, "x".repeat(1018)), "xxx', [, ...])", 1031),
            (format!(r#"["{}"]"#, "'".repeat(2000)), "\\'\\'...',)", 2054),
        ] {
            let shown = repr_tuple(&raw(&json));
            assert!(shown.ends_with(end), "{end} ends {}", &shown[shown.len() - 40..]);
            assert_eq!(shown.chars().count(), length, "{end}");
        }
    }
}
