//! Spill: writes events of the log into the table, in one transaction with the position below which every event is delivered or in
//! the table. From then on they are ordinary events.
//!
//! A row that is spilled may be delivered and deleted a moment later, and the log would bring its event again after a crash. So a
//! spill always contains every unsettled event up to its position: those that are still being sent are inserted with their
//! leases. Then one stored position says all, and nothing else has to be remembered.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::error::Error;
use super::lead::{LOG, Lead};
use super::link::{Link, Tx};
use super::lsn::Lsn;
use super::settle::Fence;
use super::{PostgresStore, database};
use crate::delivery::Change;
use crate::error::StoreError;
use crate::event::StoredEvent;
use crate::store::row::Written;
use crate::store::{Settlement, Ticket};

/// A large transaction is poured as it arrives; between two parts the server may decode for long.
const LONG_IDLE: &str = "SET LOCAL idle_in_transaction_session_timeout = '1h'";

/// An event of the log that goes into the table.
#[derive(Debug)]
pub(crate) struct Spilled {
    /// The commit of the event: the position at which its transaction ends.
    pub(crate) end: Lsn,
    pub(crate) form: Form,
}

/// How the event is written.
#[derive(Debug)]
pub(crate) enum Form {
    /// With its verdict.
    Settled(Settlement),
    /// As an event that a relay holds for this long.
    Leased { event: Arc<StoredEvent>, ticket: Ticket, lease: Duration },
}

/// The result of a spill.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Spill {
    Done,
    /// Another relay leads, or a standby was promoted; nothing was written.
    Deposed,
}

impl PostgresStore {
    /// Spills every unsettled event up to a position. After an error it is unknown whether that was written; the next spill of the
    /// same events finds out.
    pub(crate) async fn log_spill(&self, lead: &Lead, until: Lsn, events: &[Spilled]) -> Result<Spill, StoreError> {
        self.try_spill(lead, until, events).await.map_err(database("spilling events of the log into the table"))
    }

    async fn try_spill(&self, lead: &Lead, until: Lsn, events: &[Spilled]) -> Result<Spill, Error> {
        let mut tx = self.pool.begin().await?;
        let Some(fence) = self.fence(&mut tx, lead).await? else { return Ok(Spill::Deposed) };
        let confirmed = fence.confirmed;
        // What is not above the stored position was written by a spill whose result was unknown.
        let (new, written): (Vec<&Spilled>, Vec<&Spilled>) = events.iter().partition(|event| event.end > confirmed);
        self.insert_log(&mut tx, &new.iter().map(|event| &event.form).collect::<Vec<_>>()).await?;
        let decided: Vec<&Settlement> = written.iter().filter_map(|event| event.form.settlement()).collect();
        if !decided.is_empty() {
            self.settle_in(&mut tx, &decided, Fence::Lease, false).await?;
        }
        self.store_position(tx, lead, &fence, until).await?;
        Ok(Spill::Done)
    }

    /// Inserts delivered events, for `on_delivered = "keep"`.
    pub(crate) async fn log_keep(&self, settlements: &[&Settlement]) -> Result<(), StoreError> {
        let insert = async {
            let mut tx = self.pool.begin().await?;
            self.insert_settled(&mut tx, settlements).await?;
            tx.commit().await
        };
        insert.await.map_err(database("keeping delivered events of the log"))
    }

    /// Begins to spill a transaction that is too large for memory. Its events are inserted as they arrive, and are visible and due
    /// when its end has arrived.
    pub(crate) async fn log_pour(&self, lead: &Lead) -> Result<Pour, StoreError> {
        let begun = async {
            let mut tx = self.pool.begin().await?;
            tx.run(LONG_IDLE).await?;
            self.schema.query(LOG.log_pour).bind(lead.slot.as_str()).execute(&mut *tx).await?;
            Ok::<_, Error>(Pour { tx })
        };
        begun.await.map_err(database("spilling a large transaction of the log"))
    }

    /// Inserts more events of a large transaction.
    pub(crate) async fn log_pour_in(&self, pour: &mut Pour, settlements: &[&Settlement]) -> Result<(), StoreError> {
        let inserted = self.insert_settled(&mut pour.tx, settlements).await;
        inserted.map_err(database("spilling a large transaction of the log"))
    }

    /// Ends a large transaction, with the position of its end.
    pub(crate) async fn log_poured(&self, pour: Pour, lead: &Lead, end: Lsn) -> Result<Spill, StoreError> {
        let mut tx = pour.tx;
        let done = async {
            let Some(fence) = self.fence(&mut tx, lead).await? else { return Ok(Spill::Deposed) };
            if fence.confirmed >= end {
                // An earlier try, whose result was unknown, was written after all.
                tx.rollback().await?;
                return Ok(Spill::Done);
            }
            self.store_position(tx, lead, &fence, end).await?;
            Ok::<_, Error>(Spill::Done)
        };
        done.await.map_err(database("spilling a large transaction of the log"))
    }

