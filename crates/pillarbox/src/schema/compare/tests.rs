//! The pairs in tests/schemas, and random pairs.

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn found(old: &Value, new: &Value, mode: Mode, declared_only: bool) -> Vec<Difference> {
    compare(old, new, mode, declared_only).unwrap().differences
}

/// Compares what was found with the answer that a pair's file expects.
fn check(name: &str, found: &[Difference], expected: &Value) {
    let told: Vec<String> = found.iter().map(|one| format!("{}: {}", one.path, one.what)).collect();
    let told = format!("{name}: {told:?}");
    match expected {
        Value::String(answer) => match answer.as_str() {
            "compatible" => assert!(found.is_empty(), "{told}"),
            "incompatible" => assert!(!found.is_empty(), "{told}"),
            "undecided" => assert!(!found.is_empty() && found.iter().all(|one| !one.certain), "{told}"),
            other => panic!("{name} expects {other}"),
        },
        expected => {
            let paths: Vec<&str> = found.iter().map(|one| one.path.as_str()).collect();
            assert_eq!(json!(paths), expected["paths"], "{told}");
            assert_eq!(found.iter().all(|one| one.certain), expected["certain"], "{told}");
        }
    }
}

#[test]
fn the_pairs_have_the_answers_that_their_files_expect() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schemas");
    let mut count = 0;
    for file in std::fs::read_dir(directory).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let pair: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let (old, new) = (&pair["old"], &pair["new"]);
        for (key, mode) in [("backward", Mode::Backward), ("forward", Mode::Forward)] {
            check(&format!("{name} {key}"), &found(old, new, mode, false), &pair[key]);
            let declared = &pair["declared_only"][key];
            if !declared.is_null() {
                check(&format!("{name} {key}, declared only"), &found(old, new, mode, true), declared);
            }
        }
        let both = found(old, new, Mode::Full, false).len();
        assert_eq!(both, found(old, new, Mode::Backward, false).len() + found(old, new, Mode::Forward, false).len());
        count += 1;
    }
    assert!(count >= 10, "{count} pairs");
}

#[test]
fn a_schema_that_is_none_is_refused() {
    let refused = compare(&json!({ "type": "numbr" }), &json!({}), Mode::Backward, false).unwrap_err().to_string();
    assert!(refused.starts_with("schema OLD: #/type: "), "{refused}");
}

#[test]
fn what_is_not_compared_is_undecided() {
    let id = |of: &str| json!({ "$schema": of, "type": "object" });
    let cases = [
        (id("http://json-schema.org/draft-07/schema#"), json!({ "type": "object" }), "#/$schema"),
        (json!({}), json!({ "properties": { "a": { "$id": "a.json", "type": "string" } } }), "#"),
        (json!({ "type": "string" }), json!({ "type": "string", "format": "date" }), "#/format"),
        (json!({ "type": "array" }), json!({ "type": "array", "contains": { "type": "string" } }), "#/contains"),
    ];
    for (old, new, path) in cases {
        let found = found(&old, &new, Mode::Backward, false);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].path, path, "{found:?}");
    }
}

#[test]
fn a_reference_that_leads_nowhere_but_to_itself_proves_nothing() {
    let (old, new) = (json!({ "type": "string" }), json!({ "anyOf": [{ "$ref": "#" }, { "type": "integer" }] }));
    assert!(!found(&old, &new, Mode::Backward, false).is_empty());
}

#[test]
fn with_declared_only_a_property_of_an_alternative_is_declared() {
    let old = json!({ "anyOf": [{ "properties": { "note": { "type": "integer" } } }, { "type": "null" }] });
    let new = json!({ "properties": { "note": { "type": "string" } } });
    assert!(!found(&old, &new, Mode::Backward, true).is_empty());
}

#[test]
fn a_value_is_allowed_only_if_it_is_with_formats_and_without() {
    let plain = json!({ "const": "x" });
    let cases = [
        json!({ "format": "date" }),
        json!({ "not": { "format": "date" } }),
        json!({ "oneOf": [{ "type": "integer" }, { "format": "date" }] }),
    ];
    for new in cases {
        let found = found(&plain, &new, Mode::Backward, false);
        assert!(!found.is_empty() && found.iter().all(|one| !one.certain), "{new}: {found:?}");
    }
    assert!(found(&plain, &json!({ "format": "regex" }), Mode::Backward, false).is_empty());
}

