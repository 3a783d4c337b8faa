//! A cluster and sentinels, and what happens when a master dies.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use pillarbox::{Message, SendErrorKind, Sink};
use pillarbox_testkit::brokers::redis::{PASSWORD, STREAM};
use pillarbox_testkit::brokers::{Received, read, sink};
use pillarbox_testkit::redis::{Cluster, Redis, Sentinel};

use super::{ids, keys, message, run, sent};

const PATIENCE: Duration = Duration::from_secs(60);

async fn received(cluster: &Cluster, stream: &str) -> Vec<Received> {
    read("redis_streams.py", &[cluster.url().rsplit(';').next().unwrap(), stream, "cluster"]).await
}

/// Sends batch by batch until every message is confirmed. Only outages may come between. Returns whether there was one.
async fn send_until_confirmed(sink: &dyn Sink, messages: &[Message]) -> bool {
    let (mut had_outage, deadline) = (false, Instant::now() + PATIENCE);
    for batch in messages.chunks(50) {
        let mut open = batch.to_vec();
        while !open.is_empty() {
            let mut results = sink.send(&open).await.into_iter();
            open.retain(|_| match results.next().unwrap() {
                Ok(()) => false,
                Err(error) => {
                    assert!(matches!(error.kind, SendErrorKind::Unavailable | SendErrorKind::Timeout), "{error:?}");
                    assert!(Instant::now() < deadline, "{error}");
                    had_outage = true;
                    true
                }
            });
        }
    }
    had_outage
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_are_on_all_nodes_of_a_cluster() {
    let cluster = Cluster::start().await;
    for (more, copies) in [("cluster = true", 2), ("cluster = true\ndeduplicate = \"10m\"", 1)] {
        let prefix = if copies == 1 { "once" } else { "each" };
        let sink = sink(&keys(&cluster.url(), &format!("{prefix}:{{aggregate_id}}"), more));
        let batch: Vec<_> = (0..30).flat_map(|number| run(&number.to_string(), 3)).collect();
        for _ in 0..2 {
            assert_eq!(sink.send(&batch).await, vec![Ok(()); 90]);
        }
        for number in [0, 1, 2, 29] {
            let expected = vec![sent(&batch[number * 3..number * 3 + 3]); copies].concat();
            assert_eq!(ids(&received(&cluster, &format!("{prefix}:{number}")).await), expected);
        }
    }
    let constant = keys(&cluster.url(), STREAM, "cluster = true\ncreate = false");
    let error = sink(&constant).reach().await.unwrap_err();
    assert!(error.message.starts_with("stream \"orders\" does not exist in the redis cluster of 127.0.0.1"), "{error}");

    let first = cluster.url().split(';').next().unwrap().to_owned();
    let messages: Vec<_> = (0..30).map(|number| message(&number.to_string(), &[])).collect();
    let results = sink(&keys(&first, "{aggregate_id}", "")).send(&messages).await;
    let error = results.into_iter().find_map(Result::err).unwrap();
    assert_eq!(error.kind, SendErrorKind::Unavailable);
    assert!(error.message.ends_with("set cluster = true"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_of_a_cluster_that_dies_is_an_outage_that_loses_nothing() {
    let mut cluster = Cluster::start().await;
    cluster.add_replica(STREAM).await;
    // A replica has what was confirmed.
    let sink = sink(&keys(&cluster.url(), STREAM, "cluster = true\nreplicas = 1"));
    let before: Vec<_> = (0..500).map(|number| message(&number.to_string(), &[])).collect();
    send_until_confirmed(&*sink, &before).await;
    cluster.kill_master_of(STREAM).await;
    // The new master has no replica.
    let sink = pillarbox_testkit::brokers::sink(&keys(&cluster.url(), STREAM, "cluster = true"));
    let after: Vec<_> = (0..500).map(|number| message(&number.to_string(), &[])).collect();
    assert!(send_until_confirmed(&*sink, &after).await, "the death of the master is an outage");
    let arrived: BTreeSet<_> = ids(&received(&cluster, STREAM).await).into_iter().collect();
    let all = [sent(&before), sent(&after)].concat();
    assert_eq!(all.iter().filter(|id| !arrived.contains(*id)).count(), 0, "lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_lead_to_the_next_master() {
    let login = [("requirepass", PASSWORD), ("masterauth", PASSWORD)];
    let mut master = Redis::start_with(&login).await;
    let of_it = format!("127.0.0.1 {}", master.port());
    let next = Redis::start_with(&[&login[..], &[("replicaof", &of_it)]].concat()).await;
    let sentinel = Sentinel::start(master.port(), Some(PASSWORD)).await;
    sentinel.knows_a_replica().await;
    let url = format!("sentinel://:{PASSWORD}@127.0.0.1:1;sentinel://127.0.0.1:{}/0", sentinel.port());
    let sink = sink(&keys(&url, STREAM, "master_name = \"main\""));
    assert_eq!(sink.reach().await, Ok(()));
    assert!(!send_until_confirmed(&*sink, &run("1", 3)).await);
    master.kill().await;
    let after: Vec<_> = (0..100).map(|number| message(&number.to_string(), &[])).collect();
    assert!(send_until_confirmed(&*sink, &after).await, "the death of the master is an outage");
    let url = format!("redis://:{PASSWORD}@127.0.0.1:{}/0", next.port());
    let arrived: BTreeSet<_> = ids(&read("redis_streams.py", &[&url, STREAM]).await).into_iter().collect();
    assert!(sent(&after).iter().all(|id| arrived.contains(id)));
}
