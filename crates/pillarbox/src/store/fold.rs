//! Folds errors: replaces the parts that differ each time, so that equal errors can be grouped. Pure.

use uuid::Uuid;

/// The placeholder for parts that differ.
const SIGN: char = '#';
/// The maximum length of a folded error.
const LONGEST: usize = 300;

/// Returns an error with a placeholder for parts that differ between events: numbers, UUIDs, hexadecimal and other ids, times,
/// addresses, ports, and quoted text with digits. Status codes stay: `answered 503` is not `answered 500`.
#[must_use]
pub fn fold_error(error: &str) -> String {
    let mut folded = String::with_capacity(error.len().min(LONGEST));
    let mut rest = error.trim();
    while let Some(first) = rest.chars().next() {
        if folded.chars().nth(LONGEST).is_some() {
            break;
        }
        let taken = if let Some(end) = uuid(rest) {
            sign(&mut folded);
            end
        } else if first.is_alphanumeric() {
            let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
            fold_word(&rest[..end], &mut folded);
            end
        } else if let Some(end) = quoted_id(rest, &folded) {
            folded.push(first);
            sign(&mut folded);
            folded.push(first);
            end
        } else {
            let blank = first.is_whitespace();
            if !(blank && folded.ends_with(' ')) {
                folded.push(if blank { ' ' } else { first });
            }
            first.len_utf8()
        };
        rest = &rest[taken..];
    }
    folded.chars().take(LONGEST).collect()
}

/// Returns the length of a UUID with dashes at the start of the text. Callers consume whole words, so the text
/// never starts within a word.
fn uuid(text: &str) -> Option<usize> {
    const LENGTH: usize = 36;
    let is_one = text.get(..LENGTH).is_some_and(|text| Uuid::try_parse(text).is_ok());
    (is_one && !text[LENGTH..].starts_with(char::is_alphanumeric)).then_some(LENGTH)
}

/// Folds a word of letters and digits.
fn fold_word(word: &str, folded: &mut String) {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    if digits == 0 || is_code(word, folded) {
        folded.push_str(word);
    } else if digits == word.len() || is_id(word) {
        sign(folded);
    } else {
        // orders17, sha256
        let mut was_digit = false;
        for c in word.chars() {
            let is_digit = c.is_ascii_digit();
            if !is_digit {
                folded.push(c);
            } else if !was_digit {
                sign(folded);
            }
            was_digit = is_digit;
        }
    }
}

/// Returns whether the word is a status code, which must stay.
fn is_code(word: &str, before: &str) -> bool {
    const SAY_SO: [&str; 5] = ["http", "answered", "status", "code", "error"];
    let is_one =
        word.len() == 3 && word.as_bytes()[0].is_ascii_digit() && (100..600).contains(&word.parse().unwrap_or(0));
    let said = before.trim_end_matches([' ', ':', '=', '(', '"']);
    let said = said.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    // HTTP/1.1 503
    let version = before.trim_end().strip_suffix(SIGN).is_some_and(|rest| rest.ends_with("HTTP/"));
    is_one && (version || SAY_SO.iter().any(|word| said.eq_ignore_ascii_case(word)))
}

/// Returns whether the word looks generated: hexadecimal, or letters and digits in alternation.
fn is_id(word: &str) -> bool {
    const SHORTEST: usize = 6;
    if word.starts_with("0x") {
        return true;
    }
    let kinds: Vec<bool> = word.chars().map(|c| c.is_ascii_digit()).collect();
    let changes = kinds.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let is_hex = word.bytes().all(|c| c.is_ascii_hexdigit());
    word.len() >= SHORTEST && (is_hex || changes >= 2)
}

/// Returns the length of quoted text here, if it contains digits and no spaces.
fn quoted_id(text: &str, before: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|first| matches!(first, '"' | '\'' | '`'))?;
    // The quote is an apostrophe.
    if before.ends_with(char::is_alphanumeric) {
        return None;
    }
    let inner = &text[1..1 + text[1..].find(quote)?];
    let is_id = inner.contains(|c: char| c.is_ascii_digit()) && !inner.contains(char::is_whitespace);
    is_id.then_some(inner.len() + 2)
}

/// Appends a placeholder. All parts of a time, an address or a UUID share one.
fn sign(folded: &mut String) {
    const BETWEEN: [char; 8] = ['-', ':', '.', ',', '/', '+', '_', 'T'];
    let apart = folded.strip_suffix(BETWEEN).filter(|rest| rest.ends_with(SIGN)).map(str::len);
    match apart {
        Some(length) => folded.truncate(length),
        None if folded.ends_with(SIGN) => {}
        None => folded.push(SIGN),
    }
}

#[cfg(test)]
mod tests {
    use super::fold_error;

    #[test]
    fn what_differs_becomes_a_sign() {
        let cases = [
            ("timed out after 12.5 s", "timed out after # s"),
            ("order 18234 is locked", "order # is locked"),
            ("no event 0190a5c1-7b1e-7c3a-9f00-1234567890ab", "no event #"),
            ("no event ABCDEFAB-ABCD-4BCD-8BCD-ABCDEFABCDEF, 7 left", "no event #, # left"),
            ("session d3b07384d113edec49eaa6238ad5ff00", "session #"),
            ("token ord_8f3KzQ91 is gone", "token ord_# is gone"),
            ("at 0x7f", "at #"),
            ("connection to 10.0.17.7:30123 refused", "connection to # refused"),
            ("connect to [::1]:5432 and db.internal:5433", "connect to [::#]:# and db.internal:#"),
            ("at 2026-11-15T09:34:41.123Z", "at #Z"),
            ("queue orders-17 is full, orders17 too", "queue orders-# is full, orders# too"),
            ("no customer \"c-42\" in 'main'", "no customer \"#\" in 'main'"),
            ("{\"error\":\"unknown sku 977\",\"id\":\"a1\"}", "{\"error\":\"unknown sku #\",\"id\":\"#\"}"),
            ("it can't be 17, won't 18", "it can't be #, won't #"),
            ("a \"quote without an end 7", "a \"quote without an end #"),
            ("  many \n\t blanks  ", "many blanks"),
            ("größer als 10 €", "größer als # €"),
            ("", ""),
        ];
        for (error, folded) in cases {
            assert_eq!(fold_error(error), folded);
        }
    }

    #[test]
    fn the_code_of_an_answer_stays() {
        for error in
            ["the receiver answered 503 Service Unavailable", "HTTP 500: no", "status code: 404", "HTTP status=429"]
        {
            assert_eq!(fold_error(error), error);
        }
        assert_eq!(fold_error("HTTP/1.1 503 from upstream"), "HTTP/# 503 from upstream");
        assert_eq!(fold_error("order 503 has 404 lines"), "order # has # lines");
        assert_eq!(fold_error("answered 5033"), "answered #");
    }

    #[test]
    fn folding_again_changes_nothing_and_ends() {
        for error in ["order 7 of 9: 'x1' at 10:20", &"1 x ".repeat(1000), &"é".repeat(1000), "#1#2 # 3"] {
            let folded = fold_error(error);
            assert!(folded.chars().count() <= 300);
            assert_eq!(fold_error(&folded), folded.trim_end());
        }
    }
}
