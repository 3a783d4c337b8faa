//! The transactions of the stream: small ones go whole into the ledger; large ones are poured into the table while they arrive.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::super::content::{self, Origin};
use super::super::frame::{Frame, Relation, Value};
use super::super::ledger::{Read, Which, release, weight};
use super::super::row::{self, Layout};
use super::super::snapshot::Snapshot;
use super::{Leader, Trouble};
use crate::clock;
use crate::delivery::{Change, Verdict};
use crate::error::StoreError;
use crate::store::postgres::lsn::Lsn;
use crate::store::postgres::spill::{Pour, Spill};
use crate::store::{Settlement, Ticket};

/// A transaction with more events or bytes than this is spilled, so that it need not fit into memory.
const LARGE: usize = 2000;
const LARGE_BYTES: usize = 8 * 1024 * 1024;
/// The pause between two looks whether a large transaction is visible.
const LOOK: Duration = Duration::from_millis(10);

/// A transaction whose end has not arrived.
pub(super) struct Partial {
    xid: u32,
    commit: Lsn,
    committed_at: DateTime<Utc>,
    /// The events that are not poured.
    events: Vec<Read>,
    /// The number of messages and rows so far.
    count: u32,
    bytes: usize,
    pour: Option<Pour>,
    poured: u64,
}

impl Leader {
    pub(super) async fn handle(&mut self, frames: Vec<Frame>) -> Result<(), Trouble> {
        let has_planned = self.log.ledger().hidden_since().is_some();
        for frame in frames {
            match frame {
                Frame::Begin { commit, at, xid } => {
                    let events = Vec::new();
                    let committed_at = at;
                    let begun =
                        Partial { xid, commit, committed_at, events, count: 0, bytes: 0, pour: None, poured: 0 };
                    self.partial = Some(begun);
                }
                Frame::Message { prefix, content } => match self.prefix.origin(&prefix) {
                    Origin::Ours => self.message(&content).await?,
                    Origin::Forged => self.forged(),
                    Origin::Other => {}
                },
                Frame::Relation(relation) => self.relation(relation).await?,
                Frame::Row { table, values } => self.row(table, &values).await?,
                Frame::Loose { prefix } if self.prefix.origin(&prefix) != Origin::Other => self.forged(),
                Frame::Commit { end } => self.commit(end).await?,
                Frame::Alive { end, .. } if self.partial.is_none() => self.log.ledger().alive(end, clock::now()),
                Frame::Loose { .. } | Frame::Alive { .. } | Frame::Other => {}
            }
        }
        // One look for all of these transactions, and the planned one if others wait already.
        if self.log.ledger().hidden_since().is_some() && self.reveal() && (!has_planned || self.look_at.is_none()) {
            self.plan_look();
        }
        Ok(())
    }

    fn forged(&self) {
        if self.log.counters.forged.fetch_add(1, Ordering::Relaxed) == 0 {
            tracing::warn!(
                "a message in the log claims to be an event, but does not carry the secret or is not of a transaction; such \
                 messages are ignored and counted"
            );
        }
    }

    async fn message(&mut self, content: &[u8]) -> Result<(), StoreError> {
        let Some(partial) = &mut self.partial else { return Ok(()) };
        let read = match content::read(content) {
            Ok(event) => Read { event: Arc::new(event), unreadable: None },
            Err(why) => {
                self.log.counters.unreadable.fetch_add(1, Ordering::Relaxed);
                let event = content::dead_letter(partial.commit, partial.count, content, Utc::now());
                tracing::error!(id = %event.id, why, "a message in the log cannot be read; it is a dead letter");
                Read { event, unreadable: Some(format!("the message in the log cannot be read: {why}")) }
            }
        };
        self.add(read).await
    }

    /// Notes the columns of a table. A table that this relay's configuration does not name, and that the publication still contains, is
    /// another relay's to read: its rows are not passed by.
    async fn relation(&mut self, relation: Relation) -> Result<(), Trouble> {
        let table = self.log.settings.table.as_ref();
        if table.is_none_or(|table| !row::is(&relation, table)) {
            let name = format!("{}.{}", relation.schema, relation.name);
            let published = self.log.store.log_published(table, None).await?;
            if published.strangers(table).contains(&name.as_str()) {
                return Err(Trouble::Stranger(name));
            }
        }
        self.layouts.insert(relation.id, Layout::of(relation, table));
        Ok(())
    }

    async fn row(&mut self, table: u32, values: &[Value]) -> Result<(), StoreError> {
        let Some(partial) = &mut self.partial else { return Ok(()) };
        // The server describes each table before its first row.
        let Some(layout) = self.layouts.get(&table) else { return Ok(()) };
        let read = match layout.read(values, partial.committed_at) {
            Ok(event) => Read { event: Arc::new(event), unreadable: None },
            Err(why) => {
                self.log.counters.unreadable.fetch_add(1, Ordering::Relaxed);
                let (event, reason) = layout.dead_letter(partial.commit, partial.count, values, &why, Utc::now());
                tracing::error!(id = %event.id, reason, "a row of the outbox table cannot be read; it is a dead letter");
                Read { event, unreadable: Some(reason) }
            }
        };
        self.add(read).await
    }

