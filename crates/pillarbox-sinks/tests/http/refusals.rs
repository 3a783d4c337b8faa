//! Receivers that cannot be reached, or must not be: and that nobody reads a secret about it.

use std::time::Duration;

use axum::http::{StatusCode, Version};
use pillarbox::SendErrorKind;
use pillarbox_sinks::Tls;
use pillarbox_sinks::http::{HttpError, HttpSettings, HttpSink};
use tokio::net::{TcpListener, TcpSocket};

use crate::receiver::{Authority, Receiver};
use crate::{failure, local, placed, send};

/// A port that is taken but not listened on: connecting is refused, and nobody else gets it meanwhile.
fn refusing() -> (TcpSocket, String) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap());
    (socket, url)
}

#[tokio::test]
async fn a_refused_connection_is_an_outage() {
    let (_socket, url) = refusing();
    let error = failure(local(&url)).await;
    assert_eq!(error.kind, SendErrorKind::Unavailable);
    assert!(error.message.starts_with(&format!("cannot connect to {url}: Connection refused")), "{error}");
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_an_outage() {
    for allow_private in [false, true] {
        let settings = HttpSettings { allow_private, ..local("http://no-such-receiver.invalid/") };
        let error = failure(settings).await;
        assert_eq!(error.kind, SendErrorKind::Unavailable);
        assert!(
            error.message.starts_with("cannot connect to http://no-such-receiver.invalid: failed to lookup"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_connection_that_is_not_made_in_time_is_an_outage() {
    // The TLS handshake belongs to connecting, and nobody answers it.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let settings = HttpSettings {
        connect_timeout: Some(Duration::from_millis(100)),
        tls: Tls::trusting(Authority::new().pem),
        ..local(&url)
    };
    let error = failure(settings).await;
    assert_eq!(error.kind, SendErrorKind::Unavailable);
    assert_eq!(error.message, format!("no connection to {url} within 100ms"));
}

#[tokio::test]
async fn a_private_address_is_refused_as_a_literal_and_by_name() {
    let receiver = Receiver::answering(|_| ()).await;
    let private = |url: String| HttpSettings { allow_private: false, ..local(url) };
    let error = HttpSink::new(private(receiver.url())).unwrap_err();
    assert!(
        matches!(error, HttpError::PrivateAddress { .. }) && error.to_string().contains("allow_private"),
        "{error}"
    );

    let by_name = receiver.url().replace("127.0.0.1", "localhost");
    let error = failure(private(by_name.clone())).await;
    assert_eq!(error.kind, SendErrorKind::Unavailable);
    assert!(error.message.contains("localhost is at the private address"), "{error}");
    assert!(error.message.contains("set allow_private = true"), "{error}");
    assert_eq!(receiver.accepted(), 0);

    send(local(by_name), placed()).await.unwrap();
    assert_eq!(receiver.seen().len(), 1);
}

#[tokio::test]
async fn a_certificate_of_ones_own_authority_is_trusted_with_ca_file_only() {
    let authority = Authority::new();
    let receiver = Receiver::trusted_through(&authority).await;
    let trusting = |authority: &Authority, host: &str| HttpSettings {
        tls: Tls::trusting(authority.pem.clone()),
        ..local(format!("https://{host}:{}/events", receiver.address.port()))
    };

    let error = failure(trusting(&Authority::new(), "localhost")).await;
    assert_eq!(error.kind, SendErrorKind::Unavailable);
    assert!(error.message.contains("is not trusted: invalid peer certificate: "), "{error}");
    assert!(error.message.contains("set ca_file"), "{error}");

    let error = failure(trusting(&authority, "127.0.0.1")).await;
    assert_eq!(error.kind, SendErrorKind::Unavailable);
    assert!(error.message.contains("not valid for"), "{error}");
    assert_eq!(receiver.seen().len(), 0);

    send(trusting(&authority, "localhost"), placed()).await.unwrap();
    assert_eq!(receiver.only().version, Version::HTTP_2);
}

#[tokio::test]
async fn secrets_are_in_no_debug_and_no_error() {
    let echo = Receiver::answering(|seen| {
        let status = match seen.path.as_str() {
            path if path.contains("redirect") => StatusCode::FOUND,
            _ => StatusCode::UNAUTHORIZED,
        };
        (status, [("location", "https://ann:hunter2@a.example/?hunter2")], format!("{} {:?}", seen.path, seen.headers))
    })
    .await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (_socket, refusing) = refusing();
    let silent = format!("http://{}", silent.local_addr().unwrap());
    for base in [echo.url(), format!("{}/redirect", echo.url()), silent, refusing] {
        let mut settings = HttpSettings {
            secrets: vec!["whsec_hunter2hunter2hunter2hunter2hunter2".into()],
            bearer: Some("bearer-hunter2".into()),
            timeout: Duration::from_millis(500),
            ..local(format!("{base}/path-hunter2/?token=query-hunter2"))
        };
        settings.headers.insert("x-api-key".to_owned(), "header-hunter2".into());
        let shown = format!("{settings:?} {:?}", HttpSink::new(settings.clone()).unwrap());
        assert!(!shown.contains("hunter2"), "{shown}");
        let error = failure(settings).await;
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
