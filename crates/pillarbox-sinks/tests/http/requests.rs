//! What a receiver gets.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::{Method, StatusCode, Version};
use pillarbox::{Message, Sink, StoredEvent};
use pillarbox_sinks::Secret;
use pillarbox_sinks::http::{HttpSettings, HttpSink};
use pillarbox_sinks::{Content, Format};

use crate::receiver::Receiver;
use crate::signatures::{NEW, verifies};
use crate::{deliver, local, placed, send};

#[tokio::test]
async fn the_payload_arrives_byte_for_byte_with_its_headers() {
    let receiver = Receiver::answering(|_| ()).await;
    let payload = "{\"b\": 1.10, \"a\" :\"\\u00e9 é\",\n \"a\": 2}";
    let mut event = StoredEvent::for_tests("order.placed", payload);
    event.aggregate_id = "Größe 42".to_owned();
    event
        .headers
        .insert("traceparent".to_owned(), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned());
    event.headers.insert("baggage".to_owned(), "k=v".to_owned());
    event.headers.insert("Tenant".to_owned(), "acme".to_owned());
    event.headers.insert("host".to_owned(), "forged.example".to_owned());
    let id = event.id.to_string();
    let sink = HttpSink::new(local(format!("{}?for=us", receiver.url()))).unwrap();
    assert_eq!(sink.send(&[Message::new(Arc::new(event), 3)]).await, [Ok(())]);

    let seen = receiver.only();
    assert_eq!((seen.method.clone(), seen.path.as_str()), (Method::POST, "/events?for=us"));
    assert_eq!(seen.body, payload);
    for (name, value) in [
        ("content-type", "application/json"),
        ("content-length", payload.len().to_string().as_str()),
        ("user-agent", concat!("pillarbox/", env!("CARGO_PKG_VERSION"))),
        ("webhook-id", &id),
        ("pillarbox-event-type", "order.placed"),
        ("pillarbox-aggregate-type", "Order"),
        ("pillarbox-aggregate-id", "Gr%C3%B6%C3%9Fe%2042"),
        ("pillarbox-attempt", "3"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("baggage", "k=v"),
        ("tenant", "acme"),
        ("host", &receiver.address.to_string()),
    ] {
        assert_eq!(seen.header(name), value, "{name}");
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert!(now.abs_diff(seen.header("webhook-timestamp").parse().unwrap()) < 60);
    for absent in ["webhook-signature", "authorization", "cookie", "accept-encoding", "referer"] {
        assert!(!seen.headers.contains_key(absent), "{absent}");
    }
}

#[tokio::test]
async fn bearer_and_custom_headers_arrive_and_win_over_the_events_own() {
    let receiver = Receiver::answering(|_| ()).await;
    let mut settings = HttpSettings { bearer: Some("hunter2".into()), ..local(receiver.url()) };
    settings.headers.insert("X-Api-Key".to_owned(), Secret::new("configured"));
    let mut event = placed();
    event.headers.insert("x-api-key".to_owned(), "forged".to_owned());
    event.headers.insert("authorization".to_owned(), "forged".to_owned());
    send(settings, event).await.unwrap();
    let seen = receiver.only();
    assert_eq!(seen.header("authorization"), "Bearer hunter2");
    assert_eq!(seen.headers.get_all("x-api-key").iter().collect::<Vec<_>>(), ["configured"]);
}

#[tokio::test]
async fn the_cloud_events_envelope_has_every_attribute_and_is_what_is_signed() {
    let receiver = Receiver::answering(|_| ()).await;
    let content = Content::new(Format::CloudEvents).source("/shop");
    let mut event = placed();
    event.headers.insert("traceparent".to_owned(), "00-1-2-01".to_owned());
    send(HttpSettings { content, secrets: vec![NEW.into()], ..local(receiver.url()) }, event.clone()).await.unwrap();
    let seen = receiver.only();
    assert_eq!(seen.header("content-type"), "application/cloudevents+json");
    assert!(verifies(&seen, NEW));
    let envelope: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
    assert_eq!(
        envelope,
        serde_json::json!({
            "specversion": "1.0",
            "id": event.id.to_string(),
            "source": "/shop",
            "type": "order.placed",
            "subject": "Order/42",
            "time": event.created_at,
            "datacontenttype": "application/json",
            "aggregatetype": "Order",
            "aggregateid": "42",
            "traceparent": "00-1-2-01",
            "data": { "total": 19.90 },
        })
    );
}

#[tokio::test]
async fn a_test_event_is_marked_and_signed_as_any_other() {
    let receiver = Receiver::answering(|_| ()).await;
    let sink = HttpSink::new(HttpSettings { secrets: vec![NEW.into()], ..local(receiver.url()) }).unwrap();
    assert_eq!(sink.send(&[Message::test("billing")]).await, [Ok(())]);
    let seen = receiver.only();
    assert_eq!(seen.header("pillarbox-test"), "true");
    assert_eq!(seen.header("pillarbox-event-type"), "pillarbox.test");
    assert_eq!(seen.header("pillarbox-attempt"), "1");
    assert!(seen.header("webhook-id").starts_with("70696c6c-7465-8"));
    assert!(verifies(&seen, NEW));
    // Nothing that an application emits is marked.
    let mut forged = placed();
    forged.headers.insert("Pillarbox-Test".to_owned(), "true".to_owned());
    deliver(&sink, forged).await.unwrap();
    assert!(!receiver.seen()[1].headers.contains_key("pillarbox-test"));
}

#[tokio::test]
async fn every_message_of_a_batch_gets_an_answer_of_its_own() {
    let receiver =
        Receiver::answering(|seen| if seen.body == "2" { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK })
            .await;
    let sink = HttpSink::new(local(receiver.url())).unwrap();
    let batch = ["1", "2", "3"].map(|payload| Message::new(Arc::new(StoredEvent::for_tests("n", payload)), 1));
    let answers = sink.send(&batch).await;
    assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
}

#[tokio::test]
async fn connections_are_used_again_even_when_answers_have_bodies() {
    // More than one read's worth, so that only a drained body lets the connection be used again.
    let receiver = Receiver::answering(|_| "x".repeat(48 * 1024)).await;
    let sink = HttpSink::new(local(receiver.url())).unwrap();
    for _ in 0..20 {
        deliver(&sink, placed()).await.unwrap();
    }
    assert_eq!(receiver.seen().len(), 20);
    assert_eq!(receiver.seen()[0].version, Version::HTTP_11);
    assert!(receiver.accepted() <= 3, "{} connections", receiver.accepted());
}

/// Runs another test of this binary in an environment with a proxy that does not exist.
#[test]
fn a_proxy_in_the_environment_is_not_used() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "requests::the_payload_arrives_byte_for_byte_with_its_headers"]);
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        command.env(name, "http://127.0.0.1:1");
    }
    let output = command.env_remove("NO_PROXY").env_remove("no_proxy").stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}
