//! TLS to both brokers: a certificate of one's own authority is trusted when that is given, and otherwise not.

use std::sync::Arc;

use pillarbox::SendErrorKind;
use pillarbox_sinks::Tls;
use pillarbox_sinks::celery::CelerySettings;
use pillarbox_testkit::rabbitmq;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::fixture::{Rabbit, send_one, settings, sink, to_queue, unique};

/// A front with TLS before a server on this host: its port, and the certificate in PEM.
async fn front(server: u16) -> (u16, String) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut outside) = acceptor.accept(stream).await else { return };
                let mut inside = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
            });
        }
    });
    (port, cert.pem())
}

fn port(url: &str) -> u16 {
    url.rsplit(':').next().unwrap().split('/').next().unwrap().parse().unwrap()
}

async fn is_trusted_with_its_authority_only(broker: &str, pem: String, queue: &str) {
    let trusting = sink(CelerySettings { tls: Tls::trusting(pem), ..settings(broker) });
    assert_eq!(send_one(&trusting, to_queue(queue)).await, Ok(()));
    let error = send_one(&sink(settings(broker)), to_queue(queue)).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Unavailable, "{error}");
    assert!(error.message.contains("ertificate"), "{error}");
}

#[tokio::test]
async fn rabbitmq() {
    let rabbit = Rabbit::shared().await;
    let queue = unique("tls");
    rabbit.queue(&queue, &[]).await;
    let (port, pem) = front(port(&rabbitmq::shared_url())).await;
    let broker = format!("amqps://guest:guest@localhost:{port}//");
    is_trusted_with_its_authority_only(&broker, pem, &queue).await;
    assert_eq!(rabbit.count(&queue).await, 1);
}

#[tokio::test]
async fn redis() {
    let (port, pem) = front(port(&pillarbox_testkit::redis::shared_url())).await;
    let broker = format!("rediss://localhost:{port}/0?ssl_cert_reqs=required");
    is_trusted_with_its_authority_only(&broker, pem, &unique("tls")).await;
}
