//! The simulated outbox table: what the statements of a real store do, on rows in memory, at a time that is given. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use pillarbox::delivery::{Change, Delivery, Verdict};
use pillarbox::event::{Status, StoredEvent};
use pillarbox::store::{
    Ask, EventKind, LOSSES_BEFORE_ALONE, LOSSES_BEFORE_APART, LOSSES_BEFORE_FAILED, OnFailed, Order, Ticket,
};
use uuid::Uuid;

/// A moment of the database's clock.
pub type Moment = DateTime<Utc>;

/// One event with its deliveries.
#[derive(Debug, Clone)]
pub struct Row {
    /// The columns that a claim reads.
    pub event: StoredEvent,
    /// `pending`, `delivered` or `failed`.
    pub status: Status,
    /// When it is due; while it is leased, when the lease ends.
    pub due_at: Moment,
    /// The token of its lease.
    pub claimed_by: Option<Uuid>,
    /// What it waits for.
    pub parked_on: Option<String>,
    /// The last error.
    pub error: String,
    /// `outbox_delivery`.
    pub deliveries: BTreeMap<String, DeliveryRow>,
    /// It was emitted for later.
    pub delayed: bool,
}

/// A row of `outbox_delivery`.
#[derive(Debug, Clone)]
pub struct DeliveryRow {
    status: Status,
    attempts: u32,
    due_at: Moment,
    parked: bool,
    error: String,
}

impl Row {
    fn is_due(&self, now: Moment) -> bool {
        self.status == Status::Pending && self.parked_on.is_none() && self.due_at <= now
    }

    fn losses(&self) -> u32 {
        self.event.claims + u32::from(self.claimed_by.is_some())
    }

    fn aggregate(&self) -> (&str, &str) {
        (&self.event.aggregate_type, &self.event.aggregate_id)
    }

    fn is_held_by(&self, ticket: Ticket) -> bool {
        self.status == Status::Pending && self.claimed_by == Some(ticket.token)
    }

    /// Whether it must be sent before later events of its aggregate.
    fn blocks(&self, on_failed: OnFailed, now: Moment) -> bool {
        match self.status {
            Status::Delivered => false,
            Status::Failed => on_failed == OnFailed::Block,
            Status::Pending => {
                let untried = self.event.attempts == 0 && self.losses() == 0 && self.error.is_empty();
                !(self.delayed && self.due_at > now && untried && self.parked_on.is_none())
            }
        }
    }

    fn read_deliveries(&self, now: Moment) -> Vec<Delivery> {
        let read = |(name, row): (&String, &DeliveryRow)| Delivery {
            status: row.status,
            due_in: (row.due_at - now).to_std().unwrap_or_default(),
            parked: row.parked,
            error: row.error.clone(),
            ..Delivery::open(name, row.attempts)
        };
        self.deliveries.iter().map(read).collect()
    }
}

/// All rows.
#[derive(Debug, Default)]
pub struct Table {
    /// By `seq`.
    pub rows: BTreeMap<i64, Row>,
    pending: BTreeSet<i64>,
    last_seq: i64,
    by_id: HashMap<Uuid, i64>,
}

fn after(now: Moment, wait: Duration) -> Moment {
    now + TimeDelta::from_std(wait).unwrap_or(TimeDelta::days(365))
}

impl Table {
    /// Emits, and returns the `seq`.
    pub fn emit(&mut self, mut event: StoredEvent, deliver_at: Option<Moment>, now: Moment) -> i64 {
        self.last_seq += 1;
        let seq = self.last_seq;
        event.seq = seq;
        event.created_at = now;
        self.by_id.insert(event.id, seq);
        self.pending.insert(seq);
        let row = Row {
            event,
            status: Status::Pending,
            due_at: deliver_at.unwrap_or(now).max(now),
            claimed_by: None,
            parked_on: None,
            error: String::new(),
            deliveries: BTreeMap::new(),
            delayed: deliver_at.is_some_and(|at| at > now),
        };
        self.rows.insert(seq, row);
        seq
    }

    /// The row of an event.
    pub fn get(&self, id: Uuid) -> Option<&Row> {
        self.by_id.get(&id).and_then(|seq| self.rows.get(seq))
    }

    fn get_mut(&mut self, id: Uuid) -> Option<&mut Row> {
        self.by_id.get(&id).and_then(|seq| self.rows.get_mut(seq))
    }

    /// Events that are neither delivered nor failed.
    pub fn pending(&self) -> impl Iterator<Item = &Row> {
        self.pending.iter().filter_map(|seq| self.rows.get(seq))
    }

