//! Redis: what stands in it afterwards is what kombu's workers look for.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pillarbox::SendErrorKind;
use pillarbox_sinks::celery::{CeleryQueue, CeleryRoute, CelerySettings};
use pillarbox_testkit::redis::shared_url;
use redis::AsyncCommands as _;
use serde_json::{Value, json};

use crate::fixture::{forged, send, send_one, settings, shared_redis, sink, task, to_queue, unique};

fn broker() -> CelerySettings {
    settings(shared_url())
}

async fn pop(redis: &mut redis::aio::MultiplexedConnection, key: &str) -> Value {
    let envelope: Option<String> = redis.rpop(key, None).await.unwrap();
    serde_json::from_str(&envelope.unwrap_or_else(|| panic!("nothing in {key:?}"))).unwrap()
}

#[tokio::test]
async fn a_batch_arrives_whole_and_in_order() {
    let mut redis = shared_redis().await;
    let queue = unique("whole");
    let events: Vec<_> = (0..500).map(|_| to_queue(&queue)).collect();
    let payloads: Vec<_> = events.iter().map(|event| event.payload.get().to_owned()).collect();
    assert!(send(&sink(broker()), events).await.iter().all(Result::is_ok));
    let mut tags = std::collections::BTreeSet::new();
    for payload in payloads {
        let envelope = pop(&mut redis, &queue).await;
        assert!(payload.contains(envelope["headers"]["id"].as_str().unwrap()));
        assert_eq!(envelope["body"], BASE64_STANDARD.encode("[[42], {}, {}]"));
        let properties = &envelope["properties"];
        assert_eq!(properties["delivery_info"], json!({ "exchange": "", "routing_key": queue }));
        assert_eq!(properties["body_encoding"], "base64");
        tags.insert(properties["delivery_tag"].as_str().unwrap().to_owned());
    }
    assert_eq!(tags.len(), 500, "every message has a tag of its own");
}

#[tokio::test]
async fn priorities_have_lists_of_their_own() {
    let mut redis = shared_redis().await;
    let queue = unique("priorities");
    let with =
        |priority: Value| task("orders.process", json!({ "queue": queue, "properties": { "priority": priority } }));
    let mut route = CeleryRoute::new("*", &queue);
    route.priority = Some(9);
    let settings = CelerySettings { routes: vec![route], key_prefix: "{shop}.".to_owned(), ..broker() };
    let events = vec![with(json!(0)), with(json!(2)), with(json!(5)), with(json!(200)), with(Value::Null)];
    assert_eq!(send(&sink(settings), events).await, vec![Ok(()); 5]);
    for (key, priorities) in [("", vec![0, 2]), ("\x06\x163", vec![5]), ("\x06\x169", vec![9, 9])] {
        for priority in priorities {
            let envelope = pop(&mut redis, &format!("{{shop}}.{queue}{key}")).await;
            assert_eq!(envelope["properties"]["priority"], priority, "{key:?}");
        }
    }
}

#[tokio::test]
async fn a_key_that_is_no_list_is_that_messages_fault_alone() {
    let mut redis = shared_redis().await;
    let (text, good) = (unique("text"), unique("good"));
    let () = redis.set(&text, "not a list").await.unwrap();
    let answers = send(&sink(broker()), vec![to_queue(&good), to_queue(&text), to_queue(&good)]).await;
    let error = answers[1].clone().unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Retry);
    assert!(error.message.contains("WRONGTYPE"), "{error}");
    assert!(error.message.ends_with("rename the queue or the exchange, or set key_prefix"), "{error}");
    assert_eq!((&answers[0], &answers[2]), (&Ok(()), &Ok(())));
    assert_eq!(redis.llen::<_, u32>(&good).await.unwrap(), 2);
}

