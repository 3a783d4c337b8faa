//! Claim on PostgreSQL: reads due events page by page, until a page has events that may be sent. They are held by lock or by
//! lease. Locks are used only while this relay's peers live.

use std::sync::atomic::Ordering;
use std::time::Instant;

use chrono::TimeDelta;
use uuid::Uuid;

use super::error::Error;
use super::hold::{Held, lock};
use super::moment::Moment;
use super::peers::{self, Peer};
use super::statement::PgRow;
use super::{PostgresStore, SQL, database, limit, read};
use crate::error::StoreError;
use crate::store::row::seconds;
use crate::store::walk::{self, Page, Step};
use crate::store::{Ask, Claim, ClaimBy, Claimed, LOSSES_BEFORE_APART, OnFailed, Order};

/// A place in the due index: `(next_attempt_at, seq)`.
pub(super) type Place = (Moment, i64);

/// The place before every event.
pub(super) const BEGINNING: Place = (Moment::EARLIEST, i64::MIN);

impl walk::Place for Place {
    fn earlier_by(&self, span: TimeDelta) -> Option<Self> {
        Some((self.0.earlier_by(span), 0))
    }
}

impl PostgresStore {
    pub(super) async fn claim_due(&self, ask: Ask<'_>) -> Result<Claim, StoreError> {
        let share = ask.bytes / ask.limit.max(1);
        let ask = self.holds.fitting(ask);
        let mut steps = self.walk.lock().begin(&ask, Instant::now());
        steps.trails = self.may_hold(ask.claim_by);
        steps.locks = steps.trails && self.holds.has_room();
        loop {
            let Some(step) = self.walk.lock().next(&mut steps, Instant::now()) else { return Ok(Claim::default()) };
            let read = if step.locks { self.hold_page(ask, &step).await } else { self.lease_page(ask, &step).await };
            let (claim, page) = read?;
            self.walk.lock().saw(&mut steps, &step, page, Instant::now());
            if !claim.is_empty() {
                self.holds.weigh(claim.iter().map(|claimed| &**claimed.event()), share);
                return Ok(claim);
            }
        }
    }

    /// Claims a page by lease. Only such claims count losses.
    async fn lease_page(&self, ask: Ask<'_>, step: &Step<Place>) -> Result<(Claim, Page<Place>), StoreError> {
        let (token, until) = (Uuid::new_v4(), step.began + ask.lease);
        let after = step.after.unwrap_or(BEGINNING);
        let sql = if ask.order == Order::None { SQL.claim } else { SQL.claim_ordered };
        let mut query = self
            .schema
            .query(sql)
            .bind(limit(ask.limit))
            .bind(limit(ask.bytes))
            .bind(ask.lease.as_secs_f64())
            .bind(token)
            .bind(LOSSES_BEFORE_APART.cast_signed())
            .bind(ask.losses_below().cast_signed())
            .bind(after.0)
            .bind(after.1);
        if let Order::Aggregate(on_failed) = ask.order {
            query = query.bind(on_failed == OnFailed::Block).bind(limit(step.rows)).bind(ask.behind);
        }
        let rows = query.fetch_all(self.holds.pool()).await.map_err(database("claiming events"))?;
        let mut claimed = Vec::with_capacity(rows.len());
        for row in rows.iter().filter(|row| is_event(row)) {
            let (event, deliveries, due_at) = read::claimed(row)?;
            claimed.push(((due_at, event.seq), Claimed::new(event, deliveries, token, until, self.give_back.clone())));
        }
        // RETURNING guarantees no order.
        claimed.sort_by_key(|(place, _)| *place);
        let (taken, last) = (claimed.len(), claimed.last().map(|(place, _)| *place));
        let page = match ask.order {
            Order::None => Page::taken(taken, last, step),
            Order::Aggregate(_) => page(&rows, taken, step).map_err(database("reading a claim"))?,
        };
        Ok((Claim::new(claimed.into_iter().map(|(_, claimed)| claimed).collect()), page))
    }

    /// Claims a page by lock. With an order, a second statement finds the locked events that must wait for others. Locks on
    /// these cost little if they are few. Otherwise `lease_page` is better.
    async fn hold_page(&self, ask: Ask<'_>, step: &Step<Place>) -> Result<(Claim, Page<Place>), StoreError> {
        let (token, until) = (Uuid::new_v4(), step.began + ask.lease);
        let mut tx = self.holds.kept().begin().await.map_err(database("claiming events"))?;
        let locked = self.lock_due(&mut tx, ask, step.after.unwrap_or(BEGINNING)).await?;
        let (seen, last, full) = (locked.rows.len(), locked.last, locked.count >= step.rows);
        let cut = last.filter(|_| locked.count > seen);
        let free = match ask.order {
            Order::None => locked.rows,
            Order::Aggregate(on_failed) => self.free(&mut tx, locked.rows, ask.behind, on_failed).await?,
        };
        let taken = free.len();
        let page = Page { seen, free: taken, taken, until: last, full };
        if free.is_empty() {
            tx.commit().await.map_err(database("claiming events"))?;
            return Ok((Claim::default(), page));
        }
        let claimed = |(event, deliveries, fresh)| {
            Claimed::new(event, deliveries, token, until, self.give_back.clone()).fresh(fresh)
        };
        let events: Vec<Claimed> = free.into_iter().map(claimed).collect();
        let ids = events.iter().map(|claimed| claimed.event().id).collect();
        let patience = self.keep(token, ask.lease, Held { tx, ids, after: step.after, cut });
        Ok((Claim::new(events).settled_together(patience), page))
    }

    pub(super) fn calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    pub(super) fn may_hold(&self, claim_by: ClaimBy) -> bool {
        match claim_by {
            ClaimBy::Auto => self.calm(),
            ClaimBy::Lease => false,
            ClaimBy::Lock => true,
        }
    }

    /// Checks whether a relay died recently.
    pub(super) async fn look_around(&self, relay: Uuid) -> Result<(), Error> {
        let rows: Vec<(Uuid, Moment, f64, f64)> = self
            .schema
            .query_as(SQL.peers)
            .bind(relay)
            .bind(peers::MOURNING.as_secs_f64())
            .fetch_all(&self.pool)
            .await?;
        let peer = |(id, heartbeat_at, ago, age)| Peer { id, heartbeat_at, ago: seconds(ago), age: seconds(age) };
        let seen: Vec<Peer> = rows.into_iter().map(peer).collect();
        let calm = lock(&self.peers).entry(relay).or_default().all_live(&seen);
        self.calm.store(calm, Ordering::Relaxed);
        Ok(())
    }
}

/// Returns whether the row has an event. An ordered page without an event to take is one row without an event.
fn is_event(row: &PgRow) -> bool {
    row.try_get::<_, Option<Uuid>>(0).is_ok_and(|id| id.is_some())
}

/// Reads the result of an ordered page.
fn page(rows: &[PgRow], taken: usize, step: &Step<Place>) -> Result<Page<Place>, Error> {
    let row = rows.first().ok_or(Error::NoRow)?;
    let count = |name| row.try_get::<_, i64>(name).map(|count| usize::try_from(count).unwrap_or_default());
    let until: Option<Moment> = row.try_get("seen_until")?;
    let seq: Option<i64> = row.try_get("seen_seq")?;
    let seen = count("seen")?;
    Ok(Page { seen, free: count("free")?, taken, until: until.zip(seq), full: seen >= step.rows })
}
