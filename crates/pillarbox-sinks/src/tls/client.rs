//! The configuration of TLS clients, with rustls and ring.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use rustls_native_certs::CertificateResult;

use super::{Identity, Tls, TlsError};

/// Returns the configuration of a client. Without TLS (`is_used` is false), the system's authorities are not read.
pub(crate) fn client_config(tls: &Tls, is_used: bool) -> Result<ClientConfig, TlsError> {
    let mut roots = RootCertStore::empty();
    if let Some(pem) = &tls.authorities {
        add_own(&mut roots, pem)?;
    }
    if is_used {
        add_system(&mut roots, rustls_native_certs::load_native_certs())?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Setup(error.to_string()))?
        .with_root_certificates(roots);
    match &tls.identity {
        None => Ok(config.with_no_client_auth()),
        Some(Identity { certificate, key }) => {
            let chain = certificates(certificate, "client_certificate_file")?;
            let unusable = |reason: String| TlsError::Key { reason };
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| unusable(error.to_string()))?;
            config.with_client_auth_cert(chain, key).map_err(|error| unusable(error.to_string()))
        }
    }
}

/// Returns all authorities in PEM, the system's too, for a client that drops the system's when it is given others. `None`
/// means the system's only.
#[cfg(any(feature = "celery", feature = "kafka", feature = "redis"))]
pub(crate) fn authorities_pem(tls: &Tls) -> Result<Option<Vec<u8>>, TlsError> {
    let Some(pem) = &tls.authorities else { return Ok(None) };
    add_own(&mut RootCertStore::empty(), pem)?;
    use base64::Engine as _;
    let mut pem = pem.clone();
    for certificate in rustls_native_certs::load_native_certs().certs {
        let encoded = base64::prelude::BASE64_STANDARD.encode(&certificate);
        pem.extend(format!("\n-----BEGIN CERTIFICATE-----\n{encoded}\n-----END CERTIFICATE-----\n").into_bytes());
    }
    Ok(Some(pem))
}

fn add_own(roots: &mut RootCertStore, pem: &[u8]) -> Result<(), TlsError> {
    for certificate in certificates(pem, "ca_file")? {
        let unusable = |error: rustls::Error| TlsError::Certificate { key: "ca_file", reason: error.to_string() };
        roots.add(certificate).map_err(unusable)?;
    }
    Ok(())
}

fn certificates(pem: &[u8], key: &'static str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unusable = |reason: String| TlsError::Certificate { key, reason };
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let read = read.map_err(|error| unusable(error.to_string()))?;
    if read.is_empty() { Err(unusable("none found".to_owned())) } else { Ok(read) }
}

/// Adds the system's authorities. A system without any is fine if `ca_file` has some.
fn add_system(roots: &mut RootCertStore, system: CertificateResult) -> Result<(), TlsError> {
    for error in &system.errors {
        tracing::warn!(%error, "some of the system's certificate authorities cannot be read");
    }
    roots.add_parsable_certificates(system.certs);
    if roots.is_empty() { Err(TlsError::NoAuthorities) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(tls: &Tls) -> String {
        client_config(tls, false).unwrap_err().to_string()
    }

    #[test]
    fn a_ca_file_without_a_certificate_is_refused() {
        let refusal = |pem: &str| refusal(&Tls::trusting(pem));
        assert!(refusal("").starts_with("ca_file has no usable certificate (none found)"));
        assert!(refusal("not PEM").contains("(none found)"));
        assert!(
            refusal("-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n").contains("it must be PEM")
        );
    }

    #[test]
    fn a_client_certificate_needs_its_own_key() {
        let made = || rcgen::generate_simple_self_signed(["relay".to_owned()]).unwrap();
        let (one, other) = (made(), made());
        let with = |certificate: &str, key: &str| {
            let identity = Identity { certificate: certificate.into(), key: key.into() };
            Tls { authorities: None, identity: Some(identity) }
        };
        let (certificate, key) = (one.cert.pem(), one.signing_key.serialize_pem());
        assert!(client_config(&with(&certificate, &key), false).is_ok());
        assert!(refusal(&with("", &key)).starts_with("client_certificate_file has no usable certificate"));
        for wrong in ["", &other.signing_key.serialize_pem()] {
            let refusal = refusal(&with(&certificate, wrong));
            assert!(refusal.starts_with("client_key_file has no usable key"), "{refusal}");
        }
        let shown = format!("{:?}", with(&certificate, &key));
        assert!(!shown.contains("PRIVATE") && shown.contains("***"), "{shown}");
    }

    #[test]
    fn a_system_without_authorities_can_trust_nobody() {
        let error = add_system(&mut RootCertStore::empty(), CertificateResult::default()).unwrap_err().to_string();
        assert!(error.contains("install ca-certificates, or set ca_file"), "{error}");
    }
}
