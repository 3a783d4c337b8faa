//! Emit: writes events in the caller's transaction, so that they are committed or rolled back with its data.
//!
//! A pool or a bare connection does not type-check, because it is not a transaction. Diesel has no type for transactions, so
//! its connections are checked at run time and refused outside of one. Each driver has a file beside this one that only runs
//! the statements. This file defines what is emitted and what a duplicate is.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};
use serde::Serialize;
use uuid::Uuid;

use crate::error::{DriverError, EmitError};
use crate::event::{Event, NewEvent, Status, StoredEvent};

#[cfg(feature = "diesel")]
pub mod blocking;
#[cfg(feature = "diesel-async")]
mod diesel_async;
#[cfg(feature = "sea-orm")]
mod sea_orm;
#[cfg(feature = "mysql")]
pub(crate) mod sqlx_mysql;
#[cfg(feature = "postgres")]
pub(crate) mod sqlx_postgres;
#[cfg(feature = "sqlite")]
mod sqlx_sqlite;
#[cfg(feature = "tokio-postgres")]
pub(crate) mod tokio_postgres;

#[cfg(feature = "diesel")]
mod diesel;
#[cfg(feature = "diesel-mysql")]
mod diesel_mysql;
#[cfg(any(feature = "mysql", feature = "diesel-mysql", feature = "sea-orm"))]
pub(crate) mod mysql;
#[cfg(any(feature = "postgres", feature = "tokio-postgres", feature = "diesel", feature = "sea-orm"))]
pub(crate) mod postgres;
#[cfg(any(feature = "sqlite", feature = "sea-orm"))]
pub(crate) mod sqlite;

/// An event as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Emitted {
    /// A UUID v7. Receivers get it with every delivery.
    pub id: Uuid,
    /// The database's order of insertion. `None` for an event that was written into PostgreSQL's write-ahead log, where it has no row.
    pub seq: Option<i64>,
    /// The type of the event.
    pub event_type: String,
    /// The idempotency key, given or generated.
    pub idempotency_key: String,
    /// Pending, unless [`emit_once`] found an event that is delivered or failed.
    pub status: Status,
    /// When it was emitted, by the database's clock; without a `seq`, the time of the id, by this host's clock.
    pub created_at: DateTime<Utc>,
    /// Whether it was written now. False if [`emit_once`] found it.
    pub is_new: bool,
}

impl Emitted {
    /// Returns the result of an emit that wrote this event, for stores of tests.
    #[doc(hidden)]
    #[must_use]
    pub fn for_tests(event: &StoredEvent) -> Self {
        Self {
            id: event.id,
            seq: Some(event.seq),
            event_type: event.event_type.clone(),
            idempotency_key: event.idempotency_key.clone(),
            status: Status::Pending,
            created_at: event.created_at,
            is_new: true,
        }
    }
}

/// A transaction that events can be emitted in. Pillarbox implements it for each driver that has a feature.
#[diagnostic::on_unimplemented(
    message = "events cannot be emitted through `{Self}`",
    label = "not a transaction that Pillarbox knows",
    note = "begin a transaction, write your data in it, and emit through it: a pool or a bare connection is not a \
        transaction",
    note = "each driver is a feature of the crate pillarbox; blocking diesel has `pillarbox::emit::blocking`"
)]
pub trait Transaction: Send {
    /// Returns whether a transaction is open. A driver with a type for transactions need not implement this.
    ///
    /// # Errors
    /// If the driver reports that its transaction is broken.
    fn is_open(&mut self) -> Result<bool, DriverError> {
        Ok(true)
    }

    /// Writes the rows in one statement and returns the written ones, in any order. Rows whose keys exist are left out, and rows
    /// that were written into PostgreSQL's write-ahead log instead of the table.
    fn insert(&mut self, rows: &[NewEvent]) -> impl Future<Output = Result<Vec<Emitted>, DriverError>> + Send;

