//! SQS against moto, read by boto3.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::SendErrorKind::{Reject, Retry, Unavailable};
use pillarbox::{Message, SendError, Sink, StoredEvent};
use pillarbox_testkit::brokers::{Aws, AwsTarget, Broker, Received, WRONG_PASSWORD, sink};

pillarbox_testkit::sink_suite!(open);

async fn open() -> Aws {
    Aws::start(AwsTarget::Queue).await
}

mod fifo {
    use super::*;

    pillarbox_testkit::sink_suite! { in open;
        every_confirmed_message_arrives_once,
        a_server_killed_in_the_middle_loses_nothing,
        a_run_is_stored_in_order_up_to_its_first_failure,
    }

    async fn open() -> Aws {
        Aws::start(AwsTarget::FifoQueue).await
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_group_is_the_aggregate_and_an_event_that_is_sent_twice_arrives_once() {
        let broker = open().await;
        let sink = sink(&broker.keys());
        assert!(sink.keeps_order());
        let event = message("order.placed", "{}", &[]);
        assert_eq!(sink.send(std::slice::from_ref(&event)).await, [Ok(())]);
        assert_eq!(sink.send(std::slice::from_ref(&event)).await, [Ok(())]);
        let received = only(&broker).await;
        assert_eq!(received.headers["messagegroupid"], "Order:42");
        assert_eq!(received.headers["messagededuplicationid"], event.id.to_string());
    }

    #[tokio::test]
    async fn a_queue_that_depends_on_the_event_keeps_no_order() {
        let keeps = |queue: &str| sink(&keys(queue)).keeps_order();
        assert!(keeps("https://sqs.eu-west-1.amazonaws.com/1/orders.fifo"));
        assert!(keeps("https://sqs.eu-west-1.amazonaws.com/1/{aggregate_type}.fifo"));
        assert!(!keeps("https://sqs.eu-west-1.amazonaws.com/1/{event_type}.fifo"));
        assert!(!keeps("https://sqs.eu-west-1.amazonaws.com/1/{headers.queue}"));
        assert!(!keeps("https://sqs.eu-west-1.amazonaws.com/1/orders"));
    }

    #[tokio::test]
    async fn a_lease_longer_than_the_window_of_duplicates_is_told() {
        let fifo = sink(&keys("https://sqs.eu-west-1.amazonaws.com/1/orders.fifo"));
        assert!(fifo.advise(Duration::from_secs(299)).await.is_empty());
        let notes = fifo.advise(Duration::from_secs(360)).await;
        assert!(notes[0].contains("within 5 minutes, but relay.lease or the timeout is 6m"), "{notes:?}");
        let standard = sink(&keys("https://sqs.eu-west-1.amazonaws.com/1/orders"));
        assert!(standard.advise(Duration::from_secs(360)).await.is_empty());
    }

    fn keys(queue: &str) -> String {
        format!("kind = \"sqs\"\nqueue_url = {queue:?}\naccess_key_id = \"a\"\nsecret_access_key = \"b\"")
    }
}

fn message(event_type: &str, payload: &str, headers: &[(&str, &str)]) -> Message {
    let mut event = StoredEvent::for_tests(event_type, payload);
    event.headers.extend(headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    Message::new(Arc::new(event), 1)
}

async fn only(broker: &Aws) -> Received {
    let received = broker.received().await;
    let [received] = received.as_slice() else { panic!("{} messages arrived", received.len()) };
    received.clone()
}

async fn refusal(sink: &dyn Sink, message: &Message) -> SendError {
    sink.send(std::slice::from_ref(message)).await.remove(0).unwrap_err()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_needs_the_servers_authority_and_the_clients_certificate() {
    let broker = Aws::start_with_tls(AwsTarget::Queue).await;
    let keys = broker.keys_over_tls().unwrap();
    let event = message("order.placed", "{}", &[]);
    let without = |key: &str| -> String {
        keys.lines().filter(|line| !line.contains(key)).map(|line| format!("{line}\n")).collect()
    };
    let error = refusal(&*sink(&without("client_")), &event).await;
    assert_eq!(error.kind, Unavailable, "{error}");
    assert!(error.message.contains("CertificateRequired"), "{error}");
    let error = refusal(&*sink(&without("_file")), &event).await;
    assert_eq!(error.kind, Unavailable, "{error}");
    assert!(error.message.contains("UnknownIssuer") && error.message.contains("ca_file"), "{error}");
    let sink = sink(&keys);
    assert_eq!(sink.reach().await, Ok(()));
    assert_eq!(sink.send(std::slice::from_ref(&event)).await, [Ok(())]);
    assert_eq!(only(&broker).await.id(), event.id.to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cloudevents_and_many_headers_arrive_within_ten_attributes() {
    let broker = open().await;
    let headers = [("traceparent", "00-1-2-01"), ("a", "1"), ("b", "2"), ("c", "3"), ("d", "4"), ("of mine", "")];
    let event = message("order.placed", r#"{"total":1}"#, &headers);
    for format in ["payload", "cloudevents", "cloudevents-binary"] {
        let sink = sink(&format!("{}format = {format:?}\nsource = \"/shop\"", broker.keys()));
        assert_eq!(sink.send(std::slice::from_ref(&event)).await, [Ok(())], "{format}");
    }
    let received = broker.received().await;
    let [payload, structured, binary] = received.as_slice() else { panic!("{} messages arrived", received.len()) };
    for one in &received {
        assert_eq!(one.id(), event.id.to_string());
        assert_eq!(one.headers["traceparent"], "00-1-2-01");
        assert_eq!(one.headers["pillarbox-headers"], r#"{"a":"1","b":"2","c":"3","d":"4","of mine":""}"#);
    }
    assert_eq!(payload.body, br#"{"total":1}"#);
    assert_eq!(structured.headers["content-type"], "application/cloudevents+json");
    let envelope: serde_json::Value = serde_json::from_slice(&structured.body).unwrap();
    assert_eq!((&envelope["source"], &envelope["subject"]), (&"/shop".into(), &"Order/42".into()));
    assert_eq!(binary.body, br#"{"total":1}"#);
    for (name, value) in
        [("ce_type", "order.placed"), ("ce_source", "/shop"), ("ce_subject", "Order/42"), ("ce_specversion", "1.0")]
    {
        assert_eq!(binary.headers[name], value);
    }
    assert_eq!(binary.headers.len(), 10, "{binary:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_event_goes_to_the_queue_of_its_template_and_impossible_names_are_rejected() {
    let broker = open().await;
    let queues = broker.target().replace("orders", "{headers.queue}");
    let sink = sink(&broker.keys_to(&queues));
    let to = |queue: &str| message("order.placed", "{}", &[("queue", queue)]);
    let batch = [to("orders"), to("order placed"), to("nowhere"), to("orders"), message("order.placed", "{}", &[])];
    let results = sink.send(&batch).await;
    assert_eq!((&results[0], &results[3]), (&Ok(()), &Ok(())));
    let errors: Vec<_> = [1, 2, 4].map(|place: usize| results[place].clone().unwrap_err()).into();
    assert_eq!([errors[0].kind, errors[1].kind, errors[2].kind], [Reject, Retry, Reject]);
    assert!(
        errors[0].message.contains("queue_url becomes") && errors[0].message.contains("only letters"),
        "{errors:?}"
    );
    assert!(errors[1].message.contains("/nowhere does not exist"), "{errors:?}");
    assert!(errors[2].message.contains("no header \"queue\""), "{errors:?}");
    assert_eq!(broker.received().await.len(), 2);
    assert_eq!(sink.reach().await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_with_a_lower_limit_rejects_only_what_is_too_large_for_it() {
    let broker = Aws::start(AwsTarget::SmallQueue).await;
    let large = format!(r#"{{"large":"{}"}}"#, "x".repeat(3000));
    let batch: Vec<_> = (0..10).map(|place| message("t", if place == 3 { &large } else { "{}" }, &[])).collect();
    let results = sink(&broker.keys()).send(&batch).await;
    for (place, result) in results.iter().enumerate() {
        assert_eq!(result.is_ok(), place != 3, "{place}: {result:?}");
    }
    let error = results[3].clone().unwrap_err();
    assert_eq!((error.kind, error.status), (Reject, Some(400)), "{error}");
    assert!(error.message.contains("shorter than 2048 bytes"), "{error}");
    assert_eq!(broker.received().await.len(), 9);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_and_permissions_are_told_apart() {
    let broker = open().await;
    let event = message("order.placed", "{}", &[]);
    for (keys, kind, part) in [
        (broker.keys_with_unknown_user(), Unavailable, "SQS refused the credentials: the access key id is unknown"),
        (broker.keys_with_wrong_password(), Unavailable, "SQS refused the credentials: the secret access key is wrong"),
        (broker.keys_without_permission(), Retry, "the credentials may not sqs:SendMessage on the queue http"),
    ] {
        let sink = sink(&keys);
        let error = refusal(&*sink, &event).await;
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(part), "{error}");
        let reached = sink.reach().await.unwrap_err();
        assert!(!format!("{error:?} {reached:?}").contains(WRONG_PASSWORD), "{error:?} {reached:?}");
    }
    let reached = sink(&broker.keys_without_permission()).reach().await.unwrap_err();
    assert!(reached.message.contains("may not sqs:GetQueueAttributes"), "{reached}");
    assert!(broker.received().await.is_empty());
}
