//! Settle on SQLite: one transaction, one statement for the rows of all events.

use std::collections::HashSet;

use serde_json::{Value, json};
use sqlx::sqlite::SqliteConnection;
use uuid::Uuid;

use super::{SQL, SqliteStore, pairs, read};
use crate::delivery::Change;
use crate::store::row::{self, ATTEMPTS_KEPT, Written};
use crate::store::{Settlement, Ticket};

impl SqliteStore {
    /// Settles the events whose lease still holds them, and returns their ids.
    pub(super) async fn settle_batch(
        &self,
        settlements: &[Settlement],
        delete: bool,
    ) -> Result<HashSet<Uuid>, sqlx::Error> {
        let (gone, kept): (Vec<&Settlement>, Vec<&Settlement>) =
            settlements.iter().partition(|settlement| delete && settlement.verdict().change == Change::Deliver);
        let mut tx = self.relaxed.begin_with("BEGIN IMMEDIATE").await?;
        let mut settled = settle_gone(&mut tx, &gone).await?;
        settled.extend(settle_kept(&mut tx, &kept).await?);
        let ours: Vec<&Settlement> = kept.into_iter().filter(|kept| settled.contains(&kept.ticket().id)).collect();
        settle_deliveries(&mut tx, &ours).await?;
        settle_attempts(&mut tx, &ours).await?;
        tx.commit().await?;
        Ok(settled)
    }
}

async fn settle_gone(connection: &mut SqliteConnection, gone: &[&Settlement]) -> Result<HashSet<Uuid>, sqlx::Error> {
    if gone.is_empty() {
        return Ok(HashSet::new());
    }
    let tickets: Vec<Ticket> = gone.iter().map(|settlement| settlement.ticket()).collect();
    let rows: Vec<String> =
        sqlx::query_scalar(SQL.settle_delete).bind(pairs(&tickets)).fetch_all(&mut *connection).await?;
    delete_details(connection, &json!(rows).to_string()).await?;
    read::ids(&rows)
}

async fn settle_kept(connection: &mut SqliteConnection, kept: &[&Settlement]) -> Result<HashSet<Uuid>, sqlx::Error> {
    let rows: Vec<Value> = kept
        .iter()
        .map(|settlement| Written::of(settlement))
        .map(|row| {
            json!([row.ticket.id, row.ticket.token, row.change, row.attempts, row.after, row.parked_on, row.error])
        })
        .collect();
    let written: Vec<String> =
        sqlx::query_scalar(SQL.settle).bind(json!(rows).to_string()).fetch_all(connection).await?;
    read::ids(&written)
}

async fn settle_deliveries(connection: &mut SqliteConnection, kept: &[&Settlement]) -> Result<(), sqlx::Error> {
    let rows: Vec<Value> = kept
        .iter()
        .flat_map(|settlement| settlement.verdict().deliveries.iter().map(|row| (settlement.ticket().id, row)))
        .map(|(id, row)| {
            json!([
                id,
                row.destination,
                row.status,
                row.attempts,
                row.due_in.as_secs_f64(),
                row::kept(&row.error),
                u8::from(row.parked)
            ])
        })
        .collect();
    if !rows.is_empty() {
        sqlx::query(SQL.settle_deliveries).bind(json!(rows).to_string()).execute(connection).await?;
    }
    Ok(())
}

async fn settle_attempts(connection: &mut SqliteConnection, kept: &[&Settlement]) -> Result<(), sqlx::Error> {
    let rows: Vec<Value> = kept
        .iter()
        .flat_map(|settlement| settlement.attempts())
        .map(|row| {
            let (id, delivered) = (row.event_id, u8::from(row.delivered));
            json!([id, row.destination, row.took_ms, row.status_code, row.error, row.answer, row.position, delivered])
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(SQL.settle_attempts).bind(json!(rows).to_string()).execute(&mut *connection).await?;
    let ids: Vec<Uuid> = kept.iter().map(|settlement| settlement.ticket().id).collect();
    sqlx::query(SQL.prune_attempts).bind(json!(ids).to_string()).bind(ATTEMPTS_KEPT).execute(connection).await?;
    Ok(())
}

/// Deletes the deliveries and attempts of events. `ids` is a JSON array.
pub(super) async fn delete_details(connection: &mut SqliteConnection, ids: &str) -> Result<(), sqlx::Error> {
    sqlx::query(SQL.delete_deliveries).bind(ids).execute(&mut *connection).await?;
    sqlx::query(SQL.delete_attempts).bind(ids).execute(connection).await?;
    Ok(())
}
