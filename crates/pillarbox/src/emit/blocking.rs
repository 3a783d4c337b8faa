//! Emit through a blocking diesel connection that is in a transaction: to PostgreSQL, or with the feature `diesel-mysql` to MariaDB and
//! MySQL.
//!
//! The functions are those of [`emit`](super), without `await`, for `PgConnection`, `MysqlConnection`, a pool's connection
//! and any other diesel connection. In async code, run diesel in `spawn_blocking`.
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
use diesel::connection::{LoadConnection, TransactionManager};
use futures_util::FutureExt;

pub use super::diesel::Dialect;
use super::diesel::is_open;
use super::{Emitted, Transaction};
use crate::error::{DriverError, EmitError};
use crate::event::{Event, NewEvent};

/// As [`emit`](super::emit()); the connection must be in a transaction.
///
/// # Errors
/// As [`emit`](super::emit()), and [`EmitError::NoTransaction`].
pub fn emit<C: LoadConnection<Backend: Dialect>>(connection: &mut C, event: Event) -> Result<Emitted, EmitError> {
    at_once(super::emit(&mut Blocking(connection), event))
}

/// As [`emit_once`](super::emit_once); the connection must be in a transaction.
///
/// # Errors
/// As [`emit_once`](super::emit_once), and [`EmitError::NoTransaction`].
pub fn emit_once<C: LoadConnection<Backend: Dialect>>(connection: &mut C, event: Event) -> Result<Emitted, EmitError> {
    at_once(super::emit_once(&mut Blocking(connection), event))
}

/// As [`emit_all`](super::emit_all); the connection must be in a transaction.
///
/// # Errors
/// As [`emit_all`](super::emit_all), and [`EmitError::NoTransaction`].
pub fn emit_all<C: LoadConnection<Backend: Dialect>>(
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

impl<C: LoadConnection<Backend: Dialect>> Transaction for Blocking<'_, C> {
    fn is_open(&mut self) -> Result<bool, DriverError> {
        is_open(C::TransactionManager::transaction_manager_status_mut(self.0))
    }

    async fn insert(&mut self, rows: &[NewEvent]) -> Result<Vec<Emitted>, DriverError> {
        C::Backend::insert(self.0, rows)
    }

    async fn insert_one(&mut self, row: &NewEvent) -> Result<Option<(i64, DateTime<Utc>)>, DriverError> {
        C::Backend::insert_one(self.0, row)
    }

    async fn find(&mut self, event_type: &str, key: &str) -> Result<Option<Emitted>, DriverError> {
        C::Backend::find(self.0, event_type, key)
    }

    async fn run(&mut self, statement: &'static str) -> Result<(), DriverError> {
        self.0.batch_execute(statement)?;
        Ok(())
    }
}
