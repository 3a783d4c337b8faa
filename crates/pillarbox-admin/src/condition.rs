//! Conditions of routes as JSON paths (RFC 9535): `$[?@.total > 100]`. The masks of payloads are JSON paths too, and share the checks.
//! Pure.
//!
//! A filter of RFC 9535 selects from the children of a value. So the path is evaluated on an array whose only element is the
//! payload: `$[?@.total > 100]` asks whether the payload's `total` is over 100. The condition holds if the path selects anything.

use std::fmt;

use pillarbox::Condition;
use serde_json::Value;
use serde_json_path::JsonPath;

use crate::mask::{pattern, syntax};

const ADVICE: &str = "write it like \"$[?@.total > 100]\", where @ is the payload";

/// Reads the condition of a route: a JSON path whose `@` is the payload. `source` is what a person wrote.
///
/// ```
/// let large = pillarbox_admin::condition("$[?@.total > 100 && @.currency == 'EUR']").unwrap();
/// assert!(large.holds(&serde_json::json!({ "total": 120, "currency": "EUR" })));
/// assert!(!large.holds(&serde_json::json!({ "total": 20, "currency": "EUR" })));
/// ```
///
/// # Errors
/// Says what is wrong with the path, and where. A path that could select nothing is refused, too.
pub fn condition(source: &str) -> Result<Condition, ConditionError> {
    let refused =
        |what: &str| ConditionError(format!("{source:?}, which is not a condition on the payload: {what}; {ADVICE}"));
    let path = JsonPath::parse(source).map_err(|error| refused(&syntax(source, &error)))?;
    let selects_nothing =
        |what: &str| ConditionError(format!("{source:?}, which would select nothing: {what}; {ADVICE}"));
    if let Some(what) = pattern::problem(source) {
        return Err(selects_nothing(&what));
    }
    if begins_with_a_name(source) {
        return Err(selects_nothing("$ is an array that holds the payload, and not the payload"));
    }
    let holds = move |payload: &Value| !path.query(&Value::Array(vec![payload.clone()])).is_empty();
    Ok(Condition::new(source, holds))
}

/// Returns whether the first step of a valid path is a name: `$.total`, `$['total']`.
fn begins_with_a_name(path: &str) -> bool {
    let rest = path.strip_prefix('$').unwrap_or(path).trim_start();
    if let Some(name) = rest.strip_prefix('.') {
        return !name.starts_with(['.', '*']);
    }
    let only = rest.strip_prefix('[').map(str::trim_start).filter(|first| first.starts_with(['"', '\'']));
    only.is_some_and(|names| !names.contains(['?', '*', ',']))
}

/// A condition that cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub struct ConditionError(String);

impl std::error::Error for ConditionError {}

impl fmt::Display for ConditionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn holds(path: &str, payload: &Value) -> bool {
        condition(path).unwrap_or_else(|error| panic!("{error}")).holds(payload)
    }

    #[test]
    fn the_payload_itself_is_asked() {
        let order = json!({
            "total": 120, "text": "120", "currency": "EUR", "none": null, "gift": false,
            "customer": { "address": { "country": "DE" } },
            "items": [{ "sku": "A-1", "price": 5 }, { "sku": "B-2", "price": 115.5 }]
        });
        for path in [
            "$[?@.total > 100]",
            "$[?@.total >= 120 && @.currency == 'EUR']",
            "$[?@.total > 500 || @.currency == \"EUR\"]",
            "$[?!(@.total < 100)]",
            "$[?@.customer.address.country == 'DE']",
            "$[?@['customer']['address']['country'] != 'FR']",
            "$[?match(@.currency, 'E.R')]",
            "$[?search(@.items[1].sku, '^B')]",
            "$[?length(@.items) == 2]",
            "$[?count(@.items[?@.price > 100]) == 1]",
            "$[?@.items[?@.price > 100]]",
            "$[0].items[?@.price > 100]",
            "$..[?@.price > 100]",
            "$[?@.none == null]",
            "$[?@.gift == false]",
            "$[?@.gift]",
            "$[?@.missing != 'x']",
            "$",
            "$[*]",
        ] {
            assert!(holds(path, &order), "{path}");
        }
        for path in [
            "$[?@.total > 120]",
            "$[?@.text > 100]",
            "$[?@.total == '120']",
            "$[?@.total > 100 && @.currency == 'USD']",
            "$[?@.missing]",
            "$[?@.missing > 1]",
            "$[?@.missing == null]",
            "$[?match(@.currency, 'E')]",
            "$[?match(@.total, '1.*')]",
            "$[?@.customer.address.zip]",
            "$[?@.items[?@.price > 1000]]",
            "$[1]",
        ] {
            assert!(!holds(path, &order), "{path}");
        }
    }

    #[test]
    fn a_payload_of_any_kind_can_be_asked() {
        assert!(holds("$[?@ == 'ping']", &json!("ping")));
        assert!(holds("$[?@ > 1]", &json!(2)));
        assert!(holds("$[?@[0] == 1]", &json!([1, 2])));
        assert!(holds("$[?@ == null]", &Value::Null));
        for payload in [json!("total"), json!(7), json!([120]), json!({}), Value::Null] {
            assert!(!holds("$[?@.total > 100]", &payload), "{payload}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_the_place() {
        let refusal = |path: &str| condition(path).unwrap_err().to_string();
        assert!(refusal("@.total > 100").contains("it does not begin with $; write it like \"$[?@.total > 100]\""));
        assert!(refusal("$[?@.total > ]").starts_with("\"$[?@.total > ]\", which is not a condition on the payload: "));
        assert!(refusal("$[?match(@.kind, 'a[')]").contains("\"a[\" is not a regular expression"));
        for path in ["$.total", "$ .total", "$['total']", "$[ \"total\" ].x", "$.total[?@ > 1]"] {
            let refused = refusal(path);
            assert!(refused.contains("$ is an array that holds the payload"), "{path}: {refused}");
        }
    }
}
