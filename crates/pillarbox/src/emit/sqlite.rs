//! Emit on SQLite, for any driver: the statements, and rows as the one JSON value that they take.

use chrono::{DateTime, Utc};
use serde_json::json;

use super::Emitted;
use crate::error::DriverError;
use crate::event::{NewEvent, readable};

/// Writes one event or many.
pub(crate) const EMIT: &str = include_str!("../../sql/sqlite/emit.sql");
/// Selects the event of a type and key.
pub(crate) const EXISTING: &str = include_str!("../../sql/sqlite/emit_existing.sql");

/// Formats a time as SQLite stores it: text that sorts by time.
pub(crate) fn moment(moment: DateTime<Utc>) -> String {
    moment.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// Parses a time. Text that is no time, which only another program can have written, is read as the minimum or maximum, in the
/// order in which it sorts.
pub(crate) fn read_moment(text: &str) -> DateTime<Utc> {
    let otherwise = if text < "1" { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC };
    readable(DateTime::parse_from_rfc3339(text).map_or(otherwise, |moment| moment.to_utc()))
}

/// Returns the rows as the JSON array that [`EMIT`] reads. Payloads are strings, so that numbers keep their digits.
pub(crate) fn rows_as_json(rows: &[NewEvent]) -> String {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            json!([
                row.id.hyphenated().to_string(),
                row.aggregate_type,
                row.aggregate_id,
                row.event_type,
                row.payload,
                row.headers,
                row.idempotency_key,
                row.max_attempts,
                row.deliver_at.map(moment),
            ])
        })
        .collect();
    serde_json::Value::Array(rows).to_string()
}

/// A row that [`EMIT`] and [`EXISTING`] return, in their order.
pub(crate) type Written = (String, i64, String, String, String, String);

pub(crate) fn emitted(row: Written, is_new: bool) -> Result<Emitted, DriverError> {
    let (id, seq, event_type, idempotency_key, status, created_at) = row;
    let created_at = read_moment(&created_at);
    Ok(Emitted {
        id: id.parse()?,
        seq: Some(seq),
        event_type,
        idempotency_key,
        status: status.parse()?,
        created_at,
        is_new,
    })
}
