//! `[[schemas]]`, `pillarbox schemas` and `pillarbox asyncapi`.

use std::path::Path;
use std::process::Command;

use pillarbox_testkit::receiver::Receiver;
use serde_json::{Value, json};

use crate::delivering::to_receiver;
use crate::home::{DISCARD, Home};

const ORDER: &str = r##"{
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "https://schemas.example/order.json",
    "title": "Order",
    "type": "object",
    "required": ["items"],
    "properties": { "items": { "type": "array", "items": { "$ref": "#/$defs/item" } } },
    "$defs": { "item": { "type": "object", "properties": { "price": { "type": "number" }, "card": { "maxLength": 4 } } } }
}"##;
const SCHEMAS: &str = "[[schemas]]\nevents = \"order.*\"\nfile = \"order.json\"\n";

#[tokio::test(flavor = "multi_thread")]
async fn what_violates_its_schema_is_a_dead_letter_that_names_the_path_and_no_value() {
    let receiver = Receiver::start().await;
    let home = to_receiver(&receiver, SCHEMAS);
    home.write("order.json", ORDER);
    let fine = home.emit("1", &[r#"{"items": [{"price": 1.50}]}"#]);
    let wrong = home.emit("2", &[r#"{"items": [{"price": "hunter2", "card": "4111111111111111"}]}"#]);
    let swept = home.run(&["sweep"]).succeeded();
    assert_eq!((home.state(&fine), home.state(&wrong)), ("delivered".to_owned(), "failed".to_owned()));
    assert_eq!(receiver.count(), 1);
    let shown = home.json(&["events", "show", &wrong]);
    let error = shown["error_message"].as_str().unwrap();
    assert!(error.starts_with("schema order.json: payload.items[0]."), "{error}");
    assert!(error.contains("payload.items[0].price: value is not of type \"number\""), "{error}");
    assert!(error.contains("payload.items[0].card: value is longer than 4 characters"), "{error}");
    assert!(!error.contains("hunter2") && !error.contains("4111"), "{error}");
    let attempt = &shown["failed_attempts"][0];
    assert_eq!((&attempt["destination"], &attempt["error"]), (&"schema check".into(), &error.into()));
    assert!(!swept.err.contains("hunter2") && !swept.err.contains("4111"), "{swept:?}");
    let letters = home.run(&["dead-letters"]).succeeded().out;
    assert!(letters.contains("schema check"), "{letters}");

    // The file is mended, and the dead letter tried again.
    home.write("order.json", "true");
    home.run(&["events", "retry", &wrong]).succeeded();
    home.run(&["sweep"]).succeeded();
    assert_eq!(home.state(&wrong), "delivered");
}

#[test]
fn check_config_reads_every_schema_and_says_where_it_is_wrong() {
    let home = Home::with_config(&format!("{DISCARD}{SCHEMAS}"));
    let refused = |expected: &str| {
        for command in ["check-config", "asyncapi"] {
            let done = home.run(&[command]);
            assert_eq!(done.code, 2, "{done:?}");
            assert!(done.err.contains(expected), "{done:?}");
        }
    };
    refused("schema order.json: the file cannot be read: ");
    // A host that only emits does not need it.
    home.emit("1", &[]);
    refused("check schemas.file");
    home.write("order.json", "{");
    refused("schema order.json: the file is not JSON: ");
    home.write("order.json", r#"{"properties": {"total": {"type": "numbr"}}}"#);
    refused("schema order.json: #/properties/total/type: ");
    let done = home.run(&["sweep"]);
    assert!(done.code == 2 && done.err.contains("#/properties/total/type"), "{done:?}");
    home.write("order.json", ORDER);
    let done = home.run(&["check-config"]).succeeded();
    assert!(done.out.contains("[[schemas]]\nevents = \"order.*\"\nfile = \"order.json\"\n"), "{done:?}");
    home.write("pillarbox.toml", "[[schemas]]\nevents = \"order.*\"\n");
    let done = home.run(&["check-config"]);
    assert!(done.code == 2 && done.err.contains("schemas[0].file is missing; write the path"), "{done:?}");
}

#[test]
fn two_versions_of_a_schema_are_compared() {
    let home = Home::new();
    home.write("old.json", r#"{"type": "object", "properties": {"id": {"type": "integer"}}}"#);
    home.write("new.json", r#"{"type": "object", "required": ["id"], "properties": {"id": {"type": "number"}}}"#);
    let done = home.run(&["schemas", "check", "old.json", "new.json"]);
    let expected = "incompatible: 1 difference\nbackward  #/required: NEW requires \"id\", and OLD does not\n";
    assert_eq!((done.code, done.out.as_str()), (1, expected));
    let done = home.run(&["schemas", "check", "old.json", "new.json", "--mode", "full", "--json"]);
    assert_eq!(done.code, 1);
    let answer = done.json();
    assert_eq!((&answer["compatible"], &answer["mode"]), (&false.into(), &"full".into()));
    let forward = json!({ "direction": "forward", "path": "#/properties/id/type", "what": "NEW allows fractions, and OLD does not",
                          "certain": true });
    assert_eq!(answer["differences"][1], forward, "{answer}");
    home.write(
        "new.json",
        r#"{"type": "object", "properties": {"id": {"type": "integer"}, "note": {"type": "string"}}}"#,
    );
    let check = ["schemas", "check", "old.json", "new.json", "--mode", "full"];
    let done = home.run(&check);
    assert!(done.code == 1 && done.out.contains("does not declare \"note\" and allows any value there"), "{done:?}");
    let done = home.run(&[&check[..], &["--declared-only"]].concat()).succeeded();
    assert_eq!(done.out, "compatible: consumers with OLD and with NEW can read what either version wrote\n");
    home.write("old.json", r#"{"type": "string", "pattern": "^[A-Z]{3}$"}"#);
    home.write("new.json", r#"{"type": "string", "pattern": "^[A-Z]{3,5}$"}"#);
    let done = home.run(&["schemas", "check", "old.json", "new.json"]);
    assert!(done.code == 1 && done.out.contains("cannot tell: "), "{done:?}");
    for broken in ["none.json", "broken.json"] {
        home.write("broken.json", r#"{"type": "numbr"}"#);
        let done = home.run(&["schemas", "check", "old.json", broken]);
        assert!(done.code == 2 && done.err.starts_with("error: "), "{done:?}");
    }
}

const EVERYWHERE: &str = r#"
    [destinations.runner]
    kind = "http"
    url = "https://runner.example:8443/events/hunter2hunter2hunter2?token=hunter2"
    secrets = ["whsec_hunter2hunter2hunter2hunter2hunt"]
    bearer = "env:TOKEN"
    [destinations.events]
    kind = "http"
    url = "https://events.example/"
    format = "cloudevents"
    [destinations.nats]
    kind = "nats"
    url = "nats://u:hunter2@one.example:4222,nats://two.example:4222"
    subject = "orders.{aggregate_id}.{headers.tenant}"
    [destinations.rabbit]
    kind = "amqp"
    url = "env:AMQP_URL"
    routing_key = "{event_type}"
    [destinations.streams]
    kind = "redis"
    url = "redis://:hunter2@redis.example:6379/0"
    stream = "orders"
    [destinations.celery]
    kind = "celery"
    broker = "amqp://u:hunter2@rabbit.example//"
    [destinations.nowhere]
    kind = "discard"
    [[routes]]
    events = "order.*"
    to = ["runner", "events", "nats", "rabbit"]
    [[routes]]
    events = "*"
    aggregates = "celery"
    to = ["celery"]
    [[routes]]
    events = "*"
    to = ["streams", "nowhere"]
    [[schemas]]
    events = "order.*"
    file = "order.json"
    [[schemas]]
    events = "invoice.paid"
    file = "invoice.json"
"#;

#[test]
fn the_asyncapi_document_is_valid_and_has_no_secrets() {
    let home = Home::with_config(EVERYWHERE);
    home.write("order.json", ORDER);
    home.write(
        "invoice.json",
        r##"{"type": "object", "properties": {"next": {"$ref": "#"}, "kind": {"const": {"$ref": "#"}}}}"##,
    );
    let printed = home.run(&["asyncapi", "--title", "Shop", "--document-version", "2.1.0"]).succeeded().out;
    assert!(!printed.contains("hunter2"), "{printed}");
    let document: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(document["info"]["title"], "Shop");
    assert_eq!(document["servers"]["runner"], json!({ "host": "runner.example:8443", "protocol": "https" }));
    assert_eq!(document["servers"]["rabbit"]["host"], "hidden.invalid");
    assert_eq!(document["channels"]["nats"]["address"], "orders.{aggregate_id}.{headers-tenant}");
    assert!(document["channels"]["nowhere"].is_null() && document["operations"]["send-celery"].is_null());
    let schemas = &document["components"]["schemas"];
    let item = "#/components/schemas/order.any/$defs/item";
    assert_eq!(schemas["order.any"]["properties"]["items"]["items"]["$ref"], item);
    assert_eq!(schemas["invoice.paid"]["properties"]["next"]["$ref"], "#/components/schemas/invoice.paid");
    assert_eq!(schemas["invoice.paid"]["properties"]["kind"]["const"]["$ref"], "#");
    let messages = |channel: &str| {
        let messages = document["channels"][channel]["messages"].as_object().unwrap();
        let mut keys: Vec<String> = messages.keys().cloned().collect();
        keys.sort();
        keys
    };
    assert_eq!(messages("runner"), ["order.any"]);
    assert_eq!(messages("streams"), ["any", "invoice.paid", "order.any"]);
    let envelope = &document["components"]["messages"]["events.order.any"];
    assert_eq!(envelope["payload"]["properties"]["data"]["$ref"], "#/components/schemas/order.any");
    assert_eq!(envelope["contentType"], "application/cloudevents+json");
    home.write("asyncapi.json", &printed);
    validate(&home.path("asyncapi.json"));
    // Without any configuration it is valid, too.
    let empty = Home::new();
    empty.write("asyncapi.json", &empty.run(&["asyncapi"]).succeeded().out);
    validate(&empty.path("asyncapi.json"));
}

/// Asks the official validator.
fn validate(document: &Path) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/asyncapi.mjs");
    let done = Command::new("node").arg(script).arg(document).output().expect("Node is installed");
    let told = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{told}; if the package is missing, run scripts/setup");
}
