//! Errors of Redis that mean the same for every kind: an outage.

use ::redis::{RedisError, ServerError};
use pillarbox::SendError;

/// Error codes of a server that can serve no client now.
pub(crate) const OUTAGES: [&str; 12] = [
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
    "UNBLOCKED",
];

/// Returns the code and the text of a server's error.
pub(crate) fn reason(error: &ServerError) -> String {
    format!("{} {}", error.code(), error.details().unwrap_or_default()).trim_end().to_owned()
}

/// The error for a server that can serve no client now.
pub(crate) fn away(shown: &str, reason: &str) -> SendError {
    SendError::unavailable(format!("{shown} accepts no writes now: {reason}"))
}

/// The error for a connection that was lost.
pub(crate) fn lost(shown: &str, error: &RedisError) -> SendError {
    SendError::unavailable(format!("connection to {shown} lost: {error}"))
}

/// The error for a connection that could not be made.
pub(crate) fn refused(shown: &str, error: &RedisError) -> SendError {
    SendError::unavailable(format!("connection to {shown} failed: {error}"))
}
