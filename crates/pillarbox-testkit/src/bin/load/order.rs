//! An order as a shop would emit it, and its JSON Schema: what the measurement of the schema check sends.

use pillarbox::schema::Schemas;
use serde_json::{Value, json};

/// Returns an order of this many bytes of JSON. Its note makes up for what the other properties leave.
pub(crate) fn order(bytes: usize) -> Value {
    let mut order = json!({
        "id": "ord_000000000042",
        "status": "paid",
        "currency": "EUR",
        "total_cents": 12_980,
        "placed_at": "2026-01-31T12:00:00Z",
        "customer": { "id": 7, "name": "Ada Lovelace", "email": "ada@shop.example" },
        "address": { "street": "Main Street 1", "zip": "10115", "city": "Berlin", "country": "DE" },
        "items": [
            { "sku": "TEA-0001", "quantity": 2, "price_cents": 2490 },
            { "sku": "CUP-0042", "quantity": 1, "price_cents": 8000 },
        ],
        "gift": false,
        "note": "",
    });
    let rest = bytes.saturating_sub(order.to_string().len());
    order["note"] = "x".repeat(rest).into();
    order
}

/// Returns the schema of orders.
pub(crate) fn schemas() -> Schemas {
    let cents = json!({ "type": "integer", "minimum": 0 });
    let text = json!({ "type": "string", "minLength": 1, "maxLength": 100 });
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "required": ["id", "status", "currency", "total_cents", "placed_at", "customer", "address", "items"],
        "properties": {
            "id": { "type": "string", "pattern": "^ord_[0-9]{12}$" },
            "status": { "enum": ["placed", "paid", "packed", "shipped", "delivered", "cancelled"] },
            "currency": { "type": "string", "pattern": "^[A-Z]{3}$" },
            "total_cents": cents,
            "placed_at": { "type": "string", "format": "date-time" },
            "customer": {
                "type": "object",
                "required": ["id", "email"],
                "properties": {
                    "id": { "type": "integer", "minimum": 1 },
                    "name": text,
                    "email": { "type": "string", "pattern": "^[^@ ]+@[^@ ]+$" },
                },
                "additionalProperties": false,
            },
            "address": {
                "type": "object",
                "required": ["street", "city", "country"],
                "properties": {
                    "street": text,
                    "zip": text,
                    "city": text,
                    "country": { "type": "string", "pattern": "^[A-Z]{2}$" },
                },
                "additionalProperties": false,
            },
            "items": { "type": "array", "minItems": 1, "items": { "$ref": "#/$defs/item" } },
            "gift": { "type": "boolean" },
            "note": { "type": "string", "maxLength": 10_000 },
        },
        "additionalProperties": false,
        "$defs": {
            "item": {
                "type": "object",
                "required": ["sku", "quantity", "price_cents"],
                "properties": {
                    "sku": { "type": "string", "pattern": "^[A-Z]+-[0-9]{4}$" },
                    "quantity": { "type": "integer", "minimum": 1, "maximum": 1000 },
                    "price_cents": cents,
                },
                "additionalProperties": false,
            },
        },
    });
    Schemas::new().with("order.*", "order.json", &schema).expect("it is a schema")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_its_size_and_passes() {
        let text = order(490).to_string();
        assert_eq!(text.len(), 490);
        assert_eq!(schemas().check_payload("order.placed", &text), Ok(()));
        assert!(schemas().check_payload("order.placed", &text.replace("TEA-0001", "TEA-1")).is_err());
    }
}
