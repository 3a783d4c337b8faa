//! Converts rows of PostgreSQL into the values that relays and people see.

use serde_json::value::RawValue;
use tokio_postgres::types::{FromSql, Type};

use super::claim::Place;
use super::database;
use super::error::Error;
use super::moment::Moment;
use super::statement::PgRow;
use crate::delivery::Delivery;
use crate::error::{DriverError, StoreError};
use crate::event::{StoredEvent, read_headers};
use crate::store::row::read_deliveries;

/// Reads a row of `claim.sql`: the event, its stored deliveries, and its due time.
pub(super) fn claimed(row: &PgRow) -> Result<(StoredEvent, Vec<Delivery>, Moment), StoreError> {
    let event = event(row)?;
    let deliveries: Option<String> = row.try_get("deliveries").map_err(database("reading a claim"))?;
    let due_at = row.try_get("due_at").map_err(database("reading a claim"))?;
    let deliveries = read_deliveries(event.id, deliveries.as_deref())?;
    Ok((event, deliveries, due_at))
}

/// Reads a row of `hold.sql` or `hold_light.sql`: the event, its stored deliveries, and whether it is unchanged since its emit.
pub(super) fn locked_event(row: &PgRow) -> Result<(StoredEvent, Vec<Delivery>, bool), StoreError> {
    let event = event(row)?;
    let deliveries: Option<&str> = row.try_get(13).map_err(database("reading a claim"))?;
    let fresh = row.try_get(14).map_err(database("reading a claim"))?;
    let deliveries = read_deliveries(event.id, deliveries)?;
    Ok((event, deliveries, fresh))
}

/// Returns whether a row of `hold_light.sql` has its payload.
pub(super) fn has_payload(row: &PgRow) -> Result<bool, StoreError> {
    let payload: Option<Something> = row.try_get(5).map_err(database("reading a claim"))?;
    Ok(payload.is_some())
}

/// A value that is not read.
struct Something;

impl<'r> FromSql<'r> for Something {
    fn from_sql(_: &Type, _: &'r [u8]) -> Result<Self, DriverError> {
        Ok(Self)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// Returns the number of events that were locked with this row of `hold.sql`, including its own.
pub(super) fn locked(row: &PgRow) -> Result<usize, StoreError> {
    let locked: i64 = row.try_get("locked").map_err(database("reading a claim"))?;
    Ok(usize::try_from(locked).unwrap_or_default())
}

/// Returns the place of a row of `hold.sql` or `hold_light.sql` in the due index.
pub(super) fn place(row: &PgRow) -> Result<Place, StoreError> {
    let place = || Ok((row.try_get(12)?, row.try_get(1)?));
    place().map_err(database::<Error>("reading a claim"))
}

/// Reads the columns of an event, in the order of `claim.sql`, `hold.sql` and `sweep.sql`.
pub(super) fn event(row: &PgRow) -> Result<StoredEvent, StoreError> {
    try_event(row).map_err(database("reading an event"))
}

/// Reads columns by position: claims read a hundred thousand rows a second, and names would be looked up each time.
fn try_event(row: &PgRow) -> Result<StoredEvent, Error> {
    Ok(StoredEvent {
        id: row.try_get(0)?,
        seq: row.try_get(1)?,
        aggregate_type: row.try_get(2)?,
        aggregate_id: row.try_get(3)?,
        event_type: row.try_get(4)?,
        payload: json(row.try_get(5)?)?,
        headers: read_headers(row.try_get(6)?),
        idempotency_key: row.try_get(7)?,
        attempts: count(row.try_get(8)?),
        max_attempts: row.try_get::<_, Option<i32>>(9)?.map(count),
        claims: count(row.try_get(10)?),
        created_at: row.try_get::<_, Moment>(11)?.shown(),
    })
}

pub(super) fn json(text: String) -> Result<Box<RawValue>, Error> {
    RawValue::from_string(text).map_err(|error| Error::Value(error.into()))
}

pub(super) fn count(number: i32) -> u32 {
    number.unsigned_abs()
}
