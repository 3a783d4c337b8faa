//! `published.json` has rows of django-celery-outbox's producer, each with the message that its own relay published for it. A
//! test of the Python package keeps it up to date.

use std::collections::BTreeMap;

use chrono::TimeZone;
use serde_json::{Value, json};

use super::*;

fn now() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 3, 1, 12, 0, 0).unwrap() + TimeDelta::milliseconds(250)
}

const ROW: AdoptedRow<'_> = AdoptedRow {
    task_id: "a1",
    task_name: "orders.process",
    args: "[42]",
    kwargs: "{}",
    options: r#"{"ignore_result": false}"#,
    sentry_trace_id: None,
    sentry_baggage: None,
    structlog_context: None,
};

fn value(fields: &Fields<'_>) -> BTreeMap<String, Value> {
    fields.iter().map(|(name, value)| (name.to_owned(), serde_json::from_str(value.get()).unwrap())).collect()
}

/// Returns the message of a row as the sinks see it.
fn message(payload: &RawValue, task: &str, id: &str) -> Recorded<'static> {
    let mut message = Recorded::read(payload).expect("a Celery message").expect("a whole one").into_owned();
    message.complete(task, id).unwrap();
    message
}

fn refusal(row: AdoptedRow<'_>) -> String {
    let payload = row.payload(now());
    let why = Recorded::read(&payload).expect("a Celery message").unwrap_err().to_string();
    why.strip_prefix("the row cannot be sent as a Celery task: ").expect("it says what it is about").to_owned()
}

#[test]
fn a_row_becomes_what_its_own_relay_publishes() {
    let cases: Vec<Value> = serde_json::from_str(include_str!("published.json")).unwrap();
    assert!(cases.len() > 25);
    for case in cases {
        let row = &case["row"];
        let column = |name: &str| row[name].to_string();
        let (args, kwargs, options) = (column("args"), column("kwargs"), column("options"));
        let adopted = AdoptedRow {
            task_id: row["task_id"].as_str().unwrap(),
            task_name: row["task_name"].as_str().unwrap(),
            args: &args,
            kwargs: &kwargs,
            options: &options,
            sentry_trace_id: row["sentry_trace_id"].as_str(),
            sentry_baggage: row["sentry_baggage"].as_str(),
            structlog_context: row["structlog_context"].as_str(),
        };
        let message = message(&adopted.payload(now()), adopted.task_name, adopted.task_id);
        compare(&message, &case["message"], &options);
    }
}

fn compare(message: &Recorded<'_>, published: &Value, options: &str) {
    let mut body: Value = serde_json::from_slice(message.body.as_bytes()).unwrap();
    unwrap_headers(&mut body);
    assert_eq!(body, published["body"], "{options}");

    let mut headers = value(&message.headers);
    let nested = headers.remove("headers").unwrap_or(json!({}));
    for name in ["sentry-trace", "baggage"] {
        assert_eq!(nested.get(name), headers.get(name), "where Sentry looks for it");
    }
    for shown in ["origin", "argsrepr", "kwargsrepr"] {
        headers.remove(shown).expect("every message has them");
    }
    let mut expected: BTreeMap<String, Value> = serde_json::from_value(published["headers"].clone()).unwrap();
    if expected["ignore_result"].is_null() {
        expected.insert("ignore_result".to_owned(), json!(false));
    }
    assert_eq!(headers, expected, "{options}");

    let mut properties = value(&message.properties);
    properties.remove("reply_to");
    let mut expected: BTreeMap<String, Value> = serde_json::from_value(published["properties"].clone()).unwrap();
    if !headers["expires"].is_null() {
        expected.remove("expiration");
    }
    assert_eq!(properties, expected, "{options}");
    assert_eq!(message.content_type, published["content_type"].as_str().unwrap());
    assert_eq!(message.content_encoding, published["content_encoding"].as_str().unwrap());
}

/// The relay of django-celery-outbox rebuilds signatures, and writes the header of a nested chord as a list of tasks where
/// Celery has a group. Pillarbox passes on Celery's form; workers accept both.
fn unwrap_headers(value: &mut Value) {
    if let Some(header) = value.pointer_mut("/kwargs/header")
        && header["task"] == "celery.group"
    {
        *header = header["kwargs"]["tasks"].take();
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(unwrap_headers),
        Value::Object(items) => items.values_mut().for_each(unwrap_headers),
        _ => {}
    }
}

