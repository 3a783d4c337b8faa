//! What the sink writes is what Celery itself writes: Celery publishes, what arrived is recorded, sent by the sink, and
//! must arrive again the same.

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use lapin::message::BasicGetMessage;
use lapin::types::{AMQPValue, FieldTable};
use pillarbox::StoredEvent;
use pillarbox_testkit::rabbitmq;
use redis::AsyncCommands as _;
use serde_json::{Map, Value, json};
use tokio::process::Command;

use crate::fixture::{Rabbit, header, send, settings, shared_redis, sink, text, unique};

/// How many tasks the script publishes.
const TASKS: usize = 9;

async fn publish_with_celery(broker: &str, queue: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = std::env::var_os("PILLARBOX_PYTHON").map_or_else(|| root.join("../../.venv/bin/python"), Into::into);
    let script = root.join("tests/celery/publish.py");
    let output = Command::new(&python)
        .arg(script)
        .args([broker, queue])
        .output()
        .await
        .unwrap_or_else(|error| panic!("{}: {error}; run `make setup`", python.display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A table as a producer would record it.
fn recorded_table(table: &FieldTable) -> Value {
    let value = |(name, value): (&lapin::types::ShortString, &AMQPValue)| (name.to_string(), recorded_value(value));
    Value::Object(table.inner().iter().map(value).collect())
}

fn recorded_value(value: &AMQPValue) -> Value {
    match value {
        AMQPValue::Void => Value::Null,
        AMQPValue::Boolean(value) => json!(value),
        AMQPValue::LongInt(value) => json!(value),
        AMQPValue::LongLongInt(value) => json!(value),
        AMQPValue::Double(value) => json!(value),
        AMQPValue::LongString(value) => json!(std::str::from_utf8(value.as_bytes()).unwrap()),
        AMQPValue::FieldArray(values) => values.as_slice().iter().map(recorded_value).collect(),
        AMQPValue::FieldTable(table) => recorded_table(table),
        other => panic!("Celery wrote {other:?}"),
    }
}

fn body(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(_) => json!({ "base64": BASE64_STANDARD.encode(bytes) }),
    }
}

fn recorded(message: &BasicGetMessage, queue: &str) -> StoredEvent {
    let properties = &message.properties;
    let mut recorded = Map::new();
    for (name, value) in [
        ("correlation_id", properties.correlation_id()),
        ("reply_to", properties.reply_to()),
        ("message_id", properties.message_id()),
    ] {
        if let Some(value) = value {
            recorded.insert(name.to_owned(), json!(value.as_str()));
        }
    }
    recorded.insert("priority".to_owned(), json!(properties.priority()));
    recorded.insert("delivery_mode".to_owned(), json!(properties.delivery_mode()));
    let payload = json!({
        "celery": 1,
        "body": body(&message.data),
        "content_type": properties.content_type().as_ref().unwrap().as_str(),
        "content_encoding": properties.content_encoding().as_ref().unwrap().as_str(),
        "headers": recorded_table(properties.headers().as_ref().unwrap()),
        "properties": recorded,
        "exchange": "",
        "routing_key": queue,
    });
    StoredEvent::task_for_tests("orders.process", &payload.to_string())
}

/// Milliseconds that count down while the test runs.
fn is_about_the_same(sooner: &str, later: &str) {
    let (sooner, later): (i64, i64) = (sooner.parse().unwrap(), later.parse().unwrap());
    assert!(later <= sooner && sooner - later < 30_000, "{sooner} and then {later}");
}

#[tokio::test]
async fn on_rabbitmq() {
    let rabbit = Rabbit::shared().await;
    let (celery, ours) = (unique("celery"), unique("ours"));
    rabbit.queue(&celery, &[]).await;
    rabbit.queue(&ours, &[]).await;
    publish_with_celery(&rabbitmq::shared_url(), &celery).await;
    let mut originals = Vec::new();
    while let Some(message) = rabbit.next(&celery).await {
        originals.push(message);
    }
    // The one that has expired is gone before anybody can look.
    assert_eq!(originals.len(), TASKS - 1);
    let events = originals.iter().map(|message| recorded(message, &ours)).collect();
    assert!(send(&sink(settings(rabbitmq::shared_url())), events).await.iter().all(Result::is_ok));
    for original in originals {
        let mut copy = rabbit.next(&ours).await.unwrap();
        assert_eq!(copy.data, original.data);
        let (before, after) = (original.properties.expiration().clone(), copy.properties.expiration().clone());
        assert_eq!(before.is_some(), after.is_some());
        if let (Some(before), Some(after)) = (before, after) {
            is_about_the_same(before.as_str(), after.as_str());
            copy.delivery.properties = copy.properties.clone().with_expiration(before);
        }
        assert_eq!(copy.properties, original.properties);
        assert_eq!(header(&copy, "lang"), Some(&text("py")));
    }
}

#[tokio::test]
async fn on_redis() {
    let mut redis = shared_redis().await;
    let (celery, ours) = (unique("celery"), unique("ours"));
    let broker = pillarbox_testkit::redis::shared_url();
    publish_with_celery(&broker, &celery).await;
    let mut originals: Vec<Value> = Vec::new();
    for key in [celery.clone(), format!("{celery}\x06\x163")] {
        while let Some(envelope) = redis.rpop::<_, Option<String>>(&key, None).await.unwrap() {
            originals.push(serde_json::from_str(&envelope).unwrap());
        }
    }
    assert_eq!(originals.len(), TASKS);
    let events = originals.iter().map(|envelope| recorded_envelope(envelope, &ours)).collect();
    assert!(send(&sink(settings(&broker)), events).await.iter().all(Result::is_ok));
    for mut original in originals {
        let key = if original["properties"]["priority"] == 5 { format!("{ours}\x06\x163") } else { ours.clone() };
        let envelope: String = redis.rpop(&key, None).await.unwrap();
        let mut copy: Value = serde_json::from_str(&envelope).unwrap();
        assert_ne!(copy["properties"]["delivery_tag"], original["properties"]["delivery_tag"]);
        for envelope in [&mut copy, &mut original] {
            envelope["properties"]["delivery_tag"] = json!("another each time");
        }
        original["properties"]["delivery_info"]["routing_key"] = json!(ours);
        if let (Some(before), Some(after)) =
            (original["properties"]["expiration"].as_str(), copy["properties"]["expiration"].as_str())
        {
            is_about_the_same(before, after);
            copy["properties"]["expiration"] = json!(before);
        }
        assert_eq!(copy, original);
    }
}

fn recorded_envelope(envelope: &Value, queue: &str) -> StoredEvent {
    let mut properties = envelope["properties"].as_object().unwrap().clone();
    for own in ["delivery_info", "delivery_tag", "body_encoding", "expiration"] {
        properties.remove(own);
    }
    let payload = json!({
        "celery": 1,
        "body": body(&BASE64_STANDARD.decode(envelope["body"].as_str().unwrap()).unwrap()),
        "content_type": envelope["content-type"],
        "content_encoding": envelope["content-encoding"],
        "headers": envelope["headers"],
        "properties": properties,
        "exchange": "",
        "routing_key": queue,
    });
    StoredEvent::task_for_tests("orders.process", &payload.to_string())
}
