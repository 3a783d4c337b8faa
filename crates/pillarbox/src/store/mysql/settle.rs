//! Settle on MariaDB and MySQL: one transaction, one statement for the rows of all events, fenced by the tokens of their leases.
//!
//! The statement returns no rows, only how many it has matched. If these are fewer than the events, some leases were lost. Then the
//! transaction is rolled back, and a second one first reads which events are still held.

use std::collections::HashSet;

use serde_json::{Value, json};
use uuid::Uuid;

use super::connect::Repeats;
use super::database::Tx;
use super::statement::{ids_as_json, pairs};
use super::{MysqlStore, SQL};
use crate::delivery::Change;
use crate::error::DriverError;
use crate::store::row::{self, ATTEMPTS_KEPT, Written};
use crate::store::sql::{Call, Row, Transaction};
use crate::store::{Settlement, Ticket};

impl MysqlStore {
    /// Settles the events whose lease still holds them, and returns their ids.
    pub(super) async fn settle_batch(
        &self,
        settlements: &[Settlement],
        delete: bool,
    ) -> Result<HashSet<Uuid>, DriverError> {
        if settlements.is_empty() {
            return Ok(HashSet::new());
        }
        let mut repeats = Repeats::default();
        let mut all_held = true;
        loop {
            match self.try_settle(settlements, delete, all_held).await {
                Ok(Some(settled)) => return Ok(settled),
                Ok(None) if all_held => all_held = false,
                Ok(None) => return Err("the events changed while they were locked".into()),
                Err(error) if repeats.again(&error).await => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Settles in one transaction. With `all_held` it expects that every lease holds its event, and returns `None` if not.
    async fn try_settle(
        &self,
        settlements: &[Settlement],
        delete: bool,
        all_held: bool,
    ) -> Result<Option<HashSet<Uuid>>, DriverError> {
        let mut tx = self.transaction().await?;
        let held = if all_held {
            settlements.iter().map(|one| one.ticket().id).collect()
        } else {
            held(&mut tx, settlements).await?
        };
        let ours = settlements.iter().filter(|settlement| held.contains(&settlement.ticket().id));
        let (gone, kept): (Vec<&Settlement>, Vec<&Settlement>) =
            ours.partition(|settlement| delete && settlement.verdict().change == Change::Deliver);
        let settled = settle_gone(&mut tx, &gone).await? + settle_kept(&mut tx, &kept).await?;
        if settled != (gone.len() + kept.len()) as u64 {
            tx.roll_back().await?;
            return Ok(None);
        }
        settle_deliveries(&mut tx, &kept).await?;
        settle_attempts(&mut tx, &kept).await?;
        tx.commit().await?;
        Ok(Some(held))
    }
}

/// Locks the events that their leases still hold, and returns their ids.
async fn held(tx: &mut Tx, settlements: &[Settlement]) -> Result<HashSet<Uuid>, DriverError> {
    let tickets: Vec<Ticket> = settlements.iter().map(Settlement::ticket).collect();
    let rows = tx.rows(Call::new(SQL.held).bind(pairs(&tickets))).await?;
    rows.iter().map(|row| row.id("id")).collect()
}

async fn settle_gone(tx: &mut Tx, gone: &[&Settlement]) -> Result<u64, DriverError> {
    if gone.is_empty() {
        return Ok(0);
    }
    let place =
        |settlement: &&Settlement| json!([settlement.event().seq, settlement.ticket().token.simple().to_string()]);
    let places = json!(gone.iter().map(place).collect::<Vec<_>>()).to_string();
    let deleted = tx.done(Call::new(SQL.settle_delete).bind(places)).await?;
    // Most events were delivered at the first attempt, and nothing else is stored about them.
    let details: Vec<Uuid> = gone
        .iter()
        .filter(|settlement| !settlement.is_plain_delivery())
        .map(|settlement| settlement.ticket().id)
        .collect();
    if !details.is_empty() {
        let ids = ids_as_json(&details);
        tx.done(Call::new(SQL.delete_deliveries).bind(ids.as_str())).await?;
        tx.done(Call::new(SQL.delete_attempts).bind(ids)).await?;
    }
    Ok(deleted)
}

async fn settle_kept(tx: &mut Tx, kept: &[&Settlement]) -> Result<u64, DriverError> {
    if kept.is_empty() {
        return Ok(0);
    }
    let row = |settlement: &&Settlement| {
        let row = Written::of(settlement);
        let token = row.ticket.token.simple().to_string();
        json!([settlement.event().seq, token, row.change, row.attempts, row.after, row.parked_on, row.error])
    };
    let rows: Vec<Value> = kept.iter().map(row).collect();
    tx.done(Call::new(SQL.settle).bind(json!(rows).to_string())).await
}

async fn settle_deliveries(tx: &mut Tx, kept: &[&Settlement]) -> Result<(), DriverError> {
    let rows: Vec<Value> = kept
        .iter()
        .flat_map(|settlement| settlement.verdict().deliveries.iter().map(|row| (settlement.ticket().id, row)))
        .map(|(id, row)| {
            json!([
                id.simple().to_string(),
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
        tx.done(Call::new(SQL.settle_deliveries).bind(json!(rows).to_string())).await?;
    }
    Ok(())
}

async fn settle_attempts(tx: &mut Tx, kept: &[&Settlement]) -> Result<(), DriverError> {
    let rows: Vec<Value> = kept
        .iter()
        .flat_map(|settlement| settlement.attempts())
        .map(|row| {
            let id = row.event_id.simple().to_string();
            json!([id, row.destination, row.took_ms, row.status_code, row.error, row.answer, row.position])
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    tx.done(Call::new(SQL.settle_attempts).bind(json!(rows).to_string())).await?;
    let ids: Vec<Uuid> = kept.iter().map(|settlement| settlement.ticket().id).collect();
    tx.done(Call::new(SQL.prune_attempts).bind(ids).bind(ATTEMPTS_KEPT)).await?;
    Ok(())
}
