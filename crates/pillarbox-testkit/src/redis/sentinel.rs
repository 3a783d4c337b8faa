//! A sentinel for one master called `main`.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::server::Server;
use crate::wait_until;

const PATIENCE: Duration = Duration::from_secs(60);

/// A sentinel that finds a dead master within a second. It ends when the value is dropped.
#[derive(Debug)]
pub struct Sentinel {
    server: Server,
}

impl Sentinel {
    /// Starts a sentinel for the master on this port. `password` is the master's.
    ///
    /// # Panics
    /// When it does not start, with its log.
    pub async fn start(master: u16, password: Option<&str>) -> Self {
        let mut server = Server::new("sentinel");
        let path = server.directory().join("sentinel.conf");
        let login = password.map_or_else(String::new, |password| format!("sentinel auth-pass main {password}\n"));
        let settings = format!(
            "port {}\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 {master} 1\n{login}\
             sentinel down-after-milliseconds main 300\nsentinel failover-timeout main 2000\n",
            server.port()
        );
        fs::write(&path, settings).expect("the configuration can be written");
        let mut command = Command::new("redis-server");
        command.arg(&path).arg("--sentinel");
        server.start(command).await;
        Self { server }
    }

    /// Returns the port that it listens on.
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// Waits until it knows a replica. Sentinels ask masters for their replicas only now and then.
    ///
    /// # Panics
    /// When it finds none.
    pub async fn knows_a_replica(&self) {
        let mut sentinel = super::connect(&format!("redis://127.0.0.1:{}", self.port())).await;
        wait_until("the sentinel knows a replica that is well", PATIENCE, async || {
            let mut command = redis::cmd("SENTINEL");
            let replicas: Vec<BTreeMap<String, String>> =
                command.arg("REPLICAS").arg("main").query_async(&mut sentinel).await.expect("the sentinel answers");
            replicas.iter().any(|replica| {
                replica.get("flags").is_some_and(|flags| flags == "slave")
                    && replica.get("master-link-status").is_some_and(|status| status == "ok")
            })
        })
        .await;
    }
}
