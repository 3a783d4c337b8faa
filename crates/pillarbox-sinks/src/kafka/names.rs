//! The names that a topic can have. Pure.

use std::borrow::Cow;

use pillarbox::{SendError, StoredEvent};

use crate::Template;

const LONGEST: usize = 249;

/// Checks a topic's name. The error continues a sentence that begins with the key's name.
pub(super) fn check(topic: &str) -> Result<(), String> {
    if topic.is_empty() {
        return Err("is empty; write the name of a topic".to_owned());
    }
    if topic == "." || topic == ".." {
        return Err(format!("is {topic:?}, which Kafka does not allow as a name"));
    }
    if let Some(wrong) = topic.chars().find(|&letter| !is_allowed(letter)) {
        return Err(format!(
            "is {topic:?}, and {wrong:?} cannot be in a topic's name; use letters, digits, '.', '_' and '-'"
        ));
    }
    if topic.len() > LONGEST {
        return Err(format!("has {} characters, but a topic's name has at most {LONGEST}", topic.len()));
    }
    Ok(())
}

fn is_allowed(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-')
}

/// Returns the topic of an event.
///
/// # Errors
/// Rejects an event whose topic is an impossible name.
pub(super) fn topic<'a>(template: &'a Template, event: &'a StoredEvent) -> Result<Cow<'a, str>, SendError> {
    let topic = template.render(event)?;
    check(&topic).map_err(|what| SendError::reject(format!("the event's topic {what}")))?;
    Ok(topic)
}

#[cfg(test)]
mod tests {
    use pillarbox::SendErrorKind;

    use super::*;

    #[test]
    fn names_are_what_kafka_allows() {
        for topic in ["a", "orders", "Order.order_placed-v1", "...", &"x".repeat(249)] {
            assert_eq!(check(topic), Ok(()), "{topic}");
        }
        for topic in ["", ".", "..", "a b", "a/b", "käse", "a:b", &"x".repeat(250)] {
            assert!(check(topic).is_err(), "{topic}");
        }
    }

    #[test]
    fn an_event_with_an_impossible_topic_is_rejected_with_the_character() {
        let event = StoredEvent::for_tests("order placed", "{}");
        let error = topic(&"{event_type}".parse().unwrap(), &event).unwrap_err();
        assert_eq!(error.kind, SendErrorKind::Reject);
        assert!(error.message.contains("' ' cannot be in a topic's name"), "{error}");
    }
}
