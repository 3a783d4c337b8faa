//! Emit on SQLite, whatever the driver: the statements, and rows as the one JSON value they take.

use chrono::{DateTime, Utc};
use serde_json::json;

use super::Emitted;
use crate::error::DriverError;
use crate::event::{NewEvent, readable};

/// One statement for one event or many.
pub(crate) const EMIT: &str = include_str!("../../sql/sqlite/emit.sql");
/// The event of a type and key.
pub(crate) const EXISTING: &str = include_str!("../../sql/sqlite/emit_existing.sql");

/// How moments stand in SQLite: text that sorts by time.
pub(crate) fn moment(moment: DateTime<Utc>) -> String {
    moment.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

/// The moment of a text. One that is none, which only somebody else can have written, sorts before all moments or behind
/// them, and is read so.
pub(crate) fn read_moment(text: &str) -> DateTime<Utc> {
    let otherwise = if text < "1" { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC };
    readable(DateTime::parse_from_rfc3339(text).map_or(otherwise, |moment| moment.to_utc()))
}

/// The rows as the JSON array that [`EMIT`] reads. Payloads go as text, so that numbers keep their digits.
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

/// The answer of [`EMIT`] and [`EXISTING`], in their order.
pub(crate) type Written = (String, i64, String, String, String, String);

pub(crate) fn emitted(row: Written, is_new: bool) -> Result<Emitted, DriverError> {
    let (id, seq, event_type, idempotency_key, status, created_at) = row;
    let created_at = read_moment(&created_at);
    Ok(Emitted { id: id.parse()?, seq, event_type, idempotency_key, status: status.parse()?, created_at, is_new })
}
