//! A cluster of three servers. Its stream has three replicas, so one server can be killed at any time.

use std::time::Duration;

use async_nats::jetstream::{self, stream};
use async_nats::{Client, ConnectOptions};

use super::{PASSWORD, STREAM, USER, command, keys, orders, write_configuration};
use crate::brokers::{Received, read};
use crate::process::Signal;
use crate::server::Server;
use crate::{port, wait_until};

const PATIENCE: Duration = Duration::from_secs(120);
const NAMES: [&str; 3] = ["one", "two", "three"];

/// Three servers with [`USER`](super::USER) and the stream [`STREAM`](super::STREAM) with three replicas.
#[derive(Debug)]
pub struct NatsCluster {
    servers: Vec<Server>,
}

impl NatsCluster {
    /// Starts the servers, and waits until the stream has a leader.
    ///
    /// # Panics
    /// When a server is missing or does not start, with its log.
    pub async fn start() -> Self {
        Self::start_with(|config| config).await
    }

    /// As [`NatsCluster::start`], with a changed stream.
    ///
    /// # Panics
    /// As [`NatsCluster::start`].
    pub async fn start_with(change: impl FnOnce(stream::Config) -> stream::Config) -> Self {
        let mut servers: Vec<Server> = NAMES.iter().map(|_| Server::new("nats")).collect();
        let ports: Vec<u16> = servers.iter().map(|_| port::free()).collect();
        let routes: Vec<String> = ports.iter().map(|port| format!("\"nats://127.0.0.1:{port}\"")).collect();
        for ((server, name), port) in servers.iter().zip(NAMES).zip(&ports) {
            let lines = format!(
                "accounts {{ APP: {{ jetstream: enabled, users: [{{ user: {USER}, password: {PASSWORD} }}] }} }}\n\
                 cluster {{ name: pillarbox, listen: \"127.0.0.1:{port}\", routes: [{}] }}\n",
                routes.join(", ")
            );
            write_configuration(server, name, &lines);
        }
        for server in &mut servers {
            let command = command(server);
            server.start(command).await;
        }
        let cluster = Self { servers };
        let jetstream = jetstream::new(cluster.client().await);
        let config = change(stream::Config { num_replicas: 3, ..orders() });
        let created = async || jetstream.create_stream(config.clone()).await.is_ok();
        wait_until("the cluster takes a stream", PATIENCE, created).await;
        cluster
    }

    /// Returns the URLs of all servers, separated by commas.
    pub fn url(&self) -> String {
        let urls: Vec<String> =
            self.servers.iter().map(|server| format!("nats://127.0.0.1:{}", server.port())).collect();
        urls.join(",")
    }

    /// Returns the keys of a destination.
    pub fn keys(&self) -> String {
        keys(&self.url(), PASSWORD, super::SUBJECT)
    }

    /// Returns a client that finds the servers that are up.
    ///
    /// # Panics
    /// When no server takes it.
    pub async fn client(&self) -> Client {
        let servers: Vec<async_nats::ServerAddr> =
            self.url().split(',').map(|url| url.parse().expect("a URL of a server")).collect();
        let options = ConnectOptions::with_user_and_password(USER.to_owned(), PASSWORD.to_owned());
        options.connect(servers).await.expect("a server takes its user")
    }

    /// Returns the server that leads the stream. Waits for an election.
    pub async fn leader(&self) -> usize {
        let jetstream = jetstream::new(self.client().await);
        let mut leader = None;
        wait_until("the stream has a leader", PATIENCE, async || {
            let asked = tokio::time::timeout(Duration::from_secs(2), jetstream.get_stream(STREAM)).await;
            let named = asked.ok().and_then(Result::ok).and_then(|stream| stream.cached_info().cluster.clone()?.leader);
            leader = named.and_then(|named| NAMES.iter().position(|name| *name == named));
            leader.is_some()
        })
        .await;
        leader.expect("it was there a moment ago")
    }

    /// Waits until all replicas of the stream are up and have caught up. A cluster that loses a second server before stands still.
    pub async fn whole(&self) {
        let jetstream = jetstream::new(self.client().await);
        wait_until("all replicas are current", PATIENCE, async || {
            let asked = tokio::time::timeout(Duration::from_secs(2), jetstream.get_stream(STREAM)).await;
            let cluster = asked.ok().and_then(Result::ok).and_then(|stream| stream.cached_info().cluster.clone());
            cluster.is_some_and(|it| {
                it.leader.is_some() && it.replicas.len() == 2 && it.replicas.iter().all(|one| one.current)
            })
        })
        .await;
    }

    /// Sends SIGKILL to a server.
    pub async fn kill(&mut self, server: usize) {
        self.servers[server].end(Signal::Kill).await;
    }

    /// Starts a server after `kill`, on the same ports and data.
    pub async fn start_again(&mut self, server: usize) {
        let command = command(&self.servers[server]);
        self.servers[server].start(command).await;
    }

    /// Returns the messages of the stream as nats-py reads them. Waits until all servers are up.
    pub async fn received(&self) -> Vec<Received> {
        self.whole().await;
        read("nats_stream.py", &[&self.url(), USER, PASSWORD, STREAM, ""]).await
    }
}