    /// Writes one row and returns its `seq` and `created_at`, or `None` if its key exists. If the key is the event's own id, `None`
    /// means that it was written into PostgreSQL's write-ahead log. A driver with a simpler way to write one row overrides this.
    fn insert_one(
        &mut self,
        row: &NewEvent,
    ) -> impl Future<Output = Result<Option<(i64, DateTime<Utc>)>, DriverError>> + Send {
        async {
            let written = self.insert(std::slice::from_ref(row)).await?;
            Ok(written.first().and_then(place))
        }
    }

    /// Returns the event of this type and key.
    fn find(
        &mut self,
        event_type: &str,
        key: &str,
    ) -> impl Future<Output = Result<Option<Emitted>, DriverError>> + Send;

    /// Runs a statement without parameters.
    fn run(&mut self, statement: &'static str) -> impl Future<Output = Result<(), DriverError>> + Send;
}

/// Emits an event in the caller's transaction. It is delivered if the transaction commits, and discarded if it rolls back.
///
/// The statement may have to wait for another open transaction that has emitted the same key. Under REPEATABLE READ and above,
/// a key that another transaction has committed meanwhile causes a serialisation failure.
///
/// ```
/// # use pillarbox::{Event, emit};
/// async fn place(pool: &sqlx::PgPool, order: i64) -> Result<(), Box<dyn std::error::Error>> {
///     let mut tx = pool.begin().await?;
///     sqlx::query("INSERT INTO orders (id) VALUES ($1)").bind(order).execute(&mut *tx).await?;
///     emit(&mut tx, Event::new("Order", order, "order.placed")).await?;
///     tx.commit().await?;
///     Ok(())
/// }
/// ```
///
/// Behind a transaction pooler, such as PgBouncer, sqlx must not keep statements on its connections, and must not set
/// parameters that the pooler does not know: use `PgConnectOptions` with `statement_cache_capacity(0)` and
/// `extra_float_digits(None)`. Then `emit` keeps none either. An application's own statements need `persistent(false)`, and a
/// transaction.
///
/// A pool does not type-check, because each of its statements would be a transaction of its own:
/// ```compile_fail,E0277
/// # use pillarbox::{Event, emit};
/// async fn place(mut pool: sqlx::PgPool, order: i64) -> Result<(), Box<dyn std::error::Error>> {
///     emit(&mut pool, Event::new("Order", order, "order.placed")).await?;
///     Ok(())
/// }
/// ```
///
/// # Errors
/// [`EmitError::Invalid`] and [`EmitError::Duplicate`] write nothing and leave the transaction usable.
/// [`EmitError::NoTransaction`] is for drivers without a type for transactions (diesel).
pub async fn emit<T: Transaction>(tx: &mut T, event: Event) -> Result<Emitted, EmitError> {
    check_open(tx)?;
    let row = event.prepare()?;
    match tx.insert_one(&row).await.map_err(EmitError::Driver)? {
        Some(place) => Ok(new(row, place)),
        None if has_its_own_key(&row) => Ok(logged(&row)),
        None => Err(duplicate(&row)),
    }
}

/// Emits an event, or returns the existing one with its type and key (`is_new` is false then).
///
/// # Errors
/// As [`emit`], except for the duplicate.
pub async fn emit_once<T: Transaction>(tx: &mut T, event: Event) -> Result<Emitted, EmitError> {
    check_open(tx)?;
    let row = event.prepare()?;
    loop {
        if let Some(place) = tx.insert_one(&row).await.map_err(EmitError::Driver)? {
            return Ok(new(row, place));
        }
        if has_its_own_key(&row) {
            return Ok(logged(&row));
        }
        let existing = tx.find(&row.event_type, &row.idempotency_key).await.map_err(EmitError::Driver)?;
        // A cleanup may have deleted it between the two statements. Then it does not exist, and is emitted.
        if let Some(existing) = existing {
            return Ok(existing);
        }
    }
}

/// Emits many events with one statement, in their order. On an error, none is emitted.
///
/// # Errors
/// As [`emit`]. A duplicate may also be within `events`.
pub async fn emit_all<T: Transaction>(
    tx: &mut T,
    events: impl IntoIterator<Item = Event>,
) -> Result<Vec<Emitted>, EmitError> {
    check_open(tx)?;
    let rows = prepare_all(events)?;
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    // Such keys cannot be duplicates. Nothing will have to be rolled back, which saves two statements.
    if rows.iter().all(has_its_own_key) {
        return tx.insert(&rows).await.map(|written| in_order(&rows, written)).map_err(EmitError::Driver);
    }
    tx.run(SAVEPOINT).await.map_err(EmitError::Driver)?;
    let written = tx.insert(&rows).await.map_err(EmitError::Driver)?;
    let missing = first_missing(&rows, &written);
    if missing.is_some() {
        tx.run(ROLLBACK).await.map_err(EmitError::Driver)?;
    }
    tx.run(RELEASE).await.map_err(EmitError::Driver)?;
    match missing {
        Some(row) => Err(duplicate(row)),
        None => Ok(in_order(&rows, written)),
    }
}

/// Returns the rows as emitted, in their order. The rows that were not written into the table are in the log.
fn in_order(rows: &[NewEvent], written: Vec<Emitted>) -> Vec<Emitted> {
    let mut written: HashMap<Uuid, Emitted> = written.into_iter().map(|emitted| (emitted.id, emitted)).collect();
    rows.iter().map(|row| written.remove(&row.id).unwrap_or_else(|| logged(row))).collect()
}

const SAVEPOINT: &str = "SAVEPOINT pillarbox_emit_all";
const ROLLBACK: &str = "ROLLBACK TO SAVEPOINT pillarbox_emit_all";
const RELEASE: &str = "RELEASE SAVEPOINT pillarbox_emit_all";

fn check_open<T: Transaction>(tx: &mut T) -> Result<(), EmitError> {
    if tx.is_open().map_err(EmitError::Driver)? { Ok(()) } else { Err(EmitError::NoTransaction) }
}

fn prepare_all(events: impl IntoIterator<Item = Event>) -> Result<Vec<NewEvent>, EmitError> {
    let rows = events.into_iter().map(Event::prepare).collect::<Result<Vec<_>, _>>()?;
    let mut seen = HashSet::with_capacity(rows.len());
    let repeated = rows.iter().find(|row| !seen.insert((&row.event_type, &row.idempotency_key)));
    match repeated {
        Some(row) => Err(duplicate(row)),
        None => Ok(rows),
    }
}

/// Returns whether the key is the event's own id, as [`Event::repeatable`] makes it.
fn has_its_own_key(row: &NewEvent) -> bool {
    row.idempotency_key == *row.id.hyphenated().encode_lower(&mut Uuid::encode_buffer())
}

/// Returns the first row that was not written because its key exists. A key that is the event's own id cannot exist.
fn first_missing<'a>(rows: &'a [NewEvent], written: &[Emitted]) -> Option<&'a NewEvent> {
    let written: HashSet<Uuid> = written.iter().map(|emitted| emitted.id).collect();
    rows.iter().find(|row| !written.contains(&row.id) && !has_its_own_key(row))
}

