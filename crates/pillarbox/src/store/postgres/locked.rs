//! Locks and reads due events. Rows are decoded as they arrive, so that the server and the client work at the same time. For
//! small payloads, a statement is used that does not copy them; the other statement sums up their bytes.

use std::sync::atomic::Ordering;

use super::error::Error;
use super::floor::Place;
use super::link::Link;
use super::statement::PgRow;
use super::{PostgresStore, SQL, database, limit, read};
use crate::delivery::Delivery;
use crate::error::StoreError;
use crate::event::StoredEvent;
use crate::store::Ask;

/// An event, its stored deliveries, and whether it is unchanged since its emit.
pub(super) type LockedEvent = (StoredEvent, Vec<Delivery>, bool);

/// The events that a transaction has locked.
#[derive(Default)]
pub(super) struct Locked {
    pub(super) rows: Vec<LockedEvent>,
    /// The place of the last event in the due index.
    pub(super) last: Option<Place>,
    /// The number of locked events. Events that were too large for this claim are not among the rows.
    pub(super) count: usize,
}

impl Locked {
    fn add(&mut self, row: &PgRow) -> Result<(), StoreError> {
        self.rows.push(read::locked_event(row)?);
        self.last = self.last.max(Some(read::place(row)?));
        Ok(())
    }
}

impl PostgresStore {
    /// Locks the due events above the floor.
    pub(super) async fn lock_due(&self, connection: &mut Link, ask: Ask, floor: Place) -> Result<Locked, StoreError> {
        // If no payload exceeds this share, the bytes need not be summed up.
        let share = ask.bytes / ask.limit.max(1);
        if self.holds.light.load(Ordering::Relaxed)
            && let Some(locked) = self.lock_light(connection, ask.limit, share, floor).await?
        {
            return Ok(locked);
        }
        let locked = self.lock_heavy(connection, ask, floor).await?;
        let light = locked.rows.iter().all(|(event, ..)| event.payload.get().len() <= share);
        self.holds.light.store(light, Ordering::Relaxed);
        Ok(locked)
    }

    /// Locks due events with small payloads. Returns `None` if one payload is larger.
    async fn lock_light(
        &self,
        connection: &mut Link,
        most: usize,
        share: usize,
        floor: Place,
    ) -> Result<Option<Locked>, StoreError> {
        let query = self
            .kept_query(SQL.hold_light)
            .bind(limit(most))
            .bind(limit(share))
            .bind(floor.0)
            .bind(floor.1)
            .into_query();
        let mut locked = Locked { rows: Vec::with_capacity(most.min(1000)), ..Locked::default() };
        let mut light = true;
        // Read to the end: the connection is needed again.
        let see = |row: &PgRow| {
            light = light && read::has_payload(row)?;
            if light { locked.add(row) } else { Ok(()) }
        };
        connection.each(query, see).await.map_err(|error| self.claiming(error))??;
        locked.count = locked.rows.len();
        Ok(Some(locked).filter(|_| light))
    }

    async fn lock_heavy(&self, connection: &mut Link, ask: Ask, floor: Place) -> Result<Locked, StoreError> {
        let query = self
            .kept_query(SQL.hold)
            .bind(limit(ask.limit))
            .bind(limit(ask.bytes))
            .bind(floor.0)
            .bind(floor.1)
            .into_query();
        let mut locked = Locked::default();
        let see = |row: &PgRow| {
            locked.add(row)?;
            locked.count = read::locked(row)?;
            Ok(())
        };
        connection.each(query, see).await.map_err(|error| self.claiming(error))??;
        Ok(locked)
    }

    pub(super) fn claiming(&self, error: Error) -> StoreError {
        database("claiming events")(self.forgets_statements(error))
    }
}
