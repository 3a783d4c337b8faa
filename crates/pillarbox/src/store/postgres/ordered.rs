//! Ordered claims on PostgreSQL: reads due events page by page, until a page has events that may be sent. They are held by lock
//! or by lease, like claims without an order.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Instant;

use uuid::Uuid;

use super::error::Error;
use super::floor::{self, Place};
use super::link::Link;
use super::locked::LockedEvent;
use super::moment::Moment;
use super::statement::PgRow;
use super::{PostgresStore, SQL, database, limit, read};
use crate::error::StoreError;
use crate::store::walk::{Page, Step};
use crate::store::{Ask, Claim, Claimed, LOSSES_BEFORE_APART, OnFailed};

impl PostgresStore {
    pub(super) async fn claim_ordered(&self, ask: Ask, on_failed: OnFailed) -> Result<Claim, StoreError> {
        let now = Instant::now();
        let by_lock = self.may_hold(ask.claim_by) && self.holds.has_room() && !self.walk.lock().leases(now);
        let mut steps = self.walk.lock().begin(ask.limit, ask.whole, by_lock, now);
        loop {
            let Some(step) = self.walk.lock().next(&mut steps) else { return Ok(Claim::default()) };
            let (claim, page) = if by_lock && step.is_new() {
                self.hold_page(ask, on_failed, &step).await?
            } else {
                self.lease_page(ask, on_failed, &step).await?
            };
            self.walk.lock().saw(&mut steps, &step, page);
            if !claim.is_empty() {
                return Ok(claim);
            }
        }
    }

    async fn lease_page(
        &self,
        ask: Ask,
        on_failed: OnFailed,
        step: &Step<Place>,
    ) -> Result<(Claim, Page<Place>), StoreError> {
        let (token, began) = (Uuid::new_v4(), Instant::now());
        let rows = self
            .schema
            .query(SQL.claim_ordered)
            .bind(limit(ask.limit))
            .bind(limit(ask.bytes))
            .bind(ask.lease.as_secs_f64())
            .bind(token)
            .bind(LOSSES_BEFORE_APART.cast_signed())
            .bind(ask.losses_below().cast_signed())
            .bind(on_failed == OnFailed::Block)
            .bind(limit(step.rows))
            .bind(step.after.map(|(due_at, _)| due_at))
            .bind(step.after.map_or(i64::MIN, |(_, seq)| seq))
            .fetch_all(self.holds.pool())
            .await
            .map_err(database("claiming events"))?;
        let mut claimed = Vec::with_capacity(rows.len());
        for row in rows.iter().filter(|row| is_event(row)) {
            let (event, deliveries, due_at) = read::claimed(row)?;
            let held = Claimed::new(event, deliveries, token, began + ask.lease, self.give_back.clone());
            claimed.push(((due_at, held.event().seq), held));
        }
        // RETURNING guarantees no order.
        claimed.sort_by_key(|(place, _)| *place);
        let claim = Claim::new(claimed.into_iter().map(|(_, claimed)| claimed).collect());
        let page = page(&rows, claim.len(), began).map_err(database("reading a claim"))?;
        Ok((claim, page))
    }

    /// Locks due events as a claim without an order does, then asks which of them must wait for others. Locks on waiting events
    /// cost little if few events wait. Otherwise `lease_page` is better.
    async fn hold_page(
        &self,
        ask: Ask,
        on_failed: OnFailed,
        step: &Step<Place>,
    ) -> Result<(Claim, Page<Place>), StoreError> {
        let (token, began) = (Uuid::new_v4(), Instant::now());
        let mut tx = self.holds.kept().begin().await.map_err(database("claiming events"))?;
        let floor = step.after.unwrap_or_else(floor::beginning);
        let locked = self.lock_due(&mut tx, Ask { limit: step.rows, ..ask }, floor).await?;
        let (last, count, left) = (locked.last, locked.count, locked.count - locked.rows.len());
        let free = self.free(&mut tx, locked.rows, on_failed).await?;
        let taken = free.len();
        let page = Page { seen: count, free: taken + left, taken, until: last, took: began.elapsed() };
        if free.is_empty() {
            tx.commit().await.map_err(database("claiming events"))?;
            return Ok((Claim::default(), page));
        }
        let claimed = |(event, deliveries, fresh)| {
            Claimed::new(event, deliveries, token, began + ask.lease, self.give_back.clone()).fresh(fresh)
        };
        let events = free.into_iter().map(claimed).collect();
        Ok((self.held_claim(tx, events, token, ask.lease, None), page))
    }

    /// Returns the events that need not wait for others of their aggregates, in the order of `seq`.
    async fn free(
        &self,
        connection: &mut Link,
        mut locked: Vec<LockedEvent>,
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
            .bind(locked.iter().map(|(event, ..)| event.id).collect::<Vec<_>>())
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
}

/// Returns whether the row has an event. A page without an event to take is one row without an event.
fn is_event(row: &PgRow) -> bool {
    row.try_get::<_, Option<Uuid>>(0).is_ok_and(|id| id.is_some())
}

fn page(rows: &[PgRow], taken: usize, began: Instant) -> Result<Page<Place>, Error> {
    let row = rows.first().ok_or(Error::NoRow)?;
    let count = |name| row.try_get::<_, i64>(name).map(|count| usize::try_from(count).unwrap_or_default());
    let until: Option<Moment> = row.try_get("seen_until")?;
    let seq: Option<i64> = row.try_get("seen_seq")?;
    Ok(Page { seen: count("seen")?, free: count("free")?, taken, until: until.zip(seq), took: began.elapsed() })
}
