//! Emit on PostgreSQL, whatever the driver: the statements, and rows as the arrays they take.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::Emitted;
use crate::error::DriverError;
use crate::event::NewEvent;

/// One statement for many events.
pub(crate) const EMIT: &str = include_str!("../../sql/postgres/emit.sql");
/// For one, which many emit: its values are those of a [`NewEvent`], in its order, and it answers `seq` and `created_at`.
pub(crate) const EMIT_ONE: &str = include_str!("../../sql/postgres/emit_one.sql");
/// The event of a type and key.
pub(crate) const EXISTING: &str = include_str!("../../sql/postgres/emit_existing.sql");

/// Rows as columns: the values of [`EMIT`], in its order.
#[derive(Default)]
pub(crate) struct Columns<'a> {
    pub(crate) ids: Vec<Uuid>,
    pub(crate) aggregate_types: Vec<&'a str>,
    pub(crate) aggregate_ids: Vec<&'a str>,
    pub(crate) event_types: Vec<&'a str>,
    pub(crate) payloads: Vec<&'a str>,
    pub(crate) headers: Vec<Option<&'a str>>,
    pub(crate) keys: Vec<&'a str>,
    pub(crate) max_attempts: Vec<Option<i32>>,
    pub(crate) deliver_at: Vec<Option<DateTime<Utc>>>,
}

impl<'a> Columns<'a> {
    pub(crate) fn new(rows: &'a [NewEvent]) -> Self {
        let mut columns = Self::default();
        for row in rows {
            columns.ids.push(row.id);
            columns.aggregate_types.push(&row.aggregate_type);
            columns.aggregate_ids.push(&row.aggregate_id);
            columns.event_types.push(&row.event_type);
            columns.payloads.push(&row.payload);
            columns.headers.push(row.headers.as_deref());
            columns.keys.push(&row.idempotency_key);
            columns.max_attempts.push(row.max_attempts);
            columns.deliver_at.push(row.deliver_at);
        }
        columns
    }
}

/// The answer of [`EMIT`] and [`EXISTING`], in their order, without the count of those woken.
pub(crate) type Written = (Uuid, i64, String, String, String, DateTime<Utc>);

pub(crate) fn emitted(row: Written, is_new: bool) -> Result<Emitted, DriverError> {
    let (id, seq, event_type, idempotency_key, status, created_at) = row;
    Ok(Emitted { id, seq, event_type, idempotency_key, status: status.parse()?, created_at, is_new })
}
