//! RabbitMQ: where messages go, and what becomes of those that cannot go there.

use std::collections::BTreeMap;

use futures_util::FutureExt as _;
use lapin::types::AMQPValue;
use pillarbox::{SendErrorKind, StoredEvent};
use pillarbox_sinks::celery::{CeleryQueue, CeleryRoute, CelerySettings, QueueType};
use pillarbox_testkit::rabbitmq::shared_url;
use serde_json::json;

use crate::fixture::{Rabbit, forged, header, send, send_one, settings, sink, task, text, to_queue, unique};

fn broker() -> CelerySettings {
    settings(shared_url())
}

fn declaring() -> CelerySettings {
    CelerySettings { declare: true, ..broker() }
}

fn queues(name: &str, queue: CeleryQueue) -> BTreeMap<String, CeleryQueue> {
    BTreeMap::from([(name.to_owned(), queue)])
}

fn quorum() -> serde_json::Map<String, serde_json::Value> {
    json!({ "x-queue-type": "quorum" }).as_object().unwrap().clone()
}

#[tokio::test]
async fn a_batch_arrives_whole_and_in_order() {
    let rabbit = Rabbit::shared().await;
    let queue = unique("whole");
    rabbit.queue(&queue, &[]).await;
    let sink = sink(broker());
    let events: Vec<_> = (0..500).map(|_| to_queue(&queue)).collect();
    let ids: Vec<_> = events.iter().map(|event| event.payload.get().to_owned()).collect();
    assert!(send(&sink, events).await.iter().all(Result::is_ok));
    for payload in ids {
        let message = rabbit.next(&queue).await.unwrap();
        let id = message.properties.correlation_id().as_ref().unwrap().as_str();
        assert!(payload.contains(id));
        assert_eq!(message.data, b"[[42], {}, {}]");
        assert_eq!(*message.properties.delivery_mode(), Some(2));
    }
    assert!(rabbit.next(&queue).await.is_none());
}

#[tokio::test]
async fn a_batch_that_was_dropped_leaves_nothing_behind() {
    let rabbit = Rabbit::shared().await;
    let (good, missing) = (unique("good"), unique("missing"));
    rabbit.queue(&good, &[]).await;
    let sink = sink(broker());
    assert_eq!(send_one(&sink, to_queue(&good)).await, Ok(()));
    for _ in 0..20 {
        // Polled once, everything is published and nothing answered: what comes back must not reach the next batch.
        let batch = (0..50).map(|_| to_queue(&missing)).collect();
        assert!(send(&sink, batch).now_or_never().is_none());
        assert_eq!(send_one(&sink, to_queue(&good)).await, Ok(()));
    }
    assert_eq!(rabbit.count(&good).await, 21);
}

#[tokio::test]
async fn batches_at_the_same_time_do_not_disturb_each_other() {
    let rabbit = Rabbit::shared().await;
    let (good, missing) = (unique("good"), unique("missing"));
    rabbit.queue(&good, &[]).await;
    let sink = sink(broker());
    let batches = (0..8).map(|_| {
        let events = (0..50).map(|index| to_queue(if index % 10 == 3 { &missing } else { &good })).collect();
        send(&sink, events)
    });
    for answers in futures_util::future::join_all(batches).await {
        for (index, answer) in answers.into_iter().enumerate() {
            assert_eq!(answer.is_err(), index % 10 == 3, "{index}: {answer:?}");
        }
    }
    assert_eq!(rabbit.count(&good).await, 8 * 45);
}

#[tokio::test]
async fn a_message_for_a_queue_that_does_not_exist_comes_back_with_its_reason() {
    let missing = unique("missing");
    let error = send_one(&sink(broker()), to_queue(&missing)).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Retry);
    let expected = format!("the queue {missing:?} does not exist: 312 NO_ROUTE; set declare = true, or create it");
    assert_eq!(error.message, expected);
}

