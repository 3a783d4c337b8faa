//! What a receiver's answers come to.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use futures_util::stream;
use pillarbox::sink::Receipt;
use pillarbox::{Message, SendErrorKind, Sink};
use pillarbox_sinks::http::{HttpSettings, HttpSink};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::receiver::Receiver;
use crate::{failure, local, placed, send};

async fn answering(status: u16, headers: &'static [(&'static str, &'static str)], body: &'static str) -> Receiver {
    Receiver::answering(move |_| {
        let mut response = (StatusCode::from_u16(status).unwrap(), body).into_response();
        for (name, value) in headers {
            response.headers_mut().insert(*name, value.parse().unwrap());
        }
        response
    })
    .await
}

/// Answers each connection's request with these bytes, whatever they are, and closes it.
async fn raw(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(placed().payload.get().as_bytes()) {
                assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
            }
            stream.write_all(answer).await.unwrap();
        }
    });
    url
}

#[tokio::test]
async fn every_2xx_is_success() {
    for status in [200, 201, 202, 204] {
        let receiver = answering(status, &[], "").await;
        assert_eq!(send(local(receiver.url()), placed()).await, Ok(()), "{status}");
        let sink = HttpSink::new(local(receiver.url())).unwrap();
        let receipts = sink.send_for_receipts(&[Message::new(Arc::new(placed()), 1)]).await;
        assert_eq!(receipts, [Ok(Receipt::with_status(status))]);
    }
}

#[tokio::test]
async fn gone_and_unprocessable_reject() {
    for status in [410, 422] {
        let error = failure(local(answering(status, &[], "unsubscribed").await.url())).await;
        assert_eq!((error.kind, error.status), (SendErrorKind::Reject, Some(status)));
        assert_eq!(error.answer.as_deref(), Some("unsubscribed"));
    }
}

#[tokio::test]
async fn an_error_is_tried_again_and_shows_a_piece_of_the_answer() {
    let error = failure(local(answering(500, &[], "no such column: total").await.url())).await;
    assert_eq!(error.kind, SendErrorKind::Retry);
    assert_eq!(error.message, "the receiver answered 500 Internal Server Error");
    assert_eq!((error.status, error.answer.as_deref()), (Some(500), Some("no such column: total")));
    assert_eq!(error.after, None);
}

#[tokio::test]
async fn outages_are_not_the_events_fault_and_retry_after_is_obeyed_in_seconds() {
    for status in [429, 502, 503, 504] {
        let error = failure(local(answering(status, &[("retry-after", "120")], "").await.url())).await;
        assert_eq!((error.kind, error.status), (SendErrorKind::Unavailable, Some(status)));
        assert_eq!(error.after, Some(Duration::from_secs(120)), "{status}");
    }
}

#[tokio::test]
async fn retry_after_is_obeyed_as_a_date() {
    let receiver = Receiver::answering(|_| {
        let soon = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(300));
        (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", soon)])
    })
    .await;
    let after = failure(local(receiver.url())).await.after.unwrap();
    assert!((298..=301).contains(&after.as_secs()), "{after:?}");
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_says_where_to() {
    let target = answering(200, &[], "").await;
    let elsewhere = target.url().replace("127.0.0.1", "localhost");
    let receiver = Receiver::answering(move |_| {
        (StatusCode::PERMANENT_REDIRECT, [("location", format!("{elsewhere}?token=hunter2"))])
    })
    .await;
    let error = failure(local(receiver.url())).await;
    assert_eq!((error.kind, error.status), (SendErrorKind::Retry, Some(308)));
    assert_eq!(
        error.message,
        "the receiver answered 308 Permanent Redirect to the host localhost; \
         redirects are not followed, set url to the final address"
    );
    assert_eq!(target.seen().len(), 0);
}

#[tokio::test]
async fn an_endless_answer_is_read_to_the_bound_only() {
    let made = Arc::new(AtomicUsize::new(0));
    let counter = made.clone();
    for status in [StatusCode::OK, StatusCode::BAD_REQUEST] {
        let counter = counter.clone();
        let receiver = Receiver::answering(move |_| {
            let counter = counter.clone();
            let endless = stream::repeat_with(move || {
                counter.fetch_add(64 * 1024, Ordering::SeqCst);
                Ok::<_, Infallible>(Bytes::from_static(&[b'x'; 64 * 1024]))
            });
            (status, Body::from_stream(endless))
        })
        .await;
        let answer = send(local(receiver.url()), placed()).await;
        match answer {
            Ok(()) => assert_eq!(status, StatusCode::OK),
            Err(error) => assert_eq!((error.status, error.answer), (Some(400), Some("x".repeat(1024)))),
        }
    }
    // What the two sockets' buffers hold is made, too.
    let made = made.load(Ordering::SeqCst);
    assert!(made < 40 * 1024 * 1024, "{made} bytes");
}

#[tokio::test]
async fn a_body_that_never_ends_or_breaks_does_not_change_what_the_status_said() {
    let stuck = |status: StatusCode| async move {
        let receiver =
            Receiver::answering(move |_| (status, Body::from_stream(stream::pending::<Result<Bytes, Infallible>>())))
                .await;
        let settings = HttpSettings { timeout: Duration::from_secs(1), ..local(receiver.url()) };
        // The relay's timeout runs too, and it would make a duplicate of what was delivered.
        tokio::time::timeout(Duration::from_millis(900), send(settings, placed())).await.expect("in time")
    };
    assert_eq!(stuck(StatusCode::OK).await, Ok(()));
    let error = stuck(StatusCode::SERVICE_UNAVAILABLE).await.unwrap_err();
    assert_eq!((error.kind, error.status), (SendErrorKind::Unavailable, Some(503)));

    let broken = raw(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly a part").await;
    assert_eq!(send(local(broken), placed()).await, Ok(()));
    let broken = raw(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 100\r\n\r\nonly a part").await;
    assert_eq!(failure(local(broken)).await.answer.as_deref(), Some("only a part"));
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_answer_is_an_outage_and_nonsense_is_not() {
    let error = failure(local(raw(b"").await)).await;
    assert_eq!(error.kind, SendErrorKind::Unavailable, "{error}");
    assert!(error.message.contains("lost before the response: "), "{error}");
    let error = failure(local(raw(b"220 mail.example ESMTP\r\n").await)).await;
    assert_eq!(error.kind, SendErrorKind::Retry, "{error}");
    assert!(error.message.contains("is not HTTP: "), "{error}");
}

#[tokio::test]
async fn no_answer_in_time_is_a_timeout() {
    // The system accepts connections for it; nobody reads them.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let settings = HttpSettings { timeout: Duration::from_millis(500), ..local(format!("http://{address}/")) };
    let error = tokio::time::timeout(Duration::from_secs(5), failure(settings)).await.expect("in time");
    assert_eq!(error.kind, SendErrorKind::Timeout);
    assert_eq!(error.message, format!("no response from http://{address} within 500ms"));
}
