//! Converts rows of SQLite into the values that relays and people see. Ids and times are text.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use serde_json::value::RawValue;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use super::database;
use crate::delivery::Delivery;
use crate::emit::sqlite::read_moment;
use crate::error::{DriverError, StoreError};
use crate::event::{StoredEvent, read_headers};
use crate::store::row::read_deliveries;

/// Reads a row of `claim_due.sql`: the event and its stored deliveries.
pub(super) fn claimed(row: &SqliteRow) -> Result<(StoredEvent, Vec<Delivery>), StoreError> {
    let event = event(row)?;
    let deliveries: Option<String> = row.try_get("deliveries").map_err(database("reading a claim"))?;
    let deliveries = read_deliveries(event.id, deliveries.as_deref())?;
    Ok((event, deliveries))
}

pub(super) fn event(row: &SqliteRow) -> Result<StoredEvent, StoreError> {
    try_event(row).map_err(database("reading an event"))
}

fn try_event(row: &SqliteRow) -> Result<StoredEvent, sqlx::Error> {
    Ok(StoredEvent {
        id: id(row, "id")?,
        seq: row.try_get("seq")?,
        aggregate_type: row.try_get("aggregate_type")?,
        aggregate_id: row.try_get("aggregate_id")?,
        event_type: row.try_get("event_type")?,
        payload: json(row.try_get("payload")?)?,
        headers: read_headers(row.try_get("headers")?),
        idempotency_key: row.try_get("idempotency_key")?,
        attempts: row.try_get("attempts")?,
        max_attempts: row.try_get("max_attempts")?,
        claims: row.try_get("claims")?,
        created_at: moment(row, "created_at")?,
    })
}

pub(super) fn id(row: &SqliteRow, column: &str) -> Result<Uuid, sqlx::Error> {
    row.try_get::<String, _>(column)?.parse().map_err(|error: uuid::Error| bad(error))
}

pub(super) fn ids(texts: &[String]) -> Result<HashSet<Uuid>, sqlx::Error> {
    texts.iter().map(|text| text.parse().map_err(|error: uuid::Error| bad(error))).collect()
}

pub(super) fn moment(row: &SqliteRow, column: &str) -> Result<DateTime<Utc>, sqlx::Error> {
    maybe_moment(row, column)?.ok_or_else(|| bad(format!("{column} is null")))
}

pub(super) fn maybe_moment(row: &SqliteRow, column: &str) -> Result<Option<DateTime<Utc>>, sqlx::Error> {
    let text: Option<String> = row.try_get(column)?;
    Ok(text.map(|text| read_moment(&text)))
}

pub(super) fn json(text: String) -> Result<Box<RawValue>, sqlx::Error> {
    RawValue::from_string(text).map_err(bad)
}

pub(super) fn bad(what: impl Into<DriverError>) -> sqlx::Error {
    sqlx::Error::Decode(what.into())
}
