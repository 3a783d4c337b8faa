//! Claims of the simulated table. Pure.

use std::collections::HashMap;

use chrono::DateTime;
use pillarbox::delivery::Delivery;
use pillarbox::event::{Status, StoredEvent};
use pillarbox::store::{Ask, LOSSES_BEFORE_ALONE, LOSSES_BEFORE_APART, OnFailed, Order};
use uuid::Uuid;

use super::row::after;
use super::{Moment, Row, Table};

impl Table {
    /// Claims by lease.
    pub fn claim(&mut self, ask: Ask<'_>, token: Uuid, now: Moment) -> Vec<(StoredEvent, Vec<Delivery>)> {
        let line = match ask.order {
            Order::None => self.line(ask, now),
            Order::Aggregate(on_failed) => self.ordered_line(ask, on_failed, now),
        };
        let picked = self.pick(&line, ask);
        picked.into_iter().filter_map(|seq| self.lease(seq, ask, token, now)).collect()
    }

    /// Returns the due events, oldest first.
    fn line(&self, ask: Ask<'_>, now: Moment) -> Vec<i64> {
        let due = self.pending().filter(|row| row.is_due(now) && row.losses() < ask.losses_below());
        let mut line: Vec<(Moment, i64)> = due.map(|row| (row.due_at, row.event.seq)).collect();
        line.sort_unstable();
        line.into_iter().map(|(_, seq)| seq).take(ask.limit).collect()
    }

    /// Returns the same, each event only after all earlier events of its aggregate.
    fn ordered_line(&self, ask: Ask<'_>, on_failed: OnFailed, now: Moment) -> Vec<i64> {
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
                _ if row.blocks(on_failed, now) && !ask.behind.contains(&row.event.seq) => *turn = None,
                _ => {}
            }
        }
        line.sort_unstable();
        line.into_iter().map(|(_, seq)| seq).take(ask.limit).collect()
    }

    /// Picks events with as many losses as the first one, up to the bytes: any number of events that are no suspects, and fewer
    /// suspects the more losses they have. With an order, only a prefix of the line.
    fn pick(&self, line: &[i64], ask: Ask<'_>) -> Vec<i64> {
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

    fn lease(&mut self, seq: i64, ask: Ask<'_>, token: Uuid, now: Moment) -> Option<(StoredEvent, Vec<Delivery>)> {
        let row = self.rows.get_mut(&seq)?;
        let losses = row.losses();
        // For an event that is sent alone, a loss counts only after its relay reported it.
        row.event.claims = losses - u32::from(losses >= LOSSES_BEFORE_ALONE);
        row.claimed_by = Some(token);
        row.due_at = after(now, ask.lease);
        row.updated_at = now;
        let mut event = row.event.clone();
        event.claims = losses;
        Some((event, row.read_deliveries(now)))
    }
}
