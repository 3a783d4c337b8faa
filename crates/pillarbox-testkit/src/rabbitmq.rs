//! RabbitMQ for tests: a broker that a whole run shares, where tests use distinct names of queues and exchanges, or a private
//! broker, to be stopped and killed.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use crate::brokers::Certificates;
use crate::port;
use crate::process::Signal;
use crate::server::Server;

/// The environment variable with the address of the shared broker.
const SHARED: &str = "PILLARBOX_TEST_AMQP";
/// RabbitMQ's own script. The one of the same name in Debian's PATH first switches the user.
const DEBIAN: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
const MEMORY: &str = "1GB";
/// The most bytes of a message that the brokers of tests take, also the shared one (scripts/servers).
pub const MAX_MESSAGE_SIZE: usize = 1024 * 1024;
const NODE: &str = "pillarbox@localhost";

/// Returns the URL of the broker that all tests of a run share.
///
/// # Panics
/// When no broker was started, with how to start one.
pub fn shared_url() -> String {
    env::var(SHARED).unwrap_or_else(|_| {
        panic!("{SHARED} is not set: run `make test`, or start servers with `make servers` and set what it prints")
    })
}

/// A RabbitMQ on a loopback port and in a temporary directory of its own. It ends when the value is dropped.
#[derive(Debug)]
pub struct RabbitMq {
    server: Server,
    /// The port of Erlang's distribution. With a fixed port, the node needs no epmd, which would outlive it.
    distribution: u16,
}

impl RabbitMq {
    /// Starts a broker, which takes some seconds.
    ///
    /// # Panics
    /// When RabbitMQ is missing or does not start, with its log.
    pub async fn start() -> Self {
        Self::start_with("").await
    }

    /// Starts a broker that also listens for TLS, and asks each client for a certificate of the authority. Returns the broker
    /// and the port.
    ///
    /// # Panics
    /// As [`RabbitMq::start`].
    pub async fn start_with_tls(certificates: &Certificates) -> (Self, u16) {
        let port = port::free();
        let path = |name: &str| certificates.path(name).display().to_string();
        let settings = format!(
            "listeners.ssl.1 = 127.0.0.1:{port}\n\
             ssl_options.cacertfile = {}\nssl_options.certfile = {}\nssl_options.keyfile = {}\n\
             ssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true\n",
            path("ca.pem"),
            path("server.pem"),
            path("server.key")
        );
        (Self::start_with(&settings).await, port)
    }

    async fn start_with(settings: &str) -> Self {
        let server = Server::new("rabbitmq");
        let write = |name: &str, text: String| {
            fs::write(server.directory().join(name), text).expect("a file is written");
        };
        write("enabled_plugins", "[].\n".to_owned());
        write("rabbitmq.conf", configuration(server.port(), MEMORY) + settings);
        let mut rabbitmq = Self { server, distribution: port::free() };
        rabbitmq.start_again().await;
        rabbitmq
    }

    /// Returns the URL of its virtual host `/`; the same after every restart.
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}//", self.server.port())
    }

    /// Returns the port that it listens on; the same after every restart.
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// Returns its process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.server.pid()
    }

    /// Sends SIGKILL, and waits until it is gone. Confirmed persistent messages in durable queues are kept.
    /// A queue that was declared a moment before may be lost: RabbitMQ (3.10) only tries to have definitions on disk at once.
    pub async fn kill(&mut self) {
        self.server.end(Signal::Kill).await;
    }

    /// Shuts the broker down gracefully: connections are closed with a reason. Does nothing when it is stopped.
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

    /// Starts the broker after `kill` or `stop`, on the same port and data.
    ///
    /// # Panics
    /// When it is running, or does not start, with its log.
    pub async fn start_again(&mut self) {
        let command = self.command();
        self.server.start(command).await;
    }

    /// Sets its memory limit from the next start on. With too little memory it blocks publishers.
    ///
    /// # Panics
    /// When its configuration cannot be written.
    pub fn limit_memory(&self, limit: &str) {
        let path = self.server.directory().join("rabbitmq.conf");
        fs::write(path, configuration(self.server.port(), limit)).expect("a file is written");
    }

    fn command(&self) -> Command {
        let directory = self.server.directory();
        let mut command = Command::new(if Path::new(DEBIAN).exists() { DEBIAN } else { "rabbitmq-server" });
        // The started process becomes the server itself when it allows input, which `-noinput` disables again.
        let arguments = format!(
            "-noinput -sname {NODE} -setcookie pillarbox -start_epmd false -erl_epmd_port {} \
             -kernel inet_dist_use_interface {{127,0,0,1}}",
            self.distribution
        );
        command.env("RABBITMQ_ALLOW_INPUT", "1").env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", arguments);
        command.env("RABBITMQ_NODENAME", NODE).env("RABBITMQ_CONF_ENV_FILE", "/dev/null").env("RABBITMQ_LOGS", "-");
        command.env("HOME", directory).env("RABBITMQ_CONFIG_FILE", directory.join("rabbitmq"));
        command.env("RABBITMQ_ENABLED_PLUGINS_FILE", directory.join("enabled_plugins"));
        command.env("RABBITMQ_MNESIA_BASE", directory.join("mnesia")).env("RABBITMQ_LOG_BASE", directory.join("log"));
        command
    }
}

fn configuration(port: u16, memory: &str) -> String {
    format!(
        "listeners.tcp.1 = 127.0.0.1:{port}\n\
         log.console.level = warning\n\
         max_message_size = {MAX_MESSAGE_SIZE}\n\
         vm_memory_high_watermark.absolute = {memory}\n"
    )
}
