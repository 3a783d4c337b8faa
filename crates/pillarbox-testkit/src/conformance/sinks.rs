//! The conformance suite of sinks: what every kind of destination does, against a real server that implements [`Broker`]. A
//! kind's tests call [`sink_suite!`](crate::sink_suite).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pillarbox::event::PAYLOAD_CONTENT_TYPE;
use pillarbox::sink::test_event;
use pillarbox::{Message, SendError, SendErrorKind, Sink, StoredEvent};

use crate::brokers::{Broker, Received, TIMEOUT, WRONG_PASSWORD, sink};
use crate::wait::wait_until;

/// How long a server may take to be back, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Defines the tests of a sink, one per check. `$open` is an async function that returns a fresh [`Broker`].
#[macro_export]
macro_rules! sink_suite {
    (in $open:path; $($check:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $check() {
                $crate::conformance::sinks::$check($open().await).await;
            }
        )+
    };
    ($open:path) => {
        $crate::sink_suite! { in $open;
            every_confirmed_message_arrives_once,
            bytes_and_headers_arrive_as_they_were_sent,
            an_opaque_payload_arrives_as_its_bytes,
            a_message_that_is_too_large_is_rejected_and_no_other,
            an_unknown_target_is_the_targets_fault,
            a_wrong_password_is_an_outage_and_is_not_shown,
            a_server_that_is_down_is_an_outage_until_it_is_back,
            a_server_killed_in_the_middle_loses_nothing,
            a_silent_server_is_given_up_in_time,
            a_cancelled_batch_leaves_the_sink_usable,
            a_run_is_stored_in_order_up_to_its_first_failure,
            reach_finds_what_is_wrong,
        }
    };
}

fn event(aggregate: &str, payload: &str) -> StoredEvent {
    let mut event = StoredEvent::for_tests("order.placed", payload);
    aggregate.clone_into(&mut event.aggregate_id);
    event
}

fn message(aggregate: &str, payload: &str) -> Message {
    Message::new(Arc::new(event(aggregate, payload)), 1)
}

