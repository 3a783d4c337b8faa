//! Reads JSON token by token, at any depth and with any numbers. Used where the result must not depend on whether the text
//! parses as a value.

use std::collections::HashSet;

/// Returns all strings and numbers, without the names of members.
pub(super) fn leaves(json: &str) -> Vec<String> {
    let mut leaves = Vec::new();
    scan(json, |token| {
        if let Token::Leaf(text) = token {
            leaves.push(text);
        }
    });
    leaves
}

/// Returns whether an object has a name twice.
pub(super) fn repeats_a_name(json: &str) -> bool {
    let (mut open, mut repeats): (Vec<HashSet<String>>, bool) = (Vec::new(), false);
    scan(json, |token| match token {
        Token::Open => open.push(HashSet::new()),
        Token::Close => drop(open.pop()),
        Token::Name(name) => repeats |= open.last_mut().is_some_and(|names| !names.insert(name)),
        Token::Leaf(_) => {}
    });
    repeats
}

enum Token {
    /// The beginning of an object or a list.
    Open,
    Close,
    Name(String),
    Leaf(String),
}

fn scan(json: &str, mut tell: impl FnMut(Token)) {
    let mut rest = json;
    while let Some(first) = rest.bytes().next() {
        let length = match first {
            b'"' => string_length(rest),
            b'-' | b'0'..=b'9' => {
                rest.find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E')).unwrap_or(rest.len())
            }
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
        let (token, behind) = rest.split_at(length);
        rest = behind;
        match first {
            b'{' | b'[' => tell(Token::Open),
            b'}' | b']' => tell(Token::Close),
            b'"' => {
                let text = serde_json::from_str(token).unwrap_or_else(|_| token.to_owned());
                let is_name = rest.trim_start().starts_with(':');
                tell(if is_name { Token::Name(text) } else { Token::Leaf(text) });
            }
            b'-' | b'0'..=b'9' => tell(Token::Leaf(token.to_owned())),
            _ => {}
        }
    }
}

/// Returns the length of a string, with both quotes.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 2)
}
