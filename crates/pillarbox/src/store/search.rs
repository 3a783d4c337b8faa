//! Search: the readings of a text that a person searches for. Pure: knows no database.
//!
//! A text such as `Order 42` or `Order:42` names an aggregate by its type and id. The text alone may also be an aggregate id,
//! an idempotency key or an event's id. Types and ids may contain spaces and colons themselves, so every split is a reading.

use std::fmt;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use uuid::Uuid;

use super::inspect::EventView;

/// The maximum number of events of the named aggregates that a search returns, the newest.
pub const SEARCH_LIMIT: usize = 200;

/// The maximum number of characters of an aggregate's type or id, as the tables have it.
const NAME_LENGTH: usize = 100;
/// The maximum number of readings of one text. Each is a lookup in an index.
const READINGS: usize = 32;

/// A text that a person searches for, with all its readings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    text: String,
    id: Option<Uuid>,
    aggregates: Vec<NamedAggregate>,
}

/// An aggregate as a text names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedAggregate {
    /// Its type; `None` if the text names only an id.
    pub aggregate_type: Option<String>,
    /// Its id.
    pub aggregate_id: String,
}

/// The result of a search.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Found {
    /// The events, the newest first.
    pub events: Vec<EventView>,
    /// The events that were not searched; `None` if all of them were.
    pub unseen: Option<Unseen>,
}

/// The events that a search did not look at. Its display says so to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Unseen {
    /// Of delivered events emitted before this time, only those with a matching id or idempotency key were found. An event
    /// that was emitted without a key has one made of its aggregate, and so it was found.
    pub delivered_before: DateTime<Utc>,
}

impl fmt::Display for Unseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = self.delivered_before.to_rfc3339_opts(SecondsFormat::Secs, true);
        write!(f, "Delivered events from before {before} that have a key of their own were not searched by aggregate.")
    }
}

impl NamedAggregate {
    fn of_any_type(id: &str) -> Self {
        Self { aggregate_type: None, aggregate_id: id.to_owned() }
    }
}

impl Search {
    /// Returns the readings of a text. Returns `None` if nothing can match: the text is empty, or contains NUL, which no
    /// stored text contains.
    ///
    /// ```
    /// use pillarbox::store::Search;
    ///
    /// let search = Search::parse(" Order 42 ").unwrap();
    /// assert_eq!(search.text(), "Order 42");
    /// let named: Vec<_> =
    ///     search.aggregates().iter().map(|named| (named.aggregate_type.as_deref(), named.aggregate_id.as_str())).collect();
    /// assert_eq!(named, [(None, "Order 42"), (Some("Order"), "42")]);
    /// ```
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() || text.contains('\0') {
            return None;
        }
        let mut aggregates = Vec::new();
        if is_name(text) {
            aggregates.push(NamedAggregate::of_any_type(text));
        }
        for (at, separator) in text.char_indices().filter(|(_, letter)| separates(*letter)) {
            let (kind, id) = (text[..at].trim(), text[at + separator.len_utf8()..].trim());
            let named = NamedAggregate { aggregate_type: Some(kind.to_owned()), aggregate_id: id.to_owned() };
            if is_name(kind) && is_name(id) && !aggregates.contains(&named) && aggregates.len() < READINGS {
                aggregates.push(named);
            }
        }
        Some(Self { text: text.to_owned(), id: Uuid::parse_str(text).ok(), aggregates })
    }

    /// Returns the text without surrounding spaces. It may be an idempotency key.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text as an event's id.
    #[must_use]
    pub fn id(&self) -> Option<Uuid> {
        self.id
    }

    /// Returns the types and ids of the aggregates that the text may name, given the existing types. Types match whatever their
    /// case; a type as it is written also counts if it is not among the existing ones.
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    pub(crate) fn named(&self, types: &[String]) -> Vec<(String, String)> {
        let mut named = Vec::new();
        for NamedAggregate { aggregate_type, aggregate_id } in &self.aggregates {
            let matches = |kind: &&String| match aggregate_type {
                Some(given) => kind.eq_ignore_ascii_case(given),
                None => true,
            };
            let existing = types.iter().filter(matches);
            let written = aggregate_type.iter().filter(|given| !types.contains(given));
            named.extend(existing.chain(written).map(|kind| (kind.clone(), aggregate_id.clone())));
        }
        named
    }

    /// Returns the idempotency keys that may be meant: the text, and the keys that emit gives to events of the named aggregates
    /// that have none.
    #[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
    pub(crate) fn keys(&self, named: &[(String, String)]) -> Vec<String> {
        let mut keys = vec![self.text.clone()];
        keys.extend(named.iter().map(|(kind, id)| format!("{kind}:{id}")).filter(|key| *key != self.text));
        keys
    }

    /// Returns the aggregates that the text may name. The first has no type; the others are in the order of their splits.
    #[must_use]
    pub fn aggregates(&self) -> &[NamedAggregate] {
        &self.aggregates
    }
}

