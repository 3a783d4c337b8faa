//! For any payload, the masked payload is JSON without the secret, and nothing panics.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// A text that occurs nowhere else.
const SECRET: &str = "s3cr3t-4111";

fn paths() -> Mask {
    Mask::parse(&["$.card", "$..token", "$.items[*].price", "$['a b'][0:2]", "$.list[?@.k > 1]"]).unwrap()
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let name = prop_oneof![
            proptest::sample::select(vec!["card", "items", "price", "a b", "list", "k"]).prop_map(str::to_owned),
            "\\PC{0,6}",
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(name, inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

/// Puts the secret under `token` into some object of the value.
fn hide(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(hide);
            map.insert("token".to_owned(), json!(SECRET));
        }
        Value::Array(items) => items.iter_mut().for_each(hide),
        _ => {}
    }
}

proptest! {
    #[test]
    fn a_masked_payload_is_json_without_the_secret(mut payload in any_json(), text in "\\PC{0,16}") {
        hide(&mut payload);
        let raw = RawValue::from_string(payload.to_string()).unwrap();
        let masked = paths().apply(&raw);
        prop_assert!(serde_json::from_str::<Value>(masked.payload.get()).is_ok());
        prop_assert!(!masked.payload.get().contains(SECRET), "{}", masked.payload);
        let mut quoted = if raw.get().contains(SECRET) { format!("{text}{SECRET}{text}") } else { text };
        masked.hidden.scrub(&mut quoted);
        prop_assert!(!quoted.contains(SECRET), "{quoted}");
    }

    #[test]
    fn any_text_is_scanned(text in r#"[\[\]{}",:\\u0-9eE.+\-\PC]{0,64}"#) {
        let _ = (scan::leaves(&text), scan::repeats_a_name(&text));
    }
}
