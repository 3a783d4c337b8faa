//! The certificate and the key of a listener. They are read again when their files change, so a renewed certificate needs
//! no restart. If the new one cannot be used, the error is logged and the old one stays.

use std::fs::Metadata;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use anyhow::Context;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::config::ConfigError;
use crate::config::admin::TlsFiles;

/// The interval at which the files are checked.
const EVERY: Duration = Duration::from_secs(2);

pub(crate) struct Tls {
    files: TlsFiles,
    current: RwLock<TlsAcceptor>,
    /// The state of the files when they were last read.
    stamp: Stamp,
}

/// The time and the length of the certificate's and the key's files.
type Stamp = [Option<(SystemTime, u64)>; 2];

impl Tls {
    /// Reads the certificate and the key.
    pub(crate) fn read(files: &TlsFiles) -> anyhow::Result<Self> {
        let stamp = stamp(files);
        Ok(Self { files: files.clone(), current: RwLock::new(acceptor(files)?), stamp })
    }

    /// Returns the acceptor for the next connection.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the files again whenever they change.
    pub(super) async fn keep_up_to_date(self: Arc<Self>) {
        let mut last = self.stamp;
        loop {
            tokio::time::sleep(EVERY).await;
            let tls = Arc::clone(&self);
            let looked = tokio::task::spawn_blocking(move || {
                let now = stamp(&tls.files);
                (now, (now != last).then(|| acceptor(&tls.files)))
            });
            let Ok((now, read)) = looked.await else { continue };
            last = now;
            match read {
                None => {}
                Some(Ok(acceptor)) => {
                    *self.current.write().unwrap_or_else(PoisonError::into_inner) = acceptor;
                    tracing::info!("TLS certificate reloaded: {}", self.files.certificate.display());
                }
                Some(Err(error)) => {
                    tracing::error!("TLS certificate not reloaded, the old one stays in use: {error:#}");
                }
            }
        }
    }
}

fn stamp(files: &TlsFiles) -> Stamp {
    let of = |metadata: Metadata| Some((metadata.modified().ok()?, metadata.len()));
    [&files.certificate, &files.key].map(|path| std::fs::metadata(path).ok().and_then(of))
}

fn acceptor(files: &TlsFiles) -> anyhow::Result<TlsAcceptor> {
    let unreadable = |key: &str, path: &Path, error: &dyn std::fmt::Display| {
        ConfigError::new(format!("admin.{key}: {} cannot be used: {error}", path.display()))
    };
    let path = &files.certificate;
    let chain = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let chain = chain.map_err(|error| unreadable("tls_certificate", path, &error))?;
    if chain.is_empty() {
        return Err(unreadable("tls_certificate", path, &"it contains no certificate").into());
    }
    let path = &files.key;
    let key = PrivateKeyDer::from_pem_file(path).map_err(|error| unreadable("tls_key", path, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("TLS setup failed")?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| unreadable("tls_key", path, &error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
