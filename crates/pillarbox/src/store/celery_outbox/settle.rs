//! Settle on the tables of django-celery-outbox: one transaction, with one statement each for deleted rows, dead letters and
//! rows that stay.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::fence::{Held, row_id};
use super::tables::{Batch, Settled, Staying};
use super::{Outbox, lock};
use crate::delivery::Change;
use crate::error::DriverError;
use crate::store::{Settlement, Ticket};

impl Outbox {
    /// Settles a batch, and returns the tickets whose claim is no longer valid.
    pub(super) async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Ticket>, DriverError> {
        let settled = {
            let held = self.fences.read().await;
            self.tables.settle(&self.sort(settlements, &held)).await?
        };
        self.fences.forget(settlements.iter().map(Settlement::ticket)).await;
        self.note(settlements, &settled);
        let lost = settlements.iter().map(Settlement::ticket).filter(|ticket| !settled.contains_key(&row_id(*ticket)));
        Ok(lost.collect())
    }

    fn sort<'a>(&self, settlements: &'a [Settlement], held: &Held<'_>) -> Batch<'a> {
        let mut batch = Batch::default();
        for settlement in settlements {
            let held = held.row(settlement.ticket());
            let (change, after) = match &settlement.verdict().change {
                Change::Deliver => {
                    batch.delivered.push(held);
                    continue;
                }
                Change::Fail { error } => {
                    batch.failed.push((held, error));
                    continue;
                }
                Change::Retry { after, .. } => ("retry", *after),
                Change::Park { .. } => ("park", self.settings.cooldown),
                Change::Release { after } => ("release", *after),
            };
            let attempts = i32::try_from(settlement.verdict().attempts).unwrap_or(i32::MAX);
            batch.staying.push(Staying { held, change, attempts, after: after.as_secs_f64() });
        }
        batch
    }

    /// Updates the gate: a parked task closes it, a response opens it.
    fn note(&self, settlements: &[Settlement], settled: &Settled) {
        let mut parking = lock(&self.parking);
        let mut parked = false;
        for settlement in settlements {
            if let Change::Park { on, .. } = &settlement.verdict().change {
                let id = row_id(settlement.ticket());
                parking.park(on, settled.get(&id).copied().flatten().map(|since| (id, since)));
                parked = true;
            }
        }
        let answered =
            |settlement: &Settlement| matches!(settlement.verdict().change, Change::Deliver | Change::Fail { .. });
        if !parked && settlements.iter().any(answered) {
            parking.answered();
        }
    }

    /// Releases dropped claims, so that they are due at once.
    async fn release(&self, tickets: &[Ticket]) -> Result<(), DriverError> {
        {
            let held = self.fences.read().await;
            let released =
                |ticket: &Ticket| Staying { held: held.row(*ticket), change: "release", attempts: 0, after: 0.0 };
            let staying = tickets.iter().map(released).collect();
            self.tables.settle(&Batch { staying, ..Batch::default() }).await?;
        }
        self.fences.forget(tickets.iter().copied()).await;
        Ok(())
    }
}

/// Gives back dropped claims. They arrive through a channel because `Drop` cannot await. The task ends with the store.
pub(super) async fn give_back_dropped(outbox: Arc<Outbox>, mut dropped: mpsc::UnboundedReceiver<Ticket>) {
    let mut tickets = Vec::new();
    while dropped.recv_many(&mut tickets, 1000).await > 0 {
        if let Err(error) = outbox.release(&tickets).await {
            tracing::warn!(tasks = tickets.len(), %error, "releasing dropped claims failed; they become stale");
        }
        tickets.clear();
    }
}
