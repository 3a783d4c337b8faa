//! RabbitMQ by AMQP 0-9-1: the suite of all sinks, exchanges and declarations, formats, TLS and a broker that is killed.

use std::sync::Arc;

use lapin::ExchangeKind;
use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable};
use pillarbox::{Message, SendError, SendErrorKind, Sink, StoredEvent};
use pillarbox_testkit::brokers::rabbitmq::RabbitBroker;
use pillarbox_testkit::brokers::{Broker as _, Received, TIMEOUT, sink};
use pillarbox_testkit::conformance::sinks;

pillarbox_testkit::sink_suite!(RabbitBroker::shared);

fn event(event_type: &str, payload: &str) -> Message {
    Message::new(Arc::new(StoredEvent::for_tests(event_type, payload)), 1)
}

async fn send(sink: &dyn Sink, batch: &[Message]) -> Vec<Result<(), SendError>> {
    tokio::time::timeout(TIMEOUT, sink.send(batch)).await.expect("the sink returns before the relay drops the batch")
}

async fn send_one(sink: &dyn Sink, message: Message) -> Result<(), SendError> {
    send(sink, &[message]).await.remove(0)
}

/// The keys of a destination on the shared broker.
fn keys(broker: &RabbitBroker, more: &str) -> String {
    format!("kind = \"amqp\"\nurl = {:?}\n{more}", broker.url_for_sink())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_broker_loses_nothing_and_tls_needs_the_clients_certificate() {
    let broker = RabbitBroker::private().await;
    let over_tls = broker.keys_over_tls().unwrap();
    assert_eq!(send_one(&*sink(&over_tls), event("order.placed", "{}")).await, Ok(()));
    let stranger: String =
        over_tls.lines().filter(|line| !line.starts_with("client_")).map(|line| format!("{line}\n")).collect();
    let error = send_one(&*sink(&stranger), event("order.placed", "{}")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Unavailable, "{error}");
    let untrusting: String =
        stranger.lines().filter(|line| !line.starts_with("ca_file")).map(|line| format!("{line}\n")).collect();
    let error = send_one(&*sink(&untrusting), event("order.placed", "{}")).await.unwrap_err();
    assert!(error.message.contains("ertificate"), "{error}");
    sinks::a_server_killed_in_the_middle_loses_nothing(broker).await;
}

#[tokio::test]
async fn properties_and_formats_are_what_another_client_reads() {
    let broker = RabbitBroker::shared().await;
    let message = event("order.placed", r#"{"total":7}"#);
    for format in ["payload", "cloudevents", "cloudevents-binary"] {
        let keys = format!("{}format = {format:?}\nsource = \"/shop\"\n", broker.keys());
        assert_eq!(send_one(&*sink(&keys), message.clone()).await, Ok(()));
    }
    let transient = format!("{}persistent = false\n", broker.keys());
    assert_eq!(send_one(&*sink(&transient), message.clone()).await, Ok(()));
    let received = broker.received().await;
    let [payload, envelope, binary, transient] = received.as_slice() else { panic!("{} arrived", received.len()) };
    let id = message.id.to_string();
    for (name, value) in [
        ("message-id", id.as_str()),
        ("type", "order.placed"),
        ("timestamp", &message.created_at.timestamp().to_string()),
        ("content-type", "application/json"),
        ("delivery-mode", "2"),
        ("app-id", "pillarbox"),
        ("pillarbox-aggregate-id", "42"),
    ] {
        assert_eq!(payload.headers[name], value, "{name}");
    }
    assert_eq!(payload.body, br#"{"total":7}"#);
    assert_eq!(envelope.headers["content-type"], "application/cloudevents+json");
    let json: serde_json::Value = serde_json::from_slice(&envelope.body).unwrap();
    assert_eq!((&json["source"], &json["data"]["total"]), (&"/shop".into(), &7.into()));
    assert_eq!(binary.body, br#"{"total":7}"#);
    assert_eq!(binary.headers["cloudevents_specversion"], "1.0");
    assert_eq!(binary.headers["cloudevents_id"], id);
    assert_eq!(binary.headers["cloudevents_source"], "/shop");
    assert_eq!(transient.headers["delivery-mode"], "1");
}

#[tokio::test]
async fn templates_choose_the_exchange_and_the_routing_key() {
    let broker = RabbitBroker::shared().await;
    let (connection, exchange) = (broker.connect().await, format!("{}.Order", broker.queue()));
    let channel = connection.create_channel().await.unwrap();
    let (none, options) = (FieldTable::default(), ExchangeDeclareOptions::default());
    channel.exchange_declare(exchange.as_str().into(), ExchangeKind::Topic, options, none.clone()).await.unwrap();
    let bind = QueueBindOptions::default();
    channel.queue_bind(broker.queue().into(), exchange.as_str().into(), "order.#".into(), bind, none).await.unwrap();
    let more = format!("exchange = \"{}.{{aggregate_type}}\"\nrouting_key = \"{{event_type}}\"\n", broker.queue());
    let sink = sink(&keys(&broker, &more));
    let batch = [event("order.placed", "{}"), event("mail.sent", "{}"), event("order.paid", "{}")];
    let results = send(&*sink, &batch).await;
    assert_eq!((&results[0], &results[2]), (&Ok(()), &Ok(())));
    let error = results[1].clone().unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Retry);
    let expected = format!(
        "the exchange {exchange:?} has no queue for the routing key \"mail.sent\": 312 NO_ROUTE; bind a queue, or set \
         declare.queue"
    );
    assert_eq!(error.message, expected);
    let received = broker.received().await;
    let keys: Vec<_> = received.iter().map(|received| received.headers["routing-key"].as_str()).collect();
    assert_eq!(keys, ["order.placed", "order.paid"]);
}

#[tokio::test]
async fn a_missing_exchange_fails_its_own_messages_only() {
    let broker = RabbitBroker::shared().await;
    let exchange = format!("{}.missing", broker.queue());
    let more = format!("exchange = \"{{headers.exchange}}\"\nrouting_key = {:?}\n", broker.queue());
    let sink = sink(&keys(&broker, &more));
    let to = |exchange: &str| {
        let mut event = StoredEvent::for_tests("order.placed", "{}");
        event.headers.insert("exchange".to_owned(), exchange.to_owned());
        Message::new(Arc::new(event), 1)
    };
    let mut batch: Vec<Message> = (0..60).map(|number| to(if number % 20 == 7 { &exchange } else { "" })).collect();
    batch.push(event("order.placed", "{}"));
    let results = send(&*sink, &batch).await;
    for (number, result) in results.iter().enumerate().take(60) {
        match result {
            Err(error) if number % 20 == 7 => {
                assert_eq!(error.kind, SendErrorKind::Retry);
                assert!(error.message.contains(&format!("no exchange '{exchange}'")), "{error}");
                assert!(error.message.ends_with("create the exchange, or set declare.exchange_type"), "{error}");
            }
            result => assert_eq!(*result, Ok(()), "{number}"),
        }
    }
    let error = results[60].clone().unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (SendErrorKind::Reject, "the event has no header \"exchange\""));
    let ids: std::collections::BTreeSet<_> = broker.received().await.iter().map(Received::id).collect();
    assert_eq!(ids.len(), 57);
}

/// The broker closes the channels of such batches while their messages are still being written. A frame on a closed channel
/// would make it close the connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn batches_to_a_missing_exchange_never_cost_the_connection() {
    let broker = RabbitBroker::shared().await;
    let more = format!("exchange = \"{}.missing\"\nrouting_key = \"a\"\n", broker.queue());
    let sink = Arc::new(sink(&keys(&broker, &more)));
    let payload = format!("{:?}", "a".repeat(8000));
    let senders = (0..4).map(|_| {
        let (sink, payload) = (Arc::clone(&sink), payload.clone());
        tokio::spawn(async move {
            for size in [1, 1, 1, 40].repeat(25) {
                let batch: Vec<_> = (0..size).map(|_| event("order.placed", &payload)).collect();
                for result in send(&**sink, &batch).await {
                    let error = result.unwrap_err();
                    assert_eq!(error.kind, SendErrorKind::Retry, "{error}");
                }
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.unwrap();
    }
}

#[tokio::test]
async fn without_mandatory_a_message_that_no_queue_takes_is_dropped_by_the_broker() {
    let broker = RabbitBroker::shared().await;
    let missing = format!("{}.missing", broker.queue());
    let error = send_one(&*sink(&keys(&broker, &format!("routing_key = {missing:?}\n"))), event("a", "{}")).await;
    let expected = format!("the queue {missing:?} does not exist: 312 NO_ROUTE; create it, or set declare.queue");
    assert_eq!(error.unwrap_err().message, expected);
    let careless = keys(&broker, &format!("routing_key = {missing:?}\nmandatory = false\n"));
    assert_eq!(send_one(&*sink(&careless), event("a", "{}")).await, Ok(()));
}

#[tokio::test]
async fn declare_makes_an_exchange_and_a_quorum_queue_and_makes_them_again() {
    let broker = RabbitBroker::shared().await;
    let name = format!("{}.declared", broker.queue());
    let more = format!(
        "exchange = {name:?}\nrouting_key = \"{{event_type}}\"\n\
         declare = {{ exchange_type = \"topic\", queue = {name:?}, binding = \"order.#\", queue_type = \"quorum\" }}\n"
    );
    let sink = sink(&keys(&broker, &more));
    assert_eq!(sink.reach().await, Ok(()));
    assert_eq!(send_one(&*sink, event("order.placed", "{}")).await, Ok(()));
    assert_eq!(broker.received_in(&name).await.len(), 1);
    let connection = broker.connect().await;
    let channel = connection.create_channel().await.unwrap();
    // RabbitMQ refuses other arguments than it has.
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let mut quorum = FieldTable::default();
    quorum.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    channel.queue_declare(name.as_str().into(), durable, quorum).await.unwrap();
    channel.queue_delete(name.as_str().into(), QueueDeleteOptions::default()).await.unwrap();
    let error = send_one(&*sink, event("order.placed", "{}")).await.unwrap_err();
    assert!(error.message.contains("NO_ROUTE"), "{error}");
    assert_eq!(send_one(&*sink, event("order.placed", "{}")).await, Ok(()));
    assert_eq!(broker.received_in(&name).await.len(), 1);
}

#[tokio::test]
async fn a_queue_with_other_arguments_is_one_clear_error() {
    let broker = RabbitBroker::shared().await;
    let more =
        "routing_key = \"{headers.queue}\"\ndeclare = { queue = \"{headers.queue}\", queue_type = \"quorum\" }\n";
    let sink = sink(&keys(&broker, more));
    let to = |queue: &str| {
        let mut event = StoredEvent::for_tests("order.placed", "{}");
        event.headers.insert("queue".to_owned(), queue.to_owned());
        Message::new(Arc::new(event), 1)
    };
    let fresh = format!("{}.fresh", broker.queue());
    let results = send(&*sink, &[to(broker.queue()), to(&fresh), to(&"x".repeat(300))]).await;
    let error = results[0].clone().unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Retry);
    assert!(error.message.contains("exists with other arguments: 406 PRECONDITION_FAILED"), "{error}");
    assert!(error.message.contains(broker.queue()), "{error}");
    assert_eq!(results[1], Ok(()));
    let error = results[2].clone().unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Reject);
    assert!(error.message.contains("300 bytes, but AMQP names have at most 255"), "{error}");
    assert_eq!(broker.received_in(&fresh).await.len(), 1);
}

#[tokio::test]
async fn a_full_queue_nacks_and_the_event_is_tried_again() {
    let broker = RabbitBroker::shared().await;
    let name = format!("{}.full", broker.queue());
    let connection = broker.connect().await;
    let channel = connection.create_channel().await.unwrap();
    let mut full = FieldTable::default();
    full.insert("x-max-length".into(), AMQPValue::LongInt(1));
    full.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(name.as_str().into(), durable, full).await.unwrap();
    let sink = sink(&keys(&broker, &format!("routing_key = {name:?}\n")));
    let mut refused = 0;
    for _ in 0..5 {
        if let Err(error) = send_one(&*sink, event("order.placed", "{}")).await {
            assert_eq!(error.kind, SendErrorKind::Retry, "{error}");
            assert!(error.message.contains("(basic.nack)") && error.message.contains(&name), "{error}");
            refused += 1;
        }
    }
    assert!(refused >= 3, "{refused} were refused");
}

#[tokio::test]
async fn reach_finds_a_missing_queue_of_the_default_exchange() {
    let broker = RabbitBroker::shared().await;
    let missing = format!("{}.missing", broker.queue());
    let error = sink(&keys(&broker, &format!("routing_key = {missing:?}\n"))).reach().await.unwrap_err();
    assert!(error.message.contains(&format!("the queue {missing:?}")), "{error}");
    assert!(error.message.contains("404 NOT_FOUND"), "{error}");
}
