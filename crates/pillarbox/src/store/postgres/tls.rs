//! Encryption of connections, by libpq's `sslmode`, `sslrootcert`, `sslcert` and `sslkey`.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use sqlx::postgres::PgSslMode;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::Error;
use crate::error::DriverError;

/// How connections to a server are encrypted.
#[derive(Debug, Clone)]
pub(super) struct Tls {
    pub(super) mode: PgSslMode,
    /// The certificates that are trusted, as a file name or PEM; without them, those that browsers trust.
    pub(super) roots: Option<String>,
    /// The client's certificate and its key, as file names or PEM.
    pub(super) client: Option<(String, String)>,
}

/// What is checked of the server's certificate.
#[derive(Debug)]
enum Check {
    /// Nothing: the connection is encrypted, and the server may be any.
    Nothing,
    /// A trusted authority has signed it.
    Authority(Arc<WebPkiServerVerifier>),
    /// The same, and it is for this host.
    Host(Arc<WebPkiServerVerifier>),
}

impl Tls {
    /// Returns whether a connection is encrypted, for the driver.
    pub(super) fn mode(&self) -> SslMode {
        match self.mode {
            PgSslMode::Disable => SslMode::Disable,
            PgSslMode::Allow | PgSslMode::Prefer => SslMode::Prefer,
            PgSslMode::Require | PgSslMode::VerifyCa | PgSslMode::VerifyFull => SslMode::Require,
        }
    }

    /// Reads the certificates. They are read for each connection, because they may be renewed.
    pub(super) fn connector(&self) -> Result<MakeRustlsConnect, Error> {
        let provider = Arc::new(ring::default_provider());
        let verifier = Verifier { check: self.check(&provider)?, provider: Arc::clone(&provider) };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let config = match &self.client {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let certificates = certificates("sslcert", certificate)?;
                let key =
                    PrivateKeyDer::from_pem_slice(&pem("sslkey", key)?).map_err(|_| unreadable("sslkey", "key"))?;
                config.with_client_auth_cert(certificates, key).map_err(unusable)?
            }
        };
        Ok(MakeRustlsConnect::new(config))
    }

    fn check(&self, provider: &Arc<CryptoProvider>) -> Result<Check, Error> {
        let is_named = matches!(self.mode, PgSslMode::VerifyFull);
        // As in libpq, a given authority is checked even if the mode does not ask for it.
        let is_signed = match self.mode {
            PgSslMode::VerifyCa => true,
            PgSslMode::Require => self.roots.is_some(),
            _ => false,
        };
        if !is_named && !is_signed {
            return Ok(Check::Nothing);
        }
        let mut roots = RootCertStore::empty();
        match &self.roots {
            None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Some(given) => {
                for certificate in certificates("sslrootcert", given)? {
                    roots.add(certificate).map_err(unusable)?;
                }
            }
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        let verifier = verifier.build().map_err(unusable)?;
        Ok(if is_named { Check::Host(verifier) } else { Check::Authority(verifier) })
    }
}

fn certificates(name: &str, given: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem(name, given)?).collect();
    read.ok().filter(|read| !read.is_empty()).ok_or_else(|| unreadable(name, "certificate"))
}

/// Returns the PEM text, which may be given itself or by its file name.
fn pem(name: &str, given: &str) -> Result<Vec<u8>, Error> {
    if given.trim_start().starts_with("-----BEGIN") {
        return Ok(given.as_bytes().to_vec());
    }
    std::fs::read(given).map_err(|error| Error::Value(format!("{name} {given} cannot be read: {error}").into()))
}

fn unreadable(name: &str, what: &str) -> Error {
    Error::Value(format!("{name} contains no {what} in PEM format").into())
}

fn unusable(error: impl Into<DriverError>) -> Error {
    Error::Value(format!("the TLS settings cannot be used: {}", error.into()).into())
}

/// Checks a server's certificate as far as the mode asks for.
#[derive(Debug)]
struct Verifier {
    check: Check,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verify = |verifier: &Arc<WebPkiServerVerifier>| {
            verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
        };
        match &self.check {
            Check::Nothing => Ok(ServerCertVerified::assertion()),
            Check::Host(verifier) => verify(verifier),
            Check::Authority(verifier) => match verify(verifier) {
                Err(rustls::Error::InvalidCertificate(
                    CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
                )) => Ok(ServerCertVerified::assertion()),
                checked => checked,
            },
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
