//! The regular expressions in a JSON path, `match(@.kind, 'card.*')` and `search(…)`. By RFC 9535 an invalid one matches
//! nothing, so it would mask nothing. Here it is refused. So is one that comes from the payload. Pure.

use std::iter::Peekable;
use std::str::Chars;

use regex::Regex;

/// Returns the problem with the regular expressions of an otherwise valid path.
pub(crate) fn problem(path: &str) -> Option<String> {
    patterns(path).into_iter().find_map(|pattern| match pattern {
        None => Some("the pattern of match() and search() must be text in quotes".to_owned()),
        Some(pattern) => {
            let wrong = Regex::new(&format!("(?R)^({pattern})$")).is_err();
            wrong.then(|| format!("{pattern:?} is not a regular expression"))
        }
    })
}

/// A call that is not closed yet.
#[derive(Default)]
struct Call {
    takes_pattern: bool,
    in_pattern: bool,
    /// The pattern, and whether the argument is nothing but a literal.
    pattern: Option<String>,
    plain: bool,
}

/// Returns the second argument of each call; `None` for one that is not a literal.
fn patterns(path: &str) -> Vec<Option<String>> {
    let (mut found, mut open, mut word) = (Vec::new(), Vec::<Call>::new(), String::new());
    let mut letters = path.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' | '"' => {
                let text = text(&mut letters, letter);
                if let Some(call) = open.last_mut().filter(|call| call.in_pattern) {
                    call.pattern = Some(text);
                }
            }
            '(' => {
                let takes_pattern = matches!(word.as_str(), "match" | "search");
                open.push(Call { takes_pattern, plain: true, ..Call::default() });
            }
            ',' => {
                if let Some(call) = open.last_mut() {
                    call.in_pattern = call.takes_pattern;
                }
            }
            ')' => {
                if let Some(call) = open.pop().filter(|call| call.takes_pattern) {
                    found.push(call.pattern.filter(|_| call.plain));
                }
            }
            letter if !letter.is_whitespace() => {
                if let Some(call) = open.last_mut().filter(|call| call.in_pattern) {
                    call.plain = false;
                }
            }
            _ => {}
        }
        if letter.is_ascii_alphanumeric() || letter == '_' { word.push(letter) } else { word.clear() }
    }
    found
}

/// Reads a literal up to its closing quote, as JSON does.
fn text(letters: &mut Peekable<Chars<'_>>, quote: char) -> String {
    let mut json = String::from("\"");
    while let Some(letter) = letters.next_if(|letter| *letter != quote) {
        match (letter, letters.peek().copied()) {
            ('\\', Some('\'')) => json.extend(letters.next()),
            ('\\', Some(next)) => {
                json.extend(['\\', next]);
                letters.next();
            }
            ('"', _) => json.push_str("\\\""),
            (letter, _) => json.push(letter),
        }
    }
    letters.next();
    json.push('"');
    // Text that is not valid JSON becomes an invalid regular expression.
    serde_json::from_str(&json).unwrap_or_else(|_| "(".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_of_each_call_is_found() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(patterns("$.card['match(a, b)']"), []);
        assert_eq!(patterns("$.a[?match(@.kind, 'card.*')]"), [some("card.*")]);
        assert_eq!(
            patterns(r#"$[?search(@['a,b'], "\\d+\u0041'\"") && match(@.b, 'it\'s')]"#),
            [some("\\d+A'\""), some("it's")]
        );
        assert_eq!(patterns("$[?match(@.a, @.b)]"), [None]);
        assert_eq!(patterns("$[?match(@.a, $['b'])]"), [None]);
        assert_eq!(patterns("$[?length(@.a) > 3 && count(@.*) == 1]"), []);
    }

    #[test]
    fn a_pattern_that_would_mask_nothing_is_refused() {
        assert_eq!(problem("$.items[?match(@.kind, 'card|iban')].number"), None);
        assert_eq!(
            problem("$[?match(@.kind, 'card[')].number").as_deref(),
            Some("\"card[\" is not a regular expression")
        );
        assert!(problem("$[?search(@.kind, @.pattern)]").is_some_and(|what| what.contains("must be text in quotes")));
    }
}
