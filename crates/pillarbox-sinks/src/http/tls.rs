//! TLS with rustls and ring: the certificate authorities that the sink trusts.

use std::sync::Arc;

use reqwest::Url;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use rustls_native_certs::CertificateResult;

use super::settings::{HttpError, HttpSettings};

/// Returns a configuration that trusts the system's authorities and those of `ca_file`.
///
/// For plain `http`, the system's authorities are not even read: redirects are not followed, so they are never needed.
pub(super) fn config(settings: &HttpSettings, url: &Url) -> Result<ClientConfig, HttpError> {
    let mut roots = RootCertStore::empty();
    if let Some(pem) = &settings.ca_file {
        add_own(&mut roots, pem)?;
    }
    if url.scheme() == "https" {
        add_system(&mut roots, rustls_native_certs::load_native_certs())?;
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(HttpError::Tls)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn add_own(roots: &mut RootCertStore, pem: &[u8]) -> Result<(), HttpError> {
    let unusable = |reason: String| HttpError::CaFile { reason };
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    if roots.is_empty() { Err(unusable("none found".to_owned())) } else { Ok(()) }
}

/// Adds the system's authorities. A system without any is fine if `ca_file` has some.
fn add_system(roots: &mut RootCertStore, system: CertificateResult) -> Result<(), HttpError> {
    for error in &system.errors {
        tracing::warn!(%error, "some of the system's certificate authorities cannot be read");
    }
    roots.add_parsable_certificates(system.certs);
    if roots.is_empty() { Err(HttpError::NoAuthorities) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(pem: &str) -> String {
        let settings =
            HttpSettings { ca_file: Some(pem.as_bytes().to_vec()), ..HttpSettings::new("http://receiver.example") };
        config(&settings, &settings.checked_url().unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn a_ca_file_without_a_certificate_is_refused() {
        assert!(refusal("").starts_with("ca_file has no usable certificate (none found)"));
        assert!(refusal("not PEM").contains("(none found)"));
        assert!(
            refusal("-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n").contains("it must be PEM")
        );
    }

    #[test]
    fn a_system_without_authorities_can_trust_nobody() {
        let error = add_system(&mut RootCertStore::empty(), CertificateResult::default()).unwrap_err().to_string();
        assert!(error.contains("install ca-certificates, or set ca_file"), "{error}");
    }
}
