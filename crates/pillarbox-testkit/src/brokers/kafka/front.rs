//! A front before the server: it forwards Kafka's frames, checks the credentials of clients that send some, speaks TLS if it
//! has certificates, and cuts connections when a test says so.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::sasl::Exchange;
use crate::brokers::Certificates;
use crate::port;

const SASL_HANDSHAKE: i16 = 17;
const API_VERSIONS: i16 = 18;
const SASL_AUTHENTICATE: i16 = 36;
const UNSUPPORTED_SASL_MECHANISM: i16 = 33;
const SASL_AUTHENTICATION_FAILED: i16 = 58;

/// A listener on a loopback port. It ends when the value is dropped.
#[derive(Debug)]
pub(super) struct Front {
    port: u16,
    shared: Arc<Shared>,
    _serving: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Shared {
    is_cut: AtomicBool,
    connections: Mutex<JoinSet<()>>,
}

impl Front {
    pub(super) async fn start(server: SocketAddr, certificates: Option<&Certificates>) -> Self {
        let listener = port::bind();
        let port = listener.local_addr().expect("a bound listener has an address").port();
        listener.set_nonblocking(true).expect("a listener can be made non-blocking");
        let listener = TcpListener::from_std(listener).expect("a tokio runtime is running");
        let acceptor = certificates.map(acceptor);
        let shared = Arc::new(Shared::default());
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, acceptor, Arc::clone(&shared), server));
        Self { port, shared, _serving: serving }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Closes all connections, and every new one.
    pub(super) fn cut(&self) {
        self.shared.is_cut.store(true, Ordering::SeqCst);
        self.shared.connections.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }

    /// Accepts connections again.
    pub(super) fn accept(&self) {
        self.shared.is_cut.store(false, Ordering::SeqCst);
    }
}

/// Returns a TLS server that wants a client certificate of the same authority.
fn acceptor(files: &Certificates) -> TlsAcceptor {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(files.path("ca.pem")).expect("a certificate")).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let chain = vec![CertificateDer::from_pem_file(files.path("server.pem")).expect("a certificate")];
    let key = PrivateKeyDer::from_pem_file(files.path("server.key")).expect("a key");
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has them")
        .with_client_cert_verifier(verifier.build().expect("a verifier"))
        .with_single_cert(chain, key)
        .expect("the key fits");
    TlsAcceptor::from(Arc::new(config))
}

async fn serve(listener: TcpListener, acceptor: Option<TlsAcceptor>, shared: Arc<Shared>, server: SocketAddr) {
    while let Ok((client, _)) = listener.accept().await {
        if shared.is_cut.load(Ordering::SeqCst) {
            continue;
        }
        let acceptor = acceptor.clone();
        let mut connections = shared.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.spawn(async move {
            let _ = client.set_nodelay(true);
            let _ = match acceptor {
                None => carry(client, server).await,
                Some(acceptor) => match acceptor.accept(client).await {
                    Ok(client) => carry(client, server).await,
                    Err(error) => Err(error),
                },
            };
        });
    }
}

/// Answers the frames of SASL, and forwards everything else. A client that fails is closed.
async fn carry(mut client: impl AsyncRead + AsyncWrite + Unpin, server: SocketAddr) -> io::Result<()> {
    let mut server = TcpStream::connect(server).await?;
    server.set_nodelay(true)?;
    let mut exchange = None;
    loop {
        let request = read_frame(&mut client).await?;
        let (api, correlation) = (i16::from_be_bytes([request[0], request[1]]), &request[4..8]);
        match api {
            API_VERSIONS => {
                write_frame(&mut server, &request).await?;
                let response = read_frame(&mut server).await?;
                write_frame(&mut client, &response).await?;
            }
            SASL_HANDSHAKE => {
                let mechanism = String::from_utf8_lossy(&body(&request)[2..]).into_owned();
                exchange = Exchange::start(&mechanism);
                let error = if exchange.is_some() { 0 } else { UNSUPPORTED_SASL_MECHANISM };
                let mut response = [correlation, &error.to_be_bytes(), &1_i32.to_be_bytes()].concat();
                response.extend(u16::try_from(mechanism.len()).expect("a short name").to_be_bytes());
                response.extend(mechanism.as_bytes());
                write_frame(&mut client, &response).await?;
            }
            SASL_AUTHENTICATE => {
                let answer = exchange.as_mut().and_then(|exchange| exchange.step(&body(&request)[4..]));
                let is_refused = answer.is_none();
                let error = if is_refused { SASL_AUTHENTICATION_FAILED } else { 0 };
                let answer = answer.unwrap_or_default();
                let mut response = [correlation, &error.to_be_bytes(), &(-1_i16).to_be_bytes()].concat();
                response.extend(i32::try_from(answer.len()).expect("a short answer").to_be_bytes());
                response.extend(answer);
                response.extend(0_i64.to_be_bytes());
                // Version 0 has no lifetime of the session.
                if request[3] == 0 {
                    response.truncate(response.len() - 8);
                }
                write_frame(&mut client, &response).await?;
                if is_refused {
                    return Ok(());
                }
            }
            _ if exchange.as_ref().is_some_and(|exchange| !exchange.is_done()) => return Ok(()),
            _ => {
                write_frame(&mut server, &request).await?;
                copy_bidirectional(&mut client, &mut server).await?;
                return Ok(());
            }
        }
    }
}

/// Returns what is behind the header of a request: api, version, correlation and the client's name.
fn body(request: &[u8]) -> &[u8] {
    let name = i16::from_be_bytes([request[8], request[9]]);
    &request[10 + usize::try_from(name).unwrap_or(0)..]
}

async fn read_frame(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let size = usize::try_from(stream.read_i32().await?).unwrap_or(0);
    let mut frame = vec![0; size];
    stream.read_exact(&mut frame).await?;
    if frame.len() < 10 { Err(io::ErrorKind::InvalidData.into()) } else { Ok(frame) }
}

async fn write_frame(stream: &mut (impl AsyncWrite + Unpin), frame: &[u8]) -> io::Result<()> {
    stream.write_i32(i32::try_from(frame.len()).expect("a short frame")).await?;
    stream.write_all(frame).await?;
    stream.flush().await
}