    /// Locks the position of the log. Returns `None` if another relay leads, or a standby was promoted.
    async fn fence(&self, tx: &mut Link, lead: &Lead) -> Result<Option<Locked>, Error> {
        let query = self.schema.query_as::<(Option<String>, String)>(LOG.log_fence);
        let query = query.bind(lead.epoch).bind(lead.timeline.as_str()).bind(lead.leader);
        let Some((stored, durable)) = query.fetch_optional(tx).await? else { return Ok(None) };
        let parsed = stored.map(|text| text.parse().map_err(|problem: String| Error::Value(problem.into())));
        Ok(Some(Locked { confirmed: parsed.transpose()?.unwrap_or_default(), durable }))
    }

    /// Stores the position and commits, as durably as the fence said.
    async fn store_position(&self, tx: Tx, lead: &Lead, fence: &Locked, position: Lsn) -> Result<(), Error> {
        let query = self.schema.query(LOG.log_position);
        let query = query.bind(lead.epoch).bind(position.to_string()).bind(fence.durable.as_str());
        tx.last(query.into_query()).await.map(drop)
    }

    async fn insert_settled(&self, tx: &mut Link, settlements: &[&Settlement]) -> Result<(), Error> {
        let inserted =
            self.insert_rows(tx, settlements.iter().map(|settlement| Row::settled(settlement)).collect()).await?;
        self.settle_deliveries(tx, settlements, &inserted).await?;
        self.settle_attempts(tx, settlements, &inserted).await
    }

    async fn insert_log(&self, tx: &mut Link, forms: &[&Form]) -> Result<(), Error> {
        let inserted = self.insert_rows(tx, forms.iter().map(|form| form.row()).collect()).await?;
        let settled: Vec<&Settlement> = forms.iter().filter_map(|form| form.settlement()).collect();
        self.settle_deliveries(tx, &settled, &inserted).await?;
        self.settle_attempts(tx, &settled, &inserted).await
    }

    /// Returns the ids of the rows that did not exist. What is known of an existing row's deliveries is its own: the event may be
    /// delivered by now.
    async fn insert_rows(&self, tx: &mut Link, rows: Vec<Row<'_>>) -> Result<HashSet<Uuid>, Error> {
        if rows.is_empty() {
            return Ok(HashSet::new());
        }
        macro_rules! column {
            ($row:ident => $value:expr) => {
                rows.iter().map(|$row| $value).collect::<Vec<_>>()
            };
        }
        let headers =
            column!(row => (!row.event.headers.is_empty()).then(|| serde_json::json!(row.event.headers).to_string()));
        let query = self
            .schema
            .query_scalar::<Uuid>(LOG.log_spill)
            .bind(column!(row => row.event.id))
            .bind(column!(row => row.event.aggregate_type.as_str()))
            .bind(column!(row => row.event.aggregate_id.as_str()))
            .bind(column!(row => row.event.event_type.as_str()))
            .bind(column!(row => row.event.payload.get()))
            .bind(headers)
            .bind(column!(row => row.written.attempts))
            .bind(column!(row => row.event.max_attempts.map(u32::cast_signed)))
            .bind(column!(row => row.event.created_at))
            .bind(column!(row => row.written.change))
            .bind(column!(row => row.written.after))
            .bind(column!(row => row.written.parked_on))
            .bind(column!(row => row.written.error.as_ref()))
            .bind(column!(row => row.token));
        Ok(query.fetch_all(tx).await?.into_iter().collect())
    }
}

/// The position of the log, which this transaction has locked.
struct Locked {
    confirmed: Lsn,
    /// The `synchronous_commit` with which the transaction must commit.
    durable: String,
}

/// A large transaction that is being spilled.
#[derive(Debug)]
pub(crate) struct Pour {
    tx: Tx,
}

/// A row to insert.
struct Row<'a> {
    event: &'a StoredEvent,
    written: Written<'a>,
    token: Option<Uuid>,
}

impl<'a> Row<'a> {
    fn settled(settlement: &'a Settlement) -> Self {
        Self { event: settlement.event(), written: Written::of(settlement), token: None }
    }
}

impl Form {
    fn settlement(&self) -> Option<&Settlement> {
        match self {
            Self::Settled(settlement) => Some(settlement),
            Self::Leased { .. } => None,
        }
    }

    fn row(&self) -> Row<'_> {
        match self {
            Self::Settled(settlement) => Row::settled(settlement),
            Self::Leased { event, ticket, lease } => {
                let written = Written {
                    ticket: *ticket,
                    change: "lease",
                    attempts: event.attempts.cast_signed(),
                    after: lease.as_secs_f64(),
                    parked_on: None,
                    error: "".into(),
                };
                Row { event, written, token: Some(ticket.token) }
            }
        }
    }

    /// Returns whether the event is due for any relay.
    pub(crate) fn is_due(&self) -> bool {
        let change = self.settlement().map(|settlement| &settlement.verdict().change);
        matches!(change, Some(Change::Release { after }) if after.is_zero())
    }
}
