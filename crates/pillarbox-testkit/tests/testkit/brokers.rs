//! RabbitMQ and Redis of their own: killed, they come back with what they acknowledged; dropped, they are gone.

use std::net::TcpStream;

use lapin::options::{BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use pillarbox_testkit::{RabbitMq, Redis, rabbitmq, redis as testkit_redis, wait_until};
use redis::AsyncCommands;
use uuid::Uuid;

use crate::PATIENCE;

fn listens(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

async fn channel(url: &str) -> Channel {
    // What kombu writes as `//` is the virtual host `/`, which others write as `/%2f`.
    let url = url.strip_suffix("//").map_or(url.to_owned(), |server| format!("{server}/%2f"));
    let connection = Connection::connect(&url, ConnectionProperties::default()).await.expect("RabbitMQ answers");
    connection.create_channel().await.expect("a channel")
}

async fn declare(channel: &Channel, name: &str) {
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(name.into(), durable, FieldTable::default()).await.expect("a queue is declared");
}

/// Publishes one persistent message to the durable queue `name`, confirmed.
async fn publish(channel: &Channel, name: &str) {
    channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
    let persistent = BasicProperties::default().with_delivery_mode(2);
    let sent = channel.basic_publish("".into(), name.into(), BasicPublishOptions::default(), b"kept", persistent).await;
    assert!(sent.expect("it is sent").await.expect("it is confirmed").is_ack());
}

async fn take(channel: &Channel, name: &str) -> Vec<u8> {
    let message = channel.basic_get(name.into(), BasicGetOptions { no_ack: true }).await.expect("the queue answers");
    message.expect("a message is there").delivery.data
}

#[tokio::test]
async fn a_killed_rabbitmq_comes_back_with_what_it_confirmed() {
    let mut rabbitmq = RabbitMq::start().await;
    declare(&channel(&rabbitmq.url()).await, "kept").await;
    // Definitions, unlike confirmed messages, are certain to be on disk only after a graceful stop: a kill right after the
    // declaration has lost the queue.
    rabbitmq.stop().await;
    rabbitmq.start_again().await;
    publish(&channel(&rabbitmq.url()).await, "kept").await;
    let before = rabbitmq.pid();

    rabbitmq.kill().await;
    assert!(!listens(rabbitmq.port()));
    rabbitmq.start_again().await;
    assert_ne!(before, rabbitmq.pid());
    assert_eq!(take(&channel(&rabbitmq.url()).await, "kept").await, b"kept");

    let port = rabbitmq.port();
    drop(rabbitmq);
    wait_until("nobody answers", PATIENCE, async || !listens(port)).await;
}

#[tokio::test]
async fn a_killed_redis_comes_back_with_what_it_acknowledged() {
    let mut server = Redis::start().await;
    let mut connection = testkit_redis::connect(&server.url()).await;
    let _: () = connection.lpush("list", "kept").await.expect("it is written");
    let before = server.pid();

    server.kill().await;
    assert!(!listens(server.port()));
    server.start_again().await;
    assert_ne!(before, server.pid());
    let mut connection = testkit_redis::connect(&server.url()).await;
    let kept: Vec<String> = connection.lrange("list", 0, -1).await.expect("it is read");
    assert_eq!(kept, ["kept"]);

    let port = server.port();
    drop(server);
    wait_until("nobody answers", PATIENCE, async || !listens(port)).await;
}

#[tokio::test]
async fn the_shared_brokers_are_there() {
    let name = format!("testkit-{}", Uuid::now_v7());
    let channel = channel(&rabbitmq::shared_url()).await;
    declare(&channel, &name).await;
    publish(&channel, &name).await;
    assert_eq!(take(&channel, &name).await, b"kept");

    let mut connection = testkit_redis::connect(&testkit_redis::shared_url()).await;
    let length: u64 = connection.lpush(&name, "kept").await.expect("it is written");
    assert_eq!(length, 1);
    let _: () = connection.del(&name).await.expect("it is removed");
}
