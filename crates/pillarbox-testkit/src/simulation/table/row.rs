//! One event of the simulated table, with its deliveries and failed attempts: the columns of a real row. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use pillarbox::delivery::Delivery;
use pillarbox::event::{Status, StoredEvent};
use pillarbox::store::{AttemptView, OnFailed, State, Ticket};
use uuid::Uuid;

/// A time of the database's clock.
pub type Moment = DateTime<Utc>;

/// The number of bytes that the table keeps of an error or a response.
const TEXT_KEPT: usize = 2048;

/// One event with its details.
#[derive(Debug, Clone)]
pub struct Row {
    /// The columns that a claim reads.
    pub event: StoredEvent,
    /// The status: `pending`, `delivered` or `failed`.
    pub status: Status,
    /// The due time; while the event is leased, the end of the lease. It is meaningless when the event is not pending.
    pub due_at: Moment,
    /// The token of the lease.
    pub claimed_by: Option<Uuid>,
    /// The name that the event is parked on.
    pub parked_on: Option<String>,
    /// When all destinations had received the event.
    pub delivered_at: Option<Moment>,
    /// The last error.
    pub error: String,
    /// When the row was last written.
    pub updated_at: Moment,
    /// The rows of `outbox_delivery`.
    pub deliveries: BTreeMap<String, DeliveryRow>,
    /// The rows of `outbox_attempt`, oldest first.
    pub attempts: Vec<AttemptView>,
}

/// A row of `outbox_delivery`.
#[derive(Debug, Clone)]
pub struct DeliveryRow {
    pub(super) status: Status,
    pub(super) attempts: u32,
    pub(super) due_at: Option<Moment>,
    pub(super) delivered_at: Option<Moment>,
    pub(super) parked: bool,
    pub(super) error: String,
}

impl Row {
    /// Returns a row as the insert writes it.
    pub(super) fn emitted(event: StoredEvent, due_at: Moment) -> Self {
        Self {
            status: Status::Pending,
            due_at,
            claimed_by: None,
            parked_on: None,
            delivered_at: None,
            error: String::new(),
            updated_at: event.created_at,
            deliveries: BTreeMap::new(),
            attempts: Vec::new(),
            event,
        }
    }

    pub(super) fn is_due(&self, now: Moment) -> bool {
        self.status == Status::Pending && self.parked_on.is_none() && self.due_at <= now
    }

    pub(super) fn losses(&self) -> u32 {
        self.event.claims + u32::from(self.claimed_by.is_some())
    }

    pub(super) fn aggregate(&self) -> (&str, &str) {
        (&self.event.aggregate_type, &self.event.aggregate_id)
    }

    pub(super) fn is_held_by(&self, ticket: Ticket) -> bool {
        self.status == Status::Pending && self.claimed_by == Some(ticket.token)
    }

    pub(super) fn state(&self, now: Moment) -> State {
        match self.status {
            Status::Delivered => State::Delivered,
            Status::Failed => State::Failed,
            Status::Pending if self.parked_on.is_some() => State::Parked,
            Status::Pending if self.due_at <= now => State::Due,
            Status::Pending if self.claimed_by.is_some() => State::Sending,
            Status::Pending => State::Scheduled,
        }
    }

    /// Returns whether it must be sent before later events of its aggregate.
    pub(super) fn blocks(&self, on_failed: OnFailed, now: Moment) -> bool {
        match self.status {
            Status::Delivered => false,
            Status::Failed => on_failed == OnFailed::Block,
            // A delayed event that was never tried blocks nothing. Its due time is after its emit, not only after a clock that
            // was set back.
            Status::Pending => {
                let later = self.due_at > now && self.due_at > self.updated_at;
                let untouched = self.updated_at == self.event.created_at && self.parked_on.is_none();
                let untried = self.event.attempts == 0 && self.losses() == 0 && self.error.is_empty();
                !(later && untouched && untried)
            }
        }
    }

    /// Returns whether one of its deliveries is parked on this destination.
    pub(super) fn has_parked_delivery(&self, on: &str) -> bool {
        self.deliveries.get(on).is_some_and(|delivery| delivery.parked)
    }

    pub(super) fn read_deliveries(&self, now: Moment) -> Vec<Delivery> {
        let read = |(name, row): (&String, &DeliveryRow)| Delivery {
            status: row.status,
            due_in: row.due_at.and_then(|due_at| (due_at - now).to_std().ok()).unwrap_or_default(),
            parked: row.parked,
            error: row.error.clone(),
            ..Delivery::open(name, row.attempts)
        };
        self.deliveries.iter().map(read).collect()
    }
}

pub(super) fn after(now: Moment, wait: Duration) -> Moment {
    now + TimeDelta::from_std(wait).unwrap_or(TimeDelta::days(365))
}

/// Returns the part of a text that the table keeps, without characters that a database's text cannot hold.
pub(super) fn kept(text: &str) -> String {
    let end = (0..=TEXT_KEPT.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    text[..end].replace('\0', "\u{fffd}")
}
