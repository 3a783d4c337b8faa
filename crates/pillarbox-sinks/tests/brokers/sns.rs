//! SNS against moto, read by boto3 from a subscribed queue with raw delivery. The suite runs on a FIFO topic.

use std::sync::Arc;

use pillarbox::SendErrorKind::{Reject, Retry};
use pillarbox::{Message, StoredEvent};
use pillarbox_testkit::brokers::{Aws, AwsTarget, Broker, sink};

pillarbox_testkit::sink_suite!(open);

async fn open() -> Aws {
    Aws::start(AwsTarget::FifoTopic).await
}

mod standard {
    use super::*;

    pillarbox_testkit::sink_suite! { in open;
        every_confirmed_message_arrives_once,
    }

    async fn open() -> Aws {
        Aws::start(AwsTarget::Topic).await
    }
}

fn message(payload: &str) -> Message {
    Message::new(Arc::new(StoredEvent::for_tests("order.placed", payload)), 1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_needs_the_clients_certificate() {
    let broker = Aws::start_with_tls(AwsTarget::Topic).await;
    let sink = sink(&broker.keys_over_tls().unwrap());
    assert_eq!(sink.reach().await, Ok(()));
    assert_eq!(sink.send(&[message("{}")]).await, [Ok(())]);
    assert_eq!(broker.received().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_only_other_topics_take_is_rejected_by_the_topic() {
    let broker = Aws::start(AwsTarget::Topic).await;
    let large = message(&format!("{:?}", "x".repeat(300 * 1024)));
    let batch = [message("{}"), large, message("{}")];
    let results = sink(&broker.keys()).send(&batch).await;
    assert_eq!((&results[0], &results[2]), (&Ok(()), &Ok(())));
    let error = results[1].clone().unwrap_err();
    assert_eq!(error.kind, Reject, "{error}");
    assert!(error.message.contains("too long"), "{error}");
    assert_eq!(broker.received().await.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_without_permission_is_named_with_the_action() {
    let broker = open().await;
    let sink = sink(&broker.keys_without_permission());
    let error = sink.send(&[message("{}")]).await.remove(0).unwrap_err();
    assert_eq!(error.kind, Retry, "{error}");
    let expected = format!("the credentials may not sns:Publish on the topic {}", broker.target());
    assert!(error.message.starts_with(&expected), "{error}");
}
