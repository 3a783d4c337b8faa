//! Errors of brokers, from the mock cluster of librdkafka: three brokers in this process that store messages, check sequence
//! numbers and return the errors that a test asks for. The reader is another client.

use pillarbox::{SendErrorKind, Sink};
use pillarbox_testkit::brokers::{Received, read, sink};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::{ids, message, received_ids, run, send_one};

const TOPIC: &str = "orders";

struct Mock(MockCluster<'static, DefaultProducerContext>);

impl Mock {
    fn start() -> Self {
        let cluster = MockCluster::new(3).unwrap();
        cluster.create_topic(TOPIC, 1, 3).unwrap();
        cluster.partition_leader(TOPIC, 0, Some(1)).unwrap();
        Self(cluster)
    }

    fn sink(&self) -> std::sync::Arc<dyn Sink> {
        sink(&format!("kind = \"kafka\"\nbrokers = {:?}\ntopic = \"{TOPIC}\"\n", self.0.bootstrap_servers()))
    }

    /// Lets the next requests to store messages fail with these errors.
    fn fail(&self, errors: &[RDKafkaRespErr]) {
        self.0.request_errors(RDKafkaApiKey::Produce, errors);
    }

    async fn received(&self) -> Vec<Received> {
        read("kafka.py", &[&self.0.bootstrap_servers(), TOPIC]).await
    }
}

/// Messages that need several requests: three of them fill one.
fn long_run(aggregate: &str, length: usize) -> Vec<pillarbox::Message> {
    run(aggregate, (0..length).map(|number| format!(r#"{{"number":{number},"fill":"{}"}}"#, "x".repeat(300_000))))
}

#[tokio::test]
async fn a_change_of_the_leader_delays_a_run_and_keeps_its_order() {
    let mock = Mock::start();
    let sink = mock.sink();
    let before = message("a", "{}");
    assert_eq!(send_one(&*sink, &before).await, Ok(()));
    mock.0.partition_leader(TOPIC, 0, Some(2)).unwrap();
    mock.fail(&[
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
    ]);
    let run = long_run("a", 12);
    assert_eq!(sink.send(&run).await, vec![Ok(()); 12]);
    assert_eq!(received_ids(&mock.received().await), ids(&[&[before], &run[..]].concat()));
}

#[tokio::test]
async fn a_broker_that_goes_down_and_comes_back_loses_and_doubles_nothing() {
    let mock = Mock::start();
    let sink = mock.sink();
    let before = message("a", "{}");
    assert_eq!(send_one(&*sink, &before).await, Ok(()));
    mock.0.broker_down(1).unwrap();
    let run = long_run("a", 12);
    let (results, ()) = tokio::join!(sink.send(&run), async {
        // The send has begun when the client complains, which it does at once.
        tokio::task::yield_now().await;
        mock.0.partition_leader(TOPIC, 0, Some(3)).unwrap();
        mock.0.broker_up(1).unwrap();
    });
    assert_eq!(results, vec![Ok(()); 12]);
    assert_eq!(received_ids(&mock.received().await), ids(&[&[before], &run[..]].concat()));
}

#[tokio::test]
async fn a_cluster_without_a_leader_is_an_outage_and_delivers_when_there_is_one() {
    let mock = Mock::start();
    let sink = mock.sink();
    mock.0.partition_leader(TOPIC, 0, None).unwrap();
    let run = long_run("a", 4);
    for result in sink.send(&run).await {
        let error = result.unwrap_err();
        assert!(matches!(error.kind, SendErrorKind::Timeout | SendErrorKind::Unavailable), "{error:?}");
    }
    mock.0.partition_leader(TOPIC, 0, Some(2)).unwrap();
    assert_eq!(sink.send(&run).await, vec![Ok(()); 4]);
    assert_eq!(received_ids(&mock.received().await), ids(&run), "what was given up is not sent");
}

#[tokio::test]
async fn a_request_that_is_too_large_is_sent_again_message_by_message() {
    let mock = Mock::start();
    let sink = mock.sink();
    mock.fail(&[RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR, RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE]);
    // Of several aggregates: the mock does not check sequence numbers, and would store a run's next request.
    let batch: Vec<_> = (0..12).flat_map(|number| long_run(&number.to_string(), 1)).collect();
    assert_eq!(sink.send(&batch).await, vec![Ok(()); 12]);
    let (mut received, mut sent) = (received_ids(&mock.received().await), ids(&batch));
    received.sort();
    sent.sort();
    assert_eq!(received, sent, "each once");
}

#[tokio::test]
async fn nothing_of_a_run_is_stored_behind_a_message_that_the_broker_refuses() {
    let mock = Mock::start();
    let sink = mock.sink();
    // Refused with its neighbours, and again alone.
    mock.fail(&[RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE; 2]);
    let refused = run("a", (0..5).map(|number| number.to_string()));
    let results = sink.send(&refused).await;
    let error = results[0].clone().unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Reject);
    assert!(error.message.starts_with("message too large: topic \"orders\" does not take its"), "{error}");
    assert!(results[1..].iter().all(Result::is_err), "{results:?}");
    assert_eq!(mock.received().await, []);
    assert_eq!(sink.send(&refused[1..]).await, vec![Ok(()); 4], "the sink works on");
    assert_eq!(received_ids(&mock.received().await), ids(&refused[1..]));
}

#[tokio::test]
async fn a_user_who_may_not_write_to_the_topic_is_told_what_to_grant() {
    let mock = Mock::start();
    let sink = mock.sink();
    mock.fail(&[RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED]);
    let run = run("a", (0..5).map(|number| number.to_string()));
    let results = sink.send(&run).await;
    let error = results[0].clone().unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Retry);
    assert!(error.message.starts_with("not authorised to write to topic \"orders\": grant"), "{error}");
    assert!(results[1..].iter().all(Result::is_err), "{results:?}");
    assert_eq!(sink.send(&run).await, vec![Ok(()); 5], "after the grant");
    assert_eq!(received_ids(&mock.received().await), ids(&run));
}

#[tokio::test]
async fn a_producer_that_fails_is_created_again() {
    let mock = Mock::start();
    let sink = mock.sink();
    let one = message("a", "{}");
    assert_eq!(send_one(&*sink, &one).await, Ok(()));
    mock.fail(&[RDKafkaRespErr::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER; 2]);
    let error = send_one(&*sink, &message("a", "{}")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Unavailable, "{error}");
    mock.0.clear_request_errors(RDKafkaApiKey::Produce);
    assert_eq!(send_one(&*sink, &message("a", "{}")).await, Ok(()));
}

#[tokio::test]
async fn a_user_who_may_not_write_idempotently_is_told_what_to_grant() {
    let mock = Mock::start();
    mock.0.request_errors(
        RDKafkaApiKey::InitProducerId,
        &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED; 20],
    );
    let sink = mock.sink();
    let error = send_one(&*sink, &message("a", "{}")).await.unwrap_err();
    assert_eq!(error.kind, SendErrorKind::Unavailable);
    assert!(error.message.contains("IdempotentWrite"), "{error}");
    mock.0.clear_request_errors(RDKafkaApiKey::InitProducerId);
    assert_eq!(send_one(&*sink, &message("a", "{}")).await, Ok(()));
}
