//! Names made from the event: `topic = "{aggregate_type}.{event_type}"`. A template is checked when the configuration is
//! read. Each kind checks the names that it makes, because each system allows other characters. Pure.

use std::borrow::Cow;
use std::fmt;

use pillarbox::{SendError, StoredEvent};
use toml::Value;

use crate::config::FromConfig;

/// A text with fields of the event in braces. `{{` and `}}` stand for braces.
///
/// ```
/// use pillarbox_sinks::Template;
/// let topic: Template = "{aggregate_type}.{event_type}".parse()?;
/// assert!("{agregate_type}".parse::<Template>().unwrap_err().contains("aggregate_type"));
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Id,
    EventType,
    AggregateType,
    AggregateId,
    Header(String),
}

const FIELDS: [(&str, Part); 4] = [
    ("id", Part::Id),
    ("event_type", Part::EventType),
    ("aggregate_type", Part::AggregateType),
    ("aggregate_id", Part::AggregateId),
];
const HEADER: &str = "headers.";

impl Template {
    /// Returns a template that always makes this text.
    pub fn fixed(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { parts: vec![Part::Text(text.clone())], text: text.replace('{', "{{").replace('}', "}}") }
    }

    /// Returns the template as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the name that every event has, if the template has no fields.
    #[must_use]
    pub fn constant(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Returns whether all events of an aggregate have the same name.
    #[must_use]
    pub fn is_fixed_per_aggregate(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Text(_) | Part::AggregateType | Part::AggregateId))
    }

    /// Returns the name for an event.
    ///
    /// # Errors
    /// Rejects an event that lacks a header of the template.
    pub fn render<'a>(&'a self, event: &'a StoredEvent) -> Result<Cow<'a, str>, SendError> {
        match self.parts.as_slice() {
            [part] => part.of(event),
            [] => Ok(Cow::Borrowed("")),
            parts => {
                let mut name = String::with_capacity(self.text.len() + 32);
                for part in parts {
                    name.push_str(&part.of(event)?);
                }
                Ok(Cow::Owned(name))
            }
        }
    }
}

impl Part {
    fn of<'a>(&'a self, event: &'a StoredEvent) -> Result<Cow<'a, str>, SendError> {
        Ok(match self {
            Self::Text(text) => text.as_str().into(),
            Self::Id => event.id.to_string().into(),
            Self::EventType => event.event_type.as_str().into(),
            Self::AggregateType => event.aggregate_type.as_str().into(),
            Self::AggregateId => event.aggregate_id.as_str().into(),
            Self::Header(name) => match event.headers.get(name) {
                Some(value) => value.as_str().into(),
                None => return Err(SendError::reject(format!("the event has no header {name:?}"))),
            },
        })
    }
}

impl std::str::FromStr for Template {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(brace) = rest.find(['{', '}']) {
            let (before, after) = rest.split_at(brace);
            plain.push_str(before);
            if let Some(behind) = after.strip_prefix("{{").or_else(|| after.strip_prefix("}}")) {
                plain.push_str(&after[..1]);
                rest = behind;
                continue;
            }
            let field = after.strip_prefix('{').and_then(|inside| inside.split_once('}'));
            let Some((name, behind)) = field else {
                return Err(format!(
                    "is {text:?}, which has a brace without its partner; write {{{{ or }}}} for a brace"
                ));
            };
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(part(name).ok_or_else(|| unknown(text, name))?);
            rest = behind;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self { text: text.to_owned(), parts })
    }
}

fn part(name: &str) -> Option<Part> {
    let header = name.strip_prefix(HEADER).filter(|header| !header.is_empty());
    let field = FIELDS.iter().find(|(field, _)| *field == name).map(|(_, part)| part.clone());
    field.or_else(|| header.map(|header| Part::Header(header.to_owned())))
}

fn unknown(text: &str, name: &str) -> String {
    let fields: Vec<String> = FIELDS.iter().map(|(field, _)| format!("{{{field}}}")).collect();
    format!("is {text:?}, and events have no field {name:?}; use {} or {{headers.NAME}}", fields.join(", "))
}

impl FromConfig for Template {
    fn from_toml(value: Value) -> Result<Self, String> {
        String::from_toml(value)?.parse()
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use pillarbox::SendErrorKind;

    use super::*;

    fn rendered(template: &str) -> String {
        let mut event = StoredEvent::for_tests("order.placed", "{}");
        event.headers.insert("tenant".to_owned(), "acme".to_owned());
        template.parse::<Template>().unwrap().render(&event).unwrap().into_owned()
    }

    #[test]
    fn fields_are_replaced_and_doubled_braces_are_braces() {
        assert_eq!(rendered("orders"), "orders");
        assert_eq!(rendered("{aggregate_type}.{event_type}"), "Order.order.placed");
        assert_eq!(rendered("{aggregate_id}"), "42");
        assert_eq!(rendered("{headers.tenant}-{{x}}"), "acme-{x}");
        assert_eq!(rendered("{id}").len(), 36);
        assert_eq!(rendered(""), "");
        assert_eq!(Template::fixed("{a}").render(&StoredEvent::for_tests("a", "{}")).unwrap(), "{a}");
    }

    #[test]
    fn a_template_that_cannot_work_is_refused_with_its_fields() {
        let refusal = |text: &str| text.parse::<Template>().unwrap_err();
        for text in ["{", "a}", "{event_type", "{{}"] {
            assert!(refusal(text).contains("brace without its partner"), "{text}");
        }
        for text in ["{type}", "{}", "{headers.}", "{payload.total}"] {
            assert!(refusal(text).contains("use {id}, {event_type}, {aggregate_type}, {aggregate_id} or"), "{text}");
        }
    }

    #[test]
    fn an_event_without_the_header_is_rejected_with_its_name() {
        let template: Template = "{headers.tenant}".parse().unwrap();
        let error = template.render(&StoredEvent::for_tests("a", "{}")).unwrap_err();
        assert_eq!(
            (error.kind, error.message.as_str()),
            (SendErrorKind::Reject, r#"the event has no header "tenant""#)
        );
    }

    #[test]
    fn only_the_aggregates_own_fields_are_fixed_for_it() {
        let fixed = |text: &str| text.parse::<Template>().unwrap().is_fixed_per_aggregate();
        assert!(fixed("orders") && fixed("{aggregate_type}.{aggregate_id}") && fixed(""));
        assert!(!fixed("{event_type}") && !fixed("{id}") && !fixed("{headers.tenant}"));
    }
}