#[tokio::test]
async fn an_exchange_leads_to_the_queues_that_are_bound_to_it() {
    let mut redis = shared_redis().await;
    let (exchange, all, new) = (unique("shop"), unique("all"), unique("new"));
    let event = |key: &str| task("orders.process", json!({ "exchange": exchange, "routing_key": key }));
    let error = send_one(&sink(broker()), event("orders.new")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Retry);
    assert!(error.message.starts_with(&format!("no queue is bound to the exchange {exchange:?}")), "{error}");

    let topic = |key: &str| CeleryQueue {
        exchange: Some(exchange.clone()),
        exchange_type: "topic".to_owned(),
        routing_key: Some(key.to_owned()),
        ..CeleryQueue::default()
    };
    let queues = BTreeMap::from([(all.clone(), topic("orders.#")), (new.clone(), topic("orders.new"))]);
    let declaring = sink(CelerySettings { queues, declare: true, ..broker() });
    let to = |queue: &str| task("orders.process", json!({ "queue": queue }));
    assert_eq!(send(&declaring, vec![to(&all), to(&new)]).await, vec![Ok(()); 2]);
    let members: Vec<String> = redis.smembers(format!("_kombu.binding.{exchange}")).await.unwrap();
    assert!(members.contains(&format!("orders.new\x06\x16^orders\\.new$\x06\x16{new}")), "{members:?}");
    assert!(members.contains(&format!("orders.#\x06\x16^orders\\..*?$\x06\x16{all}")), "{members:?}");

    // Whoever publishes finds them, and what nobody takes is not lost in silence.
    let answers = send(&sink(broker()), vec![event("orders.new"), event("orders.old"), event("mail")]).await;
    assert_eq!((&answers[0], &answers[1]), (&Ok(()), &Ok(())));
    assert!(answers[2].clone().unwrap_err().message.contains("matches the routing key \"mail\""));
    assert_eq!(redis.llen::<_, u32>(&all).await.unwrap(), 4);
    assert_eq!(redis.llen::<_, u32>(&new).await.unwrap(), 2);
}

#[tokio::test]
async fn a_binding_that_cannot_be_declared_is_the_fault_of_its_exchange_alone() {
    let mut redis = shared_redis().await;
    let (exchange, bad, good) = (unique("shop"), unique("bad"), unique("good"));
    let () = redis.set(format!("_kombu.binding.{exchange}"), "not a set").await.unwrap();
    let topic = |exchange: &str| CeleryQueue {
        exchange: Some(exchange.to_owned()),
        exchange_type: "topic".to_owned(),
        ..CeleryQueue::default()
    };
    let queues = BTreeMap::from([(bad.clone(), topic(&exchange)), (good.clone(), topic(&unique("other")))]);
    let sink = sink(CelerySettings { queues, declare: true, ..broker() });
    let to = |queue: &str| task("orders.process", json!({ "queue": queue }));
    for _ in 0..2 {
        let answers = send(&sink, vec![to(&good), to(&bad), to_queue(&good)]).await;
        let error = answers[1].clone().unwrap_err();
        assert_eq!(error.kind, SendErrorKind::Retry);
        assert!(
            error.message.contains(&format!("to bind the queue {bad:?} to the exchange {exchange:?}: ")),
            "{error}"
        );
        assert_eq!((&answers[0], &answers[2]), (&Ok(()), &Ok(())));
    }
    assert_eq!(redis.llen::<_, u32>(&good).await.unwrap(), 4);
}

#[tokio::test]
async fn a_fanout_exchange_reaches_who_listens() {
    let exchange = unique("broadcast");
    let queue = unique("listener");
    let fanout = CeleryQueue {
        exchange: Some(exchange.clone()),
        exchange_type: "fanout".to_owned(),
        routing_key: Some(String::new()),
        ..CeleryQueue::default()
    };
    let sink = sink(CelerySettings { queues: BTreeMap::from([(queue.clone(), fanout)]), ..broker() });
    let event = || task("orders.process", json!({ "queue": queue }));
    let error = send_one(&sink, event()).await.unwrap_err();
    assert!(error.message.contains("in Redis has no subscribers; start its workers"), "{error}");
    let client = redis::Client::open(shared_url()).unwrap();
    let mut listener = client.get_async_pubsub().await.unwrap();
    listener.subscribe(format!("/0.{exchange}")).await.unwrap();
    assert_eq!(send_one(&sink, event()).await, Ok(()));
    let heard = futures_util::StreamExt::next(&mut listener.on_message()).await.unwrap();
    let envelope: Value = serde_json::from_slice(heard.get_payload_bytes()).unwrap();
    assert_eq!(envelope["properties"]["delivery_info"]["exchange"], exchange);
}

#[tokio::test]
async fn a_payload_that_looks_like_a_message_chooses_nothing() {
    let mut redis = shared_redis().await;
    let (victim, ours) = (unique("victim"), unique("ours"));
    let forged = forged(&victim);
    let sink = sink(CelerySettings { default_queue: ours.clone(), ..broker() });
    assert_eq!(send_one(&sink, forged.clone()).await, Ok(()));
    let envelope = pop(&mut redis, &ours).await;
    assert_eq!((&envelope["headers"]["task"], &envelope["headers"]["id"]), (&json!("order.placed"), &json!(forged.id)));
    assert!(!redis.exists::<_, bool>(&victim).await.unwrap());
}
