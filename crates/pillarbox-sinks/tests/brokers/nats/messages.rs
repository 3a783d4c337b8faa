//! What arrives, what is refused, and what a repetition leaves.

use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy};
use futures_util::StreamExt as _;
use pillarbox::SendErrorKind;
use pillarbox_testkit::brokers::nats::{NatsServer, PASSWORD, STREAM, USER, orders};
use pillarbox_testkit::brokers::{Broker as _, Received, sink};

use super::{ids, message, run, send, send_one};

fn received_ids(received: &[Received]) -> Vec<String> {
    received.iter().map(Received::id).collect()
}

#[tokio::test]
async fn formats_arrive_as_cloudevents_prescribes() {
    let server = NatsServer::start().await;
    let message = message("42", r#"{"total":1}"#);
    for format in ["cloudevents", "cloudevents-binary"] {
        // One stream takes an id once, so each format has a stream of its own.
        let stream = format.replace("cloudevents", "CE");
        server
            .create_stream(Config { name: stream.clone(), subjects: vec![stream.clone()], ..Config::default() })
            .await;
        let sink = sink(&format!("{}format = \"{format}\"\nsource = \"/shop\"\n", server.keys_to(&stream)));
        assert_eq!(send_one(&*sink, &message).await, Ok(()));
    }
    let structured = server.stream("CE").await.remove(0);
    assert_eq!(structured.headers["content-type"], "application/cloudevents+json");
    let envelope: serde_json::Value = serde_json::from_slice(&structured.body).unwrap();
    assert_eq!((&envelope["data"]["total"], &envelope["source"]), (&1.into(), &"/shop".into()));
    let binary = server.stream("CE-binary").await.remove(0);
    assert_eq!(binary.body, br#"{"total":1}"#);
    for (name, value) in
        [("ce-source", "/shop"), ("ce-type", "order.placed"), ("ce-subject", "Order/42"), ("ce-specversion", "1.0")]
    {
        assert_eq!(binary.headers[name], value);
    }
}

/// A relay that dies between publish and settle sends its batch again.
#[tokio::test]
async fn a_batch_that_is_sent_twice_is_stored_once() {
    let server = NatsServer::start().await;
    let batch = [run("a", 20), run("b", 1), run("c", 5)].concat();
    for _ in 0..2 {
        // Each time a relay of its own.
        assert_eq!(send(&*sink(&server.keys()), &batch).await, vec![Ok(()); batch.len()]);
    }
    let received = server.received().await;
    assert_eq!(received.len(), batch.len());
    let message_ids: Vec<_> = received.iter().map(|one| one.headers["nats-msg-id"].clone()).collect();
    assert_eq!(message_ids, received_ids(&received));
    assert_eq!(received[0].headers["nats-expected-stream"], STREAM);
}

#[tokio::test]
async fn impossible_subjects_are_rejected_and_others_delivered() {
    let server = NatsServer::start().await;
    let batch =
        [message("1", "{}"), message("two words", "{}"), message("*", "{}"), message("a..b", "{}"), message("2", "{}")];
    let results = send(&*sink(&server.keys()), &batch).await;
    for result in &results[1..4] {
        let error = result.clone().unwrap_err();
        assert_eq!(error.kind, SendErrorKind::Reject, "{error}");
        assert!(error.message.contains("cannot be published to"), "{error}");
    }
    assert_eq!((&results[0], &results[4]), (&Ok(()), &Ok(())));
    assert_eq!(server.received().await.len(), 2);
}

#[tokio::test]
async fn refusals_of_the_stream_are_told_apart() {
    let server = NatsServer::start().await;
    let stream =
        |name: &str| Config { name: name.to_owned(), subjects: vec![format!("{name}.>")], ..Config::default() };
    server.create_stream(Config { max_message_size: 400, ..stream("small") }).await;
    server.create_stream(Config { max_messages: 1, discard: DiscardPolicy::New, ..stream("full") }).await;
    let small = sink(&server.keys_to("small.x"));
    let error = send_one(&*small, &message("1", &format!("{{\"a\":\"{}\"}}", "x".repeat(500)))).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Reject, "{error}");
    assert!(error.message.contains("508 bytes"), "{error}");
    let full = sink(&server.keys_to("full.x"));
    assert_eq!(send_one(&*full, &message("1", "{}")).await, Ok(()));
    let error = send_one(&*full, &message("2", "{}")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Unavailable, "{error}");
    let other = sink(&format!("{}stream = \"small\"\n", server.keys_to("orders.x")));
    let error = send_one(&*other, &message("1", "{}")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Retry, "{error}");
    assert!(error.message.contains("expected"), "{error}");
    let error = other.reach().await.unwrap_err();
    assert!(error.message.contains("small") && error.message.contains(STREAM), "{error}");
}

#[tokio::test]
async fn a_subject_that_permissions_deny_is_named_at_once() {
    let lines = format!(
        "authorization {{ users: [{{ user: {USER}, password: {PASSWORD}, \
         permissions: {{ publish: {{ deny: \"orders.secret\" }} }} }}] }}\n"
    );
    let server = NatsServer::start_with(&lines).await;
    server.create_stream(orders()).await;
    let batch = [message("secret", "{}"), message("public", "{}")];
    let started = std::time::Instant::now();
    let results = send(&*sink(&server.keys()), &batch).await;
    assert!(started.elapsed() < Duration::from_secs(3), "the server's complaint is heard");
    let error = results[0].clone().unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Retry, "{error}");
    assert!(error.message.contains("orders.secret"), "{error}");
    assert_eq!(results[1], Ok(()));
}

#[tokio::test]
async fn plain_subjects_need_the_word_that_nobody_confirms() {
    let server = NatsServer::start().await;
    let mut subscriber = server.client().await.subscribe("plain.>").await.unwrap();
    let error = send_one(&*sink(&server.keys_to("silent.x")), &message("1", "{}")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Retry, "{error}");
    assert!(error.message.contains("confirm = false"), "{error}");
    let plain = sink(&format!("{}confirm = false\n", server.keys_to("plain.{aggregate_id}")));
    assert_eq!(plain.reach().await, Ok(()));
    let batch = run("7", 3);
    assert_eq!(send(&*plain, &batch).await, vec![Ok(()); 3]);
    for sent in &batch {
        let arrived = subscriber.next().await.unwrap();
        assert_eq!(arrived.headers.unwrap().get("pillarbox-event-id").unwrap().as_str(), sent.id.to_string());
    }
}

#[tokio::test]
async fn doctor_hears_of_a_window_that_is_shorter_than_a_lease() {
    let server = NatsServer::start().await;
    let sink = sink(&server.keys());
    let notes = sink.advise(Duration::from_secs(300)).await;
    assert!(notes.len() == 1 && notes[0].contains("2m") && notes[0].contains("5m 10s"), "{notes:?}");
    assert!(sink.advise(Duration::from_secs(60)).await.is_empty());
}

/// Two aggregates with one subject: each is in order.
#[tokio::test]
async fn runs_on_one_subject_are_in_order_each() {
    let server = NatsServer::start().await;
    let sink = sink(&server.keys_to("orders.all"));
    assert!(sink.keeps_order());
    let runs = [run("a", 30), run("b", 30)];
    assert_eq!(send(&*sink, &runs.concat()).await, vec![Ok(()); 60]);
    let received = server.received().await;
    for (run, aggregate) in runs.iter().zip(["a", "b"]) {
        let of_it: Vec<_> =
            received.iter().filter(|one| one.headers["pillarbox-aggregate-id"] == aggregate).cloned().collect();
        assert_eq!(received_ids(&of_it), ids(run));
    }
}
