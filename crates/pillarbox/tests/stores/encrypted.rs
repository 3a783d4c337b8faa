//! Encrypted connections to PostgreSQL and MariaDB: what `sslmode` and `ssl-mode` check of the server's certificate.

use pillarbox::store::mysql::MysqlStore;
use pillarbox::store::postgres::PostgresStore;
use pillarbox_testkit::{PrivateMysql, PrivatePostgres};
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use sqlx::{Connection, Executor, MySqlConnection};

/// An authority, and the certificates of a server that it calls by this name and of a client. All in PEM.
struct Authority {
    certificate: String,
    server: String,
    key: String,
    client: String,
    client_key: String,
}

impl Authority {
    fn of(name: &str) -> Self {
        // OpenSSL takes a certificate whose subject is its issuer's for a self-signed one, so the names differ.
        let called = |params: &mut CertificateParams, name: &str| {
            params.distinguished_name = DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, name);
        };
        let mut params = CertificateParams::default();
        called(&mut params, "an authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let own_key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&own_key).unwrap().pem();
        let issuer = Issuer::new(params, own_key);
        let signed = |names: &[String], subject: &str| {
            let (key, mut params) = (KeyPair::generate().unwrap(), CertificateParams::new(names).unwrap());
            called(&mut params, subject);
            (params.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem())
        };
        let (server, key) = signed(&[name.to_owned()], "a server");
        let (client, client_key) = signed(&[], "a client");
        Self { certificate, server, key, client, client_key }
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

#[tokio::test]
async fn the_mode_says_what_is_checked_of_a_mariadb_certificate() {
    let (ours, other) = (Authority::of("localhost"), Authority::of("127.0.0.1"));
    let mysql = PrivateMysql::start_encrypted(&ours.server, &ours.key, Some(&ours.certificate)).await;
    let directory = tempfile::tempdir().unwrap();
    for (name, content) in [
        ("ours.pem", &ours.certificate),
        ("other.pem", &other.certificate),
        ("client.pem", &ours.client),
        ("client.key", &ours.client_key),
    ] {
        std::fs::write(directory.path().join(name), content).unwrap();
    }
    let place = format!("{}/", directory.path().display());
    let connect = async |host: &str, parameters: &str| {
        let url = format!("{}?{}", mysql.url().replace("127.0.0.1", host), parameters.replace('@', &place));
        MysqlStore::connect(&url).await.map(drop).map_err(|error| error.to_string())
    };
    for (host, accepted) in [
        ("127.0.0.1", ""),
        ("127.0.0.1", "ssl-mode=REQUIRED"),
        ("127.0.0.1", "ssl-mode=VERIFY_CA&ssl-ca=@ours.pem"),
        ("localhost", "ssl-mode=VERIFY_IDENTITY&ssl-ca=@ours.pem"),
    ] {
        assert_eq!(connect(host, accepted).await, Ok(()), "{accepted}");
    }
    for (refused, why) in [
        ("ssl-mode=DISABLED", "ssl-mode in the URL"),
        ("ssl-mode=VERIFY_IDENTITY&ssl-ca=@ours.pem", "not valid for name"),
        ("ssl-mode=VERIFY_CA&ssl-ca=@other.pem", "invalid peer certificate"),
        ("ssl-mode=VERIFY_CA", "invalid peer certificate"),
        ("ssl-mode=VERIFY_CA&ssl-ca=@missing.pem", "No such file"),
        ("ssl-mode=REQUIRED&ssl-cert=@ours.pem&ssl-key=@ours.pem", "no keys found"),
        ("ssl-ca=@ours.pem", "add one of them"),
    ] {
        let error = connect("127.0.0.1", refused).await.expect_err(refused);
        assert!(error.contains(why), "{refused}: {error}");
    }

    let mut server = MySqlConnection::connect(&mysql.url()).await.unwrap();
    server
        .execute("CREATE USER shop IDENTIFIED BY 'hunter2' REQUIRE X509; GRANT ALL ON mysql.* TO shop")
        .await
        .unwrap();
    let url = mysql.url().replace("root@", "shop:hunter2@");
    let shown = format!("{url}?ssl-mode=REQUIRED&ssl-cert={place}client.pem&ssl-key={place}client.key");
    MysqlStore::connect(&shown).await.unwrap();
    let error = MysqlStore::connect(&url).await.unwrap_err().to_string();
    assert!(error.contains("check the user, the password") && !error.contains("hunter2"), "{error}");
}