#[test]
fn a_list_has_only_values_of_the_types_beside_it() {
    let of = |types: Value, values: Value| json!({ "type": types, "enum": values });
    let compatible = |old: &Value, new: Value| found(old, &new, Mode::Backward, false).is_empty();
    assert!(compatible(&of(json!("integer"), json!([1, 1.5, "a"])), json!({ "maximum": 1, "type": "number" })));
    // A validator takes 2.0 for an integer, too.
    assert!(!compatible(&of(json!("integer"), json!([1, 2.0])), json!({ "maximum": 1 })));
    assert!(!compatible(&of(json!("number"), json!([1, 1.5])), json!({ "maximum": 1 })));
    assert!(compatible(&of(json!(["object", "null"]), json!([{}, []])), json!({ "type": "object" })));
}

/// Schemas of small objects, with the keywords that are compared.
fn schemas() -> impl Strategy<Value = Value> {
    let number = || -2..4_i64;
    let size = || 0..3_u64;
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!({})),
        prop::sample::subsequence(vec!["null", "boolean", "integer", "number", "string", "array", "object"], 1..4)
            .prop_map(|types| json!({ "type": types })),
        (number(), prop::bool::ANY).prop_map(|(limit, low)| json!({ if low { "minimum" } else { "maximum" }: limit })),
        (number(), prop::bool::ANY)
            .prop_map(|(limit, low)| json!({ "type": "integer", if low { "exclusiveMinimum" } else { "exclusiveMaximum" }: limit })),
        (1..4_u64).prop_map(|step| json!({ "type": "number", "multipleOf": step })),
        (size(), prop::bool::ANY)
            .prop_map(|(limit, low)| json!({ "type": "string", if low { "minLength" } else { "maxLength" }: limit })),
        prop::sample::subsequence(vec![json!(1), json!("a"), json!(null), json!(2), json!("b"), json!(true), json!("")], 1..4)
            .prop_map(|values| json!({ "enum": values })),
        prop::sample::select(vec![json!(1), json!("a"), json!(1.0), json!(false)]).prop_map(|value| json!({ "const": value })),
        Just(json!({ "pattern": "^a" })),
        // Some of the strings below have the format, and some do not.
        prop::sample::select(vec!["json-pointer", "regex", "date"]).prop_map(|format| json!({ "format": format })),
        Just(json!({ "$ref": "#/$defs/one" })),
    ];
    leaf.prop_recursive(3, 24, 4, move |inner| {
        let name = || prop::sample::select(vec!["a", "b", "c"]);
        let properties = prop::collection::btree_map(name(), inner.clone(), 0..3);
        let patterns = prop::option::weighted(0.2, (prop::sample::select(vec!["^a", "b"]), inner.clone()));
        let object = (
            properties,
            prop::collection::btree_set(name(), 0..3),
            prop::option::of(prop_oneof![Just(json!(false)), inner.clone()]),
            patterns,
            (prop::option::weighted(0.2, size()), prop::option::weighted(0.2, size()), prop::bool::ANY),
        )
            .prop_map(|(properties, required, additional, patterns, (least, most, typed))| {
                let mut schema = json!({ "properties": properties, "required": required });
                let all = schema.as_object_mut().unwrap();
                all.extend(typed.then(|| ("type".to_owned(), json!("object"))));
                all.extend(additional.map(|additional| ("additionalProperties".to_owned(), additional)));
                all.extend(patterns.map(|(name, one)| ("patternProperties".to_owned(), json!({ name: one }))));
                all.extend(least.map(|least| ("minProperties".to_owned(), least.into())));
                all.extend(most.map(|most| ("maxProperties".to_owned(), most.into())));
                schema
            });
        let array =
            (prop::option::of(inner.clone()), prop::collection::vec(inner.clone(), 0..3), size(), prop::bool::ANY)
                .prop_map(|(items, first, limit, low)| {
                    let mut schema = json!({ "type": "array", if low { "minItems" } else { "maxItems" }: limit });
                    let all = schema.as_object_mut().unwrap();
                    all.extend(items.map(|items| ("items".to_owned(), items)));
                    if !first.is_empty() {
                        all.insert("prefixItems".to_owned(), first.into());
                    }
                    if low {
                        all.insert("uniqueItems".to_owned(), true.into());
                    }
                    schema
                });
        let several =
            (prop::sample::select(vec!["anyOf", "oneOf", "allOf"]), prop::collection::vec(inner.clone(), 1..4))
                .prop_map(|(key, parts)| json!({ key: parts }));
        let other = (prop::sample::select(vec!["not", "propertyNames", "contains"]), inner.clone())
            .prop_map(|(key, part)| json!({ key: part }));
        let condition = (inner.clone(), inner.clone()).prop_map(|(when, then)| json!({ "if": when, "then": then }));
        prop_oneof![3 => object, 2 => array, 3 => several, 1 => other, 1 => condition]
    })
}

