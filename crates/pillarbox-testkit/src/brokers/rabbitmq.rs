//! RabbitMQ with a queue of its own: the shared broker behind a proxy, or a private broker that is really killed.

use async_trait::async_trait;
use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Connection, ConnectionProperties};
use uuid::Uuid;

use super::{Broker, Certificates, Received, WRONG_PASSWORD, read};
use crate::rabbitmq::{MAX_MESSAGE_SIZE, RabbitMq, shared_url};
use crate::{Proxy, Swallow};

/// Milliseconds after which the shared broker deletes a queue that nobody uses. The messages of all queues share its memory, and
/// a broker without memory blocks publishers.
const EXPIRES: i64 = 180_000;

/// A durable queue on a broker.
#[derive(Debug)]
pub struct RabbitBroker {
    queue: String,
    server: Server,
}

#[derive(Debug)]
enum Server {
    /// Tests share it, so its connections are cut instead.
    Shared(Proxy),
    Private(Box<Private>),
}

#[derive(Debug)]
struct Private {
    server: RabbitMq,
    tls_port: u16,
    certificates: Certificates,
}

impl RabbitBroker {
    /// Declares a queue on the shared broker.
    ///
    /// # Panics
    /// When no broker was started.
    pub async fn shared() -> Self {
        let url = shared_url();
        let address = url.split('@').next_back().unwrap_or_default().trim_end_matches('/').to_owned();
        let server = Server::Shared(Proxy::start(&address).await);
        let broker = Self { queue: format!("suite.{}", Uuid::new_v4().simple()), server };
        broker.declare().await;
        broker
    }

    /// Starts a private broker that also listens for TLS, and declares a queue. Its definitions are on disk.
    ///
    /// # Panics
    /// When RabbitMQ is missing or does not start.
    pub async fn private() -> Self {
        let certificates = Certificates::new();
        let (server, tls_port) = RabbitMq::start_with_tls(&certificates).await;
        let server = Server::Private(Box::new(Private { server, tls_port, certificates }));
        let mut broker = Self { queue: "suite".to_owned(), server };
        broker.declare().await;
        // RabbitMQ (3.10) has new definitions on disk for certain only after a shutdown.
        if let Server::Private(private) = &mut broker.server {
            private.server.stop().await;
            private.server.start_again().await;
        }
        broker
    }

    /// Returns the name of the queue.
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// Returns the URL of the broker itself.
    pub fn url(&self) -> String {
        match &self.server {
            Server::Shared(_) => shared_url(),
            Server::Private(private) => private.server.url(),
        }
    }

    /// Returns the URL for the sink.
    pub fn url_for_sink(&self) -> String {
        match &self.server {
            Server::Shared(proxy) => format!("amqp://guest:guest@{}//", proxy.address()),
            Server::Private(private) => private.server.url(),
        }
    }

    /// Connects with another client.
    ///
    /// # Panics
    /// When the broker cannot be reached.
    pub async fn connect(&self) -> Connection {
        let url = format!("{}/%2f", self.url().trim_end_matches('/'));
        Connection::connect(&url, ConnectionProperties::default()).await.expect("the broker can be reached")
    }

    async fn declare(&self) {
        let connection = self.connect().await;
        let channel = connection.create_channel().await.expect("a channel opens");
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let mut arguments = FieldTable::default();
        if let Server::Shared(_) = self.server {
            arguments.insert("x-expires".into(), AMQPValue::LongLongInt(EXPIRES));
        }
        let declared = channel.queue_declare(self.queue.as_str().into(), durable, arguments).await;
        declared.expect("the queue is declared");
        connection.close(200, "done".into()).await.expect("the connection closes");
    }

    /// Returns what arrived in a queue.
    pub async fn received_in(&self, queue: &str) -> Vec<Received> {
        read("rabbitmq.py", &[&self.url(), queue]).await
    }

    fn keys_at(&self, url: &str, exchange: &str) -> String {
        format!("kind = \"amqp\"\nurl = {url:?}\nexchange = {exchange:?}\nrouting_key = {:?}\n", self.queue)
    }
}

#[async_trait]
impl Broker for RabbitBroker {
    fn keys(&self) -> String {
        self.keys_at(&self.url_for_sink(), "")
    }

    fn keys_over_tls(&self) -> Option<String> {
        let Server::Private(private) = &self.server else { return None };
        let url = format!("amqps://guest:guest@localhost:{}//", private.tls_port);
        Some(self.keys_at(&url, "") + &private.certificates.keys())
    }

    fn keys_with_wrong_password(&self) -> String {
        self.keys_at(&self.url_for_sink().replace("guest:guest", &format!("guest:{WRONG_PASSWORD}")), "")
    }

    fn keys_to_unknown_target(&self) -> (String, String) {
        let name = format!("nowhere.{}", self.queue);
        (self.keys_at(&self.url_for_sink(), &name), name)
    }

    fn oversize(&self) -> Option<usize> {
        Some(2 * MAX_MESSAGE_SIZE)
    }

    async fn received(&self) -> Vec<Received> {
        self.received_in(&self.queue).await
    }

    async fn kill(&mut self) {
        match &mut self.server {
            Server::Shared(proxy) => {
                proxy.refuse_new(true);
                proxy.cut();
            }
            Server::Private(private) => private.server.kill().await,
        }
    }

    async fn start_again(&mut self) {
        match &mut self.server {
            Server::Shared(proxy) => proxy.refuse_new(false),
            Server::Private(private) => private.server.start_again().await,
        }
    }

    fn freeze(&self) {
        match &self.server {
            Server::Shared(proxy) => {
                proxy.swallow_new(true);
                proxy.swallow(Swallow::Both);
            }
            Server::Private(private) => private.server.freeze(),
        }
    }

    fn thaw(&self) {
        match &self.server {
            Server::Shared(proxy) => proxy.swallow_new(false),
            Server::Private(private) => private.server.thaw(),
        }
    }
}
