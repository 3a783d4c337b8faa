//! How large a message may be. A server closes the connection when it gets more, and all other messages on it fail too.

use ::redis::Value;

use crate::redis_server::client::Connection;

/// Redis' own defaults.
const BULK: usize = 512 << 20;
const COMMAND: usize = 1 << 30;
/// What a command has besides the fields of its entries.
const OVERHEAD: usize = 64 << 10;
/// A message above this size is sent alone when the server does not tell its limits.
const LARGE: usize = 1 << 20;

/// The limits of a server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The bytes of one field: `proto-max-bulk-len`.
    pub(super) field: usize,
    /// The bytes of one command: `client-query-buffer-limit`, with a reserve.
    pub(super) command: usize,
    /// Whether the server told them. Many hosted servers refuse CONFIG.
    is_known: bool,
}

impl Limits {
    /// Asks a server. If it does not say, Redis' defaults are assumed.
    pub(super) async fn of(mut connection: Connection) -> Self {
        let field = setting(&mut connection, "proto-max-bulk-len").await.and_then(|text| text.parse().ok());
        let command = setting(&mut connection, "client-query-buffer-limit").await.and_then(|text| text.parse().ok());
        Self {
            field: field.unwrap_or(BULK),
            command: command.unwrap_or(COMMAND).saturating_sub(OVERHEAD),
            is_known: field.is_some(),
        }
    }

    /// Returns whether a message of this size must not share a pipeline with others.
    pub(super) fn is_risky(&self, bytes: usize) -> bool {
        !self.is_known && bytes > LARGE
    }
}

/// Returns a setting of the server, if the user may read it.
pub(super) async fn setting(connection: &mut Connection, name: &str) -> Option<String> {
    let mut command = ::redis::pipe();
    command.cmd("CONFIG").arg("GET").arg(name);
    let replies = connection.run(&command, 1).await.ok()?;
    // `["proto-max-bulk-len", "536870912"]`, or the same as a map.
    let value = match replies.first()? {
        Value::Array(items) => items.get(1)?,
        Value::Map(pairs) => &pairs.first()?.1,
        _ => return None,
    };
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    }
}
