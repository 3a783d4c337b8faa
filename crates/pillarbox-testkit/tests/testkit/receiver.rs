//! The receiver counts, answers as told, and goes and comes.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use pillarbox_testkit::{Answer, Receiver, wait_until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use uuid::Uuid;

use crate::PATIENCE;

const MOMENT: Duration = Duration::from_millis(100);

/// One connection, as an HTTP client would keep it open. By hand, so that the tests see what happens to it.
struct Client(TcpStream);

impl Client {
    async fn connect(receiver: &Receiver) -> io::Result<Self> {
        TcpStream::connect(receiver.address()).await.map(Self)
    }

    async fn write(&mut self, id: Uuid, body: &str) -> io::Result<()> {
        let length = body.len();
        let request =
            format!("POST /hook HTTP/1.1\r\nhost: a\r\nwebhook-id: {id}\r\ncontent-length: {length}\r\n\r\n{body}");
        self.0.write_all(request.as_bytes()).await
    }

    /// What comes back; empty when the connection was closed.
    async fn read(&mut self) -> io::Result<String> {
        let mut answer = vec![0; 4096];
        let length = self.0.read(&mut answer).await?;
        Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
    }

    async fn post(&mut self, id: Uuid, body: &str) -> io::Result<String> {
        self.write(id, body).await?;
        self.read().await
    }
}

async fn post(receiver: &Receiver, id: Uuid) -> io::Result<String> {
    Client::connect(receiver).await?.post(id, "{}").await
}

#[tokio::test]
async fn requests_are_kept_and_counted_by_id() {
    let receiver = Receiver::start().await;
    let (once, twice) = (Uuid::now_v7(), Uuid::now_v7());
    let mut client = Client::connect(&receiver).await.expect("it listens");
    for id in [twice, once, twice] {
        let answer = client.post(id, r#"{"order":42}"#).await.expect("it answers");
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    }

    receiver.wait_for(3, PATIENCE).await.expect("three requests");
    assert_eq!((receiver.count(), receiver.distinct()), (3, 2));
    assert_eq!(receiver.requests_by_id(), HashMap::from([(once, 1), (twice, 2)]));
    let received = receiver.received();
    assert_eq!((received[0].path.as_str(), received[0].id), ("/hook", Some(twice)));
    assert_eq!(received[1].body, r#"{"order":42}"#);
    assert_eq!(received[2].headers["webhook-id"], twice.to_string());

    let few = receiver.wait_for(4, MOMENT).await.expect_err("a fourth never came").to_string();
    assert_eq!(few, "3 of 4 requests came in within 100ms");
}

#[tokio::test]
async fn counting_keeps_no_requests() {
    let receiver = Receiver::start_counting().await;
    post(&receiver, Uuid::now_v7()).await.expect("it answers");
    receiver.wait_for_distinct(1, PATIENCE).await.expect("one id");
    assert!(receiver.received().is_empty());
}

#[tokio::test]
async fn answers_are_what_the_test_says() {
    let receiver = Receiver::start().await;
    let (busy, late, good) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());
    receiver.answer_with(move |received| match received.id {
        Some(id) if id == busy => Answer::status(503).header("retry-after", "7").body("later"),
        Some(id) if id == late => Answer::status(202).after(MOMENT),
        _ => Answer::ok(),
    });

    let answer = post(&receiver, busy).await.expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("retry-after: 7") && answer.ends_with("later"), "{answer}");
    assert!(post(&receiver, late).await.expect("it answers in the end").starts_with("HTTP/1.1 202"));
    post(&receiver, good).await.expect("it answers");
    assert_eq!(receiver.accepted_by_id(), HashMap::from([(late, 1), (good, 1)]));
    assert_eq!(receiver.distinct(), 3);
}

#[tokio::test]
async fn a_request_can_hang_or_be_dropped() {
    let receiver = Receiver::start().await;
    receiver.answer_with(|_| Answer::Hang);
    let mut hanging = Client::connect(&receiver).await.expect("it listens");
    hanging.write(Uuid::now_v7(), "{}").await.expect("it reads");
    receiver.wait_for(1, PATIENCE).await.expect("the request");
    assert!(timeout(MOMENT, hanging.read()).await.is_err(), "no answer, and the connection is open");

    receiver.answer_with(|_| Answer::Drop);
    let dropped = timeout(PATIENCE, post(&receiver, Uuid::now_v7())).await.expect("the connection is closed");
    assert_eq!(dropped.unwrap_or_default(), "");
    assert_eq!(receiver.count(), 2);

    receiver.stop().await;
    let broken = timeout(PATIENCE, hanging.read()).await.expect("an outage closes what hangs");
    assert_eq!(broken.unwrap_or_default(), "");
}

#[tokio::test]
async fn an_outage_refuses_connections_and_ends() {
    let receiver = Receiver::start().await;
    let url = receiver.url("/hook");
    let mut kept = Client::connect(&receiver).await.expect("it listens");
    kept.post(Uuid::now_v7(), "{}").await.expect("it answers");

    receiver.stop().await;
    assert_eq!(kept.read().await.unwrap_or_default(), "", "open connections break");
    let refused = post(&receiver, Uuid::now_v7()).await.expect_err("nobody listens");
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);

    receiver.restart().await;
    assert_eq!(receiver.url("hook"), url);
    post(&receiver, Uuid::now_v7()).await.expect("it answers again");
    assert_eq!(receiver.count(), 2, "what came in before the outage stays known");
}

#[tokio::test]
async fn a_dropped_receiver_is_gone() {
    let receiver = Receiver::start().await;
    let address = receiver.address();
    drop(receiver);
    wait_until("nobody listens", PATIENCE, async || TcpStream::connect(address).await.is_err()).await;
}