/// Returns the row as emitted. The database returns only the values that it has set itself.
fn new(row: NewEvent, (seq, created_at): (i64, DateTime<Utc>)) -> Emitted {
    Emitted {
        id: row.id,
        seq: Some(seq),
        event_type: row.event_type,
        idempotency_key: row.idempotency_key,
        status: Status::Pending,
        created_at,
        is_new: true,
    }
}

/// Returns a row that was written into the log. The statement that does so returns nothing.
fn logged(row: &NewEvent) -> Emitted {
    let (seconds, nanoseconds) = row.id.get_timestamp().map_or((0, 0), |time| time.to_unix());
    Emitted {
        id: row.id,
        seq: None,
        event_type: row.event_type.clone(),
        idempotency_key: row.idempotency_key.clone(),
        status: Status::Pending,
        created_at: DateTime::from_timestamp(seconds.cast_signed(), nanoseconds).unwrap_or_default(),
        is_new: true,
    }
}

/// Returns `seq` and `created_at` of a row in the table.
fn place(emitted: &Emitted) -> Option<(i64, DateTime<Utc>)> {
    Some((emitted.seq?, emitted.created_at))
}

fn duplicate(row: &NewEvent) -> EmitError {
    EmitError::Duplicate { event_type: row.event_type.clone(), idempotency_key: row.idempotency_key.clone() }
}
