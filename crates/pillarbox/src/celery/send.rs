//! Emit for Celery: writes tasks into the outbox in the caller's transaction, so that they are committed or rolled back with
//! its data. This file only emits; `celery/messages.rs` builds the messages.

use super::canvas::Signature;
use super::messages::Sent;
use super::task::Task;
use crate::emit::{Transaction, emit, emit_all};
use crate::error::EmitError;

/// Sends a task to Celery's workers if the caller's transaction commits. Returns the task's id.
///
/// ```
/// use pillarbox::celery::{Task, send_task};
/// async fn place(pool: &sqlx::PgPool, order: i64) -> Result<String, Box<dyn std::error::Error>> {
///     let mut tx = pool.begin().await?;
///     sqlx::query("INSERT INTO orders (id) VALUES ($1)").bind(order).execute(&mut *tx).await?;
///     let id = send_task(&mut tx, Task::new("orders.process").arg(order)).await?;
///     tx.commit().await?;
///     Ok(id)
/// }
/// ```
///
/// # Errors
/// [`EmitError::Invalid`] writes nothing and leaves the transaction usable.
pub async fn send_task<T: Transaction>(tx: &mut T, task: Task) -> Result<String, EmitError> {
    let (id, event) = task.into_event()?;
    emit(tx, event).await?;
    Ok(id)
}

/// Sends a workflow with one statement, if the caller's transaction commits. Returns its ids.
///
/// ```
/// use pillarbox::celery::{Task, chain, send};
/// async fn fulfil(tx: &mut sqlx::PgTransaction<'_>, order: i64) -> Result<String, Box<dyn std::error::Error>> {
///     let workflow = chain([Task::new("orders.charge").arg(order), Task::new("orders.ship")]);
///     Ok(send(tx, workflow).await?.id)
/// }
/// ```
///
/// # Errors
/// As [`send_task`].
pub async fn send<T: Transaction>(tx: &mut T, workflow: impl Into<Signature>) -> Result<Sent, EmitError> {
    let (sent, events) = workflow.into().into_events()?;
    emit_all(tx, events).await?;
    Ok(sent)
}
