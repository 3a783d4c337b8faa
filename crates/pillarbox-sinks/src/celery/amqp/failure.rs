//! What went wrong with RabbitMQ, in words, and whose fault it was.

use std::time::Duration;

use lapin::message::BasicReturnMessage;
use lapin::protocol::AMQPErrorKind;
use lapin::{Error, ErrorKind};
use pillarbox::SendError;

use crate::celery::route::Target;

/// Whether the broker closed only the channel: one of the messages on it was wrong, not the broker away.
pub(super) fn is_of_the_channel(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::ProtocolError(error) => matches!(error.kind(), AMQPErrorKind::Soft(_)),
        // What comes to a channel after the broker has closed it.
        ErrorKind::InvalidChannel(_) | ErrorKind::InvalidChannelState(..) => true,
        _ => false,
    }
}

/// 404: the exchange does not exist, and so it is for all that go there.
pub(super) fn is_not_found(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::ProtocolError(error) if error.get_id() == 404)
}

/// The broker's reason. It contains no login: the client never puts one into its errors.
pub(super) fn described(error: &Error) -> String {
    match error.kind() {
        ErrorKind::ProtocolError(error) => format!("{} {}", error.get_id(), error.get_message()),
        ErrorKind::IOError(error) => error.to_string(),
        _ => error.to_string(),
    }
}

/// One message made the broker close its channel.
pub(super) fn refused(error: &Error, target: &Target<'_>) -> SendError {
    let advice = if is_not_found(error) { "; create the exchange, or set declare = true" } else { "" };
    SendError::retry(format!("RabbitMQ refused the message for {}: {}{advice}", target.shown(), described(error)))
}

/// The connection is gone.
pub(super) fn lost(address: &str, error: &Error) -> SendError {
    SendError::unavailable(format!("the connection to RabbitMQ at {address} was lost: {}", described(error)))
}

/// The broker took a message, found no queue for it, and gave it back.
pub(super) fn returned(message: &BasicReturnMessage, target: &Target<'_>, declares: bool) -> SendError {
    let reason = format!("{} {}", message.reply_code, message.reply_text);
    if target.delay.is_some() {
        return SendError::retry(format!(
            "no queue of native delayed delivery takes the message for {}: {reason}; start a worker of Celery 5.5 or \
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

/// The broker said no.
pub(super) fn nacked(target: &Target<'_>) -> SendError {
    SendError::retry(format!(
        "RabbitMQ did not take the message for {} (basic.nack); its queue may be full or have lost its majority",
        target.shown()
    ))
}

pub(super) fn blocked(address: &str) -> SendError {
    SendError::unavailable(format!(
        "RabbitMQ at {address} has blocked publishers; free memory or disk space on its host"
    ))
}

/// No answer in time.
pub(super) fn late(address: &str, what: &str, timeout: Duration) -> String {
    format!("RabbitMQ at {address} did not {what} within {timeout:?}")
}
