//! Locks and reads due events. Rows are decoded as they arrive, so that the server and the client work at the same time. For
//! small payloads, a statement is used that does not copy them; the other statement sums up their bytes. Also finds the locked
//! events that must wait for others of their aggregates.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use super::claim::Place;
use super::error::Error;
use super::link::Link;
use super::statement::PgRow;
use super::{PostgresStore, SQL, database, limit, read};
use crate::delivery::Delivery;
use crate::error::StoreError;
use crate::event::StoredEvent;
use crate::store::{Ask, OnFailed};

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
    /// Locks the due events after this place.
    pub(super) async fn lock_due(
        &self,
        connection: &mut Link,
        ask: Ask<'_>,
        after: Place,
    ) -> Result<Locked, StoreError> {
        // If no payload exceeds this share, the bytes need not be summed up.
        let share = ask.bytes / ask.limit.max(1);
        if self.holds.light.load(Ordering::Relaxed)
            && let Some(locked) = self.lock_light(connection, ask.limit, share, after).await?
        {
            return Ok(locked);
        }
        let locked = self.lock_heavy(connection, ask, after).await?;
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
        after: Place,
    ) -> Result<Option<Locked>, StoreError> {
        let query = self
            .kept_query(SQL.hold_light)
            .bind(limit(most))
            .bind(limit(share))
            .bind(after.0)
            .bind(after.1)
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

    async fn lock_heavy(&self, connection: &mut Link, ask: Ask<'_>, after: Place) -> Result<Locked, StoreError> {
        let query = self
            .kept_query(SQL.hold)
            .bind(limit(ask.limit))
            .bind(limit(ask.bytes))
            .bind(after.0)
            .bind(after.1)
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

    /// Returns the events that need not wait for others of their aggregates, except for those in `behind`, in the order of
    /// `seq`.
    pub(super) async fn free(
        &self,
        connection: &mut Link,
        mut locked: Vec<LockedEvent>,
        behind: &[i64],
        on_failed: OnFailed,
    ) -> Result<Vec<LockedEvent>, StoreError> {
        if locked.is_empty() {
            return Ok(locked);
        }
        locked.sort_unstable_by_key(|(event, ..)| event.seq);
        let mut lasts: HashMap<(&str, &str), i64> = HashMap::with_capacity(locked.len());
        for (event, ..) in &locked {
            lasts.insert((&event.aggregate_type, &event.aggregate_id), event.seq);
        }
        let aggregates: Vec<((&str, &str), i64)> = lasts.into_iter().collect();
        let rows: Vec<(i64, i64)> = self
            .schema
            .query_as(SQL.walls)
            .persistent(self.keeps_statements.load(Ordering::Relaxed))
            .bind(aggregates.iter().map(|((kind, _), _)| *kind).collect::<Vec<_>>())
            .bind(aggregates.iter().map(|((_, id), _)| *id).collect::<Vec<_>>())
            .bind(aggregates.iter().map(|(_, last)| *last).collect::<Vec<_>>())
            .bind(locked.iter().map(|(event, ..)| event.seq).chain(behind.iter().copied()).collect::<Vec<_>>())
            .bind(on_failed == OnFailed::Block)
            .fetch_all(connection)
            .await
            .map_err(|error| self.claiming(error))?;
        if rows.is_empty() {
            return Ok(locked);
        }
        let name = |place: i64| usize::try_from(place).ok().and_then(|place| aggregates.get(place));
        let walls: HashMap<(String, String), i64> = rows
            .into_iter()
            .filter_map(|(place, wall)| name(place).map(|((kind, id), _)| ((kind.to_string(), id.to_string()), wall)))
            .collect();
        locked.retain(|(event, ..)| {
            let aggregate = (event.aggregate_type.clone(), event.aggregate_id.clone());
            walls.get(&aggregate).is_none_or(|wall| event.seq < *wall)
        });
        Ok(locked)
    }

    fn claiming(&self, error: Error) -> StoreError {
        database("claiming events")(self.forgets_statements(error))
    }
}
