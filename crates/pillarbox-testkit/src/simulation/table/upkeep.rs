//! Upkeep of the simulated table: sweep, cleanup, and the rows that relays write about themselves. Pure.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use pillarbox::event::{Status, StoredEvent};
use pillarbox::store::{Cleaned, Heartbeat, LOSSES_BEFORE_FAILED, LaneView, Minute, RelayView, Retention, Told};
use uuid::Uuid;

use super::row::after;
use super::{Moment, Row, Table};

/// The tables `outbox_relay`, `outbox_lane` and `outbox_figure`.
#[derive(Debug, Default)]
pub(super) struct Relays {
    pub(super) relays: BTreeMap<Uuid, RelayView>,
    pub(super) lanes: BTreeMap<(Uuid, String), LaneView>,
    pub(super) minutes: BTreeMap<(Moment, String, Uuid), Minute>,
}

impl Table {
    /// Fails the events that have killed their relays too often, and deletes relays that died long ago.
    pub fn sweep(&mut self, error: &str, now: Moment) -> Vec<StoredEvent> {
        self.relays.forget(now);
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
                row.updated_at = now;
                for delivery in row.deliveries.values_mut().filter(|delivery| delivery.status == Status::Pending) {
                    delivery.status = Status::Failed;
                    delivery.parked = false;
                    delivery.error = error.to_owned();
                }
                swept.push(row.event.clone());
            }
        }
        swept
    }

    /// Deletes one batch of old terminal events, delivered ones first.
    pub fn cleanup(&mut self, retention: &Retention, now: Moment) -> Cleaned {
        let old: Vec<i64> = self.old(Status::Delivered, retention, now);
        let old: Vec<i64> = old.into_iter().chain(self.old(Status::Failed, retention, now)).collect();
        let batch = old.len().min(retention.batch);
        old[..batch].iter().for_each(|seq| self.remove(*seq));
        Cleaned { deleted: batch as u64, more: old.len() > batch, elsewhere: false }
    }

    /// Returns the events with this terminal status that are old enough, oldest first.
    fn old(&self, status: Status, retention: &Retention, now: Moment) -> Vec<i64> {
        let expires = |row: &Row| match status {
            Status::Delivered => row.delivered_at.map(|at| after(at, retention.delivered_after)),
            _ => Some(after(row.updated_at, retention.failed_after)),
        };
        let rows = self.rows.values().filter(|row| row.status == status);
        let mut old: Vec<(Moment, i64)> = rows.filter_map(|row| Some((expires(row)?, row.event.seq))).collect();
        old.retain(|(expired_at, _)| *expired_at <= now);
        old.sort_unstable();
        old.into_iter().map(|(_, seq)| seq).collect()
    }

    /// Writes a relay's heartbeat.
    pub fn heartbeat(&mut self, heartbeat: &Heartbeat, now: Moment) {
        let relay = self.relays.relays.entry(heartbeat.id).or_insert_with(|| RelayView {
            id: heartbeat.id,
            host: heartbeat.host.clone(),
            started_at: now,
            heartbeat_at: now,
            in_flight: 0,
            idle: false,
            configuration: heartbeat.configuration.clone(),
            alive: true,
            lanes: Vec::new(),
        });
        relay.heartbeat_at = now;
        relay.in_flight = heartbeat.in_flight as u64;
        relay.idle = heartbeat.idle;
    }

    /// Moves a relay's heartbeat into the past.
    pub fn age_relay(&mut self, relay: Uuid, by: TimeDelta) {
        if let Some(relay) = self.relays.relays.get_mut(&relay) {
            relay.heartbeat_at -= by;
        }
    }

    /// Removes a relay.
    pub fn farewell(&mut self, relay: Uuid) {
        self.relays.relays.remove(&relay);
        self.relays.lanes.retain(|(of, _), _| *of != relay);
    }

    /// Writes a relay's metrics.
    pub fn tell(&mut self, told: Told<'_>) {
        for minute in told.minutes {
            self.relays.minutes.insert((minute.at, minute.destination.clone(), told.relay), minute.clone());
        }
        for lane in told.lanes {
            self.relays.lanes.insert((told.relay, lane.destination.clone()), lane.clone());
        }
    }

    /// Returns the relays, in the order in which they started.
    pub fn relays(&self, now: Moment) -> Vec<RelayView> {
        let lanes = |relay: Uuid| -> Vec<LaneView> {
            let own = self.relays.lanes.iter().filter(move |((of, _), _)| *of == relay);
            own.map(|(_, lane)| lane.clone()).collect()
        };
        let view = |relay: &RelayView| RelayView {
            alive: relay.heartbeat_at > now - TimeDelta::seconds(15),
            lanes: lanes(relay.id),
            ..relay.clone()
        };
        let mut relays: Vec<RelayView> = self.relays.relays.values().map(view).collect();
        relays.sort_by_key(|relay| relay.started_at);
        relays
    }

    /// Returns the results of the destinations since this time, merged over all relays.
    pub fn minutes(&self, since: Moment) -> Vec<Minute> {
        let mut merged: BTreeMap<(Moment, &str), Minute> = BTreeMap::new();
        for ((at, destination, _), minute) in self.relays.minutes.iter().filter(|((at, ..), _)| *at >= since) {
            let sum =
                merged.entry((*at, destination.as_str())).or_insert_with(|| Minute::new(*at, destination.as_str()));
            sum.merge(minute);
        }
        merged.into_values().collect()
    }
}

impl Relays {
    fn forget(&mut self, now: Moment) {
        self.relays.retain(|_, relay| relay.heartbeat_at >= now - TimeDelta::hours(1));
        self.lanes.retain(|(relay, _), _| self.relays.contains_key(relay));
        self.minutes.retain(|(at, ..), _| *at >= now - TimeDelta::hours(25));
    }
}
