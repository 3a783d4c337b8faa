//! The write-ahead log in the API's responses.

use pillarbox::store::LogView;
use serde::Serialize;
use utoipa::ToSchema;

use super::seconds;

/// PostgreSQL's write-ahead log as the outbox
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Log {
    /// The replication slot
    slot: String,
    /// Whether the server still has everything that was not delivered
    is_whole: bool,
    /// Whether a relay reads the log
    is_read: bool,
    /// Whether events are emitted into the log
    is_open: bool,
    /// Why they are not; `null` if they are, or if no relay reads the log
    closed: Option<String>,
    /// Whether the log is being disabled
    leaving: bool,
    /// The position below which every event is delivered, or in the table
    confirmed: Option<String>,
    /// The bytes of the log behind that position
    undelivered_bytes: u64,
    /// Every event that was committed longer ago than this is delivered, or in the table
    behind_seconds: f64,
    /// The bytes of the log that the server keeps for the slot
    retained_bytes: Option<u64>,
    /// The bytes that can still be written before the slot may be lost
    left_bytes: Option<u64>,
}

impl From<LogView> for Log {
    fn from(log: LogView) -> Self {
        Self {
            slot: log.slot,
            is_whole: log.is_whole,
            is_read: log.is_read,
            is_open: log.is_open,
            closed: Some(log.closed).filter(|closed| !closed.is_empty()),
            leaving: log.leaving,
            confirmed: log.confirmed,
            undelivered_bytes: log.undelivered_bytes,
            behind_seconds: seconds(log.behind),
            retained_bytes: log.retained_bytes,
            left_bytes: log.left_bytes,
        }
    }
}
