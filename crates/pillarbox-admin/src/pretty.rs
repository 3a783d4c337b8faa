//! JSON for people. Pure.

/// Returns JSON with line breaks and indentation. Everything else is unchanged: parsing could change the digits of numbers.
#[must_use]
pub fn pretty(json: &str) -> String {
    let (mut text, mut depth, mut in_string, mut escaped) = (String::new(), 0_usize, false, false);
    let mut previous = ' ';
    for c in json.chars() {
        if in_string {
            text.push(c);
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else if !c.is_whitespace() {
            let closes = matches!(c, '}' | ']');
            depth -= usize::from(closes && depth > 0);
            let opened = matches!(previous, '{' | '[');
            if previous == ',' || opened != closes && (opened || closes) {
                text.push('\n');
                text.extend(std::iter::repeat_n("  ", depth));
            } else if previous == ':' {
                text.push(' ');
            }
            text.push(c);
            depth += usize::from(matches!(c, '{' | '['));
            in_string = c == '"';
        }
        if in_string || !c.is_whitespace() {
            previous = if in_string { '"' } else { c };
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_get_line_breaks_and_keep_their_digits() {
        let compact = r#"{"a":[1.10,{"b":"x, {\"y\"}: "}],"c":{},"d":[],"e":10000000000000000000000}"#;
        let expected = r#"{
  "a": [
    1.10,
    {
      "b": "x, {\"y\"}: "
    }
  ],
  "c": {},
  "d": [],
  "e": 10000000000000000000000
}"#;
        assert_eq!(pretty(compact), expected);
        assert_eq!(pretty(expected), expected);
        assert_eq!(pretty("\" a: \""), "\" a: \"");
        assert_eq!(pretty("{}"), "{}");
    }
}
