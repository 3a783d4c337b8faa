//! Errors of RabbitMQ as messages for people, and their kind: the message's fault or an outage.

use std::time::Duration;

use lapin::message::BasicReturnMessage;
use lapin::protocol::AMQPErrorKind;
use lapin::{Error, ErrorKind};
use pillarbox::SendError;

use crate::celery::route::Target;

/// Returns whether the broker closed only the channel. Then a message on it was wrong, and the broker is reachable.
pub(super) fn is_of_the_channel(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::ProtocolError(error) => matches!(error.kind(), AMQPErrorKind::Soft(_)),
        // Errors of a channel that the broker has already closed.
        ErrorKind::InvalidChannel(_) | ErrorKind::InvalidChannelState(..) => true,
        _ => false,
    }
}

/// Returns whether the error is 404: the exchange does not exist. All messages to it fail alike.
pub(super) fn is_not_found(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::ProtocolError(error) if error.get_id() == 404)
}

/// Returns the broker's reason. It contains no login: the client never puts one into its errors.
pub(super) fn described(error: &Error) -> String {
    match error.kind() {
        ErrorKind::ProtocolError(error) => format!("{} {}", error.get_id(), error.get_message()),
        ErrorKind::IOError(error) => error.to_string(),
        _ => error.to_string(),
    }
}

/// The error for a message that made the broker close its channel.
pub(super) fn refused(error: &Error, target: &Target<'_>) -> SendError {
    let advice = if is_not_found(error) { "; create the exchange, or set declare = true" } else { "" };
    SendError::retry(format!("RabbitMQ refused the message for {}: {}{advice}", target.shown(), described(error)))
}

/// The error for a lost connection.
pub(super) fn lost(address: &str, error: &Error) -> SendError {
    SendError::unavailable(format!("connection to RabbitMQ at {address} lost: {}", described(error)))
}

/// The error for a message that the broker returned because no queue takes it.
pub(super) fn returned(message: &BasicReturnMessage, target: &Target<'_>, declares: bool) -> SendError {
    let reason = format!("{} {}", message.reply_code, message.reply_text);
    if target.delay.is_some() {
        return SendError::retry(format!(
            "native delayed delivery has no queue for the message for {}: {reason}; start a worker of Celery 5.5 or \
             later, or set declare = true",
            target.shown()
        ));
    }
    let advice = if declares { "bind it to its exchange" } else { "set declare = true, or create it" };
    if target.exchange.is_empty() {
        SendError::retry(format!("{} does not exist: {reason}; {advice}", target.shown()))
    } else {
        SendError::retry(format!(
            "the exchange {:?} has no queue for the routing key {:?}: {reason}; {advice}",
            target.exchange, target.routing_key
        ))
    }
}

/// The error for a message that the broker nacked.
pub(super) fn nacked(target: &Target<'_>) -> SendError {
    SendError::retry(format!(
        "RabbitMQ rejected the message for {} (basic.nack); its queue may be full or have lost its majority",
        target.shown()
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
