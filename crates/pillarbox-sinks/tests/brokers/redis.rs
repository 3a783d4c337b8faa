//! Redis streams: the suite on Redis and on Valkey, and the kind's own checks.

mod clusters;
mod duplicates;
mod faults;

use std::sync::Arc;

use ::redis::AsyncCommands as _;
use ::redis::aio::MultiplexedConnection;
use pillarbox::{Message, SendErrorKind, StoredEvent};
use pillarbox_testkit::brokers::redis::{PASSWORD, RedisBroker, STREAM};
use pillarbox_testkit::brokers::{Broker as _, Received, sink};
use pillarbox_testkit::redis::connect;
use serde_json::{Value, json};

pillarbox_testkit::sink_suite!(RedisBroker::start);

mod valkey {
    use super::RedisBroker;

    pillarbox_testkit::sink_suite!(RedisBroker::start_valkey);
}

/// Returns the keys of a destination on this server, with a stream and more keys.
fn keys(url: &str, stream: &str, more: &str) -> String {
    format!("kind = \"redis\"\nurl = {url:?}\nstream = {stream:?}\n{more}\n")
}

fn message(aggregate: &str, headers: &[(&str, &str)]) -> Message {
    let mut event = StoredEvent::for_tests("order.placed", r#"{"total": 1}"#);
    aggregate.clone_into(&mut event.aggregate_id);
    event.headers.extend(headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    Message::new(Arc::new(event), 1)
}

fn run(aggregate: &str, length: usize) -> Vec<Message> {
    let messages = (0..length).map(|_| message(aggregate, &[]));
    messages.enumerate().map(|(place, message)| if place == 0 { message } else { message.following() }).collect()
}

fn sent(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|message| message.id.to_string()).collect()
}

fn ids(received: &[Received]) -> Vec<String> {
    received.iter().map(Received::id).collect()
}

/// Runs a command that is written as in redis-cli.
async fn command(redis: &mut MultiplexedConnection, words: &str) {
    let mut words = words.split(' ');
    let mut command = ::redis::cmd(words.next().unwrap());
    words.for_each(|word| {
        command.arg(word);
    });
    let () = command.query_async(redis).await.unwrap();
}

#[tokio::test]
async fn tls_needs_the_clients_certificate() {
    let broker = RedisBroker::start_with_tls().await;
    let keys = broker.keys_over_tls().unwrap();
    let messages = [message("1", &[]), message("2", &[])];
    assert_eq!(sink(&keys).send(&messages).await, vec![Ok(()); 2]);
    assert_eq!(ids(&broker.received().await), sent(&messages));
    for missing in ["client_", "ca_file"] {
        let without: Vec<&str> = keys.lines().filter(|line| !line.starts_with(missing)).collect();
        let error = sink(&without.join("\n")).reach().await.unwrap_err();
        assert_eq!(error.kind, SendErrorKind::Unavailable, "{error}");
    }
}

#[tokio::test]
async fn formats_are_what_another_client_reads() {
    let broker = RedisBroker::start().await;
    let message = message("42", &[("tenant", "acme"), ("body", "forged")]);
    for format in ["payload", "cloudevents", "cloudevents-binary"] {
        let more = format!("format = {format:?}\nsource = \"/shop\"");
        let sink = sink(&keys(&broker.url(), format, &more));
        assert_eq!(sink.send(std::slice::from_ref(&message)).await, [Ok(())]);
        let received = broker.received_in(format).await;
        let [Received { body, headers }] = received.as_slice() else { panic!("{received:?}") };
        assert_eq!(headers["tenant"], "acme");
        assert_eq!(headers["pillarbox-event-id"], message.id.to_string());
        if format == "cloudevents" {
            let envelope: Value = serde_json::from_slice(body).unwrap();
            assert_eq!(envelope["source"], "/shop");
            assert_eq!(envelope["data"], json!({ "total": 1 }));
            assert_eq!(headers["content-type"], "application/cloudevents+json");
        } else {
            assert_eq!(body, br#"{"total": 1}"#);
            assert_eq!(headers["content-type"], "application/json");
        }
        let id = headers.get("ce_id").cloned();
        assert_eq!(id, (format == "cloudevents-binary").then(|| message.id.to_string()));
    }
}

#[tokio::test]
async fn each_event_goes_to_the_stream_of_its_template() {
    let broker = RedisBroker::start().await;
    let sink = sink(&keys(&broker.url(), "{aggregate_type}:{headers.tenant}", ""));
    assert!(!sink.keeps_order(), "events of an aggregate can differ in their headers");
    let messages = [message("1", &[("tenant", "a")]), message("2", &[]), message("3", &[("tenant", "b")])];
    let results = sink.send(&messages).await;
    let error = results[1].clone().unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (SendErrorKind::Reject, "the event has no header \"tenant\""));
    assert_eq!(ids(&broker.received_in("Order:a").await), sent(&messages[..1]));
    assert_eq!(ids(&broker.received_in("Order:b").await), sent(&messages[2..]));

    let sink = pillarbox_testkit::brokers::sink(&keys(&broker.url(), "{headers.tenant}", ""));
    let error = sink.send(&[message("1", &[("tenant", "")])]).await.remove(0).unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Reject, "{error}");
    assert!(error.message.contains("the name of the stream is empty"), "{error}");
}

