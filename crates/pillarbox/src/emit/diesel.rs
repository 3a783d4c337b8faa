//! Emit through diesel: what a database must do, and how PostgreSQL does it, blocking or async: the statements with their values,
//! and the reading of rows.
//!
//! Diesel has no type for a transaction, so the connection's state is checked.

use chrono::{DateTime, Utc};
use diesel::backend::Backend;
use diesel::connection::{LoadConnection, TransactionManagerStatus};
use diesel::pg::Pg;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::sql_types::{Array, BigInt, Integer, Nullable, Text, Timestamptz, Uuid};
use diesel::{QueryableByName, RunQueryDsl};

use super::Emitted;
use super::postgres::{self, Columns, EXISTING};
use crate::error::DriverError;
use crate::event::NewEvent;

/// A database of diesel's that can have an outbox. Sealed: its methods are for this crate.
pub trait Dialect: Backend + private::Sealed + Sized {
    #[doc(hidden)]
    fn insert(
        connection: &mut impl LoadConnection<Backend = Self>,
        rows: &[NewEvent],
    ) -> Result<Vec<Emitted>, DriverError>;

    #[doc(hidden)]
    fn insert_one(
        connection: &mut impl LoadConnection<Backend = Self>,
        row: &NewEvent,
    ) -> Result<Option<(i64, DateTime<Utc>)>, DriverError>;

    #[doc(hidden)]
    fn find(
        connection: &mut impl LoadConnection<Backend = Self>,
        event_type: &str,
        key: &str,
    ) -> Result<Option<Emitted>, DriverError>;
}

pub(super) mod private {
    /// Limits [`Dialect`](super::Dialect) to this crate.
    pub trait Sealed {}

    impl Sealed for diesel::pg::Pg {}
}

impl Dialect for Pg {
    fn insert(
        connection: &mut impl LoadConnection<Backend = Self>,
        rows: &[NewEvent],
    ) -> Result<Vec<Emitted>, DriverError> {
        emitted(insert(rows).load(connection)?, true)
    }

    fn insert_one(
        connection: &mut impl LoadConnection<Backend = Self>,
        row: &NewEvent,
    ) -> Result<Option<(i64, DateTime<Utc>)>, DriverError> {
        let written = insert_one(row).load::<Place>(connection)?;
        Ok(written.into_iter().next().map(|place| (place.seq, place.created_at)))
    }

    fn find(
        connection: &mut impl LoadConnection<Backend = Self>,
        event_type: &str,
        key: &str,
    ) -> Result<Option<Emitted>, DriverError> {
        Ok(emitted(find(event_type, key).load(connection)?, false)?.into_iter().next())
    }
}

/// A statement with its values, for any connection.
pub(crate) type Query<'a> = BoxedSqlQuery<'a, Pg, SqlQuery>;

pub(crate) fn insert(rows: &[NewEvent]) -> Query<'_> {
    let columns = Columns::new(rows);
    diesel::sql_query(postgres::many(rows))
        .into_boxed()
        .bind::<Array<Uuid>, _>(columns.ids)
        .bind::<Array<Text>, _>(columns.aggregate_types)
        .bind::<Array<Text>, _>(columns.aggregate_ids)
        .bind::<Array<Text>, _>(columns.event_types)
        .bind::<Array<Text>, _>(columns.payloads)
        .bind::<Array<Nullable<Text>>, _>(columns.headers)
        .bind::<Array<Text>, _>(columns.keys)
        .bind::<Array<Nullable<Integer>>, _>(columns.max_attempts)
        .bind::<Array<Nullable<Timestamptz>>, _>(columns.deliver_at)
}

pub(crate) fn insert_one(row: &NewEvent) -> Query<'_> {
    diesel::sql_query(postgres::one(row))
        .into_boxed()
        .bind::<Uuid, _>(row.id)
        .bind::<Text, _>(&row.aggregate_type)
        .bind::<Text, _>(&row.aggregate_id)
        .bind::<Text, _>(&row.event_type)
        .bind::<Text, _>(&row.payload)
        .bind::<Nullable<Text>, _>(&row.headers)
        .bind::<Text, _>(&row.idempotency_key)
        .bind::<Nullable<Integer>, _>(row.max_attempts)
        .bind::<Nullable<Timestamptz>, _>(row.deliver_at)
}

pub(crate) fn find<'a>(event_type: &'a str, key: &'a str) -> Query<'a> {
    diesel::sql_query(EXISTING).into_boxed().bind::<Text, _>(event_type).bind::<Text, _>(key)
}

/// A row that [`insert_one`] returns.
#[derive(QueryableByName)]
pub(crate) struct Place {
    #[diesel(sql_type = BigInt)]
    pub(crate) seq: i64,
    #[diesel(sql_type = Timestamptz)]
    pub(crate) created_at: DateTime<Utc>,
}

/// A row that [`insert`] and [`find`] return.
#[derive(QueryableByName)]
pub(crate) struct Row {
    #[diesel(sql_type = Uuid)]
    id: uuid::Uuid,
    #[diesel(sql_type = BigInt)]
    seq: i64,
    #[diesel(sql_type = Text)]
    event_type: String,
    #[diesel(sql_type = Text)]
    idempotency_key: String,
    #[diesel(sql_type = Text)]
    status: String,
    #[diesel(sql_type = Timestamptz)]
    created_at: DateTime<Utc>,
}

pub(crate) fn emitted(rows: Vec<Row>, is_new: bool) -> Result<Vec<Emitted>, DriverError> {
    rows.into_iter()
        .map(|row| {
            let row = (row.id, row.seq, row.event_type, row.idempotency_key, row.status, row.created_at);
            postgres::emitted(row, is_new)
        })
        .collect()
}

/// Returns whether the connection is in a transaction that diesel knows of, or an error if that transaction is broken.
pub(crate) fn is_open(status: &TransactionManagerStatus) -> Result<bool, DriverError> {
    Ok(status.transaction_depth()?.is_some())
}
