//! The two messages of the comparison: a Celery task with all its headers, and an event with few.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};

pub const BODY: &[u8] = br#"[[42], {"order": "0198a7f6-7d0c-7c7e-b7a4-0c4b6c1e5a10", "total": 1999}, {"callbacks": null, "errbacks": null, "chain": null, "chord": null}]"#;

pub fn headers(shape: &str) -> Vec<(&'static str, Option<&'static str>)> {
    match shape {
        "celery" => vec![
            ("lang", Some("py")),
            ("task", Some("orders.process")),
            ("id", Some("0198a7f6-7d0c-7c7e-b7a4-0c4b6c1e5a10")),
            ("shadow", None),
            ("eta", None),
            ("expires", None),
            ("group", None),
            ("group_index", None),
            ("retries", Some("0")),
            ("timelimit", None),
            ("root_id", Some("0198a7f6-7d0c-7c7e-b7a4-0c4b6c1e5a10")),
            ("parent_id", None),
            ("argsrepr", Some("(42,)")),
            ("kwargsrepr", Some("{}")),
            ("origin", Some("gen1234@host")),
            ("ignore_result", Some("false")),
        ],
        "event" => vec![
            ("pillarbox-event-id", Some("0198a7f6-7d0c-7c7e-b7a4-0c4b6c1e5a10")),
            ("pillarbox-event-type", Some("order.placed")),
            ("pillarbox-aggregate-type", Some("Order")),
            ("pillarbox-aggregate-id", Some("42")),
        ],
        "plain" => vec![],
        other => panic!("no message of shape {other}"),
    }
}

pub fn properties(shape: &str) -> BasicProperties {
    let mut table = FieldTable::default();
    for (name, value) in headers(shape) {
        let value = value.map_or(AMQPValue::Void, |text| AMQPValue::LongString(text.into()));
        table.insert(name.into(), value);
    }
    BasicProperties::default()
        .with_content_type("application/json".into())
        .with_content_encoding("utf-8".into())
        .with_headers(table)
        .with_delivery_mode(2)
        .with_correlation_id("0198a7f6-7d0c-7c7e-b7a4-0c4b6c1e5a10".into())
}
