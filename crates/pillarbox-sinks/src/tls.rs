//! TLS: the certificate authorities that a sink trusts, and the certificate that it proves itself with. Pure data in PEM;
//! `client` turns it into the configuration of a client.

#[cfg(feature = "tls")]
mod client;

use std::fmt;

#[cfg(any(feature = "celery", feature = "kafka", feature = "redis"))]
pub(crate) use self::client::authorities_pem;
#[cfg(feature = "tls")]
#[allow(unused_imports, reason = "a kind may need only the other one")]
pub(crate) use self::client::client_config;

/// The trust and the identity of a client. The default trusts the system's authorities and shows no certificate.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// Certificates in PEM that are trusted in addition to the system's: `ca_file`.
    pub authorities: Option<Vec<u8>>,
    /// The client's own certificate, for servers that ask for one.
    pub identity: Option<Identity>,
}

/// The client's certificate chain and its key, both in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// `client_certificate_file`
    pub certificate: Vec<u8>,
    /// `client_key_file`
    pub key: Vec<u8>,
}

impl Tls {
    /// Trusts these certificates (PEM) in addition to the system's.
    pub fn trusting(pem: impl Into<Vec<u8>>) -> Self {
        Self { authorities: Some(pem.into()), identity: None }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("authorities", &self.authorities.as_ref().map(|pem| format!("{} bytes", pem.len())))
            .field("identity", &self.identity)
            .finish()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("certificate", &format_args!("{} bytes", self.certificate.len()))
            .field("key", &format_args!("***"))
            .finish()
    }
}

/// A certificate or a key that cannot be used, with the name of its key in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// No certificate could be read.
    #[error("{key} has no usable certificate ({reason}); it must be PEM and begin with -----BEGIN CERTIFICATE-----")]
    Certificate {
        /// The key of the configuration.
        key: &'static str,
        /// The reason.
        reason: String,
    },
    /// No private key could be read.
    #[error("client_key_file has no usable key ({reason}); it must be PEM and begin with -----BEGIN PRIVATE KEY-----")]
    Key {
        /// The reason.
        reason: String,
    },
    /// There are no authorities to trust.
    #[error(
        "this system has no certificate authorities, so no server can be trusted; install ca-certificates, or set ca_file"
    )]
    NoAuthorities,
    /// TLS could not be set up.
    #[error("TLS setup failed: {0}")]
    Setup(String),
}
