//! What went wrong with Redis, in words, and whose fault it was.

use pillarbox::SendError;
use pillarbox::celery::Declaration;
use redis::{RedisError, ServerError, Value};

use crate::celery::route::Target;

/// What a server answers when it cannot do anything for anybody now.
const OUTAGES: [&str; 13] = [
    "LOADING",
    "READONLY",
    "OOM",
    "MASTERDOWN",
    "NOREPLICAS",
    "MISCONF",
    "BUSY",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "NOAUTH",
    "WRONGPASS",
    "NOPERM",
    "UNBLOCKED",
];

/// What the answer to one command means for its message.
pub(super) fn judge(reply: &Value, target: &Target<'_>, shown: &str) -> Result<(), SendError> {
    match reply {
        Value::ServerError(error) => Err(server(error, &format!("the message for {}", target.shown()), shown)),
        Value::Int(0) if !target.exchange.is_empty() => Err(SendError::retry(format!(
            "nobody listens to the fanout exchange {:?} in Redis; start the workers that do",
            target.exchange
        ))),
        Value::Int(_) => Ok(()),
        _ => Err(SendError::retry(format!("{shown} gave an answer to LPUSH that is no number"))),
    }
}

pub(super) fn server(error: &ServerError, what: &str, shown: &str) -> SendError {
    let reason = format!("{} {}", error.code(), error.details().unwrap_or_default());
    if OUTAGES.contains(&error.code()) {
        return SendError::unavailable(format!("{shown} does not take anything now: {}", reason.trim_end()));
    }
    let advice = if error.code() == "WRONGTYPE" {
        "; its key holds something else: rename the queue or the exchange, or set key_prefix"
    } else {
        ""
    };
    SendError::retry(format!("{shown} refused {what}: {}{advice}", reason.trim_end()))
}

/// A binding could not be written: that is the fault of its exchange.
pub(super) fn undeclared(error: &ServerError, queue: &Declaration, shown: &str) -> SendError {
    server(error, &format!("to bind the queue {:?} to the exchange {:?}", queue.queue, queue.exchange), shown)
}

/// There was a connection.
pub(super) fn lost(shown: &str, error: &RedisError) -> SendError {
    SendError::unavailable(format!("the connection to {shown} was lost: {error}"))
}

/// There never was a connection.
pub(super) fn refused(shown: &str, error: &RedisError) -> SendError {
    SendError::unavailable(format!("{shown} cannot be connected to: {error}"))
}

/// kombu would drop such a message silently.
pub(super) fn unbound(target: &Target<'_>, is_empty: bool, declares: bool) -> SendError {
    let what = if is_empty {
        format!("no queue is bound to the exchange {:?} in Redis", target.exchange)
    } else {
        format!(
            "no queue of the exchange {:?} in Redis takes the routing key {:?}",
            target.exchange, target.routing_key
        )
    };
    let advice =
        if declares { "configure the queue with this exchange" } else { "start its worker, or set declare = true" };
    SendError::retry(format!("{what}; {advice}"))
}