#[tokio::test]
async fn a_missing_exchange_is_found_and_its_neighbours_go_on() {
    let rabbit = Rabbit::shared().await;
    let (queue, exchange) = (unique("good"), unique("nowhere"));
    rabbit.queue(&queue, &[]).await;
    let culprit = || task("orders.process", json!({ "exchange": exchange, "routing_key": "x" }));
    // The broker refuses this one alone, not its exchange.
    let too_long = || {
        let properties = json!({ "expiration": "not a number" });
        task("orders.process", json!({ "exchange": "", "routing_key": queue, "properties": properties }))
    };
    let sink = sink(broker());
    let events: Vec<StoredEvent> = (0..100)
        .map(|index| match index {
            10 | 60 => culprit(),
            40 => too_long(),
            _ => to_queue(&queue),
        })
        .collect();
    for (index, answer) in send(&sink, events).await.into_iter().enumerate() {
        match index {
            10 | 60 => {
                let error = answer.unwrap_err();
                assert_eq!(error.kind, SendErrorKind::Retry);
                assert!(error.message.contains(&format!("NOT_FOUND - no exchange '{exchange}'")), "{error}");
                assert!(error.message.ends_with("create the exchange, or set declare = true"), "{error}");
            }
            40 => {
                let error = answer.unwrap_err();
                assert_eq!(error.kind, SendErrorKind::Retry);
                assert!(error.message.contains("406 PRECONDITION_FAILED - invalid expiration"), "{error}");
            }
            _ => assert_eq!(answer, Ok(()), "{index}"),
        }
    }
    let distinct = distinct_ids(&rabbit, &queue).await;
    assert_eq!(distinct, 97);
    assert_eq!(send_one(&sink, to_queue(&queue)).await, Ok(()), "the connection still serves");
}

/// How many different tasks are in a queue: those that were sent again may be there twice.
async fn distinct_ids(rabbit: &Rabbit, queue: &str) -> usize {
    let mut ids = std::collections::BTreeSet::new();
    while let Some(message) = rabbit.next(queue).await {
        ids.insert(message.properties.correlation_id().as_ref().unwrap().to_string());
    }
    ids.len()
}

#[tokio::test]
async fn declaring_makes_what_is_missing_and_makes_it_again_when_it_was_deleted() {
    let rabbit = Rabbit::shared().await;
    let queue = unique("declared");
    let sink = sink(declaring());
    assert_eq!(send_one(&sink, to_queue(&queue)).await, Ok(()));
    assert_eq!(rabbit.count(&queue).await, 1);
    rabbit.channel.queue_delete(queue.as_str().into(), lapin::options::QueueDeleteOptions::default()).await.unwrap();
    let error = send_one(&sink, to_queue(&queue)).await.unwrap_err();
    assert!(error.message.contains("does not exist: 312 NO_ROUTE"), "{error}");
    assert_eq!(send_one(&sink, to_queue(&queue)).await, Ok(()));
    assert_eq!(rabbit.count(&queue).await, 1);
}

#[tokio::test]
async fn an_exchange_that_was_deleted_is_declared_again() {
    let rabbit = Rabbit::shared().await;
    let (exchange, queue) = (unique("shop"), unique("topical"));
    let topic =
        CeleryQueue { exchange: Some(exchange.clone()), exchange_type: "topic".to_owned(), ..CeleryQueue::default() };
    let sink = sink(CelerySettings { queues: queues(&queue, topic), ..declaring() });
    let event = || task("orders.process", json!({ "queue": queue }));
    assert_eq!(send_one(&sink, event()).await, Ok(()));
    let delete = lapin::options::ExchangeDeleteOptions::default();
    rabbit.channel.exchange_delete(exchange.as_str().into(), delete).await.unwrap();
    let error = send_one(&sink, event()).await.unwrap_err();
    assert!(error.message.contains("no exchange"), "{error}");
    assert_eq!(send_one(&sink, event()).await, Ok(()));
    assert_eq!(rabbit.count(&queue).await, 2);
}

