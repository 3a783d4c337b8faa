//! Errors of Redis as messages for people, and their kind: the message's fault or an outage.

use pillarbox::SendError;
use pillarbox::celery::Declaration;
use redis::{ServerError, Value};

use crate::celery::route::Target;
use crate::redis_server::failure::{OUTAGES, away, reason};

/// Returns the result of a message from the response to one of its commands.
pub(super) fn judge(reply: &Value, target: &Target<'_>, shown: &str) -> Result<(), SendError> {
    match reply {
        Value::ServerError(error) => Err(server(error, &format!("the message for {}", target.shown()), shown)),
        Value::Int(0) if !target.exchange.is_empty() => Err(SendError::retry(format!(
            "the fanout exchange {:?} in Redis has no subscribers; start its workers",
            target.exchange
        ))),
        Value::Int(_) => Ok(()),
        _ => Err(SendError::retry(format!("{shown} did not return a number for LPUSH"))),
    }
}

pub(super) fn server(error: &ServerError, what: &str, shown: &str) -> SendError {
    let reason = reason(error);
    // A login without permission writes to no queue.
    if OUTAGES.contains(&error.code()) || error.code() == "NOPERM" {
        return away(shown, &reason);
    }
    let advice = if error.code() == "WRONGTYPE" {
        "; its key has another type: rename the queue or the exchange, or set key_prefix"
    } else {
        ""
    };
    SendError::retry(format!("{shown} refused {what}: {reason}{advice}"))
}

/// The error for a binding that could not be written. It is the exchange's fault.
pub(super) fn undeclared(error: &ServerError, queue: &Declaration, shown: &str) -> SendError {
    server(error, &format!("to bind the queue {:?} to the exchange {:?}", queue.queue, queue.exchange), shown)
}

/// The error for a message that no queue is bound for. kombu would drop it silently.
pub(super) fn unbound(target: &Target<'_>, is_empty: bool, declares: bool) -> SendError {
    let what = if is_empty {
        format!("no queue is bound to the exchange {:?} in Redis", target.exchange)
    } else {
        format!(
            "no queue of the exchange {:?} in Redis matches the routing key {:?}",
            target.exchange, target.routing_key
        )
    };
    let advice =
        if declares { "configure the queue with this exchange" } else { "start its worker, or set declare = true" };
    SendError::retry(format!("{what}; {advice}"))
}
