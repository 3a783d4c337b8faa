//! Emit on MariaDB and MySQL, for any driver: the statements, and rows as the one JSON value that they take.

use chrono::{DateTime, NaiveDateTime, Utc};
use serde_json::json;
use uuid::Uuid;

use super::Emitted;
use crate::error::DriverError;
use crate::event::{NewEvent, readable};

/// Writes many events. [`WRITTEN`] returns the ones that were written.
pub(crate) const EMIT: &str = include_str!("../../sql/mysql/emit.sql");
/// Selects the events of the ids that [`EMIT`] was given.
pub(crate) const WRITTEN: &str = include_str!("../../sql/mysql/emit_written.sql");
/// Writes one event, the common case.
pub(crate) const EMIT_ONE: &str = include_str!("../../sql/mysql/emit_one.sql");
/// Selects the seq and the time of the event that the session has just written.
pub(crate) const PLACE: &str = include_str!("../../sql/mysql/emit_place.sql");
/// Selects the event of a type and key.
pub(crate) const EXISTING: &str = include_str!("../../sql/mysql/emit_existing.sql");

/// Converts a time to the column's range. The server refuses others.
pub(crate) fn moment(moment: DateTime<Utc>) -> NaiveDateTime {
    readable(moment).naive_utc()
}

/// Returns the rows as the JSON array that [`EMIT`] reads. Payloads are strings, so that numbers keep their digits.
pub(crate) fn rows_as_json(rows: &[NewEvent]) -> String {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            json!([
                row.id.simple().to_string(),
                row.aggregate_type,
                row.aggregate_id,
                row.event_type,
                row.payload,
                row.headers,
                row.idempotency_key,
                row.max_attempts,
                row.deliver_at.map(|at| moment(at).format("%Y-%m-%d %H:%M:%S%.6f").to_string()),
            ])
        })
        .collect();
    serde_json::Value::Array(rows).to_string()
}

/// Returns whether the message of a duplicate names the index of the type and key. MySQL names the index with its table.
pub(crate) fn is_key(message: &str) -> bool {
    message.trim_end_matches('\'').ends_with("outbox_event_key")
}

/// Returns the ids of the rows as the JSON array that [`WRITTEN`] reads.
pub(crate) fn ids_as_json(rows: &[NewEvent]) -> String {
    serde_json::Value::Array(rows.iter().map(|row| json!([row.id.simple().to_string()])).collect()).to_string()
}

/// Returns whether the message is one of a missing right on a table or a column. Then the account may only emit: [`EMIT`] needs the
/// right to change events for its `ON DUPLICATE KEY UPDATE`, and [`EMIT_ONE`] does not.
pub(crate) fn is_denied(message: &str) -> bool {
    message.contains(" command denied to user ")
}

/// A row that [`WRITTEN`] and [`EXISTING`] return, in their order.
pub(crate) type Written = (Uuid, i64, String, String, String, NaiveDateTime);

pub(crate) fn emitted(row: Written, is_new: bool) -> Result<Emitted, DriverError> {
    let (id, seq, event_type, idempotency_key, status, created_at) = row;
    let created_at = created_at.and_utc();
    Ok(Emitted { id, seq: Some(seq), event_type, idempotency_key, status: status.parse()?, created_at, is_new })
}
