//! Opaque payloads and filters on payloads: emitted, routed, sent and shown by the program.

use pillarbox_testkit::receiver::{Answer, Receiver};
use serde_json::json;

use crate::delivering::to_receiver;
use crate::home::Home;

const BYTES: &[u8] = b"\x08\x2a\x00\xff\xfe<b>\r\n";

/// Large orders go to `audit`, which is paused, and other orders to `mail`.
const FILTERED: &str = r#"
[destinations.audit]
kind = "discard"
paused = true
[destinations.mail]
kind = "discard"
[[routes]]
events = "order.*"
where = "$[?@.total > 100 && @.currency == 'EUR']"
to = ["audit", "mail"]
[[routes]]
events = "order.*"
aggregates = "Order"
to = ["mail"]
"#;

fn emit_bytes(home: &Home, aggregate_id: &str) -> String {
    std::fs::write(home.path("order.bin"), BYTES).unwrap();
    let file = ["--payload-file", "order.bin", "--content-type", "application/x-protobuf"];
    home.emit(aggregate_id, &file)
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_are_sent_as_they_are_and_shown_in_hexadecimal() {
    let receiver = Receiver::start().await;
    let home = to_receiver(&receiver, "secrets = [\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"]\n");
    let id = emit_bytes(&home, "1");
    home.run(&["sweep"]).succeeded();
    assert_eq!(home.state(&id), "delivered");
    let got = &receiver.received()[0];
    assert_eq!(got.body, BYTES);
    assert_eq!(got.headers["content-type"], "application/x-protobuf");
    assert!(!got.headers.contains_key("pillarbox-content-type"));
    assert!(got.headers.contains_key("webhook-signature"));

    let dump = "00000000  08 2a 00 ff fe 3c 62 3e  0d 0a                    |.*...<b>..|";
    let shown = home.json(&["events", "show", &id]);
    assert_eq!(shown["payload"], json!(null));
    assert_eq!(shown["opaque_payload"]["content_type"], "application/x-protobuf");
    assert_eq!((&shown["opaque_payload"]["size"], &shown["opaque_payload"]["hex"]), (&json!(10), &json!(dump)));
    let text = home.run(&["events", "show", &id]).succeeded().out;
    assert!(text.contains("application/x-protobuf, 10 bytes") && text.contains(dump), "{text}");

    home.write("pillarbox.toml", "[admin]\nmask = [\"$.card\"]\n");
    let masked = home.json(&["events", "show", &id]);
    assert_eq!((&masked["opaque_payload"]["size"], &masked["opaque_payload"]["hex"]), (&json!(10), &json!(null)));
    assert!(!masked.to_string().contains("CCoA"), "{masked}");
}

/// `outbox_emit` and a plain INSERT do not check what they write.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_marked_and_holds_no_bytes_is_a_dead_letter_that_says_so() {
    let receiver = Receiver::start().await;
    receiver.answer_with(|_| Answer::ok());
    let home = to_receiver(&receiver, "");
    let id = emit_bytes(&home, "1");
    home.spoil_payload(&id).await;
    home.run(&["sweep"]).succeeded();
    let shown = home.json(&["events", "show", &id]);
    assert_eq!(shown["state"], "failed");
    let error = shown["error_message"].as_str().unwrap();
    assert!(error.contains("its payload is not base64 in a JSON string"), "{error}");
    assert!(shown["opaque_payload"]["problem"].as_str().unwrap().contains("not base64"), "{shown}");
    assert_eq!(receiver.count(), 0);
}

