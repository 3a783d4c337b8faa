//! The connections of the program's servers: accepted within limits, with TLS if there is a certificate, and closed when
//! they are silent for too long. The admin and the metrics listen through it. It knows no users and no routes.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use self::limits::Limits;
use self::places::Places;
use self::pulse::{HEAD, Held, Pulse, Watched};
pub(crate) use self::tls::Tls;

mod limits;
mod places;
mod pulse;
mod tls;

/// The number of concurrent requests of a browser.
const STREAMS: u32 = 32;
/// The interval and the timeout of HTTP/2 pings, which detect a dead connection.
const PING: Duration = Duration::from_secs(10);
/// The buffer for the head of a request and for parts of its body.
const BUFFER: usize = 64 << 10;
/// When the process is out of file descriptors, the listener waits this long before it accepts again.
const BACKOFF: Duration = Duration::from_millis(100);
/// The interval of warnings in the log about that.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The task that serves. It ends when this is dropped.
pub(crate) struct Serving(JoinHandle<()>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A listener with its limits.
pub(crate) struct Door {
    /// The name in the log: admin, metrics.
    name: &'static str,
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    limits: Limits,
}

impl Door {
    /// Returns a listener with at most this many connections, or fewer if the process may open few files.
    pub(crate) fn new(name: &'static str, listener: TcpListener, most: usize) -> Self {
        Self { name, listener, tls: None, limits: Limits::of_process(most) }
    }

    pub(crate) fn with_tls(self, tls: Option<Tls>) -> Self {
        Self { tls: tls.map(Arc::new), ..self }
    }

    /// Exempts addresses that many users share from the limit per address. Loopback addresses are always exempt.
    pub(crate) fn shared(mut self, is_shared: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> Self {
        self.limits.is_shared = Box::new(is_shared);
        self
    }

    /// Serves until the returned value is dropped. Errors of connections do not end it.
    pub(crate) fn open(self, routes: Router) -> Serving {
        Serving(tokio::spawn(self.serve(routes)))
    }

    async fn serve(self, routes: Router) {
        let Self { name, listener, tls, limits } = self;
        let places = Arc::new(Places::new(limits));
        // These tasks end with this one.
        let mut tasks = JoinSet::new();
        if let Some(tls) = &tls {
            tasks.spawn(Arc::clone(tls).keep_up_to_date());
        }
        let mut trouble = Trouble { name, warned_at: None };
        loop {
            while tasks.try_join_next().is_some() {}
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                // The client closed the connection before it was accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    trouble.tell(&error);
                    places.make_way();
                    tokio::time::sleep(BACKOFF).await;
                    continue;
                }
            };
            let Some(place) = places.take(peer.ip()) else {
                tracing::debug!(%peer, "{name}: connection refused: too many connections");
                continue;
            };
            let (acceptor, routes) = (tls.as_ref().map(|tls| tls.acceptor()), routes.clone());
            tasks.spawn(async move {
                let ended = tokio::select! {
                    ended = attend(stream, peer, acceptor, routes, place.pulse()) => ended,
                    why = place.pulse().end() => Err(io::Error::new(io::ErrorKind::TimedOut, why)),
                };
                if let Err(error) = ended {
                    tracing::debug!(%error, %peer, "{name}: connection ended early");
                }
            });
        }
    }
}

/// Logs connections that could not be accepted, at most once per interval.
struct Trouble {
    name: &'static str,
    warned_at: Option<tokio::time::Instant>,
}

impl Trouble {
    fn tell(&mut self, error: &io::Error) {
        let Self { name, warned_at } = self;
        if warned_at.is_some_and(|at| at.elapsed() < WARN_EVERY) {
            return;
        }
        *warned_at = Some(tokio::time::Instant::now());
        tracing::warn!(%error, "{name}: connection not accepted; raise LimitNOFILE or `ulimit -n` if too many files are open");
    }
}

async fn attend(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<tokio_rustls::TlsAcceptor>,
    routes: Router,
    pulse: &Arc<Pulse>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let stream = Watched::new(stream, Arc::clone(pulse));
    match tls {
        None => talk(stream, peer, routes, pulse).await,
        Some(tls) => talk(tls.accept(stream).await?, peer, routes, pulse).await,
    }
}

async fn talk<S>(stream: S, peer: SocketAddr, routes: Router, pulse: &Arc<Pulse>) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(BUFFER);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING)
        .max_concurrent_streams(STREAMS);
    let (routes, pulse) = (TowerToHyperService::new(routes), Arc::clone(pulse));
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        let busy = pulse.begin();
        let answer = hyper::service::Service::call(&routes, request);
        async move { answer.await.map(|response| response.map(|body: Body| Held::new(body, busy))) }
    });
    builder.serve_connection(TokioIo::new(stream), service).await.map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
