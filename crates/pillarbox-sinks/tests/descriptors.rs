//! A process that may open no more files. It is a test of its own, because the limit is that of the whole process.

#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::sync::Arc;
use std::time::Duration;

use pillarbox::{Message, SendErrorKind, Sink, StoredEvent};
use pillarbox_sinks::http::{HttpSettings, HttpSink};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[tokio::test]
async fn no_file_descriptors_are_this_machines_fault() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/events", listener.local_addr().unwrap());
    let settings = HttpSettings { allow_private: true, timeout: Duration::from_secs(60), ..HttpSettings::new(url) };
    let sink = HttpSink::new(settings).unwrap();
    let message = Message::new(Arc::new(StoredEvent::for_tests("order.placed", "{}")), 1);

    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), maximum: before.maximum }).unwrap();
    let answer = sink.send(&[message]).await.remove(0);
    setrlimit(Resource::Nofile, before).unwrap();

    let error = answer.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Unavailable, "it uses no attempt");
    assert!(
        error
            .message
            .starts_with("this process has no file descriptors left, so no request was sent to http://127.0.0.1:"),
        "{error}"
    );
    assert!(error.message.contains("raise LimitNOFILE") && !error.message.contains("/events"), "{error}");
}
