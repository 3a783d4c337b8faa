//! The operations of people on the simulated table, as far as the checks of a relay need them. Pure.

use chrono::TimeDelta;
use pillarbox::event::Status;
use pillarbox::store::{DeliveryView, EventDetail, Retried, State};
use uuid::Uuid;

use super::{DeliveryRow, Moment, Row, Table};

impl Table {
    /// Returns one event with its details.
    pub fn detail(&self, id: Uuid, now: Moment) -> Option<EventDetail> {
        self.get(id).map(|row| row.detail(now))
    }

    /// Returns the failed events, the first failed first.
    pub fn failed(&self) -> Vec<Uuid> {
        let mut failed: Vec<&Row> = self.rows.values().filter(|row| row.status == Status::Failed).collect();
        failed.sort_by_key(|row| (row.updated_at, row.event.seq));
        failed.into_iter().map(|row| row.event.id).collect()
    }

    /// Makes an event due now, with its attempts reset. A destination that has the event does not receive it again.
    pub fn retry(&mut self, id: Uuid, now: Moment) -> Retried {
        let Some(row) = self.get_mut(id) else { return Retried::Unknown };
        match row.state(now) {
            State::Delivered => return Retried::Delivered,
            State::Sending => return Retried::BeingSent,
            _ => {}
        }
        row.status = Status::Pending;
        row.due_at = now;
        row.claimed_by = None;
        row.parked_on = None;
        row.error.clear();
        row.updated_at = now;
        (row.event.attempts, row.event.claims) = (0, 0);
        for delivery in row.deliveries.values_mut().filter(|delivery| delivery.status != Status::Delivered) {
            *delivery = DeliveryRow {
                status: Status::Pending,
                attempts: 0,
                due_at: Some(now),
                delivered_at: None,
                parked: false,
                error: String::new(),
            };
        }
        let seq = row.event.seq;
        self.pending.insert(seq);
        Retried::Due
    }

    /// Moves the times of an event into the past.
    pub fn age(&mut self, id: Uuid, by: TimeDelta) {
        if let Some(row) = self.get_mut(id) {
            let deliveries = row.deliveries.values_mut().filter_map(|delivery| delivery.due_at.as_mut());
            let own = [&mut row.event.created_at, &mut row.updated_at, &mut row.due_at];
            own.into_iter().chain(&mut row.delivered_at).chain(deliveries).for_each(|moment| *moment -= by);
        }
    }
}

impl Row {
    fn detail(&self, now: Moment) -> EventDetail {
        let mut detail = EventDetail::for_tests(&self.event);
        let view = &mut detail.event;
        view.status = self.status;
        view.state = self.state(now);
        view.next_attempt_at = (self.status == Status::Pending).then_some(self.due_at);
        view.parked_on.clone_from(&self.parked_on);
        view.delivered_at = self.delivered_at;
        view.error_message.clone_from(&self.error);
        view.failed_on = self.failed_on().map(str::to_owned);
        view.updated_at = self.updated_at;
        let delivery = |(name, row): (&String, &DeliveryRow)| DeliveryView {
            destination: name.clone(),
            status: row.status,
            attempts: row.attempts,
            next_attempt_at: row.due_at,
            delivered_at: row.delivered_at,
            error: row.error.clone(),
        };
        detail.deliveries = self.deliveries.iter().map(delivery).collect();
        let attempts = self.attempts.iter().cloned();
        (detail.delivered_attempts, detail.failed_attempts) = attempts.partition(|attempt| attempt.delivered);
        detail
    }

    /// Returns the destination on which an event failed.
    fn failed_on(&self) -> Option<&str> {
        if self.status != Status::Failed {
            return None;
        }
        let delivery = self.deliveries.iter().find(|(_, delivery)| delivery.status == Status::Failed);
        let attempt = || self.attempts.last().map(|attempt| attempt.destination.as_str());
        delivery.map(|(name, _)| name.as_str()).or_else(attempt)
    }
}
