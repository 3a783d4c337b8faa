//! Sorts the errors of a publish by fault. Pure.

use async_nats::jetstream;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use pillarbox::SendError;

/// The reason why a message was not stored.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    /// Nobody listens on the subject: there is no stream for it, or the stream has no leader.
    NoResponders,
    /// Any other reason.
    Error(SendError),
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        Self::Error(error)
    }
}

/// Returns the failure of a publish of `size` bytes of body to the subject.
pub(super) fn of(error: &PublishError, subject: &str, size: usize) -> Failure {
    let source = std::error::Error::source(error);
    Failure::Error(match error.kind() {
        PublishErrorKind::StreamNotFound => return Failure::NoResponders,
        PublishErrorKind::TimedOut => SendError::timeout("no confirm from the stream in time"),
        PublishErrorKind::BrokenPipe => lost(),
        PublishErrorKind::MaxPayloadExceeded => SendError::reject(format_args!("message too large: {error}")),
        _ => match source.and_then(|source| source.downcast_ref::<jetstream::Error>()) {
            Some(refusal) => refused(refusal, subject, size),
            // The reply is no JSON. A service that is not JetStream listens on the subject.
            None if source.is_some_and(<dyn std::error::Error>::is::<serde_json::Error>) => {
                SendError::retry(format_args!(
                    "the reply on {subject:?} is not a confirm of JetStream; another service responds to the subject"
                ))
            }
            None => lost(),
        },
    })
}

/// Returns the error of a connection that ended before the confirm.
pub(super) fn lost() -> SendError {
    SendError::unavailable("connection to NATS lost before the confirm")
}

/// Returns the error of a message that the stream refused.
fn refused(refusal: &jetstream::Error, subject: &str, size: usize) -> SendError {
    match refusal.error_code() {
        ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM | ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM => {
            SendError::reject(format_args!(
                "message too large: the payload has {size} bytes, more than the stream takes (max_msg_size): {refusal}"
            ))
        }
        ErrorCode::STREAM_NOT_MATCH => SendError::retry(format_args!(
            "another stream than the expected one stores the subject {subject:?}: {refusal}"
        )),
        // One subject is full, and others are not.
        ErrorCode::STREAM_STORE_FAILED if refusal.to_string().contains("per subject") => {
            SendError::retry(format_args!("the stream refused the subject {subject:?}: {refusal}"))
        }
        // No leader, no quorum, or a stream or account that is full: no message gets through.
        _ if refusal.code() == 503 => SendError::unavailable(format_args!("the stream is unavailable: {refusal}")),
        _ => SendError::retry(format_args!("the stream refused the subject {subject:?}: {refusal}")),
    }
}

/// Returns the error of a subject that the server's permissions deny, if a complaint names it.
pub(super) fn denied(complaints: &[String], subject: &str) -> Option<SendError> {
    let quoted = format!("\"{subject}\"");
    let complaint = complaints.iter().find(|text| text.contains("Publish") && text.contains(&quoted))?;
    Some(SendError::retry(format_args!("the server does not allow to publish to {subject:?}: {complaint}")))
}

#[cfg(test)]
mod tests {
    use pillarbox::SendErrorKind;

    use super::*;

    fn judged(error: &str) -> SendError {
        let refusal: jetstream::Error = serde_json::from_str(error).unwrap();
        let error = PublishError::with_source(PublishErrorKind::Other, refusal);
        match of(&error, "orders.42", 10) {
            Failure::Error(error) => error,
            Failure::NoResponders => panic!("a refusal"),
        }
    }

    #[test]
    fn refusals_are_sorted_by_fault() {
        for (refusal, kind, part) in [
            (
                r#"{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"}"#,
                SendErrorKind::Reject,
                "10 bytes",
            ),
            (
                r#"{"code":400,"err_code":10060,"description":"expected stream does not match"}"#,
                SendErrorKind::Retry,
                "orders.42",
            ),
            (
                r#"{"code":503,"err_code":10077,"description":"maximum messages exceeded"}"#,
                SendErrorKind::Unavailable,
                "maximum",
            ),
            (
                r#"{"code":503,"err_code":10077,"description":"maximum messages per subject exceeded"}"#,
                SendErrorKind::Retry,
                "orders.42",
            ),
            (
                r#"{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}"#,
                SendErrorKind::Unavailable,
                "10008",
            ),
            (
                r#"{"code":400,"err_code":10109,"description":"invalid operation on sealed stream"}"#,
                SendErrorKind::Retry,
                "sealed",
            ),
        ] {
            let error = judged(refusal);
            assert_eq!(error.kind, kind, "{error}");
            assert!(error.message.contains(part), "{error}");
        }
    }

    #[test]
    fn only_a_complaint_about_the_subject_denies_it() {
        let complaints = [r#"Permissions Violation for Publish to "orders.42""#.to_owned()];
        assert_eq!(denied(&complaints, "orders.42").unwrap().kind, SendErrorKind::Retry);
        assert!(denied(&complaints, "orders.4").is_none());
    }
}
