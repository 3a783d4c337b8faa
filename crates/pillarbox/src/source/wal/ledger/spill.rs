//! Spill: chooses the events that go into the table. A spill always contains every open event up to its position.

use std::time::{Duration, Instant};

use uuid::Uuid;

use super::{Entry, Ledger, State};
use crate::store::Ticket;
use crate::store::postgres::lsn::Lsn;
use crate::store::postgres::spill::Spilled;

/// How long an event may wait or be sent before it is spilled: it would hold the log.
pub(super) const SLOW: Duration = Duration::from_secs(1);
/// How long a verdict waits for others, and for earlier events that are being sent: these are spilled with it.
pub(super) const GATHER: Duration = Duration::from_millis(100);
/// The number of verdicts that do not wait for others.
const MANY: usize = 500;

/// Which events a spill is for. It contains all earlier ones, too.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum Which<'a> {
    /// Verdicts that are to be written, and what takes too long.
    Due,
    /// Events with a verdict, at once.
    Settled,
    /// These events.
    Tickets(&'a [Ticket]),
    Everything,
}

/// A spill that is being written.
#[derive(Debug)]
pub(in super::super) struct Batch {
    pub(in super::super) until: Lsn,
    pub(in super::super) events: Vec<Spilled>,
    pub(super) ids: Vec<Uuid>,
    through: u64,
}

impl Ledger {
    /// Begins a spill: returns every open event up to the last one that needs it. Only visible events are spilled, because other
    /// relays send them at once.
    pub(in super::super) fn begin_spill(&mut self, which: Which<'_>, now: Instant) -> Option<Batch> {
        let visible = || self.events.values().filter(|entry| entry.transaction < self.unseen);
        let settled = visible().filter(|entry| matches!(entry.state, State::Settled { .. })).count();
        let age = |entry: &Entry| now.saturating_duration_since(entry.since);
        let needs = |entry: &&Entry| match which {
            Which::Everything => true,
            Which::Tickets(tickets) => entry.ticket().is_some_and(|ticket| tickets.contains(&ticket)),
            Which::Settled => matches!(entry.state, State::Settled { .. }),
            Which::Due => match entry.state {
                _ if entry.doubtful => true,
                State::Settled { .. } => entry.urgent || settled >= MANY || age(entry) >= GATHER,
                State::Held { .. } => age(entry) >= SLOW,
                State::Waiting => entry.urgent || age(entry) >= SLOW,
            },
        };
        let through = visible().filter(needs).map(|entry| entry.transaction).max()?;
        let place = usize::try_from(through - self.first).ok()?;
        let until = self.transactions.get(place)?.end;
        let mut taken: Vec<&mut Entry> =
            self.events.values_mut().filter(|entry| entry.transaction <= through).collect();
        taken.sort_unstable_by_key(|entry| (entry.transaction, entry.index));
        let (mut events, mut ids) = (Vec::with_capacity(taken.len()), Vec::with_capacity(taken.len()));
        for entry in taken {
            entry.spilling = true;
            let end = self.transactions[usize::try_from(entry.transaction - self.first).unwrap_or_default()].end;
            events.push(Spilled { end, form: entry.form() });
            ids.push(entry.event.id);
        }
        Some(Batch { until, events, ids, through })
    }

    /// Ends a spill that was written: its events belong to the table.
    pub(in super::super) fn end_spill(&mut self, batch: &Batch) {
        for id in &batch.ids {
            self.remove(*id);
        }
        let events = &self.events;
        self.ready.retain(|id| events.contains_key(id));
        debug_assert!(self.events.values().all(|entry| entry.transaction > batch.through));
        self.advance();
    }

    /// Ends a spill that was not written, or perhaps not.
    pub(in super::super) fn abandon_spill(&mut self, batch: &Batch) {
        for id in &batch.ids {
            if let Some(entry) = self.events.get_mut(id) {
                (entry.spilling, entry.doubtful) = (false, true);
            }
        }
    }
}
