//! Sends tasks to Celery workers from Rust: one task, a chain and a chord, and a rollback that also removes its task.
//!
//! ```sh
//! export DATABASE_URL=postgres://postgres@127.0.0.1:5432/postgres
//! cargo run -p pillarbox-examples --bin celery_tasks
//! ```
//!
//! The tasks wait in the outbox. A relay sends them to the broker, and an unmodified worker runs them. For a worker and how
//! to run it, see [celery_tasks.py](celery_tasks.py).

use std::time::Duration;

use anyhow::Result;
use pillarbox::celery::{Task, chain, chord, send, send_task};
use pillarbox_examples::{database_url, open_outbox};
use sqlx::{Postgres, Transaction};

#[tokio::main]
async fn main() -> Result<()> {
    let store = open_outbox(&database_url()).await?;

    // The order and its task are committed together. The task runs ten minutes later, as a reminder to pay.
    let mut tx = store.pool().begin().await?;
    let order = insert_order(&mut tx).await?;
    let remind = Task::new("orders.remind").arg(order).kwarg("by", "mail").countdown(Duration::from_secs(600));
    let remind = remind.expires(Duration::from_secs(3600)).hold_until_eta(Duration::from_secs(30));
    let id = send_task(&mut tx, remind).await?;
    tx.commit().await?;
    println!("orders.remind has an id of {} characters", id.len());

    // One after another, each with the result of the previous one. If one fails, `orders.alarm` runs.
    let mut tx = store.pool().begin().await?;
    let workflow = chain([
        Task::new("orders.charge").arg(order),
        Task::new("orders.ship").queue("warehouse"),
        Task::new("orders.tell").arg("shipped"),
    ]);
    let sent = send(&mut tx, workflow.on_error(Task::new("orders.alarm"))).await?;
    println!("a chain of {} tasks, its result is the last one's: {}", sent.tasks.len(), sent.id == sent.tasks[2]);

    // All at once, then one task with the list of their results. Workers need a result backend for that.
    let parts = ["lid", "box", "post"].map(|part| Task::new("stock.weigh").arg(part));
    let sent = send(&mut tx, chord(parts, Task::new("orders.weigh"))).await?;
    println!("a chord of {} tasks", sent.tasks.len());
    tx.commit().await?;

    // A rollback removes the order and the task.
    let mut tx = store.pool().begin().await?;
    let order = insert_order(&mut tx).await?;
    send_task(&mut tx, Task::new("orders.charge").arg(order)).await?;
    tx.rollback().await?;

    // A task that no worker could run is refused, and the transaction continues.
    let mut tx = store.pool().begin().await?;
    if let Err(error) = send_task(&mut tx, Task::new("")).await {
        println!("{error}");
    }
    tx.commit().await?;
    Ok(())
}

async fn insert_order(tx: &mut Transaction<'_, Postgres>) -> Result<i64> {
    let insert = sqlx::query_scalar("INSERT INTO example_order (cents) VALUES (1990) RETURNING id");
    Ok(insert.fetch_one(&mut **tx).await?)
}
