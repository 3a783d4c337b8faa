//! Emit on PostgreSQL, for any driver: the statements, and rows as the arrays that they take.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::{Emitted, has_its_own_key};
use crate::error::DriverError;
use crate::event::NewEvent;

const EMIT: &str = include_str!("../../sql/postgres/emit.sql");
const EMIT_OWN: &str = include_str!("../../sql/postgres/emit_own.sql");
const EMIT_ONE: &str = include_str!("../../sql/postgres/emit_one.sql");
const EMIT_OWN_ONE: &str = include_str!("../../sql/postgres/emit_own_one.sql");
/// Selects the event of a type and key.
pub(crate) const EXISTING: &str = include_str!("../../sql/postgres/emit_existing.sql");

/// Returns the statement for many events. It takes [`Columns`] in their order and returns [`Written`], in any order.
pub(crate) fn many(rows: &[NewEvent]) -> &'static str {
    if rows.iter().all(has_its_own_key) { EMIT_OWN } else { EMIT }
}

/// Returns the statement for one event, the common case. It takes the values of a [`NewEvent`], in their order, and returns
/// `seq` and `created_at`.
pub(crate) fn one(row: &NewEvent) -> &'static str {
    if has_its_own_key(row) { EMIT_OWN_ONE } else { EMIT_ONE }
}

/// Rows as columns.
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

/// A row that [`many`] and [`EXISTING`] return, in their order, without the column for the notification.
pub(crate) type Written = (Uuid, i64, String, String, String, DateTime<Utc>);

pub(crate) fn emitted(row: Written, is_new: bool) -> Result<Emitted, DriverError> {
    let (id, seq, event_type, idempotency_key, status, created_at) = row;
    Ok(Emitted { id, seq: Some(seq), event_type, idempotency_key, status: status.parse()?, created_at, is_new })
}