#[test]
fn bytes_that_could_never_be_sent_are_refused() {
    let home = Home::with_config(FILTERED);
    home.write("order.bin", "bytes");
    let emit = |more: &[&str]| home.run(&[&["emit", "Order", "1", "order.placed"], more].concat());
    let refused = emit(&["--payload-file", "order.bin", "--content-type", "protobuf"]);
    assert!(refused.code == 1 && refused.err.contains("\"protobuf\", which is not a content type"), "{refused:?}");
    assert_eq!(emit(&["--content-type", "a/b"]).code, 2);
    assert_eq!(emit(&["{}", "--payload-file", "order.bin"]).code, 2);
    let refused = emit(&["--payload-file", "order.bin"]);
    assert!(refused.code == 2 && refused.err.contains("the payload is not JSON"), "{refused:?}");
    let refused = emit(&["--payload-file", "missing.json"]);
    assert!(refused.err.contains("missing.json cannot be read"), "{refused:?}");
    home.write("order.json", "{\"total\": 1.10}\n");
    let id = home.emit("2", &["--payload-file", "order.json"]);
    assert_eq!(home.json(&["events", "show", &id])["payload"].to_string(), r#"{"total":1.1}"#);
}

#[test]
fn route_tells_where_an_event_would_go_and_why() {
    let home = Home::with_config(FILTERED);
    let large = ["route", "--event-type", "order.placed", "--aggregate-type", "Order", "--payload"];
    let large = [&large[..], &[r#"{"total": 120, "currency": "EUR"}"#]].concat();
    let told = home.json(&large);
    assert_eq!(
        told["destinations"],
        json!([
            { "name": "audit", "kind": "discard", "paused": true },
            { "name": "mail", "kind": "discard", "paused": false }
        ])
    );
    assert_eq!((&told["routed"], &told["unrouted"], &told["opaque"]), (&json!(true), &json!(null), &json!(false)));
    assert_eq!(told["routes"][0]["where"], "$[?@.total > 100 && @.currency == 'EUR']");
    let results = |told: &serde_json::Value| -> Vec<String> {
        told["routes"].as_array().unwrap().iter().map(|route| route["result"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(results(&told), ["matches", "not_reached"]);
    let text = home.run(&large).succeeded().out;
    assert!(
        text.ends_with("order.placed goes to audit (discard, paused by the configuration) and mail (discard)\n"),
        "{text}"
    );

    home.write("event.json", r#"{"event_type": "order.placed", "aggregate_type": "Order", "payload": {"total": 20}}"#);
    let told = home.json(&["route", "event.json"]);
    assert_eq!(results(&told), ["where_selects_nothing", "matches"]);
    let unrouted = r#"{"event_type": "order.placed", "aggregate_type": "Basket", "payload": {"total": "120"}}"#;
    let done = home.run_with_input(&["route", "-"], unrouted);
    assert_eq!(done.code, 1, "{done:?}");
    assert!(done.out.contains("no: where selects nothing in the payload"), "{done:?}");
    assert!(done.out.contains("no: another aggregate type"), "{done:?}");
    assert!(done.out.ends_with("order.placed is unrouted: it is parked until a route matches\n"), "{done:?}");

    for wrong in ["{}", "[]", "not JSON", r#"{"event_type": 1, "aggregate_type": "Order"}"#] {
        let done = home.run_with_input(&["route", "-"], wrong);
        assert!(done.code == 2 && done.err.contains("is not an event"), "{done:?}");
    }
    assert_eq!(home.run(&["route"]).code, 2);
    assert_eq!(home.run(&["route", "--event-type", "a"]).code, 2);
}

/// What `events show` prints is an event, too; an opaque one meets no condition.
#[test]
fn route_takes_an_event_as_it_is_shown() {
    let home = Home::with_config(FILTERED);
    let id = emit_bytes(&home, "1");
    let shown = home.json(&["events", "show", &id]).to_string();
    let done = home.run_with_input(&["route", "-", "--json"], &shown);
    assert_eq!((done.code, &done.json()["opaque"]), (0, &json!(true)));
    assert_eq!(done.json()["destinations"][0]["name"], "mail");
    let text = home.run_with_input(&["route", "-"], &shown).succeeded().out;
    assert!(text.contains("the payload is opaque, so where selects nothing in it"), "{text}");
}

#[test]
fn a_sweep_routes_by_the_payload_and_check_config_shows_the_filter() {
    let home = Home::with_config(FILTERED);
    let large = home.emit("1", &[r#"{"total": 120, "currency": "EUR"}"#]);
    let small = home.emit("2", &[r#"{"total": 20, "currency": "EUR"}"#]);
    home.run(&["sweep"]).succeeded();
    assert_eq!(home.state(&small), "delivered");
    let waits = home.json(&["events", "show", &large]);
    assert_eq!((&waits["state"], &waits["parked_on"]), (&json!("parked"), &json!("audit")));
    let shown = home.run(&["check-config"]).succeeded().out;
    assert!(shown.contains("where = \"$[?@.total > 100 && @.currency == 'EUR']\""), "{shown}");

    home.write("pillarbox.toml", &FILTERED.replace("$[?", "$[?("));
    let refused = home.run(&["check-config"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("routes[0].where is \"$[?(@.total"), "{refused:?}");
    home.write("pillarbox.toml", &FILTERED.replace("$[?@.total > 100 && @.currency == 'EUR']", "$.total"));
    let refused = home.run(&["check-config"]);
    assert!(refused.err.contains("$ is an array that holds the payload"), "{refused:?}");
}
