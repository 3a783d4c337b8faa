//! Converts rows of `celery_outbox` into the events that the relay sees.

use chrono::{DateTime, Utc};

use super::fence;
use crate::celery::AGGREGATE_TYPE;
use crate::celery::adopted::AdoptedRow;
use crate::event::{Headers, StoredEvent};
use crate::store::postgres::error::Error;
use crate::store::postgres::moment::Moment;
use crate::store::postgres::statement::PgRow;

/// Reads a row of `claim.sql`: the event, and the time of its claim.
pub(super) fn claimed(row: &PgRow) -> Result<(StoredEvent, DateTime<Utc>), Error> {
    let held_since = row.try_get("updated_at")?;
    Ok((event(row, held_since)?, held_since))
}

/// Reads an event. Relative times in it count from `now`.
pub(super) fn event(row: &PgRow, now: DateTime<Utc>) -> Result<StoredEvent, Error> {
    let id: i64 = row.try_get("id")?;
    let task_id: &str = row.try_get("task_id")?;
    let task_name: &str = row.try_get("task_name")?;
    let adopted = AdoptedRow {
        task_id,
        task_name,
        args: row.try_get("args")?,
        kwargs: row.try_get("kwargs")?,
        options: row.try_get("options")?,
        sentry_trace_id: row.try_get("sentry_trace_id")?,
        sentry_baggage: row.try_get("sentry_baggage")?,
        structlog_context: row.try_get("structlog_context")?,
    };
    Ok(StoredEvent {
        id: fence::event_id(id),
        seq: id,
        aggregate_type: AGGREGATE_TYPE.to_owned(),
        aggregate_id: task_id.to_owned(),
        event_type: task_name.to_owned(),
        payload: adopted.payload(now),
        headers: Headers::new(),
        idempotency_key: id.to_string(),
        attempts: row.try_get::<_, i16>("retries")?.max(0).cast_unsigned().into(),
        max_attempts: None,
        claims: 0,
        created_at: row.try_get::<_, Moment>("created_at")?.shown(),
    })
}
