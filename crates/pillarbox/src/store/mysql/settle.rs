//! Settle on MariaDB and MySQL: one transaction, a statement for the delivered events of each lease and one for all others, fenced
//! by the tokens of the leases.
//!
//! The statements return no rows, only how many they have matched. If these are fewer than the events, some leases were lost. Then the
//! transaction is rolled back, and a second one first reads which events are still held.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Value, json};
use uuid::Uuid;

use super::connect::Repeats;
use super::database::Tx;
use super::statement::{ids_as_json, of_lease, pairs};
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
    let deleted = tx.change(by_lease(gone.iter().copied(), |_| SQL.settle_delete.to_owned())).await?;
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
    let (plain, others): (Vec<&Settlement>, Vec<&Settlement>) =
        kept.iter().partition(|settlement| settlement.is_plain_delivery());
    let text = |attempts: i32| SQL.settle_plain.replace("{attempts}", &attempts.to_string());
    let settled = tx.change(by_lease(plain.into_iter(), text)).await?;
    if others.is_empty() {
        return Ok(settled);
    }
    let row = |settlement: &&Settlement| {
        let row = Written::of(settlement);
        let token = row.ticket.token.simple().to_string();
        json!([settlement.event().seq, token, row.change, row.attempts, row.after, row.parked_on, row.error])
    };
    let rows: Vec<Value> = others.iter().map(row).collect();
    Ok(settled + tx.done(Call::new(SQL.settle).bind(json!(rows).to_string())).await?)
}

/// Returns a statement for the events of each lease and number of attempts. Its text is made from that number.
fn by_lease<'a>(settlements: impl Iterator<Item = &'a Settlement>, text: impl Fn(i32) -> String) -> Vec<String> {
    let mut leases: BTreeMap<(Uuid, i32), Vec<i64>> = BTreeMap::new();
    for settlement in settlements {
        let lease = (settlement.ticket().token, settlement.verdict().attempts.cast_signed());
        leases.entry(lease).or_default().push(settlement.event().seq);
    }
    leases.into_iter().map(|((token, attempts), seqs)| of_lease(&text(attempts), token, &seqs)).collect()
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
            let delivered = u8::from(row.delivered);
            json!([id, row.destination, row.took_ms, row.status_code, row.error, row.answer, row.position, delivered])
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
