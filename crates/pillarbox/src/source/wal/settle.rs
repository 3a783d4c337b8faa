//! Settle: a delivered event of the log needs no write, unless it is kept. Any other verdict goes into the table with the next spill.

use std::sync::atomic::Ordering;

use super::ledger::Which;
use super::log::Log;
use crate::clock;
use crate::delivery::Change;
use crate::error::StoreError;
use crate::store::{Settlement, Ticket};

/// Settlements of events that are not in the log, of delivered ones that are kept, and the tickets of those to spill.
type Sorted<'a> = (Vec<&'a Settlement>, Vec<&'a Settlement>, Vec<Ticket>);

impl Log {
    /// Settles the events that are in the log only, and returns the others. A delivered event needs no write, unless it is kept. Any
    /// other verdict is spilled a moment later: until then, a crash brings the event again.
    pub(super) async fn settle<'a>(
        &self,
        settlements: &'a [Settlement],
        delete: bool,
    ) -> Result<Vec<&'a Settlement>, StoreError> {
        // No spill begins while events are being kept: it would write the same rows and attempts.
        let keeping = if delete { None } else { Some(self.spilling.read().await) };
        let (others, kept, decided) = loop {
            match self.try_settle(settlements, delete) {
                Some(sorted) => break sorted,
                // A spill that is being written decides whether the event is in the log or in the table.
                None => drop(self.spilling.read().await),
            }
        };
        if !kept.is_empty() {
            let kept_now = self.store.log_keep(&kept).await;
            let mut ledger = self.ledger();
            for settlement in &kept {
                match &kept_now {
                    Ok(()) if ledger.delivered(settlement.ticket()) => self.count_delivered(1),
                    Ok(()) => {}
                    Err(_) => ledger.undecide(settlement.ticket()),
                }
            }
            drop(ledger);
            kept_now?;
        }
        drop(keeping);
        if !decided.is_empty() && self.failing().is_some() {
            let spilled = self.spill(Which::Settled).await;
            if spilled.is_err() {
                let mut ledger = self.ledger();
                decided.iter().for_each(|ticket| ledger.undecide(*ticket));
            }
            spilled?;
        }
        self.changed.notify_one();
        Ok(others)
    }

    /// Settles in memory. Returns the events of others, those to keep, and those to spill; `None` if one is being spilled.
    fn try_settle<'a>(&self, settlements: &'a [Settlement], delete: bool) -> Option<Sorted<'a>> {
        let (mut others, mut kept, mut decided) = (Vec::new(), Vec::new(), Vec::new());
        let (mut delivered, now) = (0, clock::now());
        let mut ledger = self.ledger();
        if settlements.iter().any(|settlement| ledger.is_spilling(settlement.ticket())) {
            return None;
        }
        for settlement in settlements {
            let ticket = settlement.ticket();
            if !ledger.holds(ticket) {
                others.push(settlement);
            } else if settlement.verdict().change != Change::Deliver || ledger.is_doubtful(ticket) {
                ledger.decide(settlement.copy(), now);
                decided.push(ticket);
            } else if delete {
                ledger.delivered(ticket);
                delivered += 1;
            } else {
                ledger.decide(settlement.copy(), now);
                kept.push(settlement);
            }
        }
        drop(ledger);
        self.count_delivered(delivered);
        Some((others, kept, decided))
    }

    fn count_delivered(&self, events: u64) {
        self.counters.delivered.fetch_add(events, Ordering::Relaxed);
    }

    /// Gives rows and leases to the events of these tickets that are in the log only.
    pub(super) async fn lease(&self, tickets: &[Ticket]) -> Result<(), StoreError> {
        let ours: Vec<Ticket> = {
            let ledger = self.ledger();
            tickets.iter().copied().filter(|ticket| ledger.holds(*ticket)).collect()
        };
        if ours.is_empty() {
            return Ok(());
        }
        self.spill(Which::Tickets(&ours)).await.map(drop)
    }
}
