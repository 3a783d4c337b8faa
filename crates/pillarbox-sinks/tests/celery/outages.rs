//! Brokers of the tests' own that are killed, frozen and full: what is unavailable is said to be, and comes back by itself.

use std::time::{Duration, Instant};

use pillarbox::{SendErrorKind, StoredEvent};
use pillarbox_sinks::celery::CelerySettings;
use pillarbox_testkit::{RabbitMq, Redis, wait_until};
use serde_json::json;

use crate::fixture::{PATIENCE, Rabbit, redis, send, send_one, settings, sink, task, to_queue, unique};

fn impatient(url: &str, declare: bool) -> CelerySettings {
    CelerySettings { timeout: Duration::from_secs(2), declare, ..settings(url) }
}

#[tokio::test]
async fn rabbitmq_is_killed_frozen_and_blocked() {
    let mut server = RabbitMq::start().await;
    let queue = unique("orders");
    let sink = sink(impatient(&server.url(), true));
    let event = || to_queue(&queue);
    assert_eq!(send_one(&sink, event()).await, Ok(()));
    a_delayed_message_without_its_exchange(&server).await;

    server.kill().await;
    let error = send_one(&sink, event()).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Unavailable, "{error}");
    assert!(error.message.contains("Connection refused"), "{error}");

    // With too little memory RabbitMQ takes one message, answers nothing, and tells the client that it is blocked.
    server.limit_memory("1MB");
    server.start_again().await;
    let blocked = async || {
        let error = send_one(&sink, event()).await.unwrap_err();
        assert_ne!(error.kind, SendErrorKind::Retry, "{error}");
        error.message.contains("has blocked publishers")
    };
    wait_until("the broker blocks", PATIENCE, blocked).await;
    let started = Instant::now();
    let error = send_one(&sink, event()).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Unavailable);
    assert!(started.elapsed() < Duration::from_millis(500), "nothing is waited for: {:?}", started.elapsed());

    server.kill().await;
    server.limit_memory("1GB");
    server.start_again().await;
    wait_until("the sink is connected again", PATIENCE, async || send_one(&sink, event()).await.is_ok()).await;

    server.freeze();
    let started = Instant::now();
    let error = send_one(&sink, event()).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Timeout, "{error}");
    assert!(error.message.ends_with("did not confirm within 2s"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(2), "the relay would have given up: {:?}", started.elapsed());
    server.thaw();
    wait_until("the sink is connected again", PATIENCE, async || send_one(&sink, event()).await.is_ok()).await;
}

async fn a_delayed_message_without_its_exchange(server: &RabbitMq) {
    let rabbit = Rabbit::connect(&server.url()).await;
    rabbit.queue("target", &[]).await;
    let eta = (chrono::Utc::now() + chrono::TimeDelta::seconds(60)).to_rfc3339();
    let delayed: StoredEvent = task(
        "orders.process",
        json!({ "exchange": "", "routing_key": "target", "delayed": true, "headers": { "eta": eta } }),
    );
    let answers = send(&sink(impatient(&server.url(), false)), vec![delayed, to_queue("target")]).await;
    let error = answers[0].clone().unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Retry);
    assert!(error.message.contains("no exchange 'celery_delayed_27'"), "{error}");
    assert!(error.message.ends_with("set declare = true"), "{error}");
    assert_eq!(answers[1], Ok(()));
}

#[tokio::test]
async fn nobody_listens() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    for broker in [
        format!("amqp://127.0.0.1:{port}//"),
        format!("redis://127.0.0.1:{port}/0"),
        format!("sentinel://127.0.0.1:{port}"),
        "redis+socket:///nowhere/redis.sock".to_owned(),
    ] {
        let sink = sink(CelerySettings { master_name: Some("main".to_owned()), ..settings(&broker) });
        let answers = send(&sink, vec![to_queue("x"), to_queue("y")]).await;
        for answer in answers {
            let error = answer.unwrap_err();
            assert_eq!(error.kind, SendErrorKind::Unavailable, "{broker}: {error}");
        }
    }
}

#[tokio::test]
async fn the_second_address_is_tried_when_the_first_is_gone() {
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let rabbit = Rabbit::shared().await;
    let queue = unique("second");
    rabbit.queue(&queue, &[]).await;
    let shared = pillarbox_testkit::rabbitmq::shared_url();
    let sink = sink(settings(format!("amqp://127.0.0.1:{port}//;{shared}")));
    assert_eq!(send_one(&sink, to_queue(&queue)).await, Ok(()));
}

#[tokio::test]
async fn redis_is_killed_frozen_and_full() {
    let mut server = Redis::start().await;
    let sink = sink(impatient(&server.url(), false));
    assert_eq!(send_one(&sink, to_queue("orders")).await, Ok(()));

    server.kill().await;
    let error = send_one(&sink, to_queue("orders")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Unavailable, "{error}");
    let error = send_one(&sink, to_queue("orders")).await.unwrap_err();
    assert!(error.message.contains("Connection refused"), "{error}");
    server.start_again().await;
    wait_until("the sink is connected again", PATIENCE, async || send_one(&sink, to_queue("orders")).await.is_ok())
        .await;

    server.freeze();
    let started = Instant::now();
    let error = send_one(&sink, to_queue("orders")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Timeout, "{error}");
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    server.thaw();
    assert_eq!(send_one(&sink, to_queue("orders")).await, Ok(()));

    let mut look = redis(&server.url()).await;
    let command = |words: &str| {
        let mut words = words.split(' ');
        let mut command = ::redis::cmd(words.next().unwrap());
        words.for_each(|word| {
            command.arg(word);
        });
        command
    };
    for (make, undo, expected) in [
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", "OOM"),
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "READONLY"),
    ] {
        let () = command(make).query_async(&mut look).await.unwrap();
        let error = send_one(&sink, to_queue("orders")).await.unwrap_err();
        assert_eq!(error.kind, SendErrorKind::Unavailable, "{error}");
        assert!(error.message.contains(expected), "{error}");
        let () = command(undo).query_async(&mut look).await.unwrap();
        assert_eq!(send_one(&sink, to_queue("orders")).await, Ok(()));
    }
}
