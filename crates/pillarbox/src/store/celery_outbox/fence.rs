//! Fences: a claim is valid as long as `updated_at` is the value that the claim wrote. A renewal writes a new value, which is
//! kept here for the relay's ticket.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use tokio::sync::{RwLock, RwLockReadGuard};
use uuid::Uuid;

use super::Outbox;
use super::tables::HeldRow;
use crate::error::DriverError;
use crate::store::Ticket;

/// Returns the event's id: the row's id as a UUID.
pub(super) fn event_id(id: i64) -> Uuid {
    Uuid::from_u64_pair(0, id.cast_unsigned())
}

pub(super) fn row_id(ticket: Ticket) -> i64 {
    ticket.id.as_u64_pair().1.cast_signed()
}

/// Returns the token of a claim: its time, in the database's precision.
pub(super) fn token(held_since: DateTime<Utc>) -> Uuid {
    Uuid::from_u64_pair(0, held_since.timestamp_micros().cast_unsigned())
}

fn claimed_at(ticket: Ticket) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(ticket.token.as_u64_pair().1.cast_signed()).unwrap_or_default()
}

/// The times of renewed claims.
///
/// A settle holds the read lock until it has settled, and a renewal holds the write lock until it has renewed. So a settle
/// never meets a row whose renewal it does not know.
#[derive(Debug, Default)]
pub(super) struct Fences(RwLock<HashMap<Ticket, Renewed>>);

#[derive(Debug)]
struct Renewed {
    held_since: DateTime<Utc>,
    at: Instant,
}

/// The fences during a settle.
pub(super) struct Held<'a>(RwLockReadGuard<'a, HashMap<Ticket, Renewed>>);

impl Held<'_> {
    /// Returns the row, with its `updated_at` while the claim is valid.
    pub(super) fn row(&self, ticket: Ticket) -> HeldRow {
        row(&self.0, ticket)
    }
}

fn row(renewed: &HashMap<Ticket, Renewed>, ticket: Ticket) -> HeldRow {
    let since = renewed.get(&ticket).map_or_else(|| claimed_at(ticket), |renewed| renewed.held_since);
    (row_id(ticket), since)
}

impl Fences {
    pub(super) async fn read(&self) -> Held<'_> {
        Held(self.0.read().await)
    }

    /// Removes settled claims.
    pub(super) async fn forget(&self, tickets: impl Iterator<Item = Ticket>) {
        if !self.0.read().await.is_empty() {
            let mut renewed = self.0.write().await;
            for ticket in tickets {
                renewed.remove(&ticket);
            }
        }
    }
}

impl Outbox {
    /// Renews claims, and returns the ones that are still valid.
    pub(super) async fn renew(&self, tickets: &[Ticket], lease: Duration) -> Result<Vec<Ticket>, DriverError> {
        let mut renewed = self.fences.0.write().await;
        // Claims that were never settled, for example because the database refused them, are stale by now.
        renewed.retain(|_, renewed| renewed.at.elapsed() < lease * 2);
        let held: Vec<HeldRow> = tickets.iter().map(|ticket| row(&renewed, *ticket)).collect();
        let rows: HashMap<i64, DateTime<Utc>> = self.tables.renew(&held).await?.into_iter().collect();
        let at = Instant::now();
        let ours: Vec<Ticket> = tickets.iter().copied().filter(|ticket| rows.contains_key(&row_id(*ticket))).collect();
        renewed.extend(ours.iter().map(|ticket| (*ticket, Renewed { held_since: rows[&row_id(*ticket)], at })));
        Ok(ours)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_says_which_row_and_since_when() {
        let held_since = DateTime::from_timestamp_micros(1_767_323_045_678_901).unwrap();
        for id in [1, i64::MAX, -7] {
            let ticket = Ticket { id: event_id(id), token: token(held_since) };
            assert_eq!((row_id(ticket), claimed_at(ticket)), (id, held_since));
        }
    }
}
