//! Errors of Redis as messages for people, and their kind: the message's fault, the stream's, or an outage.

use ::redis::{RedisError, ServerError, Value};
use pillarbox::SendError;

use crate::redis_server::failure::{OUTAGES, away, lost, reason};

/// The texts of errors of a script whose user lacks a permission. Servers before Redis 7.2 give them no code of their own.
const DENIED: [&str; 2] = ["ACL failure in script", "The user executing the script can't"];
/// The texts of errors about the size of a message. The second is of hosted servers.
const TOO_LARGE: [&str; 2] = ["invalid bulk length", "max request size exceeded"];

/// The error for a pipeline without replies.
pub(super) fn failed(shown: &str, error: &RedisError) -> SendError {
    match error.code() {
        Some(code) if OUTAGES.contains(&code) => away(shown, &error.to_string()),
        _ => lost(shown, error),
    }
}

/// The error that the server returned for a command.
pub(super) fn server(error: &ServerError, stream: &str, shown: &str) -> SendError {
    explain(error.code(), &reason(error), stream, shown)
}

/// The error of a command that a script called: its code and its text.
pub(super) fn in_script(error: &str, stream: &str, shown: &str) -> SendError {
    let error = error.trim_start_matches('-');
    match error.split(' ').next().unwrap_or_default() {
        "NOSTREAM" => no_stream(stream, shown),
        code => explain(code, error, stream, shown),
    }
}

fn explain(code: &str, reason: &str, stream: &str, shown: &str) -> SendError {
    let says = |texts: &[&str]| texts.iter().any(|text| reason.contains(text));
    if OUTAGES.contains(&code) {
        return away(shown, reason);
    }
    if says(&TOO_LARGE) {
        return SendError::reject(format!("the message is too large for {shown}: {reason}"));
    }
    if code == "NOPERM" || says(&DENIED) {
        return SendError::retry(format!(
            "{shown} denies access to the stream {stream:?}: {reason}; allow the user +xadd and ~{stream}, and for order \
             and deduplicate also +eval +evalsha +exists +set and ~{{{stream}}}:pillarbox:*"
        ));
    }
    match code {
        "WRONGTYPE" => not_a_stream(stream, shown, "another type"),
        "MOVED" | "ASK" => {
            SendError::unavailable(format!("{shown} is a node of a cluster: {reason}; set cluster = true"))
        }
        _ => SendError::retry(format!("{shown} refused the entry for the stream {stream:?}: {reason}")),
    }
}

fn not_a_stream(stream: &str, shown: &str, other: &str) -> SendError {
    SendError::retry(format!(
        "the key {stream:?} in {shown} is no stream, it has {other}; choose another stream, or delete the key"
    ))
}

/// The error for a stream that does not exist, with `create = false`.
pub(super) fn no_stream(stream: &str, shown: &str) -> SendError {
    SendError::retry(format!(
        "stream {stream:?} does not exist in {shown}; create it with XGROUP CREATE … MKSTREAM, or set create = true"
    ))
}

/// Judges the reply to WAIT.
pub(super) fn acknowledged(reply: Option<&Value>, replicas: usize, shown: &str) -> Result<(), SendError> {
    let count = match reply {
        Some(Value::Int(count)) => usize::try_from(*count).unwrap_or_default(),
        Some(Value::ServerError(error)) => {
            return Err(SendError::unavailable(format!("{shown} refused WAIT: {}", reason(error))));
        }
        _ => 0,
    };
    if count >= replicas {
        return Ok(());
    }
    Err(SendError::unavailable(format!(
        "replicas of {shown} are missing: {count} of {replicas} acknowledged in time; the event may be stored"
    )))
}

/// Judges the replies to TYPE and to an XADD that stores nothing.
pub(super) fn check(replies: &[Value], stream: &str, create: bool, shown: &str) -> Result<(), SendError> {
    let [kind, write] = replies else {
        return Err(SendError::retry(format!("{shown} did not reply to TYPE and XADD")));
    };
    match kind {
        Value::SimpleString(kind) if kind == "stream" => {}
        Value::SimpleString(kind) if kind == "none" && create => {}
        Value::SimpleString(kind) if kind == "none" => return Err(no_stream(stream, shown)),
        Value::SimpleString(kind) => return Err(not_a_stream(stream, shown, &format!("the type {kind}"))),
        // A user that may only write cannot ask for the type.
        _ => {}
    }
    match write {
        Value::ServerError(error) if error.code() == "ERR" => Ok(()),
        Value::ServerError(error) => Err(server(error, stream, shown)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use pillarbox::SendErrorKind;

    use super::*;

    #[test]
    fn errors_are_sorted_by_fault() {
        for (error, kind, part) in [
            ("OOM command not allowed when used memory > 'maxmemory'.", SendErrorKind::Unavailable, "OOM"),
            ("-READONLY You can't write against a read only replica.", SendErrorKind::Unavailable, "READONLY"),
            ("MISCONF Errors writing to the AOF file", SendErrorKind::Unavailable, "MISCONF"),
            ("NOREPLICAS Not enough good replicas to write.", SendErrorKind::Unavailable, "NOREPLICAS"),
            ("WRONGTYPE Operation against a key", SendErrorKind::Retry, "the key \"orders\""),
            ("NOPERM No permissions to access a key", SendErrorKind::Retry, "+xadd and ~orders"),
            ("ERR ACL failure in script: User x has no", SendErrorKind::Retry, "+evalsha"),
            ("ERR Protocol error: invalid bulk length", SendErrorKind::Reject, "too large"),
            ("MOVED 1 127.0.0.1:1", SendErrorKind::Unavailable, "cluster = true"),
            ("NOSTREAM", SendErrorKind::Retry, "stream \"orders\" does not exist"),
            ("ERR anything", SendErrorKind::Retry, "ERR anything"),
        ] {
            let explained = in_script(error, "orders", "redis://a:1");
            assert_eq!(explained.kind, kind, "{error}");
            assert!(explained.message.contains(part), "{explained}");
        }
    }
}
