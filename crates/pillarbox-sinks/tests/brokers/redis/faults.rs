//! Errors of the server, by fault.

use std::sync::Arc;
use std::time::Duration;

use ::redis::AsyncCommands as _;
use pillarbox::{Message, SendError, SendErrorKind, Sink, StoredEvent};
use pillarbox_sinks::Template;
use pillarbox_sinks::redis::{RedisSettings, RedisSink};
use pillarbox_testkit::brokers::redis::{RedisBroker, STREAM};
use pillarbox_testkit::brokers::{Broker as _, sink};
use pillarbox_testkit::redis::{Redis, connect};

use super::{command, ids, keys, message, run, sent};

fn error(results: &[Result<(), SendError>], position: usize) -> &SendError {
    results[position].as_ref().unwrap_err()
}

#[tokio::test]
async fn a_key_that_is_no_stream_is_the_fault_of_its_events_alone() {
    let broker = RedisBroker::start().await;
    let mut redis = connect(&broker.url()).await;
    let () = redis.set("2", "not a stream").await.unwrap();
    let to_each = sink(&keys(&broker.url(), "{aggregate_id}", ""));
    assert!(to_each.keeps_order());
    let batch = [run("1", 1), run("2", 1), run("3", 3), run("2", 3)].concat();
    let results = to_each.send(&batch).await;
    for position in [1, 5] {
        let error = error(&results, position);
        assert_eq!(error.kind, SendErrorKind::Retry);
        assert!(error.message.contains("the key \"2\" in redis://127.0.0.1"), "{error}");
    }
    assert!(error(&results, 6).message.contains("an earlier event of its aggregate"));
    assert!([0, 2, 3, 4].iter().all(|position| results[*position].is_ok()), "{results:?}");
    let error = sink(&keys(&broker.url(), "2", "")).reach().await.unwrap_err();
    assert!(error.message.contains("the key \"2\"") && error.message.contains("the type string"), "{error}");
}

#[tokio::test]
async fn a_missing_stream_is_named_in_runs_too() {
    let broker = RedisBroker::start().await;
    for more in ["create = false", "create = false\ndeduplicate = \"1m\""] {
        let sink = sink(&keys(&broker.url(), "nowhere", more));
        let error = sink.send(&run("1", 3)).await.remove(0).unwrap_err();
        assert_eq!(error.kind, SendErrorKind::Retry);
        assert!(error.message.starts_with("stream \"nowhere\" does not exist in redis://127.0.0.1"), "{error}");
    }
    let mut redis = connect(&broker.url()).await;
    let keys: Vec<String> = redis.keys("*").await.unwrap();
    assert!(keys.is_empty(), "{keys:?}");
}

