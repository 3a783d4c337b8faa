//! Emit through a blocking diesel connection to PostgreSQL that is in a transaction.
//!
//! The functions are those of [`emit`](super), without `await`, for `PgConnection`, a pool's connection and any other diesel
//! connection. In async code, run diesel in `spawn_blocking`.
//!
//! ```
//! use diesel::prelude::*;
//! use pillarbox::Event;
//! use pillarbox::emit::blocking::emit;
//!
//! fn place(connection: &mut PgConnection, order: i64) -> Result<(), Box<dyn std::error::Error>> {
//!     connection.transaction(|tx| {
//!         diesel::sql_query("INSERT INTO orders (id) VALUES ($1)")
//!             .bind::<diesel::sql_types::BigInt, _>(order)
//!             .execute(tx)?;
//!         emit(tx, Event::new("Order", order, "order.placed"))?;
//!         Ok(())
//!     })
//! }
//! ```

use chrono::{DateTime, Utc};
use diesel::RunQueryDsl;
use diesel::connection::{LoadConnection, TransactionManager};
use diesel::pg::Pg;
use futures_util::FutureExt;

use super::diesel::{self as queries, emitted};
use super::{Emitted, Transaction};
use crate::error::{DriverError, EmitError};
use crate::event::{Event, NewEvent};

/// As [`emit`](super::emit()); the connection must be in a transaction.
///
/// # Errors
/// As [`emit`](super::emit()), and [`EmitError::NoTransaction`].
pub fn emit<C: LoadConnection<Backend = Pg>>(connection: &mut C, event: Event) -> Result<Emitted, EmitError> {
    at_once(super::emit(&mut Blocking(connection), event))
}

/// As [`emit_once`](super::emit_once); the connection must be in a transaction.
///
/// # Errors
/// As [`emit_once`](super::emit_once), and [`EmitError::NoTransaction`].
pub fn emit_once<C: LoadConnection<Backend = Pg>>(connection: &mut C, event: Event) -> Result<Emitted, EmitError> {
    at_once(super::emit_once(&mut Blocking(connection), event))
}

/// As [`emit_all`](super::emit_all); the connection must be in a transaction.
///
/// # Errors
/// As [`emit_all`](super::emit_all), and [`EmitError::NoTransaction`].
pub fn emit_all<C: LoadConnection<Backend = Pg>>(
    connection: &mut C,
    events: impl IntoIterator<Item = Event>,
) -> Result<Vec<Emitted>, EmitError> {
    at_once(super::emit_all(&mut Blocking(connection), events))
}

/// A transaction whose steps all block, so that its futures are ready at once.
struct Blocking<'a, C>(&'a mut C);

/// Returns the output of a future that is ready at once.
fn at_once<T>(emitting: impl Future<Output = T>) -> T {
    emitting.now_or_never().expect("a blocking transaction is never pending")
}

impl<C: LoadConnection<Backend = Pg>> Transaction for Blocking<'_, C> {
    fn is_open(&mut self) -> Result<bool, DriverError> {
        queries::is_open(C::TransactionManager::transaction_manager_status_mut(self.0))
    }

    async fn insert(&mut self, rows: &[NewEvent]) -> Result<Vec<Emitted>, DriverError> {
        emitted(queries::insert(rows).load(self.0)?, true)
    }

    async fn insert_one(&mut self, row: &NewEvent) -> Result<Option<(i64, DateTime<Utc>)>, DriverError> {
        let written = queries::insert_one(row).load::<queries::Place>(self.0)?;
        Ok(written.into_iter().next().map(|place| (place.seq, place.created_at)))
    }

    async fn find(&mut self, event_type: &str, key: &str) -> Result<Option<Emitted>, DriverError> {
        let found = emitted(queries::find(event_type, key).load(self.0)?, false)?;
        Ok(found.into_iter().next())
    }

    async fn run(&mut self, statement: &'static str) -> Result<(), DriverError> {
        self.0.batch_execute(statement)?;
        Ok(())
    }
}
