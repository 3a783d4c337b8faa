//! The AsyncAPI 3 document of an outbox: what its relay sends, and where to. Pure: settings in, a document out. It has no secrets:
//! addresses are those that the pages show.
//!
//! Each destination is a server and a channel with the messages that its routes bring. A message is one `[[schemas]]`, or the pattern
//! of a route that has none. Schemas stand in the components, with their references rewritten to there.

use std::collections::BTreeSet;

use pillarbox::{Pattern, Route};
use pillarbox_sinks::{DestinationSettings, discard};
use serde_json::{Map, Value, json};

use self::address::Address;
use crate::config::Settings;

mod address;
mod overlap;
mod payload;

use overlap::overlap;

/// The version of the specification.
const VERSION: &str = "3.0.0";
/// The kinds of destinations whose messages are Celery's own.
const CELERY: &str = pillarbox_sinks::celery::KIND;
const HTTP: &str = "http";
const RECORDED_TASKS: &str = "celery";

/// The title and version of the document.
pub(crate) struct About<'a> {
    pub(crate) title: &'a str,
    pub(crate) version: &'a str,
}

/// A message: an event type or a pattern of types, and the key of its schema.
struct Message {
    key: String,
    events: String,
    schema: Option<String>,
}

/// Returns the document. `schemas` are the contents of the files, in the order of the settings.
pub(crate) fn document(about: &About<'_>, settings: &Settings, schemas: &[Value]) -> Value {
    let mut keys = Keys::default();
    let named: Vec<(Pattern, String)> =
        settings.schemas.iter().map(|schema| (schema.events.clone(), keys.key(schema.events.as_str()))).collect();
    let component = |((_, key), schema): (&(Pattern, String), &Value)| (key.clone(), payload::component(key, schema));
    let bodies: Map<String, Value> = named.iter().zip(schemas).map(component).collect();
    let (mut servers, mut channels, mut operations, mut messages) = (Map::new(), Map::new(), Map::new(), Map::new());
    let mut places = Keys::default();
    let sending = settings.destinations.iter().filter(|destination| destination.kind() != discard::KIND);
    for destination in sending {
        let key = places.key(&destination.name);
        let address = Address::of(destination);
        let sent = messages_to(destination, &settings.routes, &named);
        let reference = |message: &Message| {
            (message.key.clone(), json!({ "$ref": format!("#/components/messages/{key}.{}", message.key) }))
        };
        let mut channel = json!({
            "address": address.channel,
            "title": destination.name,
            "description": description(destination),
            "servers": [{ "$ref": format!("#/servers/{key}") }],
            "messages": sent.iter().map(reference).collect::<Map<_, _>>(),
        });
        if !address.parameters.is_empty() {
            channel["parameters"] = address.parameters.clone().into();
        }
        if !sent.is_empty() {
            operations.insert(format!("send-{key}"), operation(destination, &key, &sent));
        }
        for message in &sent {
            messages.insert(format!("{key}.{}", message.key), payload::message(message, destination));
        }
        servers.insert(key.clone(), address.server());
        channels.insert(key, channel);
    }
    json!({
        "asyncapi": VERSION,
        "info": {
            "title": about.title,
            "version": about.version,
            "description": "What the relay of this outbox sends. Each message is delivered at least once; receivers deduplicate by its id.",
        },
        "defaultContentType": "application/json",
        "servers": servers,
        "channels": channels,
        "operations": operations,
        "components": {
            "schemas": bodies,
            "messages": messages,
            "messageTraits": { "standardWebhooks": payload::standard_webhooks() },
        },
    })
}

fn description(destination: &DestinationSettings) -> String {
    match destination.kind() {
        CELERY => {
            "A Celery broker. Its messages are tasks in Celery's own format, and are not described here.".to_owned()
        }
        kind => format!("The destination {:?} of kind {kind}.", destination.name),
    }
}

fn operation(destination: &DestinationSettings, key: &str, sent: &[Message]) -> Value {
    let message = |message: &Message| json!({ "$ref": format!("#/channels/{key}/messages/{}", message.key) });
    let mut operation = json!({
        "action": "send",
        "channel": { "$ref": format!("#/channels/{key}") },
        "messages": sent.iter().map(message).collect::<Vec<_>>(),
    });
    if destination.kind() == HTTP {
        operation["bindings"] = json!({ "http": { "method": "POST", "bindingVersion": "0.3.0" } });
    }
    operation
}

/// Returns the messages that the routes bring to a destination.
fn messages_to(destination: &DestinationSettings, routes: &[Route], schemas: &[(Pattern, String)]) -> Vec<Message> {
    if destination.kind() == CELERY {
        return Vec::new();
    }
    let mut keys = Keys::default();
    let mut messages: Vec<Message> = Vec::new();
    let brings = |route: &&Route| route.to.contains(&destination.name) && route.aggregates.as_str() != RECORDED_TASKS;
    for route in routes.iter().filter(brings) {
        let events = route.events.as_str();
        let matching = schemas.iter().filter(|(pattern, _)| overlap(pattern.as_str(), events));
        // An event has the first schema that matches: behind one for all events, there are no others.
        let mut has_all = false;
        for (pattern, schema) in matching {
            if has_all {
                break;
            }
            has_all = pattern.as_str() == "*" || pattern.as_str() == events || (!events.contains('*'));
            if !messages.iter().any(|message| message.schema.as_ref() == Some(schema)) {
                let events = pattern.as_str().to_owned();
                messages.push(Message { key: keys.key(&events), events, schema: Some(schema.clone()) });
            }
        }
        if !has_all && !messages.iter().any(|message| message.events == events) {
            messages.push(Message { key: keys.key(events), events: events.to_owned(), schema: None });
        }
    }
    messages
}

/// Makes keys of components, which allow few characters. Two names never get the same key.
#[derive(Default)]
struct Keys(BTreeSet<String>);

impl Keys {
    fn key(&mut self, name: &str) -> String {
        let allowed = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' };
        let plain: String = name.replace('*', "any").chars().map(allowed).collect();
        let plain = if plain.is_empty() { "_".to_owned() } else { plain };
        let mut key = plain.clone();
        let mut number = 2;
        while !self.0.insert(key.clone()) {
            key = format!("{plain}-{number}");
            number += 1;
        }
        key
    }
}

#[cfg(test)]
mod tests;
