//! Kafka: against tansu, a server that speaks its protocol, and against the mock cluster of librdkafka for errors that no
//! server makes on demand.

mod injected;
mod security;

use std::collections::BTreeSet;
use std::sync::Arc;

use pillarbox::{Message, SendError, SendErrorKind, Sink, StoredEvent};
use pillarbox_testkit::brokers::{Broker as _, KafkaBroker, Received, sink};

pillarbox_testkit::sink_suite!(KafkaBroker::start);

fn message(aggregate: &str, payload: &str) -> Message {
    let mut event = StoredEvent::for_tests("order.placed", payload);
    aggregate.clone_into(&mut event.aggregate_id);
    Message::new(Arc::new(event), 1)
}

/// A run of one aggregate.
fn run(aggregate: &str, payloads: impl IntoIterator<Item = String>) -> Vec<Message> {
    let messages = payloads.into_iter().map(|payload| message(aggregate, &payload));
    messages.enumerate().map(|(place, message)| if place == 0 { message } else { message.following() }).collect()
}

fn ids(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|message| message.id.to_string()).collect()
}

fn received_ids(received: &[Received]) -> Vec<String> {
    received.iter().map(Received::id).collect()
}

async fn send_one(sink: &dyn Sink, message: &Message) -> Result<(), SendError> {
    sink.send(std::slice::from_ref(message)).await.remove(0)
}

#[tokio::test]
async fn an_aggregates_events_have_its_id_as_key_and_share_a_partition() {
    let broker = KafkaBroker::start().await;
    broker.create_topic("three", 3).await;
    let messages: Vec<_> = (0..60).map(|number| message(&(number % 6).to_string(), "{}")).collect();
    let results = sink(&broker.keys_with("three", "")).send(&messages).await;
    assert_eq!(results, vec![Ok(()); 60]);
    let received = broker.received_in("three").await;
    assert_eq!(received.len(), 60);
    let places: BTreeSet<_> = received.iter().map(|one| (&one.headers["(key)"], &one.headers["(partition)"])).collect();
    assert_eq!(places.len(), 6, "one partition per key: {places:?}");
    assert!(received.iter().all(|one| one.headers["(key)"] == one.headers["pillarbox-aggregate-id"]));
    // The partitions that Kafka's own clients choose, by murmur2.
    let of = |key: &str| places.iter().find(|(of, _)| *of == key).unwrap().1.as_str();
    assert_eq!((of("0"), of("1"), of("2")), (murmur2("0", 3).as_str(), &*murmur2("1", 3), &*murmur2("2", 3)));
}

