//! Emit for Celery through a blocking diesel connection that is in a transaction. The functions are those
//! of [`celery`](super), without `await`.
//!
//! ```
//! use diesel::prelude::*;
//! use pillarbox::celery::Task;
//! use pillarbox::celery::blocking::send_task;
//!
//! fn place(connection: &mut PgConnection, order: i64) -> Result<String, Box<dyn std::error::Error>> {
//!     connection.transaction(|tx| Ok(send_task(tx, Task::new("orders.process").arg(order))?))
//! }
//! ```

use diesel::connection::LoadConnection;

use super::canvas::Signature;
use super::messages::Sent;
use super::task::Task;
use crate::emit::blocking::{Dialect, emit, emit_all};
use crate::error::EmitError;

/// As [`send_task`](super::send_task); the connection must be in a transaction.
///
/// # Errors
/// As [`send_task`](super::send_task), and [`EmitError::NoTransaction`].
pub fn send_task<C: LoadConnection<Backend: Dialect>>(connection: &mut C, task: Task) -> Result<String, EmitError> {
    let (id, event) = task.into_event()?;
    emit(connection, event)?;
    Ok(id)
}

/// As [`send`](super::send); the connection must be in a transaction.
///
/// # Errors
/// As [`send`](super::send), and [`EmitError::NoTransaction`].
pub fn send<C: LoadConnection<Backend: Dialect>>(
    connection: &mut C,
    workflow: impl Into<Signature>,
) -> Result<Sent, EmitError> {
    let (sent, events) = workflow.into().into_events()?;
    emit_all(connection, events)?;
    Ok(sent)
}