/// Returns whether people write this character between the type and the id of an aggregate: `Order 42`, `Order:42`,
/// `Order/42`, `Order #42`.
fn separates(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, ':' | '/' | '#')
}

/// Returns whether the tables can hold this as the type or the id of an aggregate.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().count() <= NAME_LENGTH
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The readings with a type.
    fn typed(text: &str) -> Vec<(String, String)> {
        let aggregates = Search::parse(text).unwrap().aggregates;
        aggregates.into_iter().filter_map(|named| Some((named.aggregate_type?, named.aggregate_id))).collect()
    }

    fn pairs(of: &[(&str, &str)]) -> Vec<(String, String)> {
        of.iter().map(|(kind, id)| ((*kind).to_owned(), (*id).to_owned())).collect()
    }

    #[test]
    fn a_type_and_an_id_are_read_whatever_is_between_them() {
        for text in ["Order 42", "Order:42", "Order/42", "Order\t42", "  Order   42 ", "Order#42"] {
            assert_eq!(typed(text), pairs(&[("Order", "42")]), "{text:?}");
        }
        assert_eq!(typed("Order: 42"), pairs(&[("Order", "42"), ("Order:", "42")]));
        assert_eq!(typed("Order #42"), pairs(&[("Order", "#42"), ("Order", "42")]));
        assert_eq!(typed("shop.orders.Order:42"), pairs(&[("shop.orders.Order", "42")]), "a type with dots");
    }

    #[test]
    fn the_whole_text_may_be_an_aggregate_id_a_key_or_an_event_id() {
        let search = Search::parse("42").unwrap();
        assert_eq!((search.text(), search.id()), ("42", None));
        assert_eq!(search.aggregates(), [NamedAggregate::of_any_type("42")]);
        let id = "0198c1f0-0000-7000-8000-000000000001";
        let search = Search::parse(id).unwrap();
        assert_eq!(search.id(), Some(Uuid::parse_str(id).unwrap()));
        assert_eq!(search.aggregates(), [NamedAggregate::of_any_type(id)], "applications use UUIDs as ids, too");
        assert_eq!(Search::parse(&id.replace('-', "").to_uppercase()).unwrap().id(), search.id());
    }

    #[test]
    fn ids_and_types_may_contain_what_separates_them() {
        assert_eq!(typed("Order eu:42"), pairs(&[("Order", "eu:42"), ("Order eu", "42")]));
        assert_eq!(typed("Purchase Order 42"), pairs(&[("Purchase", "Order 42"), ("Purchase Order", "42")]));
        let id = "0198c1f0-0000-7000-8000-000000000001";
        assert_eq!(typed(&format!("Order:{id}")), pairs(&[("Order", id)]));
        let search = Search::parse("a:b:c").unwrap();
        assert_eq!(search.aggregates()[0], NamedAggregate::of_any_type("a:b:c"));
        assert_eq!(typed("a:b:c"), pairs(&[("a", "b:c"), ("a:b", "c")]));
    }

    #[test]
    fn types_match_whatever_their_case_and_give_the_keys_of_events_without_one() {
        let types = ["Order", "order", "Invoice"].map(str::to_owned);
        let named = |text: &str| Search::parse(text).unwrap().named(&types);
        assert_eq!(
            named("ORDER 42"),
            pairs(&[
                ("Order", "ORDER 42"),
                ("order", "ORDER 42"),
                ("Invoice", "ORDER 42"),
                ("Order", "42"),
                ("order", "42"),
                ("ORDER", "42")
            ])
        );
        assert_eq!(named("42"), pairs(&[("Order", "42"), ("order", "42"), ("Invoice", "42")]));
        let search = Search::parse("Order:42").unwrap();
        assert_eq!(search.keys(&pairs(&[("Order", "42"), ("order", "42")])), ["Order:42", "order:42"]);
    }

    #[test]
    fn what_is_not_searched_is_told() {
        let unseen = Unseen { delivered_before: "2026-02-25T12:34:56.789Z".parse().unwrap() };
        let told = "Delivered events from before 2026-02-25T12:34:56Z that have a key of their own were not searched by aggregate.";
        assert_eq!(unseen.to_string(), told);
    }

    #[test]
    fn what_no_row_can_hold_is_no_reading() {
        for nothing in ["", "  ", "a\0b"] {
            assert_eq!(Search::parse(nothing), None, "{nothing:?}");
        }
        assert_eq!(typed(":42"), []);
        assert_eq!(typed("Order:"), []);
        let long = "é".repeat(101);
        assert_eq!(Search::parse(&long).unwrap().aggregates(), [], "it may still be a key");
        assert_eq!(typed(&format!("Order {long}")), []);
        assert_eq!(typed(&format!("Order {}", &long[2..])).len(), 1, "characters count, not bytes");
        let many = "a ".repeat(50);
        assert_eq!(Search::parse(&many).unwrap().aggregates().len(), READINGS);
    }
}
