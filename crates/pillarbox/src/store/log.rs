//! The write-ahead log as the outbox, as people see it: its reader, its slot and its gate. Pure. Only PostgreSQL has one.

use std::time::Duration;

/// The state of the write-ahead log as the outbox.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LogView {
    /// The replication slot.
    pub slot: String,
    /// Whether the server still has everything that the slot needs. Otherwise events may be lost.
    pub is_whole: bool,
    /// Whether a relay reads the log: its lease has not run out.
    pub is_read: bool,
    /// Whether events are emitted into the log.
    pub is_open: bool,
    /// Why they are not; empty if they are, or if no relay reads the log.
    pub closed: String,
    /// Whether the log is being disabled.
    pub leaving: bool,
    /// The position below which every event is delivered, or in the table.
    pub confirmed: Option<String>,
    /// The bytes of the log behind that position.
    pub undelivered_bytes: u64,
    /// Every event that was committed longer ago than this is delivered, or in the table.
    pub behind: Duration,
    /// The bytes of the log that the server keeps for the slot.
    pub retained_bytes: Option<u64>,
    /// The bytes that can still be written before the slot may be lost.
    pub left_bytes: Option<u64>,
}

impl LogView {
    /// Creates the view of a log that is read and takes events, for tests and for stores.
    #[must_use]
    pub fn new(slot: impl Into<String>) -> Self {
        Self { slot: slot.into(), is_whole: true, is_read: true, is_open: true, ..Self::default() }
    }
}
