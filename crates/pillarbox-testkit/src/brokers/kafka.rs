//! Kafka for tests: tansu, a server that speaks Kafka's protocol, behind a front that checks credentials, speaks TLS and can
//! cut connections. tansu has all messages in memory, so a kill is a cut of the front.

mod front;
mod sasl;

use std::path::Path;
use std::process::Command;

use async_trait::async_trait;

use self::front::Front;
use super::{Broker, Certificates, Received, WRONG_PASSWORD, read};
use crate::process::Signal;
use crate::proxy::{Proxy, Swallow};
use crate::server::Server;

const TOPIC: &str = "orders";
/// The user that the front knows.
pub const USERNAME: &str = "relay";
/// The user's password.
pub const PASSWORD: &str = "correct horse";
/// The token that the front accepts for OAUTHBEARER.
pub const TOKEN: &str = "a-token-of-the-tests";

/// A server of its own, with the topic `orders`. It ends when the value is dropped.
#[derive(Debug)]
pub struct KafkaBroker {
    server: Server,
    /// Between the front and the server.
    proxy: Proxy,
    front: Front,
    certificates: Option<Certificates>,
}

impl KafkaBroker {
    /// Starts a server with the topic `orders` of one partition.
    ///
    /// # Panics
    /// When the server is missing or does not start.
    pub async fn start() -> Self {
        Self::start_with(None).await
    }

    /// As [`KafkaBroker::start`], over TLS. The front wants a client certificate.
    ///
    /// # Panics
    /// As [`KafkaBroker::start`].
    pub async fn start_with_tls() -> Self {
        Self::start_with(Some(Certificates::new())).await
    }

    async fn start_with(certificates: Option<Certificates>) -> Self {
        let mut server = Server::new("kafka");
        let proxy = Proxy::start(&format!("127.0.0.1:{}", server.port())).await;
        let front = Front::start(proxy.address(), certificates.as_ref()).await;
        let mut command = Command::new(program());
        command
            .args(["broker", "--silent", "--storage-engine", "memory://tansu/"])
            .arg(format!("--listener-url=tcp://127.0.0.1:{}", server.port()))
            .arg(format!("--advertised-listener-url=tcp://127.0.0.1:{}", front.port()));
        server.start(command).await;
        let broker = Self { server, proxy, front, certificates };
        broker.create_topic(TOPIC, 1).await;
        broker
    }

    /// Creates a topic.
    ///
    /// # Panics
    /// When the server refuses.
    pub async fn create_topic(&self, name: &str, partitions: usize) {
        let mut command = tokio::process::Command::new(program());
        command.args(["topic", "create", name, "--partitions", &partitions.to_string()]);
        command.arg(format!("--broker=tcp://127.0.0.1:{}", self.server.port()));
        let output = command.output().await.expect("the program starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Swallows the responses on all open connections: the server stores messages, and nobody hears of it. New connections
    /// work.
    pub fn swallow_responses(&self) {
        assert_ne!(self.proxy.swallow(Swallow::Answers), 0, "a client is connected");
    }

    /// Returns the address for clients.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.front.port())
    }

    /// Returns the keys of a destination with this topic and more keys.
    pub fn keys_with(&self, topic: &str, more: &str) -> String {
        let tls = self.certificates.as_ref().map(|files| format!("tls = true\n{}", files.keys()));
        let address = self.address();
        format!("kind = \"kafka\"\nbrokers = [\"{address}\"]\ntopic = \"{topic}\"\n{}{more}\n", tls.unwrap_or_default())
    }

    /// Returns what arrived in a topic. The headers `(partition)` and `(key)` have the message's partition and key.
    pub async fn received_in(&self, topic: &str) -> Vec<Received> {
        let mut arguments = vec![self.address(), topic.to_owned()];
        if let Some(files) = &self.certificates {
            let path = |name: &str| files.path(name).display().to_string();
            arguments.push("security.protocol=ssl".to_owned());
            arguments.push(format!("ssl.ca.location={}", path("ca.pem")));
            arguments.push(format!("ssl.certificate.location={}", path("client.pem")));
            arguments.push(format!("ssl.key.location={}", path("client.key")));
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        read("kafka.py", &arguments).await
    }
}

/// Returns the server that `scripts/setup` builds.
fn program() -> std::path::PathBuf {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools/bin/kafka-server");
    assert!(program.exists(), "{} is missing: run scripts/setup", program.display());
    program
}

#[async_trait]
impl Broker for KafkaBroker {
    fn keys(&self) -> String {
        self.keys_with(TOPIC, "")
    }

    fn keys_over_tls(&self) -> Option<String> {
        self.certificates.as_ref().map(|_| self.keys())
    }

    fn keys_with_wrong_password(&self) -> String {
        let login = format!("sasl_mechanism = \"SCRAM-SHA-256\"\nusername = \"{USERNAME}\"");
        self.keys_with(TOPIC, &format!("{login}\npassword = \"{WRONG_PASSWORD}\""))
    }

    fn keys_to_unknown_target(&self) -> (String, String) {
        (self.keys_with("no-such-topic", ""), "no-such-topic".to_owned())
    }

    fn oversize(&self) -> Option<usize> {
        Some(2_000_000)
    }

    async fn received(&self) -> Vec<Received> {
        self.received_in(TOPIC).await
    }

    async fn kill(&mut self) {
        self.front.cut();
    }

    async fn start_again(&mut self) {
        self.front.accept();
    }

    fn freeze(&self) {
        self.server.signal(Signal::Stop);
    }

    fn thaw(&self) {
        self.server.signal(Signal::Continue);
    }
}