/// Returns the partition that `org.apache.kafka.clients.producer.internals.DefaultPartitioner` chooses.
fn murmur2(key: &str, partitions: u32) -> String {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ u32::try_from(key.len()).unwrap();
    let mix = |word: u32| {
        let word = word.wrapping_mul(M);
        (word ^ (word >> 24)).wrapping_mul(M)
    };
    let (words, rest) = key.as_bytes().as_chunks::<4>();
    for word in words {
        hash = hash.wrapping_mul(M) ^ mix(u32::from_le_bytes(*word));
    }
    if !rest.is_empty() {
        let tail = rest.iter().rev().fold(0, |tail: u32, byte| (tail << 8) | u32::from(*byte));
        hash = (hash ^ tail).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^= hash >> 15;
    ((hash & 0x7fff_ffff) % partitions).to_string()
}

#[tokio::test]
async fn a_key_is_a_template_and_may_be_left_out() {
    let broker = KafkaBroker::start().await;
    let by_type = sink(&broker.keys_with("orders", r#"key = "{aggregate_type}-{aggregate_id}""#));
    let without = sink(&broker.keys_with("orders", r#"key = """#));
    let by_event = sink(&broker.keys_with("orders", r#"key = "{id}""#));
    assert_eq!((by_type.keeps_order(), without.keeps_order(), by_event.keeps_order()), (true, false, false));
    for sink in [by_type, without] {
        assert_eq!(send_one(&*sink, &message("42", "{}")).await, Ok(()));
    }
    let received = broker.received().await;
    let keys: Vec<_> = received.iter().map(|one| one.headers["(key)"].as_str()).collect();
    assert_eq!(keys, ["Order-42", "(none)"]);
}

#[tokio::test]
async fn cloud_events_arrive_as_an_envelope_or_as_headers() {
    let broker = KafkaBroker::start().await;
    let message = message("42", r#"{"total":12}"#);
    for format in ["cloudevents", "cloudevents-binary"] {
        let sink = sink(&broker.keys_with("orders", &format!("format = {format:?}\nsource = \"/shop\"")));
        assert_eq!(send_one(&*sink, &message).await, Ok(()));
    }
    let received = broker.received().await;
    let envelope: serde_json::Value = serde_json::from_slice(&received[0].body).unwrap();
    assert_eq!(received[0].headers["content-type"], "application/cloudevents+json");
    assert_eq!((&envelope["source"], &envelope["data"]["total"]), (&"/shop".into(), &12.into()));
    assert_eq!(received[1].body, br#"{"total":12}"#);
    for (name, value) in [("ce_specversion", "1.0"), ("ce_type", "order.placed"), ("ce_source", "/shop")] {
        assert_eq!(received[1].headers[name], value);
    }
    assert_eq!(received[1].headers["ce_id"], message.id.to_string());
}

#[tokio::test]
async fn every_compression_can_be_read() {
    let broker = KafkaBroker::start().await;
    let messages: Vec<_> =
        (0..50).map(|number| message(&number.to_string(), r#"{"text":"aaaaaaaaaaaaaaaa"}"#)).collect();
    for (round, codec) in ["none", "gzip", "snappy", "lz4", "zstd"].into_iter().enumerate() {
        let results = sink(&broker.keys_with("orders", &format!("compression = {codec:?}"))).send(&messages).await;
        assert_eq!(results, vec![Ok(()); 50], "{codec}");
        assert_eq!(broker.received().await.len(), 50 * (round + 1), "{codec}");
    }
}

#[tokio::test]
async fn an_event_with_an_impossible_topic_is_rejected_and_no_other() {
    let broker = KafkaBroker::start().await;
    let sink = sink(&broker.keys_with("{aggregate_id}", ""));
    let results = sink.send(&[message("orders", "{}"), message("a b", "{}"), message("", "{}")]).await;
    assert_eq!(results[0], Ok(()));
    for (result, reason) in results[1..].iter().zip(["' ' cannot be in a topic's name", "is empty"]) {
        let error = result.clone().unwrap_err();
        assert_eq!(error.kind, SendErrorKind::Reject);
        assert!(error.message.contains(reason), "{error}");
    }
}

#[tokio::test]
async fn a_topic_that_is_created_later_is_found_at_the_next_attempt() {
    let broker = KafkaBroker::start().await;
    let sink = sink(&broker.keys_with("later", ""));
    for _ in 0..2 {
        let error = send_one(&*sink, &message("1", "{}")).await.unwrap_err();
        assert_eq!(error.kind, SendErrorKind::Retry);
        assert!(error.message.starts_with("unknown topic \"later\""), "{error}");
    }
    broker.create_topic("later", 1).await;
    let after = message("1", "{}");
    assert_eq!(send_one(&*sink, &after).await, Ok(()));
    assert_eq!(received_ids(&broker.received_in("later").await), ids(&[after]));
}

#[tokio::test]
async fn a_message_whose_response_is_lost_is_confirmed_and_stored_once() {
    let broker = KafkaBroker::start().await;
    let sink = sink(&broker.keys());
    let (before, after) = (message("1", "{}"), run("1", (0..40).map(|number| number.to_string())));
    assert_eq!(send_one(&*sink, &before).await, Ok(()));
    broker.swallow_responses();
    assert_eq!(sink.send(&after).await, vec![Ok(()); 40]);
    assert_eq!(received_ids(&broker.received().await), ids(&[&[before], &after[..]].concat()));
}
