//! TLS, creds, nkey and token, as users write them into the configuration.

use pillarbox::SendErrorKind;
use pillarbox_testkit::brokers::nats::{NatsServer, Operator, STREAM, orders};
use pillarbox_testkit::brokers::{Broker as _, sink};

use super::{message, send_one};

#[tokio::test]
async fn over_tls_with_a_certificate_of_its_own() {
    let server = NatsServer::start_with_tls().await;
    let sink = sink(&server.keys_over_tls().unwrap());
    assert_eq!(sink.reach().await, Ok(()));
    assert_eq!(send_one(&*sink, &message("1", "{}")).await, Ok(()));
    assert_eq!(server.received().await.len(), 1);
    let without = pillarbox_testkit::brokers::sink(&server.keys());
    let error = send_one(&*without, &message("1", "{}")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Unavailable, "{error}");
}

/// Sends with a login, and creates the stream with the same client before.
async fn delivers(server: &NatsServer, options: async_nats::ConnectOptions, login: &str) {
    let client = options.connect(server.url()).await.unwrap();
    async_nats::jetstream::new(client).create_stream(orders()).await.unwrap();
    let keys =
        format!("kind = \"nats\"\nurl = \"{}\"\nsubject = \"orders.x\"\nstream = \"{STREAM}\"\n{login}", server.url());
    let sink = sink(&keys);
    assert_eq!(sink.reach().await, Ok(()));
    assert_eq!(send_one(&*sink, &message("1", "{}")).await, Ok(()));
}

#[tokio::test]
async fn with_an_nkey() {
    let key = nkeys::KeyPair::new_user();
    let lines = format!("authorization {{ users: [{{ nkey: {} }}] }}\n", key.public_key());
    let server = NatsServer::start_with(&lines).await;
    let seed = key.seed().unwrap();
    delivers(&server, async_nats::ConnectOptions::with_nkey(seed.clone()), &format!("nkey = \"{seed}\"\n")).await;
    let other = nkeys::KeyPair::new_user().seed().unwrap();
    let keys = format!("kind = \"nats\"\nurl = \"{}\"\nsubject = \"orders.x\"\nnkey = \"{other}\"\n", server.url());
    let error = send_one(&*sink(&keys), &message("1", "{}")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Unavailable, "{error}");
    assert!(error.message.contains("authorization") && !error.message.contains(&other), "{error}");
}

#[tokio::test]
async fn with_a_token() {
    let server = NatsServer::start_with("authorization { token: \"s3cret/t\" }\n").await;
    let options = || async_nats::ConnectOptions::with_token("s3cret/t".to_owned());
    delivers(&server, options(), "token = \"s3cret/t\"\n").await;
    let url = server.url().replace("nats://", "nats://s3cret%2Ft@");
    let in_url = sink(&format!("kind = \"nats\"\nurl = \"{url}\"\nsubject = \"orders.x\"\n"));
    assert_eq!(send_one(&*in_url, &message("2", "{}")).await, Ok(()));
}

#[tokio::test]
async fn with_a_creds_file() {
    let operator = Operator::new();
    let server = NatsServer::start_with(&operator.lines).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &operator.creds).unwrap();
    let options = async_nats::ConnectOptions::with_credentials(&operator.creds).unwrap();
    delivers(&server, options, &format!("creds = \"file:{}\"\n", file.path().display())).await;
}
