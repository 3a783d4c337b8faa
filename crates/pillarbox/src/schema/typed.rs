//! Schemas of Rust types, by schemars.

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use super::{InvalidSchema, Schemas};
use crate::event::EventType;

/// Returns the JSON Schema (draft 2020-12) of an event's payload.
///
/// Write it to a file for the relay and for other languages, and compare it with the committed file in a test.
#[must_use]
pub fn schema_of<T: EventType + JsonSchema>() -> Value {
    SchemaGenerator::default().into_root_schema_for::<T>().to_value()
}

impl Schemas {
    /// Adds the schema of a Rust type, for its event type.
    ///
    /// # Errors
    /// As [`Schemas::with`]: a type can write its schema by hand.
    pub fn of<T: EventType + JsonSchema>(self) -> Result<Self, InvalidSchema> {
        self.with(T::EVENT_TYPE, T::schema_name(), &schema_of::<T>())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Event;

    #[derive(serde::Serialize, schemars::JsonSchema)]
    struct OrderPlaced {
        cents: u64,
        note: Option<String>,
    }

    impl EventType for OrderPlaced {
        const AGGREGATE_TYPE: &'static str = "Order";
        const EVENT_TYPE: &'static str = "order.placed";
    }

    #[test]
    fn a_type_carries_its_event_type_and_its_schema() {
        let schemas = Schemas::new().of::<OrderPlaced>().unwrap();
        let event = Event::of::<OrderPlaced>(42, &OrderPlaced { cents: 1990, note: None });
        event.check(&schemas).unwrap();
        let event = event.prepare().unwrap();
        assert_eq!((&*event.aggregate_type, &*event.event_type), ("Order", "order.placed"));
        let by_hand = Event::new("Order", 42, "order.placed").payload(json!({ "note": null }));
        let refused = by_hand.check(&schemas).unwrap_err().to_string();
        assert_eq!(refused, "schema OrderPlaced: payload: \"cents\" is a required property");
        assert_eq!(schema_of::<OrderPlaced>()["$schema"], "https://json-schema.org/draft/2020-12/schema");
    }
}
