//! A TCP proxy between a client and its server that can swallow traffic: connections stay open and every byte is acknowledged,
//! but nothing arrives any more. A client sees the same when a firewall dropped its connections, when a host vanished behind a
//! load balancer, or when a network drops packets.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sqlx::postgres::PgConnectOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::port;

/// A proxy on a loopback port of its own, in front of one server. It ends when the value is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    upstream: Mutex<String>,
    /// The open connections, including swallowed ones.
    connections: Mutex<Vec<Arc<Connection>>>,
    swallow_new: AtomicBool,
    refuse: AtomicBool,
    cut_streams: AtomicBool,
    accepted: AtomicUsize,
}

/// The directions of a connection that are swallowed, and its end.
#[derive(Debug, Default)]
struct Connection {
    swallow_requests: AtomicBool,
    swallow_answers: AtomicBool,
    cut: Notify,
}

/// The traffic to swallow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swallow {
    /// The client's bytes: the server receives nothing, not even that the client has closed.
    Requests,
    /// The server's bytes: it executes requests, and the client receives no response.
    Answers,
    /// Both directions.
    Both,
}

impl Proxy {
    /// Starts a proxy in front of `upstream`, a host and a port.
    ///
    /// # Panics
    /// Outside of a tokio runtime, or when no port is free.
    pub async fn start(upstream: &str) -> Self {
        let listener = port::bind();
        let address = listener.local_addr().expect("a bound listener has an address");
        listener.set_nonblocking(true).expect("a listener can be made non-blocking");
        let listener = TcpListener::from_std(listener).expect("a tokio runtime is running");
        let shared = Arc::new(Shared {
            upstream: Mutex::new(upstream.to_owned()),
            connections: Mutex::default(),
            swallow_new: AtomicBool::new(false),
            refuse: AtomicBool::new(false),
            cut_streams: AtomicBool::new(false),
            accepted: AtomicUsize::new(0),
        });
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, Arc::clone(&shared)));
        Self { address, shared, _serving: serving }
    }

    /// Starts a proxy in front of the PostgreSQL server of this URL.
    ///
    /// # Panics
    /// As [`start`](Self::start), and when the URL is invalid.
    pub async fn before_postgres(url: &str) -> Self {
        let options: PgConnectOptions = url.parse().expect("the address of a database");
        Self::start(&format!("{}:{}", options.get_host(), options.get_port())).await
    }

    /// Returns the URL of the same database through this proxy.
    ///
    /// # Panics
    /// When the URL is invalid.
    pub fn url(&self, url: &str) -> String {
        let options: PgConnectOptions = url.parse().expect("the address of a database");
        let name = options.get_database().expect("the name of a database");
        format!("postgres://{}@{}/{name}", options.get_username(), self.address)
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends new connections to this server.
    pub fn switch_to(&self, upstream: &str) {
        upstream.clone_into(&mut lock(&self.shared.upstream));
    }

    /// Swallows all further traffic of the open connections, forever. New ones work. Returns the number of open connections.
    pub fn swallow(&self, what: Swallow) -> usize {
        let connections = lock(&self.shared.connections);
        for connection in &*connections {
            connection.swallow_requests.fetch_or(what != Swallow::Answers, Ordering::SeqCst);
            connection.swallow_answers.fetch_or(what != Swallow::Requests, Ordering::SeqCst);
        }
        connections.len()
    }

    /// Sets whether new connections are accepted and swallowed.
    pub fn swallow_new(&self, swallow: bool) {
        self.shared.swallow_new.store(swallow, Ordering::SeqCst);
    }

    /// Closes the open connections, also swallowed ones. New ones work. Returns the number of open connections.
    pub fn cut(&self) -> usize {
        let connections = lock(&self.shared.connections);
        connections.iter().for_each(|connection| connection.cut.notify_one());
        connections.len()
    }

    /// Sets whether new connections are closed at once.
    pub fn refuse_new(&self, refuse: bool) {
        self.shared.refuse.store(refuse, Ordering::SeqCst);
    }

    /// Sets whether connections of PostgreSQL are closed when a replication stream begins on them, before it brings anything.
    pub fn cut_streams(&self, cut: bool) {
        self.shared.cut_streams.store(cut, Ordering::SeqCst);
    }

    /// Returns the number of connections that were accepted so far.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    // The connections end with this task.
    let mut lines = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        if !shared.refuse.load(Ordering::SeqCst) {
            shared.accepted.fetch_add(1, Ordering::SeqCst);
            lines.spawn(carry(client, Arc::clone(&shared)));
        }
    }
}

async fn carry(client: TcpStream, shared: Arc<Shared>) {
    let swallow = shared.swallow_new.load(Ordering::SeqCst);
    let connection =
        Connection { swallow_requests: swallow.into(), swallow_answers: swallow.into(), cut: Notify::new() };
    let connection = Arc::new(connection);
    let upstream = lock(&shared.upstream).clone();
    let Ok(server) = TcpStream::connect(upstream).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    lock(&shared.connections).push(Arc::clone(&connection));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let passing = futures_util::future::join(
        pass(from_client, to_server, &connection.swallow_requests, |_| None),
        pass(from_server, to_client, &connection.swallow_answers, |answer| {
            let begins = answer.first() == Some(&COPY_BOTH) && shared.cut_streams.load(Ordering::SeqCst);
            begins.then(|| message_length(answer)).flatten()
        }),
    );
    tokio::select! {
        _ = passing => {}
        () = connection.cut.notified() => {}
    }
    lock(&shared.connections).retain(|other| !Arc::ptr_eq(other, &connection));
}

/// PostgreSQL's message that a stream in both directions begins.
const COPY_BOTH: u8 = b'W';

/// Returns the length of the first message, with its tag.
fn message_length(bytes: &[u8]) -> Option<usize> {
    let length = bytes.get(1..5)?.try_into().ok()?;
    usize::try_from(u32::from_be_bytes(length)).ok().map(|length| length + 1)
}

/// Forwards bytes until the end. In a swallowed direction not even the end is forwarded: the task keeps it open. It also ends where
/// `cut` says that it ends, after so many bytes of what was read.
async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    swallow: &AtomicBool,
    cut: impl Fn(&[u8]) -> Option<usize>,
) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer).await.unwrap_or(0);
        if swallow.load(Ordering::SeqCst) {
            if read == 0 {
                std::future::pending::<()>().await;
            }
            continue;
        }
        if let Some(length) = cut(&buffer[..read]) {
            let _ = to.write_all(&buffer[..length.min(read)]).await;
            return;
        }
        if read == 0 || to.write_all(&buffer[..read]).await.is_err() {
            let _ = to.shutdown().await;
            return;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