    /// Claims by lease.
    pub fn claim(&mut self, ask: Ask, token: Uuid, now: Moment) -> Vec<(StoredEvent, Vec<Delivery>)> {
        let line = match ask.order {
            Order::None => self.line(ask, now),
            Order::Aggregate(on_failed) => self.ordered_line(ask, on_failed, now),
        };
        let picked = self.pick(&line, ask);
        picked.into_iter().filter_map(|seq| self.lease(seq, ask, token, now)).collect()
    }

    /// What is due, oldest first.
    fn line(&self, ask: Ask, now: Moment) -> Vec<i64> {
        let due = self.pending().filter(|row| row.is_due(now) && row.losses() < ask.losses_below());
        let mut line: Vec<(Moment, i64)> = due.map(|row| (row.due_at, row.event.seq)).collect();
        line.sort_unstable();
        line.into_iter().map(|(_, seq)| seq).take(ask.limit).collect()
    }

    /// The same, each only behind all earlier ones of its aggregate.
    fn ordered_line(&self, ask: Ask, on_failed: OnFailed, now: Moment) -> Vec<i64> {
        let mut turns: HashMap<(&str, &str), Option<Moment>> = HashMap::new();
        let mut line: Vec<(Moment, i64)> = Vec::new();
        for row in self.rows.values().filter(|row| row.status != Status::Delivered) {
            let turn = turns.entry(row.aggregate()).or_insert(Some(DateTime::UNIX_EPOCH));
            let takes = row.is_due(now) && row.losses() < ask.losses_below();
            match turn {
                Some(turn) if takes => {
                    *turn = (*turn).max(row.due_at);
                    line.push((*turn, row.event.seq));
                }
                _ if row.blocks(on_failed, now) => *turn = None,
                _ => {}
            }
        }
        line.sort_unstable();
        line.into_iter().map(|(_, seq)| seq).take(ask.limit).collect()
    }

    /// Those that have lost as often as the first one, up to the bytes: any number of those that are no suspects, fewer
    /// suspects the more they have lost. In order, only a beginning of the line.
    fn pick(&self, line: &[i64], ask: Ask) -> Vec<i64> {
        let class = |row: &Row| row.losses().max(LOSSES_BEFORE_APART - 1);
        let rows = || line.iter().filter_map(|seq| self.rows.get(seq));
        let Some(first) = rows().next().map(class) else { return Vec::new() };
        let most = match first.checked_sub(LOSSES_BEFORE_APART) {
            None => ask.limit,
            Some(further) => (64 >> (3 * further)).max(1),
        };
        let mut bytes = 0;
        let mut picked = Vec::new();
        for row in rows() {
            if class(row) != first && ask.order == Order::None {
                continue;
            }
            if class(row) != first || picked.len() >= most || (!picked.is_empty() && bytes >= ask.bytes) {
                break;
            }
            bytes += row.event.payload.get().len();
            picked.push(row.event.seq);
        }
        picked
    }

    fn lease(&mut self, seq: i64, ask: Ask, token: Uuid, now: Moment) -> Option<(StoredEvent, Vec<Delivery>)> {
        let row = self.rows.get_mut(&seq)?;
        let losses = row.losses();
        // What goes alone is blamed only when its relay says so.
        row.event.claims = losses - u32::from(losses >= LOSSES_BEFORE_ALONE);
        row.claimed_by = Some(token);
        row.due_at = after(now, ask.lease);
        let mut event = row.event.clone();
        event.claims = losses;
        Some((event, row.read_deliveries(now)))
    }

    /// Settles what is still held by its token; returns whether it was.
    pub fn settle(&mut self, ticket: Ticket, verdict: &Verdict, delete: bool, now: Moment) -> bool {
        let Some(row) = self.get_mut(ticket.id).filter(|row| row.is_held_by(ticket)) else { return false };
        row.claimed_by = None;
        row.parked_on = None;
        let (status, wait) = match &verdict.change {
            Change::Deliver => (Status::Delivered, Duration::ZERO),
            Change::Fail { .. } => (Status::Failed, Duration::ZERO),
            Change::Retry { after, .. } | Change::Release { after } => (Status::Pending, *after),
            Change::Park { on, .. } => {
                row.parked_on = Some(on.clone());
                (Status::Pending, Duration::ZERO)
            }
        };
        row.status = status;
        row.due_at = after(now, wait);
        if !matches!(verdict.change, Change::Release { .. }) {
            row.event.attempts = verdict.attempts;
            row.event.claims = 0;
            row.error = match &verdict.change {
                Change::Retry { error, .. } | Change::Fail { error } | Change::Park { error, .. } => error.clone(),
                Change::Deliver | Change::Release { .. } => String::new(),
            };
        }
        for delivery in &verdict.deliveries {
            let kept = DeliveryRow {
                status: delivery.status,
                attempts: delivery.attempts,
                due_at: after(now, delivery.due_in),
                parked: delivery.parked,
                error: delivery.error.clone(),
            };
            row.deliveries.insert(delivery.destination.clone(), kept);
        }
        let seq = row.event.seq;
        if status != Status::Pending {
            self.pending.remove(&seq);
        }
        if status == Status::Delivered && delete {
            self.rows.remove(&seq);
        }
        true
    }

