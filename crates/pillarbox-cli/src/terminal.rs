//! Makes text from outside safe to print: event types, ids, keys, headers, errors, and any other text of an application, a
//! receiver or a database. A terminal obeys control characters, and characters that change the direction of text make it
//! look like other text. Both are shown as their JSON escapes, so that a payload stays JSON. Pure.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns the text on one line: line breaks are escaped, too.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    escape(text, is_unsafe)
}

/// Returns the text with its line breaks and tabs.
pub(crate) fn escaped_lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| is_unsafe(c) && !matches!(c, '\n' | '\t'))
}

/// Returns a line of the log as one line, except for its end. With `colours`, the formatter's own colours stay; it escapes
/// those of values itself.
pub(crate) fn escaped_log(line: &str, colours: bool) -> String {
    let (body, end) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
    let body = escape(body, |c| is_unsafe(c) && !(colours && c == '\x1b'));
    format!("{body}{end}")
}

fn escape(text: &str, is_unsafe: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !is_unsafe(c) => safe.push(c),
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            c => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                // Writing to a string cannot fail.
                let _ = write!(safe, "\\u{unit:04x}");
            }),
        }
    }
    Cow::Owned(safe)
}

/// Returns whether a character is a control character, changes the direction of text, or is invisible and breaks lines or
/// hides text.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{061c}'
                | '\u{200b}'
                | '\u{200e}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_stays_as_it_is() {
        for text in ["", "order.placed", "naïve café", "سلام", "👩‍🚀 🏴‍☠️", r#"{"a":"\\"}"#] {
            assert!(matches!(escaped(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn what_a_terminal_obeys_is_shown() {
        assert_eq!(escaped("a\x1b[31mb\x07"), r"a\u001b[31mb\u0007");
        assert_eq!(escaped("\u{9b}2J\x7f\0"), r"\u009b2J\u007f\u0000");
        assert_eq!(escaped("exe.\u{202e}gnp"), r"exe.\u202egnp");
        assert_eq!(escaped("one\r\ntwo\t"), r"one\r\ntwo\t");
        assert_eq!(escaped_lines("one\r\ntwo\t\u{2067}"), "one\\r\ntwo\t\\u2067");
        assert_eq!(escaped("\u{e0041}"), r"\udb40\udc41");
    }

    #[test]
    fn a_line_of_the_log_is_one_line() {
        assert_eq!(escaped_log("WARN a\nERROR b\x1b[0m\u{202e}\n", false), "WARN a\\nERROR b\\u001b[0m\\u202e\n");
        assert_eq!(escaped_log("\x1b[33mWARN\x1b[0m a\r\n", true), "\x1b[33mWARN\x1b[0m a\\r\n");
    }

    proptest::proptest! {
        #[test]
        fn nothing_that_is_printed_is_obeyed(text in proptest::prelude::any::<String>(), parts in hostile()) {
            for text in [text, parts] {
                let obeyed = |c: char| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c) || ('\u{2066}'..='\u{2069}').contains(&c);
                proptest::prop_assert!(!escaped(&text).contains(obeyed));
                let lines = escaped_lines(&text);
                proptest::prop_assert!(!lines.contains(|c| obeyed(c) && !matches!(c, '\n' | '\t')));
                proptest::prop_assert_eq!(lines.matches('\n').count(), text.matches('\n').count());
                let line = escaped_log(&format!("{text}\n"), false);
                proptest::prop_assert!(line.ends_with('\n') && !line.trim_end_matches('\n').contains(obeyed));
                // Escaping twice has the effect of escaping once.
                let once = escaped(&text);
                proptest::prop_assert!(escaped(&once) == once);
            }
        }
    }

    /// Returns text that mostly needs escapes.
    fn hostile() -> impl proptest::strategy::Strategy<Value = String> {
        "[\\x00-\\x20\\x7f-\\u{9f}\\u{200b}-\\u{206f}\\u{feff}a\\\\]{0,40}"
    }
}
