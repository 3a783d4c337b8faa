//! `deduplicate`: an event that is sent again within the window is stored once.

use ::redis::AsyncCommands as _;
use pillarbox_testkit::brokers::redis::{RedisBroker, STREAM};
use pillarbox_testkit::brokers::{Broker as _, sink};
use pillarbox_testkit::redis::connect;

use super::{ids, keys, message, run, sent};

#[tokio::test]
async fn an_event_is_stored_once_within_the_window() {
    let broker = RedisBroker::start().await;
    let keys = keys(&broker.url(), STREAM, "deduplicate = \"10m\"");
    let messages: Vec<_> = (0..20).map(|number| message(&number.to_string(), &[])).collect();
    // Another sink, as after a crash of the relay.
    for sink in [sink(&keys), sink(&keys)] {
        assert_eq!(sink.send(&messages).await, vec![Ok(()); 20]);
    }
    assert_eq!(ids(&broker.received().await), sent(&messages));

    let mut redis = connect(&broker.url()).await;
    let mark = format!("{{{STREAM}}}:pillarbox:{}", messages[0].id);
    let left: i64 = redis.pttl(&mark).await.unwrap();
    assert!((500_000..=600_000).contains(&left), "{left}");
    // The window is over.
    let () = redis.del(&mark).await.unwrap();
    assert_eq!(sink(&keys).send(&messages[..1]).await, [Ok(())]);
    assert_eq!(broker.received().await.len(), 21);
}

#[tokio::test]
async fn a_run_that_is_repeated_goes_on_where_it_ended() {
    let broker = RedisBroker::start().await;
    let sink = sink(&keys(&broker.url(), STREAM, "deduplicate = \"10m\""));
    let run = run("a", 6);
    assert_eq!(sink.send(&run[..4]).await, vec![Ok(()); 4]);
    // The answer was lost.
    assert_eq!(sink.send(&run).await, vec![Ok(()); 6]);
    assert_eq!(ids(&broker.received().await), sent(&run));
}

#[tokio::test]
async fn without_the_key_each_send_is_an_entry() {
    let broker = RedisBroker::start().await;
    let (sink, message) = (sink(&broker.keys()), message("1", &[]));
    for _ in 0..2 {
        assert_eq!(sink.send(std::slice::from_ref(&message)).await, [Ok(())]);
    }
    assert_eq!(broker.received().await.len(), 2);
}
