//! Real brokers for the tests of destinations: a server of each kind, the configuration of a destination on it, and another
//! client that reads what arrived.

mod aws;
mod certificates;
pub mod http;
pub mod kafka;
pub mod nats;
pub mod rabbitmq;
pub mod redis;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pillarbox::{RelaySettings, Sink};
use pillarbox_sinks::Registry;
use pillarbox_sinks::config::Resolver;

pub use self::aws::{Aws, AwsTarget};
pub use self::certificates::Certificates;
pub use self::http::HttpBroker;
pub use self::kafka::KafkaBroker;
pub use self::redis::RedisBroker;

/// The timeout of the sinks under test. The relay drops a send after it.
pub const TIMEOUT: Duration = Duration::from_secs(10);
/// The password of a sink with wrong credentials. No error may show it.
pub const WRONG_PASSWORD: &str = "hunter2";

/// A real server with a topic, stream, queue or exchange of its own on it, and another client that reads what arrived there.
#[async_trait]
pub trait Broker: Send + Sync {
    /// Returns the keys of a destination, as a table of the configuration has them, without `timeout`.
    fn keys(&self) -> String;

    /// Returns the keys of the same destination over TLS, with an authority and a client certificate of its own, if the
    /// server was started with TLS.
    fn keys_over_tls(&self) -> Option<String> {
        None
    }

    /// Returns the keys with [`WRONG_PASSWORD`].
    fn keys_with_wrong_password(&self) -> String;

    /// Returns the keys of a destination whose topic, stream, queue or exchange does not exist, and its name.
    fn keys_to_unknown_target(&self) -> (String, String);

    /// Returns a payload size that the server does not take, if there is one.
    fn oversize(&self) -> Option<usize>;

    /// Returns the number of messages of the checks that need many. A slow server takes fewer.
    fn many(&self) -> usize {
        3000
    }

    /// Returns what arrived, oldest first, as another client of the system reads it. Reads from the start each time.
    async fn received(&self) -> Vec<Received>;

    /// Kills the server, or cuts its connections when it would forget what it stored.
    async fn kill(&mut self);

    /// Starts the server again on the same address, with what it stored.
    async fn start_again(&mut self);

    /// Makes the server silent, with open connections.
    fn freeze(&self);

    /// Lets the server go on.
    fn thaw(&self);
}

/// A message as another client reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The body.
    pub body: Vec<u8>,
    /// The system's headers. Names are in lower case.
    pub headers: BTreeMap<String, String>,
}

impl Received {
    /// Returns the event's id.
    ///
    /// # Panics
    /// When the message has no header with it.
    pub fn id(&self) -> String {
        self.headers.get("pillarbox-event-id").expect("each message carries the event's id").clone()
    }
}

/// Builds the sink of a destination with these keys and [`TIMEOUT`], as the program does.
///
/// # Panics
/// When the keys are wrong, with the problem.
pub fn sink(keys: &str) -> Arc<dyn Sink> {
    let table = format!("[broker]\ntimeout = \"{}s\"\n{keys}", TIMEOUT.as_secs());
    let table = table.parse().unwrap_or_else(|error| panic!("{error}:\n{table}"));
    let read = Registry::standard().destinations(table, &RelaySettings::default(), &Process);
    let destinations = read.unwrap_or_else(|problems| panic!("{problems}"));
    destinations[0].sink(&Process).unwrap_or_else(|problem| panic!("{problem}"))
}

/// The environment and the files of this process.
#[derive(Debug, Clone, Copy)]
pub struct Process;

impl Resolver for Process {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }
}

/// Returns a program of the environment that `scripts/setup` makes for brokers and their clients: `python`, `nats-server`.
///
/// # Panics
/// When it is missing, with how to install it.
pub fn program(name: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv-brokers/bin").join(name);
    assert!(program.exists(), "{} is missing: run scripts/setup", program.display());
    program
}

/// Runs a Python script of this folder that prints one JSON object per message: `{"body": BASE64, "headers": {…}}`.
///
/// # Panics
/// When the script fails, with what it printed.
pub async fn read(script: &str, arguments: &[&str]) -> Vec<Received> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/brokers").join(script);
    let output = tokio::process::Command::new(program("python")).arg(script).args(arguments).output();
    let output = output.await.expect("python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(parse).collect()
}

fn parse(line: &str) -> Received {
    #[derive(serde::Deserialize)]
    struct Line {
        body: String,
        headers: BTreeMap<String, String>,
    }
    let Line { body, headers } = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let body = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, body).expect("the body is base64");
    let headers = headers.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect();
    Received { body, headers }
}
