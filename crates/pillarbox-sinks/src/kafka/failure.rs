//! Kafka's errors by fault: the topic's, the message's, or the cluster's. Pure.

use pillarbox::SendError;
use rdkafka::types::RDKafkaErrorCode as Code;

/// Returns the error of a message that was not stored.
pub(super) fn of(code: Code, topic: &str, bytes: usize) -> SendError {
    match code {
        Code::MessageSizeTooLarge | Code::InvalidMessageSize | Code::MessageBatchTooLarge => {
            SendError::reject(format!("message too large: topic {topic:?} does not take its {bytes} bytes ({code})"))
        }
        Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::UnknownPartition | Code::UnknownTopicId => {
            SendError::retry(format!("unknown topic {topic:?}: the brokers have no such topic; create it ({code})"))
        }
        Code::TopicAuthorizationFailed => SendError::retry(format!(
            "not authorised to write to topic {topic:?}: grant this user the operations Write and Describe on it ({code})"
        )),
        Code::ClusterAuthorizationFailed => SendError::unavailable(format!(
            "not authorised to write idempotently: grant this user the operation IdempotentWrite on the cluster ({code})"
        )),
        Code::InvalidTopic => {
            SendError::reject(format!("invalid topic {topic:?}: the brokers refuse the name ({code})"))
        }
        Code::InvalidMessage
        | Code::InvalidRecord
        | Code::InvalidTimestamp
        | Code::PolicyViolation
        | Code::UnsupportedCompressionType
        | Code::UnsupportedForMessageFormat
        | Code::BadCompression => {
            SendError::retry(format!("message refused by topic {topic:?}: check the topic's settings ({code})"))
        }
        Code::MessageTimedOut | Code::OperationTimedOut | Code::RequestTimedOut | Code::TimedOutQueue => {
            SendError::timeout(format!("no confirmation from Kafka in time ({code})"))
        }
        Code::Authentication | Code::SaslAuthenticationFailed => refused(&code.to_string()),
        // Everything else is a state of the cluster or of the client: no leader, too few replicas, a lost connection.
        _ => SendError::unavailable(format!("Kafka is not available for topic {topic:?} ({code})")),
    }
}

/// Returns the error of a message that is larger than `max_message_size`.
pub(super) fn too_large(bytes: usize, limit: usize) -> SendError {
    SendError::reject(format!(
        "message too large: {bytes} bytes, and max_message_size is {limit}; raise it if the topic takes larger messages"
    ))
}

/// Returns the error of wrong credentials or of a failed TLS handshake.
pub(super) fn refused(reason: &str) -> SendError {
    SendError::unavailable(format!("connection to Kafka refused: {reason}"))
}

/// Returns the error of a cluster without a reachable broker.
pub(super) fn down(reason: &str) -> SendError {
    SendError::unavailable(format!("no Kafka broker can be reached: {reason}"))
}

/// Returns the error of a batch without a confirmation in time.
pub(super) fn late(reason: Option<&str>) -> SendError {
    match reason {
        Some(reason) => SendError::timeout(format!("no confirmation from Kafka in time; last problem: {reason}")),
        None => SendError::timeout("no confirmation from Kafka in time"),
    }
}

/// Returns the error of a producer that cannot continue.
pub(super) fn fatal(code: Code, reason: &str) -> SendError {
    match code {
        Code::ClusterAuthorizationFailed => of(code, "", 0),
        _ => SendError::unavailable(format!("the Kafka producer failed and is created again: {reason} ({code})")),
    }
}

#[cfg(test)]
mod tests {
    use pillarbox::SendErrorKind::{self, Reject, Retry, Timeout, Unavailable};

    use super::*;

    fn kind(code: Code) -> SendErrorKind {
        of(code, "orders", 10).kind
    }

    #[test]
    fn each_fault_has_its_kind() {
        for (code, expected) in [
            (Code::MessageSizeTooLarge, Reject),
            (Code::UnknownTopicOrPartition, Retry),
            (Code::UnknownTopic, Retry),
            (Code::TopicAuthorizationFailed, Retry),
            (Code::InvalidRecord, Retry),
            (Code::RequestTimedOut, Timeout),
            (Code::NotLeaderForPartition, Unavailable),
            (Code::LeaderNotAvailable, Unavailable),
            (Code::NotEnoughReplicas, Unavailable),
            (Code::BrokerTransportFailure, Unavailable),
            (Code::PurgeQueue, Unavailable),
            (Code::Authentication, Unavailable),
            (Code::ClusterAuthorizationFailed, Unavailable),
            (Code::QueueFull, Unavailable),
        ] {
            assert_eq!(kind(code), expected, "{code}");
        }
        assert!(of(Code::TopicAuthorizationFailed, "orders", 1).message.contains(r#"topic "orders""#));
    }
}
