//! Messages and their schemas. Schemas are copied into the components, so their references are rewritten to there.

use pillarbox_sinks::DestinationSettings;
use serde_json::{Map, Value, json};

use super::{HTTP, Message};

/// Keywords whose values are data, not schemas.
const DATA: [&str; 4] = ["const", "default", "enum", "examples"];
/// Keywords whose values are schemas by name. A name may be that of a keyword.
const NAMED: [&str; 5] = ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

/// Returns a schema as a component.
pub(super) fn component(key: &str, schema: &Value) -> Value {
    let mut places = Places { root: format!("#/components/schemas/{key}"), anchors: Map::new() };
    places.find(schema, "");
    match places.rewritten(schema) {
        Value::Object(mut object) => {
            // References would be read as relative to it.
            object.remove("$id");
            object.remove("$schema");
            object.into()
        }
        // A payload of AsyncAPI is described by an object.
        Value::Bool(false) => json!({ "not": {} }),
        _ => json!({}),
    }
}

/// Where the schemas of a file are in the document.
struct Places {
    root: String,
    /// The pointer of each anchor.
    anchors: Map<String, Value>,
}

impl Places {
    /// Notes the anchors of a schema at this pointer.
    fn find(&mut self, schema: &Value, pointer: &str) {
        match schema {
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(index, item)| self.find(item, &format!("{pointer}/{index}")));
            }
            Value::Object(object) => {
                if let Some(Value::String(anchor)) = object.get("$anchor") {
                    self.anchors.insert(anchor.clone(), pointer.into());
                }
                for (key, value) in object.iter().filter(|(key, _)| !DATA.contains(&key.as_str())) {
                    let pointer = format!("{pointer}/{}", escaped(key));
                    match value {
                        Value::Object(schemas) if NAMED.contains(&key.as_str()) => {
                            schemas
                                .iter()
                                .for_each(|(name, schema)| self.find(schema, &format!("{pointer}/{}", escaped(name))));
                        }
                        value => self.find(value, &pointer),
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns a schema with references into the document.
    fn rewritten(&self, schema: &Value) -> Value {
        match schema {
            Value::Array(items) => items.iter().map(|item| self.rewritten(item)).collect(),
            Value::Object(object) => {
                // The document has one place for an anchor, and refers to it by its pointer.
                let kept = object.iter().filter(|(key, _)| *key != "$anchor");
                Value::Object(kept.map(|(key, value)| (key.clone(), self.keyword(key, value))).collect())
            }
            other => other.clone(),
        }
    }

    fn keyword(&self, key: &str, value: &Value) -> Value {
        match value {
            Value::String(target) if key == "$ref" => self.reference(target).into(),
            value if DATA.contains(&key) => value.clone(),
            Value::Object(schemas) if NAMED.contains(&key) => {
                Value::Object(schemas.iter().map(|(name, schema)| (name.clone(), self.rewritten(schema))).collect())
            }
            value => self.rewritten(value),
        }
    }

    fn reference(&self, target: &str) -> String {
        let Some(to) = target.strip_prefix('#') else { return target.to_owned() };
        let pointer = self.anchors.get(to).and_then(Value::as_str).unwrap_or(to);
        format!("{}{pointer}", self.root)
    }
}

/// Returns a name as a part of a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Returns a message as a destination gets it.
pub(super) fn message(message: &Message, destination: &DestinationSettings) -> Value {
    let data = message.schema.as_ref().map(|key| json!({ "$ref": format!("#/components/schemas/{key}") }));
    let keys = destination.shown();
    let format =
        keys.iter().find(|(key, _)| *key == "format").and_then(|(_, value)| value.as_str()).unwrap_or_default();
    let (content, payload) = match format {
        "cloudevents" => ("application/cloudevents+json", envelope(data.unwrap_or_else(|| json!({})))),
        _ => ("application/json", data.unwrap_or_else(|| json!({}))),
    };
    let mut value = json!({
        "name": message.events,
        "title": message.events,
        "summary": if message.events.contains('*') {
            format!("Events whose type matches {}", message.events)
        } else {
            format!("Events of type {}", message.events)
        },
        "contentType": content,
        "payload": payload,
    });
    if destination.kind() == HTTP {
        value["traits"] = json!([{ "$ref": "#/components/messageTraits/standardWebhooks" }]);
    }
    value
}

/// Returns the schema of a CloudEvents envelope.
fn envelope(data: Value) -> Value {
    let text = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), json!({ "type": "string" }))).collect();
    let mut properties: Map<String, Value> =
        text(&["id", "source", "type", "subject", "time", "datacontenttype", "aggregatetype", "aggregateid"]);
    properties.insert("specversion".to_owned(), json!({ "const": "1.0" }));
    properties.insert("data".to_owned(), data);
    // An opaque payload is in data_base64.
    properties.insert("data_base64".to_owned(), json!({ "type": "string" }));
    json!({ "type": "object", "required": ["specversion", "id", "source", "type"], "properties": properties })
}

/// Returns the headers of Standard Webhooks.
pub(super) fn standard_webhooks() -> Value {
    json!({
        "headers": {
            "type": "object",
            "required": ["webhook-id", "webhook-timestamp"],
            "properties": {
                "webhook-id": { "type": "string", "description": "The event's id, the same for each delivery" },
                "webhook-timestamp": { "type": "string", "description": "Seconds since 1970, of this delivery" },
                "webhook-signature": { "type": "string", "description": "Signatures of Standard Webhooks, separated by spaces, if the destination has secrets" },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_of_a_schema_lead_to_its_place_in_the_document() {
        let schema = json!({
            "$id": "https://shop.example/order.json",
            "properties": {
                "default": { "$ref": "#/$defs/money" },
                "a/b": { "$anchor": "slash", "const": { "$ref": "data" } },
                "tax": { "$ref": "#slash" },
                "total": { "$ref": "#" },
            },
            "$defs": { "money": { "$anchor": "money" }, "sum": { "allOf": [{ "$ref": "#money" }] } },
        });
        let expected = json!({
            "properties": {
                "default": { "$ref": "#/components/schemas/order/$defs/money" },
                "a/b": { "const": { "$ref": "data" } },
                "tax": { "$ref": "#/components/schemas/order/properties/a~1b" },
                "total": { "$ref": "#/components/schemas/order" },
            },
            "$defs": { "money": {}, "sum": { "allOf": [{ "$ref": "#/components/schemas/order/$defs/money" }] } },
        });
        assert_eq!(component("order", &schema), expected);
    }
}