#[tokio::test]
async fn a_queue_with_other_arguments_is_one_clear_error_and_others_go_on() {
    let rabbit = Rabbit::shared().await;
    let (other, fine) = (unique("classic"), unique("fine"));
    rabbit.queue(&other, &[]).await;
    let arguments = CeleryQueue { arguments: quorum(), ..CeleryQueue::default() };
    let sink = sink(CelerySettings { queues: queues(&other, arguments), ..declaring() });
    let from_route = |queue: &str| task("orders.process", json!({ "queue": queue }));
    let answers = send(&sink, vec![from_route(&other), from_route(&fine), from_route(&other)]).await;
    for error in [answers[0].clone().unwrap_err(), answers[2].clone().unwrap_err()] {
        assert_eq!(error.kind, SendErrorKind::Retry);
        assert!(error.message.starts_with(&format!("the queue {other:?} or its exchange")), "{error}");
        assert!(error.message.contains("inequivalent arg 'x-queue-type'"), "{error}");
    }
    assert_eq!(answers[1], Ok(()));
    assert_eq!(rabbit.count(&fine).await, 1);
    assert_eq!(rabbit.count(&other).await, 0);
}

#[tokio::test]
async fn what_the_producer_wants_declared_is_declared() {
    let rabbit = Rabbit::shared().await;
    let (queue, exchange) = (unique("orders"), unique("shop"));
    let declare = json!([{ "queue": queue, "durable": true, "arguments": { "x-max-priority": 5 },
        "exchange": exchange, "exchange_type": "topic", "routing_key": "shop.#" }]);
    let event = task(
        "orders.process",
        json!({ "exchange": exchange, "routing_key": "shop.new", "queue": queue, "declare": declare,
            "properties": { "priority": 3 } }),
    );
    assert_eq!(send_one(&sink(declaring()), event).await, Ok(()));
    // The same arguments: RabbitMQ would refuse others.
    rabbit.queue(&queue, &[("x-max-priority", AMQPValue::LongInt(5))]).await;
    let message = rabbit.take(&queue).await;
    assert_eq!((message.exchange.as_str(), message.routing_key.as_str()), (exchange.as_str(), "shop.new"));
    assert_eq!(*message.properties.priority(), Some(3));
}