#[tokio::test]
async fn a_full_or_read_only_server_is_an_outage() {
    let broker = RedisBroker::start().await;
    let mut redis = connect(&broker.url()).await;
    let sink = sink(&broker.keys());
    for (make, undo, code) in [
        ("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", "OOM"),
        ("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "READONLY"),
        ("CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0", "NOREPLICAS"),
    ] {
        // The script must be known for the outage to reach it.
        assert_eq!(sink.send(&run("1", 2)).await, vec![Ok(()); 2]);
        command(&mut redis, make).await;
        let results = sink.send(&[run("1", 1), run("2", 3)].concat()).await;
        for position in 0..4 {
            let error = error(&results, position);
            assert_eq!(error.kind, SendErrorKind::Unavailable, "{error}");
            assert!(error.message.contains(code), "{error}");
        }
        let error = sink.reach().await.unwrap_err();
        assert!(error.message.contains(code), "{error}");
        command(&mut redis, undo).await;
    }
    assert_eq!(sink.send(&run("1", 2)).await, vec![Ok(()); 2]);
    assert_eq!(broker.received().await.len(), 8);
}

#[tokio::test]
async fn a_user_without_permission_learns_which_is_missing() {
    let broker = RedisBroker::start().await;
    let mut redis = connect(&broker.url()).await;
    let url = broker.url().replace("default:", "writer:");
    let cases = [
        // The key is not allowed; the command is not allowed; the script is not allowed; a command of the script is not.
        ("~other +@all", run("1", 1)),
        ("~* +ping", run("1", 1)),
        ("~* +xadd", run("1", 2)),
        ("~* +eval +evalsha", run("1", 2)),
        ("~other +@all", run("1", 2)),
    ];
    for (number, (rights, batch)) in cases.into_iter().enumerate() {
        command(&mut redis, &format!("ACL SETUSER writer reset on >open-sesame {rights}")).await;
        let sink = sink(&keys(&url, STREAM, ""));
        let results = sink.send(&batch).await;
        let error = error(&results, 0);
        assert_eq!(error.kind, SendErrorKind::Retry, "{rights}: {error}");
        assert!(error.message.contains("+xadd and ~orders"), "{rights}: {error}");
        if number < 2 {
            let error = sink.reach().await.unwrap_err();
            assert!(error.message.contains("+xadd and ~orders"), "{rights}: {error}");
        }
    }
    // The least that the docs name.
    command(&mut redis, "ACL SETUSER writer reset on >open-sesame ~orders +xadd").await;
    let least = sink(&keys(&url, STREAM, ""));
    assert_eq!((least.reach().await, least.send(&run("1", 1)).await), (Ok(()), vec![Ok(())]));
    let rights = "~orders ~{orders}:pillarbox:* +xadd +eval +evalsha +exists +set";
    command(&mut redis, &format!("ACL SETUSER writer reset on >open-sesame {rights}")).await;
    let deduplicating = sink(&keys(&url, STREAM, "deduplicate = \"1m\""));
    assert_eq!(deduplicating.send(&run("1", 3)).await, vec![Ok(()); 3]);
}

#[tokio::test]
async fn a_large_message_harms_no_other_when_the_limit_is_a_secret() {
    let broker = RedisBroker::start().await;
    let mut redis = connect(&broker.url()).await;
    command(&mut redis, "ACL SETUSER writer reset on >open-sesame ~orders +xadd").await;
    let sink = sink(&keys(&broker.url().replace("default:", "writer:"), STREAM, ""));
    let payload = format!("{:?}", "x".repeat(2 << 20));
    let large = Message::new(Arc::new(StoredEvent::for_tests("order.placed", &payload)), 1);
    let batch = [message("1", &[]), large, message("2", &[])];
    let results = sink.send(&batch).await;
    assert_eq!((&results[0], &results[2]), (&Ok(()), &Ok(())));
    let error = error(&results, 1);
    // The server closes the connection. Its last words may be lost then.
    assert!(matches!(error.kind, SendErrorKind::Reject | SendErrorKind::Timeout), "{error:?}");
    assert!(error.message.contains("large") || error.message.contains("bytes"), "{error}");
    assert_eq!(ids(&broker.received().await), [sent(&batch[..1]), sent(&batch[2..])].concat());
}

#[tokio::test]
async fn replicas_must_acknowledge_if_they_are_asked_for() {
    let master = Redis::start().await;
    let sink = RedisSink::new(RedisSettings {
        replicas: Some(1),
        timeout: Duration::from_secs(2),
        ..RedisSettings::new(master.url(), Template::fixed(STREAM))
    });
    let sink = sink.unwrap();
    let (one, three) = (run("1", 1), run("2", 3));
    let results = sink.send(&[&one[..], &three].concat()).await;
    for position in 0..4 {
        let error = error(&results, position);
        assert_eq!(error.kind, SendErrorKind::Unavailable);
        assert!(error.message.contains("0 of 1 acknowledged in time"), "{error}");
    }
    let replica = Redis::start_with(&[("replicaof", &format!("127.0.0.1 {}", master.port()))]).await;
    let patience = Duration::from_secs(20);
    pillarbox_testkit::wait_until("the replica acknowledges", patience, async || sink.send(&one).await[0].is_ok())
        .await;
    let mut redis = connect(&replica.url()).await;
    let length: usize = redis.xlen(STREAM).await.unwrap();
    assert!(length >= 5, "{length}");
}
