//! An authority of its own, and the certificates that it signed for a server on this host and for the relay.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

/// PEM files in a temporary directory: `ca.pem`, `server.pem`, `server.key`, `client.pem` and `client.key`.
#[derive(Debug)]
pub struct Certificates {
    directory: TempDir,
}

impl Certificates {
    /// Makes an authority, and certificates for `localhost` and 127.0.0.1 and for a client called `relay`.
    ///
    /// # Panics
    /// When a file cannot be written.
    #[allow(clippy::new_without_default, reason = "each call makes other keys")]
    pub fn new() -> Self {
        let directory = TempDir::with_prefix("pillarbox-certificates-").expect("a temporary directory can be made");
        let mut params = CertificateParams::new(Vec::new()).expect("an authority has no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "Pillarbox tests");
        let key = KeyPair::generate().expect("a key can be made");
        let authority = CertifiedIssuer::self_signed(params, key).expect("an authority can sign itself");
        let certificates = Self { directory };
        certificates.write("ca.pem", &authority.pem());
        for (name, names) in [("server", &["localhost", "127.0.0.1"][..]), ("client", &["relay"])] {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let mut params = CertificateParams::new(names).expect("the names are valid");
            params.distinguished_name.push(DnType::CommonName, if name == "server" { "localhost" } else { "relay" });
            let key = KeyPair::generate().expect("a key can be made");
            let signed = params.signed_by(&key, &authority).expect("the authority signs");
            certificates.write(&format!("{name}.pem"), &signed.pem());
            certificates.write(&format!("{name}.key"), &key.serialize_pem());
        }
        certificates
    }

    fn write(&self, name: &str, pem: &str) {
        fs::write(self.directory.path().join(name), pem).expect("a certificate can be written");
    }

    /// Returns the path of one of the files.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the directory of the files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the keys of a destination that trusts the authority and shows the client's certificate.
    pub fn keys(&self) -> String {
        let path = |name: &str| self.path(name).display().to_string();
        format!(
            "ca_file = {:?}\nclient_certificate_file = {:?}\nclient_key_file = {:?}\n",
            path("ca.pem"),
            path("client.pem"),
            path("client.key")
        )
    }
}
