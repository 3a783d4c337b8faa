//! The transport of a connection: TCP, and TLS with rustls and ring when the address is `amqps`.
//!
//! The client's own TLS brings a reader of PKCS #12 files and fifty crates with it. Clients of a broker need none of
//! them, so the sink connects by itself.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_compat::{Compat, CompatExt as _};
use async_rs::traits::{Executor, Reactor, RuntimeKit};
use async_rs::util::{DummyIO, Task};
use async_rs::{Runtime, Tokio};
use futures_util::Stream;
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{AsyncTcpStream, Connection, ConnectionProperties};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Connects to the broker at `uri`, with `tls` when its scheme is `amqps`.
pub(super) async fn connect(uri: AMQPUri, tls: Arc<ClientConfig>) -> lapin::Result<Connection> {
    let runtime = Runtime::new(Transport(Tokio::current()));
    let properties = ConnectionProperties::default().with_connection_name("pillarbox".into());
    let connect = async move |uri: AMQPUri, _| Ok(AsyncTcpStream::Plain(open(&uri, &tls).await?.compat()));
    Connection::connector(uri, runtime, connect, properties).await
}

async fn open(uri: &AMQPUri, tls: &Arc<ClientConfig>) -> io::Result<Box<dyn Socket>> {
    let host = &uri.authority.host;
    let socket = TcpStream::connect((host.as_str(), uri.authority.port)).await?;
    socket.set_nodelay(true)?;
    match uri.scheme {
        AMQPScheme::AMQP => Ok(Box::new(socket)),
        AMQPScheme::AMQPS => {
            let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
            Ok(Box::new(TlsConnector::from(Arc::clone(tls)).connect(name, socket).await?))
        }
    }
}

/// A socket, with or without TLS.
trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// Tokio, with [`Socket`] as the type of its connections.
#[derive(Clone, Debug)]
struct Transport(Tokio);

impl RuntimeKit for Transport {}

impl Executor for Transport {
    type Task<T: Send + 'static> = <Tokio as Executor>::Task<T>;

    fn block_on<T, F: Future<Output = T>>(&self, future: F) -> T {
        self.0.block_on(future)
    }

    fn spawn<T: Send + 'static, F: Future<Output = T> + Send + 'static>(&self, future: F) -> Task<Self::Task<T>> {
        self.0.spawn(future)
    }

    fn spawn_blocking<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(&self, work: F) -> Task<Self::Task<T>> {
        self.0.spawn_blocking(work)
    }
}

impl Reactor for Transport {
    type TcpStream = Compat<Box<dyn Socket>>;
    type Sleep = <Tokio as Reactor>::Sleep;

    fn register<H: Send + 'static>(
        &self,
        _: H,
    ) -> io::Result<impl futures_io::AsyncRead + futures_io::AsyncWrite + Send + Unpin + 'static> {
        Err::<DummyIO, _>(io::Error::new(io::ErrorKind::Unsupported, "the client opens its connections with `connect`"))
    }

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        self.0.sleep(duration)
    }

    fn interval(&self, duration: Duration) -> impl Stream<Item = Instant> + Send + 'static {
        self.0.interval(duration)
    }

    #[allow(clippy::manual_async_fn, reason = "an async function would borrow self, and the trait asks for 'static")]
    fn tcp_connect_addr(
        &self,
        address: SocketAddr,
    ) -> impl Future<Output = io::Result<Self::TcpStream>> + Send + 'static {
        async move {
            let socket: Box<dyn Socket> = Box::new(TcpStream::connect(address).await?);
            Ok(socket.compat())
        }
    }
}