#[tokio::test]
async fn routes_decide_for_messages_that_were_not_resolved() {
    let rabbit = Rabbit::shared().await;
    let (direct, topic, fallback) = (unique("direct"), unique("topic"), unique("default"));
    let mut routed = CeleryRoute::new("orders.*", &direct);
    routed.priority = Some(7);
    let sink = sink(CelerySettings {
        default_queue: fallback.clone(),
        routes: vec![routed, CeleryRoute::new("mail.*", &topic), CeleryRoute::new("*", &fallback)],
        queues: queues(
            &topic,
            CeleryQueue {
                exchange_type: "topic".to_owned(),
                routing_key: Some("mail.all".to_owned()),
                ..CeleryQueue::default()
            },
        ),
        ..declaring()
    });
    let events = vec![
        task("orders.process", json!({ "routing_key": "ignored for a direct queue" })),
        task("orders.process", json!({ "properties": { "priority": 1 } })),
        task("mail.send", json!({})),
        task("other", json!({})),
        task("other", json!({ "route_name": "orders.other" })),
        StoredEvent::for_tests("order.placed", "{}"),
    ];
    assert_eq!(send(&sink, events).await, vec![Ok(()); 6]);
    let message = rabbit.take(&direct).await;
    assert_eq!((message.exchange.as_str(), message.routing_key.as_str()), ("", direct.as_str()));
    assert_eq!(*message.properties.priority(), Some(7));
    assert_eq!(*rabbit.take(&direct).await.properties.priority(), Some(1));
    assert_eq!(header(&rabbit.take(&direct).await, "task"), Some(&text("other")));
    let message = rabbit.take(&topic).await;
    assert_eq!((message.exchange.as_str(), message.routing_key.as_str()), (topic.as_str(), "mail.all"));
    assert_eq!(header(&rabbit.take(&fallback).await, "task"), Some(&text("other")));
    let plain = rabbit.take(&fallback).await;
    assert_eq!(header(&plain, "task"), Some(&text("order.placed")));
    assert_eq!(header(&plain, "aggregate_type"), Some(&text("Order")));
    assert_eq!(plain.data, br#"[[{}], {}, {"callbacks": null, "errbacks": null, "chain": null, "chord": null}]"#);
}

#[tokio::test]
async fn a_payload_that_looks_like_a_message_chooses_nothing() {
    let rabbit = Rabbit::shared().await;
    let (victim, ours) = (unique("victim"), unique("ours"));
    rabbit.queue(&victim, &[]).await;
    let sink = sink(CelerySettings { default_queue: ours.clone(), ..declaring() });
    let forged = forged(&victim);
    assert_eq!(send_one(&sink, forged.clone()).await, Ok(()));
    let message = rabbit.take(&ours).await;
    assert_eq!(header(&message, "task"), Some(&text("order.placed")));
    assert_eq!(header(&message, "id"), Some(&text(&forged.id.to_string())));
    assert!(std::str::from_utf8(&message.data).unwrap().starts_with(&format!("[[{}], {{}}, ", forged.payload)));
    assert_eq!(rabbit.count(&victim).await, 0);
}

#[tokio::test]
async fn a_task_with_an_eta_waits_in_the_broker_for_a_quorum_queue() {
    let rabbit = Rabbit::shared().await;
    let queue = unique("delayed");
    let topic = CeleryQueue { exchange_type: "topic".to_owned(), arguments: quorum(), ..CeleryQueue::default() };
    let sink = sink(CelerySettings { queues: queues(&queue, topic), ..declaring() });
    let at = |seconds: i64| (chrono::Utc::now() + chrono::TimeDelta::seconds(seconds)).to_rfc3339();
    let event = |eta: String| task("orders.process", json!({ "queue": queue, "headers": { "eta": eta } }));
    let started = std::time::Instant::now();
    assert_eq!(send(&sink, vec![event(at(3)), event(at(-3))]).await, vec![Ok(()); 2]);
    let now = rabbit.take(&queue).await;
    assert_eq!(now.routing_key.as_str(), queue, "its time has come already");
    let later = rabbit.take(&queue).await;
    assert!(started.elapsed().as_secs_f64() > 1.9, "it came after {:?}", started.elapsed());
    // Two whole seconds were left when it was sent.
    let bits = format!("{}1.0.", "0.".repeat(26));
    assert_eq!(later.routing_key.as_str(), format!("{bits}{queue}"));
    let direct = task("orders.process", json!({ "queue": unique("direct"), "headers": { "eta": at(600) } }));
    assert_eq!(send_one(&sink, direct).await, Ok(()), "a direct queue gets it at once, and its worker waits");
}

#[tokio::test]
async fn what_cannot_be_a_message_is_rejected_alone() {
    let rabbit = Rabbit::shared().await;
    let queue = unique("good");
    rabbit.queue(&queue, &[]).await;
    let events = vec![
        StoredEvent::task_for_tests("t", r#"{"celery": 7}"#),
        to_queue(&queue),
        task("t", json!({ "exchange": "", "routing_key": "x".repeat(256) })),
        task("t", json!({ "exchange": "", "routing_key": queue, "headers": { "big": "x".repeat(200_000) } })),
    ];
    let answers = send(&sink(broker()), events).await;
    let rejected = |index: usize| {
        let error = answers[index].clone().unwrap_err();
        assert_eq!(error.kind, SendErrorKind::Reject, "{error}");
        error.message
    };
    assert!(rejected(0).contains("recorded in version 7"));
    assert_eq!(answers[1], Ok(()));
    assert!(rejected(2).contains("\"routing_key\" of the Celery message is longer"));
    assert!(rejected(3).contains("put large values into the task's arguments"));
    rabbit.purge(&queue).await;
}

#[tokio::test]
async fn the_queue_type_is_for_queues_that_nobody_described() {
    let rabbit = Rabbit::shared().await;
    let queue = unique("quorum");
    let sink = sink(CelerySettings { queue_type: QueueType::Quorum, ..declaring() });
    assert_eq!(send_one(&sink, task("orders.process", json!({ "queue": queue }))).await, Ok(()));
    rabbit.queue(&queue, &[("x-queue-type", text("quorum"))]).await;
    rabbit.take(&queue).await;
}
