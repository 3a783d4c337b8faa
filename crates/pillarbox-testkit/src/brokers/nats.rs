//! NATS servers with JetStream: one, or a cluster of three.

mod cluster;
mod operator;

use std::fs;
use std::process::Command;

use async_nats::jetstream::{self, stream};
use async_nats::{Client, ConnectOptions};
use async_trait::async_trait;

pub use self::cluster::NatsCluster;
pub use self::operator::Operator;
use super::{Broker, Certificates, Received, WRONG_PASSWORD, program, read};
use crate::process::Signal;
use crate::server::Server;

/// The user of the servers, and its password.
pub const USER: &str = "relay";
/// The password of [`USER`].
pub const PASSWORD: &str = "correct-horse";
/// The stream that every server has. It stores `orders.>`.
pub const STREAM: &str = "ORDERS";
const SUBJECT: &str = "orders.{aggregate_id}";

/// A NATS server on a loopback port and in a temporary directory of its own. It ends when the value is dropped.
#[derive(Debug)]
pub struct NatsServer {
    server: Server,
    certificates: Option<Certificates>,
}

impl NatsServer {
    /// Starts a server with [`USER`] and [`STREAM`].
    ///
    /// # Panics
    /// When the server is missing or does not start, with its log.
    pub async fn start() -> Self {
        let authorization = format!("authorization {{ user: {USER}, password: {PASSWORD} }}\n");
        let server = Self::start_with(&authorization).await;
        server.create_stream(orders()).await;
        server
    }

    /// Starts a server that asks for TLS and for a client's certificate.
    ///
    /// # Panics
    /// As [`NatsServer::start`].
    pub async fn start_with_tls() -> Self {
        let certificates = Certificates::new();
        let path = |name: &str| certificates.path(name).display().to_string();
        let tls = format!(
            "authorization {{ user: {USER}, password: {PASSWORD} }}\n\
             tls {{ cert_file: {:?}, key_file: {:?}, ca_file: {:?}, verify: true }}\n",
            path("server.pem"),
            path("server.key"),
            path("ca.pem")
        );
        let mut server = Self::start_with(&tls).await;
        server.certificates = Some(certificates);
        server.create_stream(orders()).await;
        server
    }

    /// Starts a server with these lines in its configuration. It has no stream.
    ///
    /// # Panics
    /// As [`NatsServer::start`].
    pub async fn start_with(lines: &str) -> Self {
        let server = Server::new("nats");
        write_configuration(&server, "single", lines);
        let mut server = Self { server, certificates: None };
        server.start_again().await;
        server
    }

    /// Returns the URL without a login; the same after every restart.
    pub fn url(&self) -> String {
        let scheme = if self.certificates.is_some() { "tls" } else { "nats" };
        format!("{scheme}://127.0.0.1:{}", self.server.port())
    }

    /// Returns the keys of a destination with [`USER`] that sends to this subject.
    pub fn keys_to(&self, subject: &str) -> String {
        keys(&self.url(), PASSWORD, subject)
    }

    /// Returns a client of [`USER`].
    ///
    /// # Panics
    /// When the server refuses it.
    pub async fn client(&self) -> Client {
        let mut options = ConnectOptions::with_user_and_password(USER.to_owned(), PASSWORD.to_owned());
        if let Some(certificates) = &self.certificates {
            options = options
                .add_root_certificates(certificates.path("ca.pem"))
                .add_client_certificate(certificates.path("client.pem"), certificates.path("client.key"));
        }
        options.connect(self.url()).await.expect("the server takes its user")
    }

    /// Creates a stream.
    ///
    /// # Panics
    /// When JetStream refuses it.
    pub async fn create_stream(&self, config: stream::Config) {
        jetstream::new(self.client().await).create_stream(config).await.expect("JetStream takes the stream");
    }

    /// Returns the messages of a stream as nats-py reads them.
    pub async fn stream(&self, stream: &str) -> Vec<Received> {
        let directory = self.certificates.as_ref().map(|files| files.directory().display().to_string());
        let arguments = [&self.url(), USER, PASSWORD, stream, &directory.unwrap_or_default()];
        read("nats_stream.py", &arguments).await
    }
}

/// Returns the configuration of [`STREAM`].
pub fn orders() -> stream::Config {
    stream::Config { name: STREAM.to_owned(), subjects: vec!["orders.>".to_owned()], ..stream::Config::default() }
}

fn keys(url: &str, password: &str, subject: &str) -> String {
    format!("kind = \"nats\"\nurl = \"{url}\"\nuser = \"{USER}\"\npassword = \"{password}\"\nsubject = \"{subject}\"\n")
}

fn write_configuration(server: &Server, name: &str, lines: &str) {
    let directory = server.directory();
    let text = format!(
        "server_name: {name}\nlisten: \"127.0.0.1:{}\"\njetstream {{ store_dir: {:?}, max_file_store: 1G, max_memory_store: 256M }}\n{lines}",
        server.port(),
        directory.join("jetstream").display().to_string()
    );
    fs::write(directory.join("nats.conf"), text).expect("a file is written");
}

fn command(server: &Server) -> Command {
    let mut command = Command::new(program("nats-server"));
    command.arg("-c").arg(server.directory().join("nats.conf"));
    command
}

#[async_trait]
impl Broker for NatsServer {
    fn keys(&self) -> String {
        format!("{}stream = \"{STREAM}\"\n", self.keys_to(SUBJECT))
    }

    fn keys_over_tls(&self) -> Option<String> {
        self.certificates.as_ref().map(|certificates| format!("{}{}", self.keys(), certificates.keys()))
    }

    fn keys_with_wrong_password(&self) -> String {
        keys(&self.url(), WRONG_PASSWORD, SUBJECT)
    }

    fn keys_to_unknown_target(&self) -> (String, String) {
        (self.keys_to("nowhere"), "nowhere".to_owned())
    }

    fn oversize(&self) -> Option<usize> {
        // The default of max_payload is 1 MiB.
        Some(1024 * 1024)
    }

    async fn received(&self) -> Vec<Received> {
        self.stream(STREAM).await
    }

    async fn kill(&mut self) {
        self.server.end(Signal::Kill).await;
    }

    async fn start_again(&mut self) {
        let command = command(&self.server);
        self.server.start(command).await;
    }

    fn freeze(&self) {
        self.server.signal(Signal::Stop);
    }

    fn thaw(&self) {
        self.server.signal(Signal::Continue);
    }
}
