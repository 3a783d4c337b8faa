//! Schemas: the check of payloads by JSON Schema (draft 2020-12, unless a schema's `$schema` names another). It reads no files and
//! fetches nothing: a reference leads to a place inside of its own schema.
//!
//! ```
//! use std::sync::Arc;
//!
//! use pillarbox::schema::Schemas;
//! use pillarbox::{Event, Outbox};
//! use serde_json::json;
//!
//! let order = json!({ "type": "object", "required": ["cents"], "properties": { "cents": { "type": "integer" } } });
//! let schemas = Schemas::new().with("order.*", "schemas/order.json", &order)?;
//!
//! // Before the insert, so that the transaction stays usable:
//! let event = Event::new("Order", 42, "order.placed").payload(json!({ "cents": "1990" }));
//! let refused = event.check(&schemas).unwrap_err();
//! assert_eq!(refused.to_string(), r#"schema schemas/order.json: payload.cents: value is not of type "integer""#);
//!
//! // For all events of an outbox, and in a relay with `Relay::builder(store).check(…)`:
//! let outbox = Outbox::new().checking(Arc::new(schemas));
//! # drop(outbox);
//! # Ok::<_, pillarbox::schema::InvalidSchema>(())
//! ```

use std::fmt::{self, Write};

use jsonschema::{PatternOptions, ValidationError, ValidationOptions, Validator};
use serde_json::Value;

use crate::celery::AGGREGATE_TYPE;
use crate::check::{Check, Checked, Violation};
use crate::route::Pattern;

mod compare;
mod path;
#[cfg(feature = "schemars")]
mod typed;

pub use compare::{Comparison, Difference, Mode, compare};
#[cfg(feature = "schemars")]
pub use typed::schema_of;

/// The most violations that an error lists.
const LISTED: usize = 3;
/// The longest text of one violation, in characters. A schema may have a long list of values.
const LONGEST: usize = 300;
/// The most steps back that a pattern may take on one text. A pattern that needs more is a violation, so that no payload can
/// keep the relay busy.
const BACKTRACKS: usize = 100_000;

/// The ordered schemas of payloads. The first one whose pattern matches the event type decides; other events pass, and so do
/// recorded Celery tasks, whose payload is a message of Celery.
#[derive(Debug, Default)]
pub struct Schemas(Vec<Entry>);

#[derive(Debug)]
struct Entry {
    events: Pattern,
    name: String,
    validator: Validator,
}

impl Schemas {
    /// Returns no schemas. Everything passes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a schema after the others, for event types that match the pattern. The name stands in violations; a file's is its path.
    ///
    /// # Errors
    /// Says what is wrong, and where in the schema.
    pub fn with(
        mut self,
        events: impl Into<Pattern>,
        name: impl Into<String>,
        schema: &Value,
    ) -> Result<Self, InvalidSchema> {
        let name = name.into();
        let validator = compile(schema).map_err(|what| InvalidSchema { name: name.clone(), what })?;
        self.0.push(Entry { events: events.into(), name, validator });
        Ok(self)
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks a payload, as JSON text, against the schema of the event type.
    ///
    /// # Errors
    /// Names the schema and the first places that violate it, without values of the payload.
    pub fn check_payload(&self, event_type: &str, payload: &str) -> Result<(), Violation> {
        let Some(entry) = self.0.iter().find(|entry| entry.events.matches(event_type)) else { return Ok(()) };
        let payload: Value = serde_json::from_str(payload).map_err(|error| {
            Violation::new(format_args!("schema {}: the payload cannot be read: {error}", entry.name))
        })?;
        if entry.validator.is_valid(&payload) {
            return Ok(());
        }
        Err(entry.violation(&payload))
    }
}

impl Check for Schemas {
    fn check(&self, event: &Checked<'_>) -> Result<(), Violation> {
        if event.aggregate_type == AGGREGATE_TYPE || event.is_opaque {
            return Ok(());
        }
        self.check_payload(event.event_type, event.payload)
    }
}

impl Entry {
    fn violation(&self, payload: &Value) -> Violation {
        let mut errors = self.validator.iter_errors(payload);
        let mut text = format!("schema {}: ", self.name);
        for (at, error) in errors.by_ref().take(LISTED).enumerate() {
            let separator = if at == 0 { "" } else { "; " };
            // Writing to a string cannot fail.
            let _ = write!(text, "{separator}{}", Told(&error));
        }
        let more = errors.count();
        if more > 0 {
            let _ = write!(text, "; and {more} more");
        }
        Violation::new(text)
    }
}

/// A violation without the value: it may be a secret, or hidden from people by a mask.
struct Told<'a>(&'a ValidationError<'a>);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = path::of_payload(self.0.instance_path().as_str());
        let what = self.0.masked().to_string();
        match what.char_indices().nth(LONGEST) {
            None => write!(f, "{place}: {what}"),
            Some((end, _)) => write!(f, "{place}: {}…", &what[..end]),
        }
    }
}

/// The reason why a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("schema {name}: {what}")]
pub struct InvalidSchema {
    /// The name of the schema; a file's is its path.
    name: String,
    what: String,
}

/// Returns how payloads are validated. `format` is left to the draft: it is not checked since 2019-09.
fn options() -> ValidationOptions<'static> {
    jsonschema::options().offline().with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(BACKTRACKS))
}

