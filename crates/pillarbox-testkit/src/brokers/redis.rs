//! Redis streams: a private Redis or Valkey with a password, and redis-py as the reader.

use async_trait::async_trait;

use super::{Broker, Certificates, Received, WRONG_PASSWORD, read};
use crate::redis::{Redis, valkey};
use crate::{free_port, wait_until};

/// The password of the server.
pub const PASSWORD: &str = "open-sesame";
/// The stream of the destination.
pub const STREAM: &str = "orders";
/// The bytes of one field that the server takes. It is the smallest number that Redis allows.
const LIMIT: usize = 1 << 20;

/// A private server that writes to disk before it confirms.
#[derive(Debug)]
pub struct RedisBroker {
    server: Redis,
    tls: Option<(u16, Certificates)>,
}

const SETTINGS: [(&str, &str); 4] =
    [("appendonly", "yes"), ("appendfsync", "always"), ("requirepass", PASSWORD), ("proto-max-bulk-len", "1mb")];

impl RedisBroker {
    /// Starts Redis.
    pub async fn start() -> Self {
        Self { server: Redis::start_with(&SETTINGS).await, tls: None }
    }

    /// Starts Valkey.
    pub async fn start_valkey() -> Self {
        Self { server: Redis::start_program(valkey(), &SETTINGS).await, tls: None }
    }

    /// Starts Redis with more settings of `redis.conf`.
    pub async fn start_with(settings: &[(&str, &str)]) -> Self {
        Self { server: Redis::start_with(&[&SETTINGS, settings].concat()).await, tls: None }
    }

    /// Starts Redis that also listens for TLS, and asks clients for a certificate.
    ///
    /// # Panics
    /// When it does not listen.
    pub async fn start_with_tls() -> Self {
        let certificates = Certificates::new();
        let path = |name: &str| certificates.path(name).display().to_string();
        let (port, files) = (free_port(), [path("server.pem"), path("server.key"), path("ca.pem")]);
        let settings = [
            ("tls-port", port.to_string()),
            ("tls-cert-file", files[0].clone()),
            ("tls-key-file", files[1].clone()),
            ("tls-ca-cert-file", files[2].clone()),
            ("tls-auth-clients", "yes".to_owned()),
        ];
        let settings: Vec<_> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let broker = Self::start_with(&settings).await;
        let listens = async || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        wait_until("Redis listens for TLS", std::time::Duration::from_secs(20), listens).await;
        Self { tls: Some((port, certificates)), ..broker }
    }

    /// Returns the server's URL, with the password.
    pub fn url(&self) -> String {
        url(&self.server, PASSWORD)
    }

    /// Returns the server itself.
    pub fn server(&self) -> &Redis {
        &self.server
    }

    /// Returns what arrived in this stream.
    pub async fn received_in(&self, stream: &str) -> Vec<Received> {
        read("redis_streams.py", &[&self.url(), stream]).await
    }
}

fn url(server: &Redis, password: &str) -> String {
    format!("redis://default:{password}@127.0.0.1:{}/0", server.port())
}

fn keys(url: &str) -> String {
    format!("kind = \"redis\"\nurl = {url:?}\nstream = \"{STREAM}\"\n")
}

#[async_trait]
impl Broker for RedisBroker {
    fn keys(&self) -> String {
        keys(&self.url())
    }

    fn keys_over_tls(&self) -> Option<String> {
        let (port, certificates) = self.tls.as_ref()?;
        let url = format!("rediss://default:{PASSWORD}@localhost:{port}/0");
        Some(format!("{}{}", keys(&url), certificates.keys()))
    }

    fn keys_with_wrong_password(&self) -> String {
        keys(&url(&self.server, WRONG_PASSWORD))
    }

    fn keys_to_unknown_target(&self) -> (String, String) {
        let keys = format!("kind = \"redis\"\nurl = {:?}\nstream = \"nowhere\"\ncreate = false\n", self.url());
        (keys, "nowhere".to_owned())
    }

    fn oversize(&self) -> Option<usize> {
        Some(LIMIT)
    }

    async fn received(&self) -> Vec<Received> {
        self.received_in(STREAM).await
    }

    async fn kill(&mut self) {
        self.server.kill().await;
    }

    async fn start_again(&mut self) {
        self.server.start_again().await;
    }

    fn freeze(&self) {
        self.server.freeze();
    }

    fn thaw(&self) {
        self.server.thaw();
    }
}
