//! The certificate authorities that the sink trusts: the system's and those of `ca_file`.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use super::settings::CeleryError;

/// Returns the certificates of `ca_file`.
fn own(pem: &[u8]) -> Result<RootCertStore, CeleryError> {
    let unusable = |reason: String| CeleryError::CaFile { reason };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    if roots.is_empty() { Err(unusable("none found".to_owned())) } else { Ok(roots) }
}

/// Returns the configuration of a client of RabbitMQ. Without TLS, the system's authorities are not read.
pub(super) fn config(ca_file: Option<&[u8]>, is_tls: bool) -> Result<ClientConfig, CeleryError> {
    let mut roots = ca_file.map_or_else(|| Ok(RootCertStore::empty()), own)?;
    if is_tls {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| CeleryError::Client(error.to_string()))?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

/// Returns all authorities in PEM, because the client of Redis drops the system's when it is given others. `None` means the
/// system's only.
pub(super) fn authorities(ca_file: Option<&[u8]>) -> Result<Option<Vec<u8>>, CeleryError> {
    let Some(pem) = ca_file else { return Ok(None) };
    own(pem)?;
    let mut pem = pem.to_vec();
    for certificate in rustls_native_certs::load_native_certs().certs {
        let encoded = BASE64_STANDARD.encode(&certificate);
        pem.extend(format!("\n-----BEGIN CERTIFICATE-----\n{encoded}\n-----END CERTIFICATE-----\n").into_bytes());
    }
    Ok(Some(pem))
}
