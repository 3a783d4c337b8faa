//! Emit on MariaDB and MySQL through diesel.

use chrono::{DateTime, NaiveDateTime, Utc};
use diesel::connection::LoadConnection;
use diesel::mysql::Mysql;
use diesel::result::{DatabaseErrorKind, Error};
use diesel::sql_types::{BigInt, Binary, Datetime, Integer, Nullable, Text};
use diesel::{QueryableByName, RunQueryDsl};
use uuid::Uuid;

use super::Emitted;
use super::diesel::{Dialect, private};
use super::mysql::{
    self, EMIT, EMIT_ONE, EXISTING, PLACE, WRITTEN, ids_as_json, is_denied, is_key, moment, rows_as_json,
};
use crate::error::DriverError;
use crate::event::NewEvent;

impl private::Sealed for Mysql {}

impl Dialect for Mysql {
    fn insert(
        connection: &mut impl LoadConnection<Backend = Self>,
        rows: &[NewEvent],
    ) -> Result<Vec<Emitted>, DriverError> {
        let json = rows_as_json(rows);
        match diesel::sql_query(EMIT).bind::<Text, _>(&json).execute(connection) {
            Err(Error::DatabaseError(_, error)) if is_denied(error.message()) => return insert_each(connection, rows),
            done => done?,
        };
        let written = diesel::sql_query(WRITTEN).bind::<Text, _>(ids_as_json(rows)).load::<Row>(connection)?;
        written.into_iter().map(|row| row.emitted(true)).collect()
    }

    fn insert_one(
        connection: &mut impl LoadConnection<Backend = Self>,
        row: &NewEvent,
    ) -> Result<Option<(i64, DateTime<Utc>)>, DriverError> {
        let written = diesel::sql_query(EMIT_ONE)
            .bind::<Binary, _>(&row.id.as_bytes()[..])
            .bind::<Text, _>(&row.aggregate_type)
            .bind::<Text, _>(&row.aggregate_id)
            .bind::<Text, _>(&row.event_type)
            .bind::<Text, _>(&row.payload)
            .bind::<Nullable<Text>, _>(&row.headers)
            .bind::<Text, _>(&row.idempotency_key)
            .bind::<Nullable<Integer>, _>(row.max_attempts)
            .bind::<Nullable<Datetime>, _>(row.deliver_at.map(moment))
            .execute(connection);
        match written {
            Ok(_) => {}
            Err(error) if is_duplicate(&error) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let place = diesel::sql_query(PLACE).get_result::<Place>(connection)?;
        Ok(Some((place.seq, place.created_at.and_utc())))
    }

    fn find(
        connection: &mut impl LoadConnection<Backend = Self>,
        event_type: &str,
        key: &str,
    ) -> Result<Option<Emitted>, DriverError> {
        let found = diesel::sql_query(EXISTING).bind::<Text, _>(event_type).bind::<Text, _>(key);
        found.load::<Row>(connection)?.into_iter().next().map(|row| row.emitted(false)).transpose()
    }
}

/// Inserts one event after another, for an account that may only emit.
fn insert_each(
    connection: &mut impl LoadConnection<Backend = Mysql>,
    rows: &[NewEvent],
) -> Result<Vec<Emitted>, DriverError> {
    let mut written = Vec::with_capacity(rows.len());
    for row in rows {
        let place = Mysql::insert_one(connection, row)?;
        written.extend(place.map(|place| super::new(row.clone(), place)));
    }
    Ok(written)
}

fn is_duplicate(error: &Error) -> bool {
    matches!(error, Error::DatabaseError(DatabaseErrorKind::UniqueViolation, error) if is_key(error.message()))
}

/// A row that [`PLACE`] returns.
#[derive(QueryableByName)]
struct Place {
    #[diesel(sql_type = BigInt)]
    seq: i64,
    #[diesel(sql_type = Datetime)]
    created_at: NaiveDateTime,
}

/// A row that [`WRITTEN`] and [`EXISTING`] return.
#[derive(QueryableByName)]
struct Row {
    #[diesel(sql_type = Binary)]
    id: Vec<u8>,
    #[diesel(sql_type = BigInt)]
    seq: i64,
    #[diesel(sql_type = Text)]
    event_type: String,
    #[diesel(sql_type = Text)]
    idempotency_key: String,
    #[diesel(sql_type = Text)]
    status: String,
    #[diesel(sql_type = Datetime)]
    created_at: NaiveDateTime,
}

impl Row {
    fn emitted(self, is_new: bool) -> Result<Emitted, DriverError> {
        let id = Uuid::from_slice(&self.id)?;
        mysql::emitted((id, self.seq, self.event_type, self.idempotency_key, self.status, self.created_at), is_new)
    }
}
