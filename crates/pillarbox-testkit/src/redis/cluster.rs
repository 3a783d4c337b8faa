//! A cluster of three masters on this host, and replicas on demand.

use std::time::Duration;

use redis::aio::MultiplexedConnection;

use super::{Redis, connect};
use crate::{port, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);
const SLOTS: [(u16, u16); 3] = [(0, 5460), (5461, 10922), (10923, 16383)];

/// Three masters that share the slots. They end when the value is dropped.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Redis>,
}

impl Cluster {
    /// Starts three masters, and waits until they serve all slots.
    ///
    /// # Panics
    /// When a server does not start, or the cluster does not become ready.
    pub async fn start() -> Self {
        let mut cluster = Self { nodes: Vec::new() };
        for (first, last) in SLOTS {
            let mut node = cluster.add().await;
            let () = command("CLUSTER", &["ADDSLOTSRANGE", &first.to_string(), &last.to_string()], &mut node).await;
        }
        cluster.is_ready().await;
        cluster
    }

    /// Returns the address of each node, separated by `;`.
    pub fn url(&self) -> String {
        let urls: Vec<_> = self.nodes.iter().map(|node| format!("redis://127.0.0.1:{}", node.port())).collect();
        urls.join(";")
    }

    /// Starts a replica of the master of a key, and waits until it has everything.
    ///
    /// # Panics
    /// When it does not become a replica.
    pub async fn add_replica(&mut self, key: &str) {
        let mut master = connect(&self.nodes[self.master_of(key).await].url()).await;
        let id: String = command("CLUSTER", &["MYID"], &mut master).await;
        let mut node = self.add().await;
        wait_until("the new node knows the master", PATIENCE, async || {
            let done: redis::RedisResult<()> =
                redis::cmd("CLUSTER").arg("REPLICATE").arg(&id).query_async(&mut node).await;
            done.is_ok()
        })
        .await;
        wait_until("the replica is up to date", PATIENCE, async || {
            let info: String = command("INFO", &["replication"], &mut node).await;
            info.contains("master_link_status:up")
        })
        .await;
        self.is_ready().await;
    }

    /// Kills the master of a key.
    ///
    /// # Panics
    /// When no node has the key's slot.
    pub async fn kill_master_of(&mut self, key: &str) {
        let master = self.master_of(key).await;
        self.nodes[master].kill().await;
    }

    async fn master_of(&self, key: &str) -> usize {
        let mut any = connect(&self.nodes[0].url()).await;
        let slot: u16 = command("CLUSTER", &["KEYSLOT", key], &mut any).await;
        SLOTS.iter().position(|(first, last)| (*first..=*last).contains(&slot)).expect("each slot has a master")
    }

    /// Starts a node and introduces it to the first one.
    async fn add(&mut self) -> MultiplexedConnection {
        let bus = port::free().to_string();
        let settings = [
            ("cluster-enabled", "yes"),
            ("cluster-port", bus.as_str()),
            ("cluster-node-timeout", "1000"),
            ("appendonly", "yes"),
            ("proto-max-bulk-len", "1mb"),
        ];
        let node = Redis::start_with(&settings).await;
        let connection = connect(&node.url()).await;
        if let Some(first) = self.nodes.first() {
            let mut first = connect(&first.url()).await;
            let place = [node.port().to_string(), bus];
            let () = command("CLUSTER", &["MEET", "127.0.0.1", &place[0], &place[1]], &mut first).await;
        }
        self.nodes.push(node);
        connection
    }

    async fn is_ready(&self) {
        let nodes = format!("cluster_known_nodes:{}", self.nodes.len());
        for node in &self.nodes {
            let mut connection = connect(&node.url()).await;
            wait_until("the cluster serves all slots", PATIENCE, async || {
                let info: String = command("CLUSTER", &["INFO"], &mut connection).await;
                info.contains("cluster_state:ok") && info.contains(&nodes)
            })
            .await;
        }
    }
}

async fn command<T: redis::FromRedisValue>(name: &str, words: &[&str], node: &mut MultiplexedConnection) -> T {
    let mut command = redis::cmd(name);
    words.iter().for_each(|word| {
        command.arg(word);
    });
    command.query_async(node).await.unwrap_or_else(|error| panic!("{name} {words:?}: {error}"))
}
