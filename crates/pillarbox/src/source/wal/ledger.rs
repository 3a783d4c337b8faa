//! The ledger: the transactions that were read from the log, their events that are not settled, and the position below which every
//! event is delivered or spilled. Pure: callers pass in the time.
//!
//! Transactions arrive in the order of their commits. The position is the end of the last one before which nothing is open. A
//! spill takes every open event up to its position, so that the position alone says what was spilled.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::snapshot::Snapshot;
use crate::delivery::{Change, Verdict};
use crate::event::StoredEvent;
use crate::store::postgres::lsn::Lsn;
use crate::store::postgres::spill::Form;
use crate::store::{Settlement, Ticket};

mod spill;

pub(super) use spill::{Batch, Which};

/// The most events and bytes that are read and not settled.
pub(super) const MOST_EVENTS: usize = 8192;
pub(super) const MOST_BYTES: usize = 32 * 1024 * 1024;
/// The memory of an event besides its payload, roughly.
const OVERHEAD: usize = 512;

/// An event that was read.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) event: Arc<StoredEvent>,
    /// The reason why it is a dead letter, if it is one.
    pub(super) unreadable: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Ledger {
    transactions: VecDeque<Transaction>,
    /// The number of the first of `transactions`.
    first: u64,
    /// The number of the first transaction that may not be visible yet.
    unseen: u64,
    events: HashMap<Uuid, Entry>,
    /// Events to hand out. Some may be spilled by now.
    ready: VecDeque<Uuid>,
    bytes: usize,
    confirmed: Lsn,
    read_until: Lsn,
}

#[derive(Debug)]
struct Transaction {
    end: Lsn,
    /// The number of the transaction; `None` if there was none, only a keepalive.
    xid: Option<u32>,
    /// The events, until they are visible.
    hidden: Vec<Uuid>,
    open: usize,
    read_at: Instant,
    committed_at: Option<DateTime<Utc>>,
}

#[derive(Debug)]
struct Entry {
    event: Arc<StoredEvent>,
    transaction: u64,
    index: usize,
    /// When it was read, handed out, or settled.
    since: Instant,
    state: State,
    /// Whether it goes into the table as soon as possible, and is not handed out.
    urgent: bool,
    /// Whether a spill is being written with it.
    spilling: bool,
    /// Whether a spill with it failed, and may have been written nevertheless: the event may have a row. The next spill finds out.
    /// Until then it is neither handed out nor removed.
    doubtful: bool,
}

#[derive(Debug)]
enum State {
    Waiting,
    Held { ticket: Ticket, lease: Duration },
    Settled { settlement: Settlement, lease: Duration },
}

impl Entry {
    fn ticket(&self) -> Option<Ticket> {
        match &self.state {
            State::Waiting => None,
            State::Held { ticket, .. } => Some(*ticket),
            State::Settled { settlement, .. } => Some(settlement.ticket()),
        }
    }

    fn form(&self) -> Form {
        match &self.state {
            State::Waiting => Form::Settled(release(&self.event, Uuid::nil())),
            State::Held { ticket, lease } => {
                Form::Leased { event: Arc::clone(&self.event), ticket: *ticket, lease: *lease }
            }
            State::Settled { settlement, .. } => Form::Settled(settlement.copy()),
        }
    }
}

/// Returns the verdict of an event that is due at once.
pub(super) fn release(event: &Arc<StoredEvent>, token: Uuid) -> Settlement {
    let verdict = Verdict::of(Change::Release { after: Duration::ZERO }, event.attempts);
    Settlement::of(Arc::clone(event), Ticket { id: event.id, token }, verdict)
}

/// Returns the memory of an event, roughly.
pub(super) fn weight(event: &StoredEvent) -> usize {
    let headers: usize = event.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    event.payload.get().len() + headers + OVERHEAD
}

impl Ledger {
    pub(super) fn new(confirmed: Lsn) -> Self {
        Self { confirmed, read_until: confirmed, ..Self::default() }
    }

    /// Returns the position below which every event is delivered or spilled.
    pub(super) fn confirmed(&self) -> Lsn {
        self.confirmed
    }

