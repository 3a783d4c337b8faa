//! Errors of RabbitMQ as messages for people, and their kind: the message's fault or an outage.

use std::time::Duration;

use amq_protocol::types::ShortString;
use pillarbox::SendError;

/// The reason why a channel or a connection ended. It contains no login.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// The broker closed the channel: a message or a declaration on it was wrong, and the broker is reachable.
    #[error("{code} {text}")]
    Channel { code: u16, text: String },
    /// The broker closed the connection, or refused the login.
    #[error("{code} {text}")]
    Connection { code: u16, text: String },
    /// The connection was lost, or never made.
    #[error("{0}")]
    Lost(String),
    /// A frame cannot be encoded.
    #[error("{0}")]
    Encode(String),
}

impl Fault {
    pub(super) fn channel(code: u16, text: &ShortString) -> Self {
        Self::Channel { code, text: text.as_str().to_owned() }
    }

    pub(super) fn connection(code: u16, text: &ShortString) -> Self {
        Self::Connection { code, text: text.as_str().to_owned() }
    }

    /// Returns whether the broker closed only the channel.
    pub(crate) fn is_of_the_channel(&self) -> bool {
        matches!(self, Self::Channel { .. })
    }

    /// Returns whether the exchange or the queue does not exist. All messages to it fail alike.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Channel { code: 404, .. })
    }

    /// Returns whether the broker has it with other arguments, or refuses a property of a message.
    pub(crate) fn is_precondition(&self) -> bool {
        matches!(self, Self::Channel { code: 406, .. })
    }

    /// Returns the most bytes that the broker takes, when a message was larger: `message size 2097152 is larger than
    /// configured max size 1048576`.
    pub(crate) fn size_limit(&self) -> Option<usize> {
        let Self::Channel { code: 406, text } = self else { return None };
        let (_, limit) = text.split_once("message size ")?.1.split_once("max size ")?;
        limit.split(|other: char| !other.is_ascii_digit()).next()?.parse().ok()
    }
}

/// The error for a lost connection.
pub(crate) fn lost(address: &str, fault: &Fault) -> SendError {
    SendError::unavailable(format!("connection to RabbitMQ at {address} lost: {fault}"))
}

/// The error for a message that is larger than the broker takes.
pub(super) fn too_large(bytes: usize, limit: usize) -> SendError {
    SendError::reject(format!(
        "the message is too large: its body has {bytes} bytes, and RabbitMQ takes {limit} (max_message_size)"
    ))
}

/// The error for a message that made the broker close its channel.
pub(super) fn refused(fault: &Fault, target: &str, advice: &str) -> SendError {
    let advice = if fault.is_not_found() { format!("; {advice}") } else { String::new() };
    SendError::retry(format!("RabbitMQ refused the message for {target}: {fault}{advice}"))
}

/// The error for a message that the broker nacked.
pub(super) fn nacked(target: &str) -> SendError {
    SendError::retry(format!(
        "RabbitMQ rejected the message for {target} (basic.nack); its queue may be full or have lost its majority"
    ))
}

pub(super) fn blocked(address: &str) -> SendError {
    SendError::unavailable(format!(
        "RabbitMQ at {address} has blocked publishers; free memory or disk space on its host"
    ))
}

/// The text for a response that did not come in time.
pub(super) fn late(address: &str, what: &str, timeout: Duration) -> String {
    format!("RabbitMQ at {address} did not {what} within {timeout:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_read_from_the_brokers_text() {
        let fault = |text: &str| Fault::Channel { code: 406, text: text.to_owned() };
        let configured = "PRECONDITION_FAILED - message size 2097152 is larger than configured max size 1048576";
        assert_eq!(fault(configured).size_limit(), Some(1_048_576));
        let built_in = "PRECONDITION_FAILED - message size 536870913 is larger than max size 536870912";
        assert_eq!(fault(built_in).size_limit(), Some(536_870_912));
        assert_eq!(fault("PRECONDITION_FAILED - invalid expiration").size_limit(), None);
    }
}
