//! SQS and SNS: a server of moto, which checks signatures and permissions, behind a proxy that cuts connections. moto keeps
//! everything in memory, so it is never killed.

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;

use super::{Broker, Certificates, Received, WRONG_PASSWORD, program, read};
use crate::process::Program;
use crate::proxy::{Proxy, Swallow};

const PATIENCE: Duration = Duration::from_secs(60);
const REGION: &str = "eu-west-1";

/// The queue or topic that a test sends to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AwsTarget {
    /// A standard queue of SQS.
    Queue,
    /// A queue of SQS that takes messages of at most 2,048 bytes.
    SmallQueue,
    /// A FIFO queue of SQS.
    FifoQueue,
    /// A standard topic of SNS. A queue with raw delivery is subscribed to it.
    Topic,
    /// A FIFO topic of SNS. A FIFO queue with raw delivery is subscribed to it.
    FifoTopic,
}

/// What the script made.
#[derive(Debug, Deserialize)]
struct Made {
    port: u16,
    tls_port: Option<u16>,
    queue: String,
    fifo_queue: String,
    small_queue: String,
    topic: String,
    fifo_topic: String,
    subscribed: String,
    fifo_subscribed: String,
    allowed: User,
    denied: User,
}

#[derive(Debug, Deserialize)]
struct User {
    id: String,
    secret: String,
}

/// A server of SQS and SNS with queues, topics and users of its own.
#[derive(Debug)]
pub struct Aws {
    target: AwsTarget,
    made: Made,
    proxy: Proxy,
    certificates: Option<Certificates>,
    /// What was read before: reading deletes.
    seen: Mutex<Vec<Received>>,
    _server: Program,
}

impl Aws {
    /// Starts a server.
    ///
    /// # Panics
    /// When it does not start, with its output.
    pub async fn start(target: AwsTarget) -> Self {
        Self::start_with(target, None).await
    }

    /// Starts a server that also listens with TLS and asks for a client certificate.
    ///
    /// # Panics
    /// As [`Aws::start`].
    pub async fn start_with_tls(target: AwsTarget) -> Self {
        Self::start_with(target, Some(Certificates::new())).await
    }

    async fn start_with(target: AwsTarget, certificates: Option<Certificates>) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/brokers/aws.py");
        let directory = certificates.as_ref().map_or_else(String::new, |made| made.directory().display().to_string());
        let mut command = Command::new(program("python"));
        command.arg(script).args(["serve", &directory]);
        let server = Program::start(command);
        let line = server.wait_for_line("ready ", PATIENCE).await.unwrap_or_else(|error| panic!("{error}"));
        let made = line.trim_start_matches("ready ");
        let made: Made = serde_json::from_str(made).unwrap_or_else(|error| panic!("{error}: {line}"));
        let proxy = Proxy::start(&format!("127.0.0.1:{}", made.port)).await;
        Self { target, made, proxy, certificates, seen: Mutex::default(), _server: server }
    }

    /// Returns the queue's URL or the topic's ARN.
    pub fn target(&self) -> &str {
        match self.target {
            AwsTarget::Queue => &self.made.queue,
            AwsTarget::SmallQueue => &self.made.small_queue,
            AwsTarget::FifoQueue => &self.made.fifo_queue,
            AwsTarget::Topic => &self.made.topic,
            AwsTarget::FifoTopic => &self.made.fifo_topic,
        }
    }

    /// Returns the keys with another target.
    pub fn keys_to(&self, target: &str) -> String {
        self.keys_of(target, &self.made.allowed.id, &self.made.allowed.secret)
    }

    /// Returns the keys with an access key that the server does not know.
    pub fn keys_with_unknown_user(&self) -> String {
        self.keys_of(self.target(), "AKIAUNKNOWN000000000", WRONG_PASSWORD)
    }

    /// Returns the keys with a user who may do nothing here.
    pub fn keys_without_permission(&self) -> String {
        self.keys_of(self.target(), &self.made.denied.id, &self.made.denied.secret)
    }

    fn keys_of(&self, target: &str, id: &str, secret: &str) -> String {
        self.keys_at(&format!("http://{}", self.proxy.address()), target, id, secret)
    }

    fn keys_at(&self, endpoint: &str, target: &str, id: &str, secret: &str) -> String {
        let (kind, key) = self.kind();
        format!(
            "kind = {kind:?}\n{key} = {target:?}\nregion = {REGION:?}\nendpoint = {endpoint:?}\naccess_key_id = {id:?}\n\
             secret_access_key = {secret:?}\n"
        )
    }

    fn kind(&self) -> (&'static str, &'static str) {
        match self.target {
            AwsTarget::Queue | AwsTarget::SmallQueue | AwsTarget::FifoQueue => ("sqs", "queue_url"),
            AwsTarget::Topic | AwsTarget::FifoTopic => ("sns", "topic_arn"),
        }
    }

    /// Returns the queue that messages arrive in.
    fn queue(&self) -> &str {
        match self.target {
            AwsTarget::Queue => &self.made.queue,
            AwsTarget::SmallQueue => &self.made.small_queue,
            AwsTarget::FifoQueue => &self.made.fifo_queue,
            AwsTarget::Topic => &self.made.subscribed,
            AwsTarget::FifoTopic => &self.made.fifo_subscribed,
        }
    }
}

#[async_trait]
impl Broker for Aws {
    fn keys(&self) -> String {
        self.keys_to(self.target())
    }

    fn keys_over_tls(&self) -> Option<String> {
        let endpoint = format!("https://localhost:{}", self.made.tls_port?);
        let User { id, secret } = &self.made.allowed;
        Some(self.keys_at(&endpoint, self.target(), id, secret) + &self.certificates.as_ref()?.keys())
    }

    fn keys_with_wrong_password(&self) -> String {
        self.keys_of(self.target(), &self.made.allowed.id, WRONG_PASSWORD)
    }

    fn keys_to_unknown_target(&self) -> (String, String) {
        let unknown = self.target().replace("orders", "nowhere");
        (self.keys_to(&unknown), unknown)
    }

    fn oversize(&self) -> Option<usize> {
        Some(1024 * 1024)
    }

    // moto takes a few hundred messages a second.
    fn many(&self) -> usize {
        400
    }

    async fn received(&self) -> Vec<Received> {
        let endpoint = format!("http://127.0.0.1:{}", self.made.port);
        let User { id, secret } = &self.made.allowed;
        let new = read("aws.py", &["read", &endpoint, self.queue(), id, secret]).await;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.extend(new);
        seen.clone()
    }

    async fn kill(&mut self) {
        self.proxy.refuse_new(true);
        self.proxy.cut();
    }

    async fn start_again(&mut self) {
        self.proxy.refuse_new(false);
    }

    fn freeze(&self) {
        self.proxy.swallow(Swallow::Both);
        self.proxy.swallow_new(true);
    }

    fn thaw(&self) {
        self.proxy.swallow_new(false);
    }
}
