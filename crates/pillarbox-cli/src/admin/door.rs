//! Connections: accepted, with TLS if there is a certificate, and served within limits. It knows no user.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::config::ConfigError;
use crate::config::admin::TlsFiles;

/// More than a team looks with; the rest waits.
const CONNECTIONS: usize = 512;
/// What a browser asks for at once.
const STREAMS: u32 = 32;
/// Who takes longer to say hello, or what is wanted, is hung up on.
const PATIENCE: Duration = Duration::from_secs(10);
/// When the system has no room for another connection it is asked again after this.
const AFTER_TROUBLE: Duration = Duration::from_millis(100);

/// The task that serves. It ends when this is dropped.
pub(crate) struct Serving(JoinHandle<()>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Who is at the other end of the connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) SocketAddr);

/// Reads the certificate and the key.
pub(super) fn tls(files: &TlsFiles) -> anyhow::Result<TlsAcceptor> {
    let unreadable = |key: &str, path: &std::path::Path, error: &dyn std::fmt::Display| {
        ConfigError::new(format!("admin.{key}: {} cannot be used: {error}", path.display()))
    };
    let path = &files.certificate;
    let chain = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| unreadable("tls_certificate", path, &error))?;
    if chain.is_empty() {
        return Err(unreadable("tls_certificate", path, &"there is no certificate in it").into());
    }
    let path = &files.key;
    let key = PrivateKeyDer::from_pem_file(path).map_err(|error| unreadable("tls_key", path, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("TLS cannot be set up")?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| unreadable("tls_key", path, &error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Serves whoever comes.
pub(super) fn open(listener: TcpListener, tls: Option<TlsAcceptor>, routes: Router) -> Serving {
    Serving(tokio::spawn(async move {
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        // They end with this task.
        let mut connections = tokio::task::JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::debug!(%error, "a connection to the admin could not be accepted");
                    tokio::time::sleep(AFTER_TROUBLE).await;
                    continue;
                }
            };
            let (tls, routes) = (tls.clone(), routes.clone());
            connections.spawn(async move {
                if let Err(error) = attend(stream, Peer(peer), tls, routes).await {
                    tracing::debug!(%error, %peer, "a connection to the admin ended early");
                }
                drop(place);
            });
        }
    }))
}

async fn attend(stream: TcpStream, peer: Peer, tls: Option<TlsAcceptor>, routes: Router) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match tls {
        None => talk(stream, peer, routes).await,
        Some(tls) => talk(tokio::time::timeout(PATIENCE, tls.accept(stream)).await??, peer, routes).await,
    }
}

async fn talk<S>(stream: S, peer: Peer, routes: Router) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PATIENCE)
        .keep_alive_timeout(PATIENCE)
        .max_concurrent_streams(STREAMS);
    let routes = TowerToHyperService::new(routes);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        hyper::service::Service::call(&routes, request)
    });
    builder.serve_connection(TokioIo::new(stream), service).await.map_err(io::Error::other)
}
