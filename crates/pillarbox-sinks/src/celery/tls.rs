//! The certificate authorities that the sink trusts: the system's and those of `ca_file`.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::settings::CeleryError;

/// Returns the certificates of `ca_file`, checked.
pub(super) fn check(pem: &[u8]) -> Result<String, CeleryError> {
    let unusable = |reason: String| CeleryError::CaFile { reason };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(unusable("none found".to_owned()));
    }
    String::from_utf8(pem.to_vec()).map_err(|error| unusable(error.to_string()))
}

/// Returns all authorities in PEM, because the client drops the system's when it is given others. `None` means the system's
/// only.
pub(super) fn authorities(ca_file: Option<&[u8]>) -> Result<Option<Vec<u8>>, CeleryError> {
    let Some(own) = ca_file else { return Ok(None) };
    let mut pem = check(own)?;
    for certificate in rustls_native_certs::load_native_certs().certs {
        let encoded = BASE64_STANDARD.encode(&certificate);
        pem.push_str(&format!("\n-----BEGIN CERTIFICATE-----\n{encoded}\n-----END CERTIFICATE-----\n"));
    }
    Ok(Some(pem.into_bytes()))
}