    /// Returns the end of the last transaction that was read.
    pub(super) fn read_until(&self) -> Lsn {
        self.read_until
    }

    pub(super) fn has_room(&self) -> bool {
        self.events.len() < MOST_EVENTS && self.bytes < MOST_BYTES && self.transactions.len() < 4 * MOST_EVENTS
    }

    /// Returns the number of events that can be handed out, roughly.
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Returns since when the oldest transaction waits.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.transactions.iter().find(|transaction| transaction.open > 0).map(|transaction| transaction.read_at)
    }

    /// Returns when the oldest transaction with open events was committed.
    pub(super) fn oldest_commit(&self) -> Option<DateTime<Utc>> {
        self.transactions.iter().find(|transaction| transaction.open > 0)?.committed_at
    }

    /// Notes when the transaction that was added last was committed.
    pub(super) fn committed(&mut self, end: Lsn, at: DateTime<Utc>) {
        if let Some(last) = self.transactions.back_mut().filter(|last| last.end == end) {
            last.committed_at = Some(at);
        }
    }

    /// Adds a transaction. With `urgent`, its events go into the table. Returns the number of events that are in the ledger
    /// already, which are left out: an id is one event.
    pub(super) fn add(&mut self, xid: u32, end: Lsn, events: Vec<Read>, urgent: bool, now: Instant) -> usize {
        let number = self.first + self.transactions.len() as u64;
        let mut hidden = Vec::with_capacity(events.len());
        let mut again = 0;
        for (index, Read { event, unreadable }) in events.into_iter().enumerate() {
            let id = event.id;
            if self.events.contains_key(&id) {
                again += 1;
                continue;
            }
            self.bytes += weight(&event);
            let state = match unreadable {
                None => State::Waiting,
                Some(error) => {
                    let verdict = Verdict::of(Change::Fail { error }, 0);
                    let ticket = Ticket { id, token: Uuid::nil() };
                    State::Settled {
                        settlement: Settlement::of(Arc::clone(&event), ticket, verdict),
                        lease: Duration::ZERO,
                    }
                }
            };
            hidden.push(id);
            let entry = Entry {
                event,
                transaction: number,
                index,
                since: now,
                state,
                urgent,
                spilling: false,
                doubtful: false,
            };
            self.events.insert(id, entry);
        }
        let open = hidden.len();
        self.transactions.push_back(Transaction {
            end,
            xid: Some(xid),
            hidden,
            open,
            read_at: now,
            committed_at: None,
        });
        self.read_until = self.read_until.max(end);
        self.advance();
        again
    }

    /// Notes that everything before this position has been read. It counts once everything before it is settled.
    pub(super) fn alive(&mut self, end: Lsn, now: Instant) {
        if end <= self.read_until {
            return;
        }
        self.read_until = end;
        match self.transactions.back_mut() {
            Some(last) if last.xid.is_none() => last.end = end,
            _ => {
                let idle =
                    Transaction { end, xid: None, hidden: Vec::new(), open: 0, read_at: now, committed_at: None };
                self.transactions.push_back(idle);
            }
        }
        self.advance();
    }

    /// Returns since when a transaction waits to be visible, if one does.
    pub(super) fn hidden_since(&self) -> Option<Instant> {
        self.unseen().map(|transaction| transaction.read_at)
    }

    fn unseen(&self) -> Option<&Transaction> {
        self.transactions.get(usize::try_from(self.unseen - self.first).ok()?)
    }

    /// Makes the events of visible transactions available, in order. Returns their number.
    pub(super) fn reveal(&mut self, snapshot: &Snapshot) -> usize {
        let before = self.ready.len();
        while let Some(next) = self.unseen()
            && next.xid.is_none_or(|xid| snapshot.sees(xid))
        {
            let place = usize::try_from(self.unseen - self.first).unwrap_or_default();
            let hidden = std::mem::take(&mut self.transactions[place].hidden);
            let events = &self.events;
            self.ready.extend(hidden.into_iter().filter(|id| events.get(id).is_some_and(|entry| !entry.urgent)));
            self.unseen += 1;
        }
        self.ready.len() - before
    }

    /// Hands out events.
    pub(super) fn take(
        &mut self,
        limit: usize,
        bytes: usize,
        token: Uuid,
        lease: Duration,
        now: Instant,
    ) -> Vec<Arc<StoredEvent>> {
        let (mut taken, mut size) = (Vec::new(), 0);
        while taken.len() < limit && (size < bytes || taken.is_empty()) {
            let Some(id) = self.ready.pop_front() else { break };
            let Some(entry) = self.events.get_mut(&id) else { continue };
            if entry.spilling || entry.doubtful || !matches!(entry.state, State::Waiting) {
                continue;
            }
            entry.state = State::Held { ticket: Ticket { id, token }, lease };
            entry.since = now;
            size += entry.event.payload.get().len();
            taken.push(Arc::clone(&entry.event));
        }
        taken
    }

    /// Returns whether this ticket holds an event of the ledger.
    pub(super) fn holds(&self, ticket: Ticket) -> bool {
        self.events.get(&ticket.id).is_some_and(|entry| entry.ticket() == Some(ticket))
    }

    /// Returns whether a spill is being written with this event.
    pub(super) fn is_spilling(&self, ticket: Ticket) -> bool {
        self.events.get(&ticket.id).is_some_and(|entry| entry.spilling && entry.ticket() == Some(ticket))
    }

    /// Returns whether this event may have a row, so that its verdict must be written.
    pub(super) fn is_doubtful(&self, ticket: Ticket) -> bool {
        self.events.get(&ticket.id).is_some_and(|entry| entry.doubtful)
    }

    /// Notes the verdict on a held event, to be spilled.
    pub(super) fn decide(&mut self, settlement: Settlement, now: Instant) {
        if let Some(entry) = self.events.get_mut(&settlement.ticket().id)
            && let State::Held { lease, .. } | State::Settled { lease, .. } = entry.state
        {
            entry.since = now;
            entry.state = State::Settled { settlement, lease };
        }
    }

    /// Takes a verdict back that could not be spilled.
    pub(super) fn undecide(&mut self, ticket: Ticket) {
        if let Some(entry) = self.events.get_mut(&ticket.id)
            && let State::Settled { lease, .. } = entry.state
            && entry.ticket() == Some(ticket)
        {
            entry.state = State::Held { ticket, lease };
        }
    }

    /// Gives a held event back.
    pub(super) fn give_back(&mut self, ticket: Ticket, now: Instant) {
        if self.holds(ticket)
            && let Some(entry) = self.events.get(&ticket.id)
        {
            self.decide(release(&entry.event, ticket.token), now);
        }
    }

    /// Removes a delivered event. Returns whether it was there.
    pub(super) fn delivered(&mut self, ticket: Ticket) -> bool {
        let there = self.holds(ticket) && self.remove(ticket.id);
        self.advance();
        there
    }

    fn remove(&mut self, id: Uuid) -> bool {
        let Some(entry) = self.events.remove(&id) else { return false };
        self.bytes -= weight(&entry.event);
        let place = usize::try_from(entry.transaction - self.first).unwrap_or(usize::MAX);
        if let Some(transaction) = self.transactions.get_mut(place) {
            transaction.open -= 1;
        }
        true
    }

    /// Moves the position over everything that is settled.
    fn advance(&mut self) {
        while let Some(first) = self.transactions.front()
            && first.open == 0
        {
            self.confirmed = self.confirmed.max(first.end);
            self.transactions.pop_front();
            self.first += 1;
        }
        self.unseen = self.unseen.max(self.first);
    }

    /// Returns whether a spill failed, and may have been written nevertheless.
    pub(super) fn has_doubts(&self) -> bool {
        self.events.values().any(|entry| entry.doubtful)
    }

    /// Returns whether nothing is open.
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty() && self.transactions.is_empty()
    }

    /// Moves the position over a transaction that was spilled beside the ledger, which is empty.
    pub(super) fn jump(&mut self, end: Lsn) {
        self.confirmed = self.confirmed.max(end);
        self.read_until = self.read_until.max(end);
    }
}

#[cfg(test)]
mod tests;
