//! Encrypted connections to PostgreSQL: what `sslmode` checks of the server's certificate.

use pillarbox::store::postgres::PostgresStore;
use pillarbox_testkit::PrivatePostgres;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

/// An authority, and the certificate of a server that it calls by this name. All in PEM.
struct Authority {
    certificate: String,
    server: String,
    key: String,
}

impl Authority {
    fn of(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let own_key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&own_key).unwrap().pem();
        let issuer = Issuer::new(params, own_key);
        let key = KeyPair::generate().unwrap();
        let server = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        Self { certificate, server: server.pem(), key: key.serialize_pem() }
    }
}

#[tokio::test]
async fn the_mode_says_what_is_checked_of_the_certificate() {
    let (ours, other) = (Authority::of("db.example"), Authority::of("127.0.0.1"));
    let postgres = PrivatePostgres::start_encrypted(&ours.server, &ours.key).await;
    let directory = tempfile::tempdir().unwrap();
    for (name, authority) in [("ours.pem", &ours), ("other.pem", &other)] {
        std::fs::write(directory.path().join(name), &authority.certificate).unwrap();
    }
    let connect = async |parameters: &str| {
        let url =
            format!("{}?{}", postgres.url(), parameters.replace('@', &format!("{}/", directory.path().display())));
        PostgresStore::connect(&url, "public").await.map(drop).map_err(|error| error.to_string())
    };
    for accepted in ["sslmode=require", "sslmode=prefer", "", "sslmode=verify-ca&sslrootcert=@ours.pem"] {
        assert_eq!(connect(accepted).await, Ok(()), "{accepted}");
    }
    for (refused, why) in [
        ("sslmode=disable", "no encryption"),
        ("sslmode=verify-full&sslrootcert=@ours.pem", "not valid for name"),
        ("sslmode=verify-ca&sslrootcert=@other.pem", "invalid peer certificate"),
        ("sslmode=require&sslrootcert=@other.pem", "invalid peer certificate"),
        ("sslmode=verify-ca", "invalid peer certificate"),
        ("sslmode=verify-ca&sslrootcert=@missing.pem", "missing.pem cannot be read"),
        ("sslmode=require&sslcert=@ours.pem&sslkey=@ours.pem", "sslkey contains no key in PEM format"),
    ] {
        let error = connect(refused).await.expect_err(refused);
        assert!(error.contains(why), "{refused}: {error}");
    }
}

#[tokio::test]
async fn the_host_of_the_url_is_checked() {
    let ours = Authority::of("localhost");
    let postgres = PrivatePostgres::start_encrypted(&ours.server, &ours.key).await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ours.pem");
    std::fs::write(&path, &ours.certificate).unwrap();
    let url = format!("{}?sslmode=verify-full&sslrootcert={}", postgres.url(), path.display());
    let store = PostgresStore::connect(&url.replace("127.0.0.1", "localhost"), "public").await.unwrap();
    store.migrate().await.unwrap();
    assert!(PostgresStore::connect(&url, "public").await.is_err());
}
