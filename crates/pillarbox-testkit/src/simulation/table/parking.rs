//! Parked events of the simulated table. Pure.

use std::collections::BTreeSet;

use pillarbox::event::Status;
use pillarbox::store::{EventKind, ParkedEvent, ParkedPlace};
use uuid::Uuid;

use super::{Moment, Row, Table};

impl Table {
    /// Returns the distinct names that events and deliveries are parked on.
    pub fn parked_on(&self) -> BTreeSet<String> {
        let deliveries = |row: &Row| {
            let parked = row.deliveries.iter().filter(|(_, delivery)| delivery.parked);
            parked.map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        self.rows.values().flat_map(|row| row.parked_on.clone().into_iter().chain(deliveries(row))).collect()
    }

    /// Returns the distinct kinds of the events parked on this name.
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

    /// Makes parked events due, the longest parked first. Without a kind, also events with only a delivery parked on this name.
    pub fn unpark(&mut self, on: &str, kind: Option<&EventKind>, limit: usize, now: Moment) -> u64 {
        let parked = self.longest_parked(on, kind, limit);
        self.make_due(&parked, on, now);
        let shared = if kind.is_none() { self.shared(on, limit - parked.len(), now) } else { Vec::new() };
        self.make_due(&shared, on, now);
        (parked.len() + shared.len()) as u64
    }

    /// Returns events of a kind that are parked on this name, the longest parked first, from after a place.
    pub fn parked_events(&self, on: &str, kind: &EventKind, after: &ParkedPlace, limit: usize) -> Vec<ParkedEvent> {
        // The same number of digits for every time, so that the text is in the order of time.
        let text = |moment: Moment| moment.format("%Y-%m-%dT%H:%M:%S%.9f").to_string();
        let place = |row: &Row| ParkedPlace { parked_at: text(row.due_at), seq: row.event.seq };
        let parked = self.longest_parked(on, Some(kind), usize::MAX);
        let parked = parked.into_iter().filter_map(|seq| self.rows.get(&seq)).filter(|row| {
            let ParkedPlace { parked_at, seq } = place(row);
            (parked_at.as_str(), seq) > (after.parked_at.as_str(), after.seq)
        });
        let event = |row: &Row| ParkedEvent {
            id: row.event.id,
            payload: row.event.payload.clone(),
            headers: row.event.headers.clone(),
            place: place(row),
        };
        parked.map(event).take(limit).collect()
    }

    /// Makes those of these events due that are parked on this name.
    pub fn unpark_these(&mut self, on: &str, ids: &[Uuid], now: Moment) -> u64 {
        let asked = |row: &&Row| ids.contains(&row.event.id) && row.parked_on.as_deref() == Some(on);
        let parked: Vec<i64> = self.pending().filter(asked).map(|row| row.event.seq).collect();
        self.make_due(&parked, on, now);
        parked.len() as u64
    }

    fn longest_parked(&self, on: &str, kind: Option<&EventKind>, limit: usize) -> Vec<i64> {
        let fits = |row: &&Row| {
            let (event_type, aggregate_type) = (&row.event.event_type, &row.event.aggregate_type);
            row.parked_on.as_deref() == Some(on)
                && kind.is_none_or(|kind| kind.event_type == *event_type && kind.aggregate_type == *aggregate_type)
        };
        let mut parked: Vec<(Moment, i64)> =
            self.pending().filter(fits).map(|row| (row.due_at, row.event.seq)).collect();
        parked.sort_unstable();
        parked.into_iter().map(|(_, seq)| seq).take(limit).collect()
    }

    /// Returns events with a delivery parked on this name while others wait for something else. As in the real statement, the
    /// limit counts deliveries, and a relay may hold the event of a delivery.
    fn shared(&self, on: &str, limit: usize, now: Moment) -> Vec<i64> {
        let parked = self.rows.values().filter(|row| row.has_parked_delivery(on)).take(limit);
        let free = parked.filter(|row| {
            let elsewhere = row.status == Status::Pending && row.parked_on.as_deref() != Some(on);
            elsewhere && (row.claimed_by.is_none() || row.due_at <= now)
        });
        free.map(|row| row.event.seq).collect()
    }

    fn make_due(&mut self, seqs: &[i64], on: &str, now: Moment) {
        for seq in seqs {
            let Some(row) = self.rows.get_mut(seq) else { continue };
            row.parked_on = None;
            row.due_at = now;
            row.updated_at = now;
            if let Some(delivery) = row.deliveries.get_mut(on).filter(|delivery| delivery.parked) {
                delivery.parked = false;
                delivery.due_at = Some(now);
            }
        }
    }
}
