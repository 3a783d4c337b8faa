//! The simulated outbox table: the statements of a real store on rows in memory. Pure; callers pass in the time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use pillarbox::event::StoredEvent;
use pillarbox::store::Ticket;
use uuid::Uuid;

mod claim;
mod parking;
mod people;
mod row;
mod settle;
mod upkeep;

use row::after;
pub use row::{DeliveryRow, Moment, Row};

/// All rows.
#[derive(Debug, Default)]
pub struct Table {
    /// The rows, by `seq`.
    pub rows: BTreeMap<i64, Row>,
    pending: BTreeSet<i64>,
    last_seq: i64,
    by_id: HashMap<Uuid, i64>,
    relays: upkeep::Relays,
}

impl Table {
    /// Emits an event, and returns its `seq`.
    pub fn emit(&mut self, mut event: StoredEvent, deliver_at: Option<Moment>, now: Moment) -> i64 {
        self.last_seq += 1;
        let seq = self.last_seq;
        event.seq = seq;
        event.created_at = now;
        self.by_id.insert(event.id, seq);
        self.pending.insert(seq);
        self.rows.insert(seq, Row::emitted(event, deliver_at.unwrap_or(now).max(now)));
        seq
    }

    /// Deletes an event with its details.
    pub fn remove(&mut self, seq: i64) {
        self.pending.remove(&seq);
        if let Some(row) = self.rows.remove(&seq) {
            self.by_id.remove(&row.event.id);
        }
    }

    /// Returns the row of an event.
    pub fn get(&self, id: Uuid) -> Option<&Row> {
        self.by_id.get(&id).and_then(|seq| self.rows.get(seq))
    }

    fn get_mut(&mut self, id: Uuid) -> Option<&mut Row> {
        self.by_id.get(&id).and_then(|seq| self.rows.get_mut(seq))
    }

    /// Returns the events that are neither delivered nor failed.
    pub fn pending(&self) -> impl Iterator<Item = &Row> {
        self.pending.iter().filter_map(|seq| self.rows.get(seq))
    }

    /// Gives a dropped claim back.
    pub fn release(&mut self, ticket: Ticket, now: Moment) {
        if let Some(row) = self.get_mut(ticket.id).filter(|row| row.is_held_by(ticket)) {
            row.claimed_by = None;
            row.due_at = now;
            row.updated_at = now;
        }
    }

    /// Renews a lease that is still held. Returns whether it was.
    pub fn renew(&mut self, ticket: Ticket, lease: Duration, now: Moment) -> bool {
        let Some(row) = self.get_mut(ticket.id).filter(|row| row.is_held_by(ticket)) else { return false };
        row.due_at = after(now, lease);
        row.updated_at = now;
        true
    }

    /// Sets the losses that count against an event.
    pub fn blame(&mut self, ticket: Ticket, losses: u32) {
        if let Some(row) = self.get_mut(ticket.id).filter(|row| row.is_held_by(ticket)) {
            row.event.claims = losses;
        }
    }

    /// Returns the time until the next event is due.
    pub fn next_due(&self, now: Moment) -> Option<Duration> {
        let waiting = self.pending().filter(|row| row.parked_on.is_none());
        waiting.map(|row| row.due_at).min().map(|due| (due - now).to_std().unwrap_or_default())
    }

    /// Returns the number of events that are due and free.
    pub fn remaining(&self, now: Moment) -> u64 {
        self.pending().filter(|row| row.is_due(now)).count() as u64
    }

    /// Returns the number of rows of a table of the real schema; `None` for a table that is not simulated.
    pub fn count(&self, table: &str) -> Option<usize> {
        match table {
            "outbox_event" => Some(self.rows.len()),
            "outbox_delivery" => Some(self.rows.values().map(|row| row.deliveries.len()).sum()),
            "outbox_attempt" => Some(self.rows.values().map(|row| row.attempts.len()).sum()),
            "outbox_relay" => Some(self.relays.relays.len()),
            "outbox_lane" => Some(self.relays.lanes.len()),
            "outbox_figure" => Some(self.relays.minutes.len()),
            _ => None,
        }
    }
}
