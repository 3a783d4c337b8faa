//! Subjects: names with tokens between dots. A publisher cannot use wildcards. Pure.

use pillarbox::SendError;

/// The longest subject. A server refuses a longer protocol line (4,096 bytes by default), and closes the connection.
const LONGEST: usize = 1024;

/// Checks that a message can be published to the subject.
pub(super) fn check(subject: &str) -> Result<(), SendError> {
    match problem(subject) {
        None => Ok(()),
        Some(problem) => Err(SendError::reject(format_args!(
            "the subject {:?} cannot be published to: {problem}",
            subject.chars().take(200).collect::<String>()
        ))),
    }
}

/// Returns why a subject is impossible.
pub(super) fn problem(subject: &str) -> Option<&'static str> {
    if subject.is_empty() {
        return Some("it is empty");
    }
    if subject.len() > LONGEST {
        return Some("it is longer than 1,024 bytes");
    }
    if subject.contains(char::is_whitespace) {
        return Some("it contains a space or a line break");
    }
    if subject.contains(char::is_control) {
        return Some("it contains a control character");
    }
    if subject.split('.').any(str::is_empty) {
        return Some("it has an empty part: it begins or ends with a dot, or has two dots in a row");
    }
    if subject.split('.').any(|token| token == "*" || token == ">") {
        return Some("it contains a wildcard (* or >), which only subscribers can use");
    }
    if subject.starts_with('$') {
        return Some("it begins with $, which is reserved for the server");
    }
    None
}

#[cfg(test)]
mod tests {
    use pillarbox::SendErrorKind;

    use super::*;

    #[test]
    fn subjects_that_servers_take_pass() {
        for subject in ["orders", "orders.42", "Order.order.placed", "größe.1", "a*b.c>d", "a.$b"] {
            assert_eq!(check(subject), Ok(()), "{subject}");
        }
    }

    #[test]
    fn an_impossible_subject_is_rejected_with_the_reason() {
        for (subject, reason) in [
            ("", "is empty"),
            ("orders.", "empty part"),
            (".orders", "empty part"),
            ("orders..42", "empty part"),
            ("orders 42", "space"),
            ("orders\r\nPUB x 0", "line break"),
            ("orders\u{7}", "control"),
            ("orders.*", "wildcard"),
            (">", "wildcard"),
            ("$JS.API.STREAM.DELETE.ORDERS", "reserved"),
        ] {
            let error = check(subject).unwrap_err();
            assert_eq!(error.kind, SendErrorKind::Reject);
            assert!(error.message.contains(reason), "{error}");
        }
        assert!(check(&"a".repeat(2000)).unwrap_err().message.len() < 400);
    }
}