    /// Gives a dropped claim back.
    pub fn release(&mut self, ticket: Ticket, now: Moment) {
        if let Some(row) = self.get_mut(ticket.id).filter(|row| row.is_held_by(ticket)) {
            row.claimed_by = None;
            row.due_at = now;
        }
    }

    /// Renews a lease that is still held; returns whether it was.
    pub fn renew(&mut self, ticket: Ticket, lease: Duration, now: Moment) -> bool {
        let Some(row) = self.get_mut(ticket.id).filter(|row| row.is_held_by(ticket)) else { return false };
        row.due_at = after(now, lease);
        true
    }

    /// So many losses count against it.
    pub fn blame(&mut self, ticket: Ticket, losses: u32) {
        if let Some(row) = self.get_mut(ticket.id).filter(|row| row.is_held_by(ticket)) {
            row.event.claims = losses;
        }
    }

    /// Fails what has killed its relays too often.
    pub fn sweep(&mut self, error: &str, now: Moment) -> Vec<StoredEvent> {
        let killers = self.pending().filter(|row| row.is_due(now) && row.losses() >= LOSSES_BEFORE_FAILED);
        let killers: Vec<i64> = killers.map(|row| row.event.seq).collect();
        let mut swept = Vec::new();
        for seq in killers {
            self.pending.remove(&seq);
            if let Some(row) = self.rows.get_mut(&seq) {
                row.event.claims = row.losses();
                row.claimed_by = None;
                row.status = Status::Failed;
                row.error = error.to_owned();
                swept.push(row.event.clone());
            }
        }
        swept
    }

    /// What events and deliveries are parked on, each once.
    pub fn parked_on(&self) -> BTreeSet<String> {
        let deliveries = |row: &Row| {
            let parked = row.deliveries.iter().filter(|(_, delivery)| delivery.parked);
            parked.map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        self.pending().flat_map(|row| row.parked_on.clone().into_iter().chain(deliveries(row))).collect()
    }

    /// The kinds of the events parked on this, each once.
    pub fn parked_kinds(&self, on: &str) -> Vec<EventKind> {
        let parked = self.pending().filter(|row| row.parked_on.as_deref() == Some(on));
        let kinds: BTreeSet<(&str, &str)> =
            parked.map(|row| (row.event.event_type.as_str(), row.event.aggregate_type.as_str())).collect();
        let kind = |(event_type, aggregate_type): (&str, &str)| EventKind {
            event_type: event_type.to_owned(),
            aggregate_type: aggregate_type.to_owned(),
        };
        kinds.into_iter().map(kind).collect()
    }

    /// Makes parked events due, those first that wait longest. Without a kind also those of which only a delivery is parked.
    pub fn unpark(&mut self, on: &str, kind: Option<&EventKind>, limit: usize, now: Moment) -> u64 {
        let fits = |row: &&Row| match kind {
            Some(kind) => {
                row.parked_on.as_deref() == Some(on)
                    && row.event.event_type == kind.event_type
                    && row.event.aggregate_type == kind.aggregate_type
            }
            None => {
                let free = row.claimed_by.is_none() || row.due_at <= now;
                let shared = free && row.deliveries.get(on).is_some_and(|delivery| delivery.parked);
                shared || row.parked_on.as_deref() == Some(on)
            }
        };
        let mut parked: Vec<(Moment, i64)> =
            self.pending().filter(fits).map(|row| (row.due_at, row.event.seq)).collect();
        parked.sort_unstable();
        parked.truncate(limit);
        for (_, seq) in &parked {
            if let Some(row) = self.rows.get_mut(seq) {
                row.parked_on = None;
                row.due_at = now;
                if let Some(delivery) = row.deliveries.get_mut(on).filter(|delivery| delivery.parked) {
                    delivery.parked = false;
                    delivery.due_at = now;
                }
            }
        }
        parked.len() as u64
    }

    /// How long until the next event is due.
    pub fn next_due(&self, now: Moment) -> Option<Duration> {
        let waiting = self.pending().filter(|row| row.parked_on.is_none());
        waiting.map(|row| row.due_at).min().map(|due| (due - now).to_std().unwrap_or_default())
    }

    /// How many events are due and free.
    pub fn remaining(&self, now: Moment) -> u64 {
        self.pending().filter(|row| row.is_due(now)).count() as u64
    }
}