/// Schemas of text, with formats in places where they exclude values.
fn texts() -> impl Strategy<Value = (Value, Value)> {
    let text = || prop::sample::select(vec!["", "a", "b", "ab", "(", "2026-01-31"]);
    let leaf = move || {
        prop_oneof![
            2 => text().prop_map(|text| json!({ "const": text })),
            2 => prop::collection::btree_set(text(), 1..4).prop_map(|texts| json!({ "enum": texts })),
            3 => prop::sample::select(vec!["json-pointer", "regex", "date"]).prop_map(|format| json!({ "format": format })),
            1 => (0..3_u64).prop_map(|limit| json!({ "type": "string", "maxLength": limit })),
            1 => Just(json!({ "type": "string" })),
        ]
    };
    let both = move |key: &'static str| (leaf(), leaf()).prop_map(move |(one, other)| json!({ key: [one, other] }));
    let new = prop_oneof![both("oneOf"), both("anyOf"), both("allOf"), leaf().prop_map(|one| json!({ "not": one }))];
    (prop_oneof![3 => leaf(), 1 => both("allOf")], new)
}

/// Small values that the schemas are about.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-3..5_i64).prop_map(Value::from),
        prop::sample::select(vec![0.5, 1.0, 1.5, -0.5]).prop_map(Value::from),
        prop::sample::select(vec!["", "a", "b", "ab", "abc", "(", "2026-01-31"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let name = prop::sample::select(vec!["a", "b", "c", "ab", "d"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..4).prop_map(|object| json!(object)),
        ]
    })
}

/// Returns the schema with a definition that the random ones refer to, if it is an object.
fn with_definition(schema: Value, definition: &Value) -> Value {
    match schema {
        Value::Object(mut object) => {
            object.insert("$defs".to_owned(), json!({ "one": definition }));
            Value::Object(object)
        }
        other => other,
    }
}

/// A schema and a changed one: what is compatible by chance is rarely of interest.
fn pairs() -> impl Strategy<Value = (Value, Value)> {
    let changed = (schemas(), schemas(), prop::sample::select(vec!["anyOf", "allOf", "oneOf", "swap", "same"]))
        .prop_map(|(one, other, how)| match how {
            "swap" => (one, other),
            "same" => (one.clone(), one),
            how => {
                let both = json!({ how: [one.clone(), other] });
                if how == "allOf" { (both, one) } else { (one, both) }
            }
        });
    let definition =
        || schemas().prop_filter("it does not refer to itself at once", |schema| !schema.to_string().contains("$ref"));
    (changed, definition(), definition(), any::<bool>()).prop_map(|((old, new), one, other, shared)| {
        let new_one = if shared { &one } else { &other };
        (with_definition(old, &one), with_definition(new, new_one))
    })
}

proptest! {
    #[test]
    fn whatever_is_compatible_is_so_for_each_value((old, new) in pairs(), values in prop::collection::vec(values(), 40)) {
        holds_for(&old, &new, &values)?;
    }

    #[test]
    fn whatever_is_compatible_is_so_with_formats_and_without((old, new) in texts(), values in prop::collection::vec(values(), 40)) {
        holds_for(&old, &new, &values)?;
    }
}

/// Fails if the schemas are said to be compatible, and one of the values says otherwise.
fn holds_for(old: &Value, new: &Value, values: &[Value]) -> Result<(), TestCaseError> {
    let Ok(comparison) = compare(old, new, Mode::Backward, false) else { return Ok(()) };
    if comparison.is_compatible() {
        for formats in [false, true] {
            let (old_one, new_one) = (compile_for_tests(old, formats), compile_for_tests(new, formats));
            for value in values {
                let holds = !old_one.is_valid(value) || new_one.is_valid(value);
                prop_assert!(holds, "{value}, formats {formats}\nold {old}\nnew {new}");
            }
        }
    }
    Ok(())
}

fn compile_for_tests(schema: &Value, formats: bool) -> jsonschema::Validator {
    jsonschema::options().offline().should_validate_formats(formats).build(schema).unwrap()
}