    async fn add(&mut self, read: Read) -> Result<(), StoreError> {
        let Some(partial) = &mut self.partial else { return Ok(()) };
        partial.count += 1;
        partial.bytes += weight(&read.event);
        partial.events.push(read);
        if partial.events.len() >= LARGE || partial.bytes >= LARGE_BYTES {
            self.pour().await?;
        }
        Ok(())
    }

    async fn commit(&mut self, end: Lsn) -> Result<(), StoreError> {
        let Some(partial) = &mut self.partial else { return Ok(()) };
        if partial.pour.is_some() {
            self.pour().await?;
            return self.poured(end).await;
        }
        let (xid, committed_at, events) = (partial.xid, partial.committed_at, std::mem::take(&mut partial.events));
        self.partial = None;
        if events.is_empty() {
            self.log.ledger().alive(end, clock::now());
            return Ok(());
        }
        let urgent = self.log.is_ordered() || self.suspects > 0;
        self.suspects = self.suspects.saturating_sub(events.len());
        let again = {
            let mut ledger = self.log.ledger();
            let again = ledger.add(xid, end, events, urgent, clock::now());
            ledger.committed(end, committed_at);
            again
        };
        if again > 0 {
            tracing::warn!(events = again, "events with the id of an event that is being sent; each id is sent once");
        }
        Ok(())
    }

    /// Inserts what has arrived of a large transaction.
    async fn pour(&mut self) -> Result<(), StoreError> {
        if self.partial.as_ref().is_some_and(|partial| partial.pour.is_none()) {
            if self.log.is_ordered() || !self.log.is_order_known() {
                // Events get their places in the order as they are inserted, and those in the ledger were committed before.
                self.empty_ledger().await?;
            }
            let pour = self.log.store.log_pour(&self.lead).await?;
            if let Some(partial) = &mut self.partial {
                partial.pour = Some(pour);
            }
        }
        let Some(partial) = &mut self.partial else { return Ok(()) };
        let Some(pour) = &mut partial.pour else { return Ok(()) };
        let events = std::mem::take(&mut partial.events);
        partial.bytes = 0;
        partial.poured += events.len() as u64;
        let settlements: Vec<Settlement> = events.into_iter().map(settled).collect();
        self.log.store.log_pour_in(pour, &settlements.iter().collect::<Vec<_>>()).await
    }

    /// Commits a large transaction, when it is visible and everything before it is delivered or spilled.
    async fn poured(&mut self, end: Lsn) -> Result<(), StoreError> {
        let Some(partial) = self.partial.take() else { return Ok(()) };
        let Some(pour) = partial.pour else { return Ok(()) };
        while !self.snapshot.sees(partial.xid) {
            if !self.log.is_current(&self.lead) {
                return Ok(());
            }
            self.see().await?;
            if !self.snapshot.sees(partial.xid) {
                tokio::time::sleep(LOOK).await;
            }
        }
        if !self.empty_ledger().await? {
            return Ok(());
        }
        match self.log.store.log_poured(pour, &self.lead, end).await {
            Ok(Spill::Done) => {
                self.log.ledger().jump(end);
                self.log.counters.spilled.fetch_add(partial.poured, Ordering::Relaxed);
                tracing::info!(events = partial.poured, "a large transaction of the log was spilled into the table");
                self.log.wake();
                Ok(())
            }
            Ok(Spill::Deposed) => {
                self.log.end_lead();
                Ok(())
            }
            Err(error) => {
                // It is unknown whether it was committed. The stored position says so.
                self.begin_again();
                Err(error)
            }
        }
    }
}

impl Leader {
    /// Reads which transactions are visible.
    async fn see(&mut self) -> Result<(), StoreError> {
        let text = self.log.store.log_snapshot().await?;
        self.snapshot = Snapshot::read(&text).unwrap_or_default();
        if self.reveal() && self.look_at.is_none() {
            self.plan_look();
        }
        Ok(())
    }

    /// Spills everything before the transaction that is arriving, as soon as it is visible. Returns false if this relay no longer leads.
    async fn empty_ledger(&mut self) -> Result<bool, StoreError> {
        while self.log.ledger().hidden_since().is_some() {
            if !self.log.is_current(&self.lead) {
                return Ok(false);
            }
            self.see().await?;
            if self.log.ledger().hidden_since().is_some() {
                tokio::time::sleep(LOOK).await;
            }
        }
        while !self.log.ledger().is_empty() {
            if self.log.spill(Which::Everything).await? == 0 && self.log.lead().is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns the verdict of an event that goes into the table without being sent.
fn settled(read: Read) -> Settlement {
    let Read { event, unreadable } = read;
    match unreadable {
        None => release(&event, uuid::Uuid::nil()),
        Some(error) => {
            let ticket = Ticket { id: event.id, token: uuid::Uuid::nil() };
            Settlement::of(event, ticket, Verdict::of(Change::Fail { error }, 0))
        }
    }
}
