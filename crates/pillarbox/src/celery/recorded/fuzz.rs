//! Any payload is a message, an error, or something else. None makes a relay panic.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Generates any JSON that is not deeply nested.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        "\\PC{0,12}".prop_map(Value::from),
        Just(json!("application/json")),
        Just(json!("2026-02-25T12:34:56")),
        Just(json!({ "$bytes": "gAX/" })),
        Just(json!({ "$time": "+262143-12-31T23:59:59" })),
        Just(json!({ "base64": "gAX/" })),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(names(), inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

/// Generates names that have a meaning in a message, and others.
fn names() -> impl Strategy<Value = String> {
    let known = ["task", "id", "eta", "expires", "timelimit", "retries", "argsrepr", "priority", "queue", "headers"];
    prop_oneof![proptest::sample::select(known.to_vec()).prop_map(str::to_owned), "\\PC{0,8}"]
}

/// Generates a payload with keys of the stored form and arbitrary values.
fn payload() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        9 => proptest::sample::select(KEYS.to_vec()).prop_map(str::to_owned),
        1 => names(),
    ];
    let keys = proptest::collection::btree_map(key, any_json(), 0..8);
    (keys, any_json(), any::<u8>()).prop_map(|(mut keys, headers, whole)| {
        keys.insert("celery".to_owned(), if whole % 16 == 0 { headers.clone() } else { json!(1) });
        if whole % 2 == 0 {
            keys.insert("body".to_owned(), json!("[[], {}, {}]"));
            keys.insert("headers".to_owned(), json!({ "task": headers, "id": "1" }));
        }
        json!(keys)
    })
}

proptest! {
    #[test]
    fn any_payload_is_read_or_refused(payload in payload()) {
        let raw = RawValue::from_string(payload.to_string()).unwrap();
        let read = Recorded::read(&raw).expect("it has the key celery");
        let unknown = payload.as_object().unwrap().keys().any(|key| key != "refused" && !KEYS.contains(&key.as_str()));
        prop_assert!(!(unknown && read.is_ok()), "an unknown key was read");
        let Ok(mut message) = read else { return Ok(()) };
        let again = serde_json::to_string(&message).unwrap();
        let again = RawValue::from_string(again).unwrap();
        let same = Recorded::read(&again).unwrap().unwrap();
        prop_assert_eq!(serde_json::to_string(&same).unwrap(), again.get());
        let _ = message.complete("orders.process", "t1");
    }

    #[test]
    fn any_json_is_something(json in any_json()) {
        let raw = RawValue::from_string(json.to_string()).unwrap();
        let _ = Recorded::read(&raw);
    }
}
