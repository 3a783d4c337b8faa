//! Settles of the simulated table: the event's row, its deliveries and its attempts. Pure.

use std::time::Duration;

use pillarbox::delivery::{Change, Delivery, Verdict};
use pillarbox::event::Status;
use pillarbox::store::{AttemptView, Ticket};

use super::row::{after, kept};
use super::{DeliveryRow, Moment, Row, Table};

/// The number of attempts that the table keeps per event.
const ATTEMPTS_KEPT: u32 = 20;

impl Table {
    /// Settles an event if this token still holds its lease. Returns whether it did.
    pub fn settle(&mut self, ticket: Ticket, verdict: &Verdict, delete: bool, now: Moment) -> bool {
        let Some(row) = self.get_mut(ticket.id).filter(|row| row.is_held_by(ticket)) else { return false };
        row.settle(verdict, now);
        let (seq, status) = (row.event.seq, row.status);
        if status != Status::Pending {
            self.pending.remove(&seq);
        }
        if status == Status::Delivered && delete {
            self.remove(seq);
        }
        true
    }
}

impl Row {
    fn settle(&mut self, verdict: &Verdict, now: Moment) {
        let (status, wait, error) = match &verdict.change {
            Change::Deliver => (Status::Delivered, Duration::ZERO, ""),
            Change::Fail { error } => (Status::Failed, Duration::ZERO, error.as_str()),
            Change::Retry { after, error } => (Status::Pending, *after, error.as_str()),
            Change::Park { error, .. } => (Status::Pending, Duration::ZERO, error.as_str()),
            Change::Release { after } => (Status::Pending, *after, ""),
        };
        self.status = status;
        self.due_at = after(now, wait);
        self.claimed_by = None;
        self.parked_on = match &verdict.change {
            Change::Park { on, .. } => Some(on.clone()),
            _ => None,
        };
        self.delivered_at = (status == Status::Delivered).then_some(now);
        self.updated_at = now;
        if !matches!(verdict.change, Change::Release { .. }) {
            self.event.attempts = verdict.attempts;
            self.event.claims = 0;
            self.error = kept(error);
        }
        for delivery in &verdict.deliveries {
            self.settle_delivery(delivery, now);
        }
        self.add_attempts(verdict, now);
    }

    fn settle_delivery(&mut self, delivery: &Delivery, now: Moment) {
        let delivered_before = self.deliveries.get(&delivery.destination).and_then(|row| row.delivered_at);
        let row = DeliveryRow {
            status: delivery.status,
            attempts: delivery.attempts,
            due_at: (delivery.status == Status::Pending).then(|| after(now, delivery.due_in)),
            delivered_at: delivered_before.or((delivery.status == Status::Delivered).then_some(now)),
            parked: delivery.parked,
            error: kept(&delivery.error),
        };
        self.deliveries.insert(delivery.destination.clone(), row);
    }

    /// Adds attempts, numbered after the last one, and drops the oldest beyond the limit.
    fn add_attempts(&mut self, verdict: &Verdict, now: Moment) {
        let tried = |destination: &str, took: Duration| AttemptView {
            number: 0,
            destination: destination.to_owned(),
            attempted_at: now,
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            status_code: None,
            error: String::new(),
            answer: None,
            delivered: false,
        };
        let failed = verdict.failures.iter().map(|attempt| AttemptView {
            status_code: attempt.error.status,
            error: kept(&attempt.error.message),
            answer: attempt.error.answer.as_deref().map(kept),
            ..tried(&attempt.destination, attempt.took)
        });
        let delivered = verdict.successes.iter().map(|success| AttemptView {
            status_code: success.status,
            delivered: true,
            ..tried(&success.destination, success.took)
        });
        let last = self.attempts.last().map_or(0, |attempt| attempt.number);
        let numbered = (last + 1..).zip(failed.chain(delivered));
        self.attempts.extend(numbered.map(|(number, attempt)| AttemptView { number, ..attempt }));
        let newest = self.attempts.last().map_or(0, |attempt| attempt.number);
        self.attempts.retain(|attempt| attempt.number + ATTEMPTS_KEPT > newest);
    }
}
