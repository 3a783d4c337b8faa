//! Credentials and TLS, against the front of the tests: it checks PLAIN, SCRAM, OAUTHBEARER and client certificates.

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use pillarbox::SendErrorKind;
use pillarbox_testkit::brokers::kafka::{PASSWORD, TOKEN, USERNAME};
use pillarbox_testkit::brokers::{Broker as _, KafkaBroker, WRONG_PASSWORD, sink};

use super::{message, send_one};

fn login(mechanism: &str, password: &str) -> String {
    format!("sasl_mechanism = {mechanism:?}\nusername = {USERNAME:?}\npassword = {password:?}")
}

#[tokio::test]
async fn plain_and_scram_prove_the_password() {
    let broker = KafkaBroker::start().await;
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let right = sink(&broker.keys_with("orders", &login(mechanism, PASSWORD)));
        assert_eq!(send_one(&*right, &message("1", "{}")).await, Ok(()), "{mechanism}");
        let wrong = sink(&broker.keys_with("orders", &login(mechanism, WRONG_PASSWORD)));
        let error = send_one(&*wrong, &message("1", "{}")).await.unwrap_err();
        assert_eq!(error.kind, SendErrorKind::Unavailable);
        assert!(error.message.starts_with("connection to Kafka refused: "), "{mechanism}: {error}");
        assert!(!error.message.contains(WRONG_PASSWORD), "{error}");
    }
    assert_eq!(broker.received().await.len(), 3);
}

/// A token endpoint that knows one client. Returns its URL.
async fn token_endpoint() -> String {
    async fn token(headers: HeaderMap, body: String) -> (StatusCode, String) {
        use base64::Engine as _;
        let login = format!("Basic {}", base64::prelude::BASE64_STANDARD.encode(format!("{USERNAME}:{PASSWORD}")));
        if headers["authorization"] != login.as_str() || body != "grant_type=client_credentials&scope=kafka+write" {
            return (StatusCode::UNAUTHORIZED, r#"{"error":"invalid_client"}"#.to_owned());
        }
        (StatusCode::OK, format!(r#"{{"access_token":"{TOKEN}","token_type":"bearer","expires_in":60}}"#))
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/token", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/token", post(token))).await.unwrap() });
    url
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oauthbearer_fetches_a_token() {
    let (broker, url) = (KafkaBroker::start().await, token_endpoint().await);
    let keys = |secret: &str| {
        let oauth =
            format!("oauth_token_url = {url:?}\noauth_client_id = {USERNAME:?}\noauth_client_secret = {secret:?}");
        broker.keys_with("orders", &format!("sasl_mechanism = \"OAUTHBEARER\"\noauth_scope = \"kafka write\"\n{oauth}"))
    };
    let right = sink(&keys(PASSWORD));
    assert_eq!(right.reach().await, Ok(()));
    assert_eq!(send_one(&*right, &message("1", "{}")).await, Ok(()));
    let error = send_one(&*sink(&keys(WRONG_PASSWORD)), &message("1", "{}")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Unavailable);
    assert!(error.message.contains("token request refused with status 401 (invalid_client)"), "{error}");
    assert!(!error.message.contains(WRONG_PASSWORD), "{error}");
    assert_eq!(broker.received().await.len(), 1);
}

#[tokio::test]
async fn tls_trusts_its_own_authority_and_shows_a_certificate() {
    let broker = KafkaBroker::start_with_tls().await;
    let keys = broker.keys_over_tls().unwrap();
    let sent = message("1", "{}");
    assert_eq!(sink(&keys).reach().await, Ok(()));
    assert_eq!(send_one(&*sink(&keys), &sent).await, Ok(()));
    let without = |part: &str| keys.lines().filter(|line| !line.contains(part)).collect::<Vec<_>>().join("\n");
    let error = send_one(&*sink(&without("ca_file")), &sent).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Unavailable);
    assert!(error.message.contains("certificate verify failed"), "{error}");
    let error = send_one(&*sink(&without("client_")), &sent).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Unavailable, "{error}");
    assert_eq!(broker.received().await.len(), 1);
}