#[test]
fn numbers_keep_their_digits() {
    let row = AdoptedRow { args: "[0.1000, 123456789012345678901234567890]", kwargs: r#"{"k": 1e5}"#, ..ROW };
    let payload = row.payload(now());
    let message = Recorded::read(&payload).unwrap().unwrap();
    let body = r#"[[0.1000, 123456789012345678901234567890], {"k": 1e5}, {"callbacks": null, "#;
    assert!(std::str::from_utf8(message.body.as_bytes()).unwrap().starts_with(body));
}

#[test]
fn where_to_is_what_the_options_say() {
    let options = r#"{"queue": "q", "exchange": "e", "routing_key": "r", "route_name": "n"}"#;
    let payload = AdoptedRow { options, ..ROW }.payload(now());
    let message = Recorded::read(&payload).unwrap().unwrap();
    let names = [message.queue, message.exchange, message.routing_key, message.route_name];
    assert_eq!(names.map(Option::unwrap), ["q", "e", "r", "n"]);
    let payload = AdoptedRow { options: r#"{"exchange": ""}"#, ..ROW }.payload(now());
    assert_eq!(Recorded::read(&payload).unwrap().unwrap().exchange, None);
}

#[test]
fn context_goes_where_workers_look_for_it() {
    let row = AdoptedRow {
        options: r#"{"headers": {"mine": [1], "baggage": "old"}}"#,
        sentry_trace_id: Some("trace-span-1"),
        sentry_baggage: Some("a=b"),
        structlog_context: Some(r#"{"request_id":"r1","task_id":"parent"}"#),
        ..ROW
    };
    let headers = value(&message(&row.payload(now()), "t", "a1").headers);
    assert_eq!((&headers["sentry-trace"], &headers["baggage"]), (&json!("trace-span-1"), &json!("a=b")));
    assert_eq!(headers["headers"], json!({"sentry-trace": "trace-span-1", "baggage": "a=b"}));
    assert_eq!(headers["__django_structlog__"], json!({"request_id": "r1", "parent_task_id": "parent"}));
    assert_eq!(headers["mine"], json!([1]));
    for unreadable in ["", "[1]", "{", "{}"] {
        let row = AdoptedRow { structlog_context: Some(unreadable), sentry_trace_id: Some(""), ..ROW };
        let headers = value(&message(&row.payload(now()), "t", "a1").headers);
        assert!(!headers.contains_key("__django_structlog__") && !headers.contains_key("headers"));
    }
}

#[test]
fn what_cannot_be_a_message_says_why_and_does_not_show_it() {
    let refused = |options| refusal(AdoptedRow { options, ..ROW });
    assert_eq!(refusal(AdoptedRow { args: r#"{"a": 1}"#, ..ROW }), "args is an object, it must be a list");
    assert_eq!(refusal(AdoptedRow { kwargs: "[]", ..ROW }), "kwargs is a list, it must be an object");
    assert_eq!(refused("[]"), "options is a list, it must be an object");
    assert_eq!(refused(r#"{"eta": "soon"}"#), "the option \"eta\" is not an ISO 8601 time");
    assert_eq!(refused(r#"{"eta": 5}"#), "the option \"eta\" is not an ISO 8601 time");
    let expires = "the option \"expires\" is not an ISO 8601 time or a number of seconds";
    assert_eq!(refused(r#"{"expires": "never"}"#), expires);
    assert_eq!(refused(r#"{"expires": true}"#), expires);
    assert_eq!(refused(r#"{"expires": 1e300}"#), "the option \"expires\" is out of range");
    assert_eq!(refused(r#"{"queue": 3}"#), "the option \"queue\" is a number, it must be text");
    assert_eq!(refused(r#"{"chain": "x"}"#), "the option \"chain\" is text, it must be a list");
    assert_eq!(refused(r#"{"chord": []}"#), "the option \"chord\" is a list, it must be an object");
    assert_eq!(
        refused(r#"{"stamped_headers": ["a"]}"#),
        "the option \"a\", which \"stamped_headers\" lists, is \
        missing"
    );
    assert_eq!(refused(r#"{"stamped_headers": 1}"#), "the option \"stamped_headers\" is not a list of names");
    assert_eq!(refused(r#"{"expiration": "x"}"#), "the option \"expiration\" is not a number of seconds");
}

#[test]
fn null_is_as_good_as_nothing_and_a_lone_link_is_a_list() {
    let row = AdoptedRow {
        args: "null",
        kwargs: "null",
        options: r#"{"eta": null, "queue": null, "root_id": "", "link": {"task": "b"}, "countdown": 5}"#,
        ..ROW
    };
    let message = message(&row.payload(now()), "t", "a1");
    let body: Value = serde_json::from_slice(message.body.as_bytes()).unwrap();
    assert_eq!((&body[0], &body[1], &body[2]["callbacks"]), (&json!([]), &json!({}), &json!([{"task": "b"}])));
    let headers = value(&message.headers);
    assert_eq!((&headers["eta"], &headers["root_id"]), (&json!("2026-03-01T12:00:05.250000+00:00"), &json!("a1")));
    assert!(message.queue.is_none() && !message.properties.contains("countdown"));
}

#[test]
fn times_are_read_as_python_reads_them() {
    for text in ["2026-01-02", "2026-01-02T03:04", "2026-01-02 03:04:05", "2026-01-02T03:04:05.678901+02:00"] {
        assert!(is_time(text), "{text}");
    }
    for text in ["", "soon", "2026-13-01", "03:04:05", "1767323045"] {
        assert!(!is_time(text), "{text}");
    }
    assert_eq!(iso(now() - TimeDelta::milliseconds(250)), "2026-03-01T12:00:00+00:00");
}