/// Returns messages of as many aggregates.
fn messages(count: usize) -> Vec<Message> {
    (0..count).map(|number| message(&number.to_string(), &format!(r#"{{"number":{number}}}"#))).collect()
}

fn ids(messages: &[Message]) -> BTreeSet<String> {
    messages.iter().map(|message| message.id.to_string()).collect()
}

fn large(aggregate: &str, bytes: usize) -> Message {
    message(aggregate, &format!(r#"{{"large":"{}"}}"#, "x".repeat(bytes)))
}

/// Sends all messages as the relay does: batch by batch, under the timeout.
async fn send(sink: &dyn Sink, messages: &[Message]) -> Vec<Result<(), SendError>> {
    let mut results = Vec::with_capacity(messages.len());
    for batch in messages.chunks(sink.batch_limit()) {
        let sent = tokio::time::timeout(TIMEOUT, sink.send(batch)).await;
        results.extend(sent.unwrap_or_else(|_| vec![Err(SendError::timeout("dropped by the relay")); batch.len()]));
    }
    results
}

async fn send_one(sink: &dyn Sink, message: &Message) -> Result<(), SendError> {
    send(sink, std::slice::from_ref(message)).await.remove(0)
}

/// Sends until every message is confirmed. Only outages and timeouts may come between.
async fn send_until_confirmed(sink: &dyn Sink, messages: &[Message]) {
    let (mut open, deadline) = (messages.to_vec(), Instant::now() + PATIENCE);
    while !open.is_empty() {
        let results = send(sink, &open).await;
        let mut last = None;
        let mut results = results.into_iter();
        open.retain(|_| match results.next() {
            Some(Ok(())) => false,
            Some(Err(error)) => {
                let is_outage = matches!(error.kind, SendErrorKind::Unavailable | SendErrorKind::Timeout);
                assert!(is_outage, "an outage is not the event's fault: {error:?}");
                last = Some(error);
                true
            }
            None => panic!("the sink returned no result for a message"),
        });
        assert!(Instant::now() < deadline, "{} messages were never confirmed: {last:?}", open.len());
    }
}

/// Every message of a large batch is confirmed, and each arrives once.
///
/// # Panics
/// When the check fails, like every check of this suite.
pub async fn every_confirmed_message_arrives_once(broker: impl Broker) {
    let messages = messages(300);
    let results = send(&*sink(&broker.keys()), &messages).await;
    assert_eq!(results, vec![Ok(()); messages.len()]);
    let received = broker.received().await;
    assert_eq!(received.len(), messages.len());
    assert_eq!(received.iter().map(Received::id).collect::<BTreeSet<_>>(), ids(&messages));
}

/// Body, own headers and Pillarbox's headers are what the receiver reads. Only a test event is marked as one.
///
/// # Panics
/// When the check fails.
pub async fn bytes_and_headers_arrive_as_they_were_sent(broker: impl Broker) {
    let mut event = event("42", r#"{"b": 1.10, "name":"Müller \u00e9 😀"}"#);
    event.headers.insert("tenant".to_owned(), "acme".to_owned());
    event
        .headers
        .insert("traceparent".to_owned(), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned());
    event.headers.insert("pillarbox-test".to_owned(), "true".to_owned());
    let (message, test) = (Message::new(Arc::new(event), 1), Message::test("conformance"));
    assert_eq!(send(&*sink(&broker.keys()), &[message.clone(), test.clone()]).await, [Ok(()), Ok(())]);
    let received = broker.received().await;
    assert_eq!(received.len(), 2, "{received:?}");
    let of = |message: &Message| received.iter().find(|one| one.id() == message.id.to_string()).unwrap();
    let marked = [of(&message), of(&test)].map(|one| one.headers.get(test_event::HEADER).map(String::as_str));
    assert_eq!(marked, [None, Some("true")]);
    let received = of(&message);
    assert_eq!(received.body, message.payload.get().as_bytes());
    for (name, value) in [
        ("pillarbox-event-id", message.id.to_string().as_str()),
        ("pillarbox-event-type", "order.placed"),
        ("pillarbox-aggregate-type", "Order"),
        ("pillarbox-aggregate-id", "42"),
        ("content-type", "application/json"),
        ("tenant", "acme"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ] {
        assert_eq!(received.headers.get(name).map(String::as_str), Some(value), "{name} in {:?}", received.headers);
    }
}

/// An opaque payload arrives byte for byte, with its content type and without the mark of the row. A system that carries text only
/// gets it as base64, and says so. An event whose row is marked and holds no base64 is rejected, and its neighbours are delivered.
///
/// # Panics
/// When the check fails.
pub async fn an_opaque_payload_arrives_as_its_bytes(broker: impl Broker) {
    const BYTES: [u8; 7] = [0x08, 0x2a, 0x00, 0xff, 0xfe, b'\r', b'\n'];
    let opaque = |payload: &str| {
        let mut event = event("42", payload);
        event.headers.insert(PAYLOAD_CONTENT_TYPE.to_owned(), "application/x-protobuf".to_owned());
        Message::new(Arc::new(event), 1)
    };
    // As TO_BASE64() and encode() write it, with a line break.
    let lines = serde_json::to_string("CCoA\n//4NCg==").expect("text is JSON");
    let messages = [opaque(&lines), opaque("{}"), message("43", "{}")];
    let results = send(&*sink(&broker.keys()), &messages).await;
    assert_eq!((&results[0], &results[2]), (&Ok(()), &Ok(())));
    let error = results[1].as_ref().expect_err("it is not base64");
    assert_eq!(error.kind, SendErrorKind::Reject, "{error:?}");
    assert!(error.message.contains("is not base64 in a JSON string"), "{error:?}");
    let received = broker.received().await;
    assert_eq!(received.len(), 2);
    let id = messages[0].id.to_string();
    let received = received.into_iter().find(|one| one.id() == id).expect("the opaque message arrived");
    let header = |name: &str| received.headers.get(name).map(String::as_str);
    let body = match header("content-transfer-encoding") {
        Some("base64") => BASE64_STANDARD.decode(&received.body).expect("the body is base64, as its attribute says"),
        other => {
            assert_eq!(other, None);
            received.body.clone()
        }
    };
    assert_eq!(body, BYTES);
    assert_eq!(header("content-type"), Some("application/x-protobuf"), "{:?}", received.headers);
    assert_eq!(header(PAYLOAD_CONTENT_TYPE), None);
}

/// A message that is too large is rejected with its size, and its neighbours are delivered.
///
/// # Panics
/// When the check fails.
pub async fn a_message_that_is_too_large_is_rejected_and_no_other(broker: impl Broker) {
    let Some(bytes) = broker.oversize() else { return };
    let messages = [message("1", "{}"), large("2", bytes), message("3", "{}")];
    let results = send(&*sink(&broker.keys()), &messages).await;
    let error = results[1].clone().unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Reject, "{error}");
    assert!(error.message.contains("large") || error.message.contains("bytes"), "{error}");
    assert_eq!((&results[0], &results[2]), (&Ok(()), &Ok(())));
    let received: Vec<_> = broker.received().await.iter().map(Received::id).collect();
    assert_eq!(received, [messages[0].id.to_string(), messages[2].id.to_string()]);
}

/// An unknown target is neither an outage nor the end of the event, and the error names it.
///
/// # Panics
/// When the check fails.
pub async fn an_unknown_target_is_the_targets_fault(broker: impl Broker) {
    let (keys, name) = broker.keys_to_unknown_target();
    let error = send_one(&*sink(&keys), &message("1", "{}")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Retry, "{error}");
    assert!(error.message.contains(&name), "{error}");
}

/// Wrong credentials are an outage of the destination, and are not shown.
///
/// # Panics
/// When the check fails.
pub async fn a_wrong_password_is_an_outage_and_is_not_shown(broker: impl Broker) {
    let error = send_one(&*sink(&broker.keys_with_wrong_password()), &message("1", "{}")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Unavailable, "{error}");
    assert!(!error.message.contains(WRONG_PASSWORD), "{error}");
    assert_ne!(error.message, "dropped by the relay", "wrong credentials are reported, not waited for");
}

/// A server that is down is an outage; when it is back, the same sink delivers.
///
/// # Panics
/// When the check fails.
pub async fn a_server_that_is_down_is_an_outage_until_it_is_back(mut broker: impl Broker) {
    let sink = sink(&broker.keys());
    let before = messages(3);
    assert_eq!(send(&*sink, &before).await, vec![Ok(()); 3]);
    broker.kill().await;
    let while_down = message("1", "{}");
    let error = send_one(&*sink, &while_down).await.unwrap_err();
    assert!(matches!(error.kind, SendErrorKind::Unavailable | SendErrorKind::Timeout), "{error:?}");
    broker.start_again().await;
    send_until_confirmed(&*sink, std::slice::from_ref(&while_down)).await;
    let received: BTreeSet<_> = broker.received().await.iter().map(Received::id).collect();
    assert!(received.is_superset(&ids(&before)) && received.contains(&while_down.id.to_string()));
}

/// Batches that are in flight when the server dies are confirmed later, and nothing that was confirmed is gone.
///
/// # Panics
/// When the check fails.
pub async fn a_server_killed_in_the_middle_loses_nothing(mut broker: impl Broker) {
    let (sink, messages) = (sink(&broker.keys()), messages(broker.many()));
    let sending = tokio::spawn({
        let messages = messages.clone();
        async move { send_until_confirmed(&*sink, &messages).await }
    });
    let broker_ref = &broker;
    wait_until("the first messages arrived", PATIENCE, async || !broker_ref.received().await.is_empty()).await;
    broker.kill().await;
    broker.start_again().await;
    sending.await.expect("all messages are confirmed in the end");
    let received: BTreeSet<_> = broker.received().await.iter().map(Received::id).collect();
    assert_eq!(ids(&messages).difference(&received).count(), 0, "lost");
}

/// A silent server is given up before the relay drops the send, and delivers when it speaks again.
///
/// # Panics
/// When the check fails.
pub async fn a_silent_server_is_given_up_in_time(broker: impl Broker) {
    let sink = sink(&broker.keys());
    assert_eq!(send(&*sink, &messages(2)).await, vec![Ok(()); 2]);
    broker.freeze();
    let while_silent = message("1", "{}");
    let error = send_one(&*sink, &while_silent).await.unwrap_err();
    broker.thaw();
    assert!(matches!(error.kind, SendErrorKind::Unavailable | SendErrorKind::Timeout), "{error:?}");
    send_until_confirmed(&*sink, std::slice::from_ref(&while_silent)).await;
}

/// A batch that the relay drops does not disturb the next one.
///
/// # Panics
/// When the check fails.
pub async fn a_cancelled_batch_leaves_the_sink_usable(broker: impl Broker) {
    let sink = sink(&broker.keys());
    let (cancelled, after) = (messages(20), messages(20));
    for _ in 0..3 {
        let _ = tokio::time::timeout(Duration::ZERO, sink.send(&cancelled[..sink.batch_limit().min(20)])).await;
    }
    assert_eq!(send(&*sink, &after).await, vec![Ok(()); after.len()]);
    let received: BTreeSet<_> = broker.received().await.iter().map(Received::id).collect();
    assert!(received.is_superset(&ids(&after)));
}

/// Runs arrive in order, and nothing of a run is stored after its first failure. Holds for sinks that keep order.
///
/// # Panics
/// When the check fails.
pub async fn a_run_is_stored_in_order_up_to_its_first_failure(broker: impl Broker) {
    let sink = sink(&broker.keys());
    if !sink.keeps_order() {
        return;
    }
    let run = |aggregate: &str, length: usize| -> Vec<Message> {
        let payloads = (0..length).map(|number| message(aggregate, &format!(r#"{{"number":{number}}}"#)));
        payloads.enumerate().map(|(place, message)| if place == 0 { message } else { message.following() }).collect()
    };
    let mut broken = run("broken", 5);
    let Some(bytes) = broker.oversize() else { panic!("a sink that keeps order has a message that it cannot store") };
    broken[2] = large("broken", bytes).following();
    let whole = [run("a", 40), run("b", 1), run("c", 40)];
    let batch = [&whole[0][..], &broken, &whole[1], &whole[2]].concat();
    assert!(sink.batch_limit() >= batch.len(), "a run fits into a batch");
    let results = sink.send(&batch).await;
    assert!(results[..42].iter().all(Result::is_ok), "{:?}", &results[..42]);
    assert!(results[42].is_err() && results[43].is_err() && results[44].is_err(), "{:?}", &results[42..45]);
    assert!(results[45..].iter().all(Result::is_ok), "{:?}", &results[45..]);
    let received = broker.received().await;
    let of = |aggregate: &str| -> Vec<String> {
        let of_it = |received: &&Received| received.headers["pillarbox-aggregate-id"] == aggregate;
        received.iter().filter(of_it).map(Received::id).collect()
    };
    let sent = |run: &[Message]| -> Vec<String> { run.iter().map(|message| message.id.to_string()).collect() };
    assert_eq!(of("a"), sent(&whole[0]));
    assert_eq!(of("b"), sent(&whole[1]));
    assert_eq!(of("c"), sent(&whole[2]));
    assert_eq!(of("broken"), sent(&broken[..2]), "nothing is stored behind a failure");
}

/// `reach` accepts a good destination, and names an unknown target and wrong credentials.
///
/// # Panics
/// When the check fails.
pub async fn reach_finds_what_is_wrong(broker: impl Broker) {
    assert_eq!(sink(&broker.keys()).reach().await, Ok(()));
    let (keys, name) = broker.keys_to_unknown_target();
    let error = sink(&keys).reach().await.unwrap_err();
    assert!(error.message.contains(&name), "{error}");
    let error = sink(&broker.keys_with_wrong_password()).reach().await.unwrap_err();
    assert!(!error.message.contains(WRONG_PASSWORD), "{error}");
    assert!(broker.received().await.is_empty(), "reach sends nothing");
}
