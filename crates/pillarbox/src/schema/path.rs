//! Paths of payloads as people write them: `payload.items[2].price`.

use std::fmt::Write;

/// Returns the path of a JSON pointer into the payload.
pub(super) fn of_payload(pointer: &str) -> String {
    let mut path = String::from("payload");
    for part in pointer.split('/').skip(1) {
        let name = part.replace("~1", "/").replace("~0", "~");
        let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        // Writing to a string cannot fail.
        let _ = if !name.is_empty() && name.chars().all(|c| c.is_ascii_digit()) {
            write!(path, "[{name}]")
        } else if is_plain && !name.is_empty() {
            write!(path, ".{name}")
        } else {
            write!(path, "[{name:?}]")
        };
    }
    path
}

/// Returns one part of a JSON pointer.
pub(super) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_becomes_a_path() {
        assert_eq!(of_payload(""), "payload");
        assert_eq!(of_payload("/items/2/price"), "payload.items[2].price");
        assert_eq!(of_payload("/a~1b/c d/é/~0"), r#"payload["a/b"]["c d"]["é"]["~"]"#);
        assert_eq!(of_payload("/"), r#"payload[""]"#);
    }
}