#[tokio::test]
async fn a_stream_is_trimmed_to_about_its_length() {
    let broker = RedisBroker::start().await;
    let sink = sink(&keys(&broker.url(), STREAM, "max_length = 100"));
    let messages: Vec<_> = (0..500).map(|number| message(&number.to_string(), &[])).collect();
    assert_eq!(sink.send(&messages).await, vec![Ok(()); 500]);
    let mut redis = connect(&broker.url()).await;
    let length: usize = redis.xlen(STREAM).await.unwrap();
    assert!((100..300).contains(&length), "{length}");
    assert_eq!(sink.send(&run("a", 200)).await, vec![Ok(()); 200]);
    let length: usize = redis.xlen(STREAM).await.unwrap();
    assert!((100..300).contains(&length), "{length}");
}

#[tokio::test]
async fn a_run_is_one_script_that_the_server_may_forget() {
    let broker = RedisBroker::start().await;
    let sink = sink(&broker.keys());
    let mut redis = connect(&broker.url()).await;
    let mut all = Vec::new();
    for _ in 0..3 {
        let runs = [run("a", 5), run("b", 1), run("c", 5)].concat();
        assert_eq!(sink.send(&runs).await, vec![Ok(()); 11]);
        all.extend(sent(&runs));
        command(&mut redis, "SCRIPT FLUSH").await;
    }
    let received = ids(&broker.received().await);
    assert_eq!(received.len(), all.len());
    let of_one = |first: usize| all[first..first + 5].to_vec();
    for first in [0, 6, 11, 17, 22, 28] {
        let run = of_one(first);
        let stored: Vec<_> = received.iter().filter(|id| run.contains(id)).cloned().collect();
        assert_eq!(stored, run);
    }
}

#[tokio::test]
async fn a_run_that_is_too_large_for_one_script_is_stored_in_order() {
    let broker = RedisBroker::start().await;
    let sink = sink(&broker.keys());
    let text = "x".repeat(900 << 10);
    let event = || {
        let mut event = StoredEvent::for_tests("order.placed", &format!("{text:?}"));
        "a".clone_into(&mut event.aggregate_id);
        Message::new(Arc::new(event), 1)
    };
    let run: Vec<_> = (0..11).map(|place| if place == 0 { event() } else { event().following() }).collect();
    assert_eq!(sink.send(&run).await, vec![Ok(()); 11]);
    assert_eq!(ids(&broker.received().await), sent(&run));
}

#[tokio::test]
async fn doctor_notes_a_server_that_forgets_and_a_window_that_is_too_short() {
    let lease = std::time::Duration::from_secs(60);
    let durable = RedisBroker::start().await;
    assert!(sink(&durable.keys()).advise(lease).await.is_empty());
    let forgetful = pillarbox_testkit::Redis::start_with(&[]).await;
    let notes = sink(&keys(&forgetful.url(), STREAM, "deduplicate = \"30s\"")).advise(lease).await;
    let [window, durability] = notes.as_slice() else { panic!("{notes:?}") };
    assert!(window.starts_with("deduplicate is 30s"), "{window}");
    assert!(durability.starts_with("appendonly is off"), "{durability}");
}

#[tokio::test]
async fn secrets_are_not_shown() {
    let broker = RedisBroker::start().await;
    let table = format!("[broker]\n{}", broker.keys()).parse().unwrap();
    let relay = pillarbox::RelaySettings::default();
    let read = pillarbox_sinks::Registry::standard()
        .destinations(table, &relay, &pillarbox_testkit::brokers::Process)
        .unwrap();
    let shown = format!("{:?} {:?} {:?}", read[0], read[0].shown(), read[0].shown_address());
    assert!(!shown.contains(PASSWORD), "{shown}");
    assert!(shown.contains(&format!("127.0.0.1:{}", broker.server().port())), "{shown}");
}
