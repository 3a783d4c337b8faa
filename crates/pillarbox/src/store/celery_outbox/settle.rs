//! Settle on the tables of django-celery-outbox: one transaction, with one statement each for deleted rows, dead letters and
//! rows that stay.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio::sync::mpsc;

use super::fence::{Held, row_id};
use super::{Outbox, SQL, lock};
use crate::delivery::Change;
use crate::store::postgres::error::Error;
use crate::store::postgres::link::Link;
use crate::store::row::kept;
use crate::store::{Settlement, Ticket};

/// The change of a row that stays.
struct Staying {
    ticket: Ticket,
    change: &'static str,
    attempts: i32,
    after: f64,
}

/// A batch, grouped by the statement that settles it.
#[derive(Default)]
struct Batch<'a> {
    delivered: Vec<Ticket>,
    failed: Vec<(Ticket, &'a str)>,
    staying: Vec<Staying>,
}

/// The rows whose claim was still valid, with the time that was written into rows that stay.
type Settled = HashMap<i64, Option<DateTime<Utc>>>;

impl Outbox {
    /// Settles a batch, and returns the tickets whose claim is no longer valid.
    pub(super) async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Ticket>, Error> {
        let batch = self.sort(settlements);
        let settled = {
            let held = self.fences.read().await;
            self.write(&batch, &held).await?
        };
        self.fences.forget(settlements.iter().map(Settlement::ticket)).await;
        self.note(settlements, &settled);
        let lost = settlements.iter().map(Settlement::ticket).filter(|ticket| !settled.contains_key(&row_id(*ticket)));
        Ok(lost.collect())
    }

    fn sort<'a>(&self, settlements: &'a [Settlement]) -> Batch<'a> {
        let mut batch = Batch::default();
        for settlement in settlements {
            let ticket = settlement.ticket();
            let (change, after) = match &settlement.verdict().change {
                Change::Deliver => {
                    batch.delivered.push(ticket);
                    continue;
                }
                Change::Fail { error } => {
                    batch.failed.push((ticket, error));
                    continue;
                }
                Change::Retry { after, .. } => ("retry", *after),
                Change::Park { .. } => ("park", self.settings.cooldown),
                Change::Release { after } => ("release", *after),
            };
            let attempts = i32::try_from(settlement.verdict().attempts).unwrap_or(i32::MAX);
            batch.staying.push(Staying { ticket, change, attempts, after: after.as_secs_f64() });
        }
        batch
    }

    async fn write(&self, batch: &Batch<'_>, held: &Held<'_>) -> Result<Settled, Error> {
        let mut tx = self.pool.begin().await?;
        let mut settled = Settled::new();
        if !batch.delivered.is_empty() {
            let (ids, since) = columns(batch.delivered.iter().copied(), held);
            let deliver = self.schema.query_scalar(SQL.settle_deliver);
            let gone: Vec<i64> = deliver.bind(ids).bind(since).fetch_all(&mut *tx).await?;
            settled.extend(gone.into_iter().map(|id| (id, None)));
        }
        if !batch.failed.is_empty() {
            let (ids, since) = columns(batch.failed.iter().map(|(ticket, _)| *ticket), held);
            let errors: Vec<_> = batch.failed.iter().map(|(_, error)| kept(error)).collect();
            let fail = self.schema.query_scalar(SQL.settle_fail);
            let dead: Vec<i64> = fail.bind(ids).bind(since).bind(errors).fetch_all(&mut *tx).await?;
            settled.extend(dead.into_iter().map(|id| (id, None)));
        }
        settled.extend(self.write_staying(&mut tx, &batch.staying, held).await?);
        tx.commit().await?;
        Ok(settled)
    }

    async fn write_staying(
        &self,
        connection: &mut Link,
        staying: &[Staying],
        held: &Held<'_>,
    ) -> Result<Settled, Error> {
        if staying.is_empty() {
            return Ok(Settled::new());
        }
        let (ids, since) = columns(staying.iter().map(|row| row.ticket), held);
        let rows: Vec<(i64, Option<DateTime<Utc>>)> = self
            .schema
            .query_as(SQL.settle)
            .bind(ids)
            .bind(since)
            .bind(staying.iter().map(|row| row.change).collect::<Vec<_>>())
            .bind(staying.iter().map(|row| row.attempts).collect::<Vec<_>>())
            .bind(staying.iter().map(|row| row.after).collect::<Vec<_>>())
            .fetch_all(connection)
            .await?;
        Ok(rows.into_iter().collect())
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
    async fn release(&self, tickets: &[Ticket]) -> Result<(), Error> {
        let released = |ticket: &Ticket| Staying { ticket: *ticket, change: "release", attempts: 0, after: 0.0 };
        let batch = Batch { staying: tickets.iter().map(released).collect(), ..Batch::default() };
        {
            let held = self.fences.read().await;
            self.write(&batch, &held).await?;
        }
        self.fences.forget(tickets.iter().copied()).await;
        Ok(())
    }
}

fn columns(tickets: impl Iterator<Item = Ticket>, held: &Held<'_>) -> (Vec<i64>, Vec<DateTime<Utc>>) {
    tickets.map(|ticket| (row_id(ticket), held.since(ticket))).unzip()
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
