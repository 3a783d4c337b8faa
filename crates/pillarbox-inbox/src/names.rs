//! The names that are keys of the inbox: consumers and ids. Every database stores and compares them as they are. Pure.

const LONGEST_ID: usize = 255;
const LONGEST_CONSUMER: usize = 100;

pub(crate) fn is_id(text: &str) -> bool {
    is_name(text, LONGEST_ID)
}

pub(crate) fn is_consumer(text: &str) -> bool {
    is_name(text, LONGEST_CONSUMER)
}

fn is_name(text: &str, longest: usize) -> bool {
    (1..=longest).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_visible_ascii_and_not_too_long() {
        for id in ["a", "018f2d3c-0000-7000-8000-000000000000", "~", &"x".repeat(255)] {
            assert!(is_id(id), "{id}");
        }
        for id in ["", " ", "a b", "a\n", "\u{e9}", "\u{7f}", &"x".repeat(256)] {
            assert!(!is_id(id), "{id}");
        }
        assert!(is_consumer(&"x".repeat(100)) && !is_consumer(&"x".repeat(101)));
    }
}
