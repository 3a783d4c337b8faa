//! Brokers of the tests' own that are killed, frozen and full: what is unavailable is said to be, and comes back by itself.

use std::time::Duration;

use ::redis::AsyncCommands as _;
use futures_util::FutureExt as _;
use pillarbox::{SendErrorKind, StoredEvent};
use pillarbox_sinks::celery::CelerySettings;
use pillarbox_testkit::redis::Sentinel;
use pillarbox_testkit::{RabbitMq, Redis, wait_until};
use serde_json::json;

use crate::fixture::{PATIENCE, Rabbit, redis, send, send_one, settings, sink, task, to_queue, unique};

const TIMEOUT: Duration = Duration::from_secs(2);

fn impatient(url: &str, declare: bool) -> CelerySettings {
    CelerySettings { timeout: TIMEOUT, declare, ..settings(url) }
}

async fn before_the_relay_gives_up<T>(sending: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, sending).await.expect("the sink answers before the relay gives up")
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
    // The first one may still meet the end of the old connection.
    let refused = async || {
        let error = send_one(&sink, event()).await.unwrap_err();
        assert_eq!(error.kind, SendErrorKind::Unavailable, "{error}");
        error.message.contains("Connection refused")
    };
    wait_until("a new connection is refused", PATIENCE, refused).await;

    // With too little memory RabbitMQ takes one message, answers nothing, and tells the client that it is blocked.
    server.limit_memory("1MB");
    server.start_again().await;
    let blocked = async || {
        let error = send_one(&sink, event()).await.unwrap_err();
        assert_ne!(error.kind, SendErrorKind::Retry, "{error}");
        error.message.contains("has blocked publishers")
    };
    wait_until("the broker blocks", PATIENCE, blocked).await;
    let error = send_one(&sink, event()).now_or_never().expect("nothing is waited for").unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Unavailable);

    server.kill().await;
    server.limit_memory("1GB");
    server.start_again().await;
    wait_until("the sink is connected again", PATIENCE, async || send_one(&sink, event()).await.is_ok()).await;

    server.freeze();
    let error = before_the_relay_gives_up(send_one(&sink, event())).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Unavailable, "{error}");
    assert!(error.message.ends_with("did not confirm within 2s"), "{error}");
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

/// A port that nobody listens on.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[tokio::test]
async fn nobody_listens() {
    let port = free_port();
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
    let port = free_port();
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
    let error = before_the_relay_gives_up(send_one(&sink, to_queue("orders"))).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Unavailable, "{error}");
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

#[tokio::test]
async fn sentinels_lead_to_the_master_and_to_the_next_one() {
    let mut master = Redis::start_with(&[]).await;
    let next = Redis::start_with(&[("replicaof", &format!("127.0.0.1 {}", master.port()))]).await;
    let sentinel = Sentinel::start(master.port(), None).await;
    let sink = sink(CelerySettings {
        master_name: Some("main".to_owned()),
        ..impatient(&format!("sentinel://127.0.0.1:1;sentinel://127.0.0.1:{}/0", sentinel.port()), false)
    });
    assert_eq!(send_one(&sink, to_queue("orders")).await, Ok(()));
    let length = async |url: &str| -> u32 { redis(url).await.llen("orders").await.unwrap() };
    assert_eq!(length(&master.url()).await, 1);
    sentinel.knows_a_replica().await;
    master.kill().await;
    let error = send_one(&sink, to_queue("orders")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Unavailable, "{error}");
    wait_until("the replica has become the master", PATIENCE, async || {
        send_one(&sink, to_queue("after")).await.is_ok()
    })
    .await;
    let after: u32 = redis(&next.url()).await.llen("after").await.unwrap();
    assert_eq!(after, 1);
}

#[tokio::test]
async fn redis_is_reached_by_its_socket() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("redis.sock");
    let server = Redis::start_with(&[("unixsocket", path.to_str().unwrap()), ("requirepass", "hunter2")]).await;
    // The server listens on its port a moment before it does on its socket.
    let listens = async || std::os::unix::net::UnixStream::connect(&path).is_ok();
    wait_until("it listens on its socket", PATIENCE, listens).await;
    let sink = sink(settings(format!("redis+socket://:hunter2@{}?virtual_host=3", path.display())));
    assert_eq!(send_one(&sink, to_queue("orders")).await, Ok(()));
    let mut look = redis(&server.url().replace("redis://", "redis://:hunter2@").replace("/0", "/3")).await;
    assert_eq!(look.llen::<_, u32>("orders").await.unwrap(), 1);
}