fn compile(schema: &Value) -> Result<Validator, String> {
    options().build(schema).map_err(|error| {
        let place = error.instance_path().as_str();
        match error.kind() {
            jsonschema::error::ValidationErrorKind::Referencing(error) => {
                format!("{error}; write a reference to a place in this file, like \"#/$defs/money\"")
            }
            _ if place.is_empty() => error.to_string(),
            _ => format!("#{place}: {error}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schemas() -> Schemas {
        let item =
            json!({ "type": "object", "properties": { "price": { "type": "number" }, "sku": { "minLength": 3 } } });
        let order = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "required": ["id"],
            "properties": { "items": { "type": "array", "items": { "$ref": "#/$defs/item" } }, "card": { "maxLength": 4 } },
            "$defs": { "item": item },
        });
        Schemas::new()
            .with("order.*", "schemas/order.json", &order)
            .unwrap()
            .with("*", "schemas/rest.json", &json!({ "type": "object" }))
            .unwrap()
    }

    fn violation(event_type: &str, payload: &str) -> String {
        schemas().check_payload(event_type, payload).unwrap_err().to_string()
    }

    #[test]
    fn the_first_matching_schema_decides() {
        assert_eq!(schemas().check_payload("order.placed", r#"{"id": 1, "items": [{"price": 1.5}]}"#), Ok(()));
        assert_eq!(schemas().check_payload("invoice.paid", "{}"), Ok(()));
        assert_eq!(
            violation("invoice.paid", "[]"),
            "schema schemas/rest.json: payload: value is not of type \"object\""
        );
        assert_eq!(Schemas::new().check_payload("x", "[]"), Ok(()));
    }

    #[test]
    fn a_violation_names_the_paths_and_no_values() {
        let payload = r#"{"items": [{"price": 1}, {"price": "hunter2", "sku": "x"}], "card": "4111111111111111"}"#;
        let told = violation("order.placed", payload);
        assert!(told.starts_with("schema schemas/order.json: payload"), "{told}");
        assert!(told.contains("payload.items[1].price: value is not of type \"number\""), "{told}");
        assert!(told.contains("; and 1 more"), "{told}");
        assert!(!told.contains("hunter2") && !told.contains("4111"), "{told}");
        let told = violation("order.placed", r#"{"id": 1, "card": "4111111111111111"}"#);
        assert_eq!(told, "schema schemas/order.json: payload.card: value is longer than 4 characters");
    }

    #[test]
    fn recorded_tasks_pass() {
        let task = |kind| schemas().check(&Checked::new(kind, "1", "order.placed", "[]"));
        assert_eq!(task("celery"), Ok(()));
        assert!(task("Order").is_err());
    }

    #[test]
    fn opaque_payloads_pass() {
        let bytes = Checked::new("Order", "1", "order.placed", r#""CCo=""#);
        assert!(schemas().check(&bytes).is_err());
        assert_eq!(schemas().check(&bytes.opaque(true)), Ok(()));
    }

    #[test]
    fn a_broken_schema_says_where() {
        let refusal = |schema| Schemas::new().with("*", "a.json", &schema).unwrap_err().to_string();
        let wrong_type = refusal(json!({ "properties": { "total": { "type": "numbr" } } }));
        assert!(wrong_type.starts_with("schema a.json: #/properties/total/type: "), "{wrong_type}");
        let wrong_pattern = refusal(json!({ "properties": { "total": { "pattern": "(" } } }));
        assert!(wrong_pattern.contains("schema a.json: ") && wrong_pattern.contains("regex"), "{wrong_pattern}");
        let lost = refusal(json!({ "$ref": "#/$defs/money" }));
        assert!(lost.contains("like \"#/$defs/money\""), "{lost}");
        let outside = refusal(json!({ "$ref": "https://schemas.example/order.json" }));
        assert!(outside.contains("write a reference to a place in this file"), "{outside}");
        let file = refusal(json!({ "$ref": "money.json" }));
        assert!(file.contains("write a reference to a place in this file"), "{file}");
    }

    #[test]
    fn formats_are_checked_only_in_older_drafts() {
        let check = |draft: &str| {
            let schema = json!({ "$schema": draft, "format": "date" });
            Schemas::new().with("*", "a.json", &schema).unwrap().check_payload("x", r#""no date""#)
        };
        assert_eq!(check("https://json-schema.org/draft/2020-12/schema"), Ok(()));
        assert_eq!(check("https://json-schema.org/draft/2019-09/schema"), Ok(()));
        assert!(check("http://json-schema.org/draft-07/schema#").is_err());
    }

    #[test]
    fn a_pattern_cannot_keep_the_relay_busy() {
        let schemas = Schemas::new().with("*", "a.json", &json!({ "pattern": "^(?=(a+)+$)(a+)+$" })).unwrap();
        let payload = format!("{:?}", "a".repeat(40) + "b");
        assert!(schemas.check_payload("x", &payload).is_err());
    }

    #[test]
    fn a_payload_that_is_too_deep_is_a_violation() {
        let payload = "[".repeat(500) + &"]".repeat(500);
        assert!(
            violation("x", &payload).contains("schema schemas/rest.json: the payload cannot be read: recursion limit")
        );
    }
}
