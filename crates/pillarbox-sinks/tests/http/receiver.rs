//! Receivers on this host, for the sink to send to: they remember what they saw and answer as the test says.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, Method, Version};
use axum::response::{IntoResponse, Response};
use axum::serve::Listener;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// One request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) version: Version,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no header {name}: {:?}", self.headers)).to_str().unwrap()
    }
}

/// A server that runs until the test ends.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Receiver {
    pub(crate) async fn answering<R: IntoResponse>(
        answer: impl Fn(&Seen) -> R + Clone + Send + Sync + 'static,
    ) -> Self {
        Self::start(None, answer).await
    }

    /// With TLS, known as `localhost`.
    pub(crate) async fn trusted_through(authority: &Authority) -> Self {
        Self::start(Some(authority.acceptor()), |_| ()).await
    }

    async fn start<R: IntoResponse>(
        tls: Option<TlsAcceptor>,
        answer: impl Fn(&Seen) -> R + Clone + Send + Sync + 'static,
    ) -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        let (accepted, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let door = Door { tcp, tls, accepted: accepted.clone() };
        let book = seen.clone();
        let router = Router::new().fallback(async move |request: Request| -> Response {
            let request = read(request).await;
            let response = answer(&request).into_response();
            book.lock().unwrap().push(request);
            response
        });
        tokio::spawn(async move { axum::serve(door, router).await });
        Self { address, accepted, seen }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/events", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The one request that arrived.
    pub(crate) fn only(&self) -> Seen {
        let seen = self.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen[0].clone()
    }

    /// How many connections were opened to it.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

async fn read(request: Request) -> Seen {
    let (parts, body) = request.into_parts();
    Seen {
        method: parts.method,
        version: parts.version,
        path: parts.uri.path_and_query().unwrap().to_string(),
        headers: parts.headers,
        body: to_bytes(body, usize::MAX).await.unwrap(),
    }
}

trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

struct Door {
    tcp: TcpListener,
    tls: Option<TlsAcceptor>,
    accepted: Arc<AtomicUsize>,
}

impl Listener for Door {
    type Io = Box<dyn Wire>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            let (stream, peer) = self.tcp.accept().await.unwrap();
            self.accepted.fetch_add(1, Ordering::SeqCst);
            match &self.tls {
                None => return (Box::new(stream), peer),
                // A client that does not trust us ends the handshake; the next one may.
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => return (Box::new(stream), peer),
                    Err(_) => continue,
                },
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

/// A certificate authority of the test's own.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: Vec<u8>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem().into_bytes();
        Self { issuer: Issuer::new(params, key), pem }
    }

    fn acceptor(&self) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(["localhost".to_owned()]).unwrap().signed_by(&key, &self.issuer).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key.serialize_der().try_into().unwrap())
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }
}
