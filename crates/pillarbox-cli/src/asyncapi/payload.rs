//! Messages and their schemas. Schemas are copied into the components, so their references are rewritten to there.

use pillarbox_sinks::DestinationSettings;
use serde_json::{Map, Value, json};

use super::{HTTP, Message};

/// Keywords whose values are data, not schemas.
const DATA: [&str; 4] = ["const", "default", "enum", "examples"];

/// Returns a schema as a component.
pub(super) fn component(key: &str, schema: &Value) -> Value {
    match rewritten(schema, &format!("#/components/schemas/{key}")) {
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

fn rewritten(schema: &Value, root: &str) -> Value {
    match schema {
        Value::Array(items) => items.iter().map(|item| rewritten(item, root)).collect(),
        Value::Object(object) => {
            let entry = |(key, value): (&String, &Value)| {
                let value = match (key.as_str(), value) {
                    ("$ref", Value::String(target)) => {
                        target.strip_prefix('#').map_or(value.clone(), |to| format!("{root}{to}").into())
                    }
                    (key, value) if DATA.contains(&key) => value.clone(),
                    (_, value) => rewritten(value, root),
                };
                (key.clone(), value)
            };
            Value::Object(object.iter().map(entry).collect())
        }
        other => other.clone(),
    }
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
    json!({ "type": "object", "required": ["specversion", "id", "source", "type", "data"], "properties": properties })
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
