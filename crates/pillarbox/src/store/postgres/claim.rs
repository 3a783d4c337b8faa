//! Claim on PostgreSQL: chooses lock or lease, and the place to begin. Locks are used only while this relay's peers live.

use std::sync::atomic::Ordering;
use std::time::Instant;

use uuid::Uuid;

use super::error::Error;
use super::floor::{Place, Start};
use super::hold::lock;
use super::moment::Moment;
use super::peers::{self, Peer};
use super::{PostgresStore, SQL, database, limit, read};
use crate::error::StoreError;
use crate::store::row::seconds;
use crate::store::{Ask, Claim, ClaimBy, Claimed, LOSSES_BEFORE_APART, Order};

impl PostgresStore {
    pub(super) async fn claim_due(&self, ask: Ask) -> Result<Claim, StoreError> {
        if let Order::Aggregate(on_failed) = ask.order {
            return self.claim_ordered(ask, on_failed).await;
        }
        let share = ask.bytes / ask.limit.max(1);
        let ask = self.holds.fitting(ask);
        let claim = self.claim_unordered(ask).await?;
        self.holds.weigh(claim.iter().map(|claimed| &**claimed.event()), share);
        Ok(claim)
    }

    async fn claim_unordered(&self, ask: Ask) -> Result<Claim, StoreError> {
        let (from, floor) = {
            let floor = lock(&self.floor);
            let from = if self.may_hold(ask.claim_by) { floor.next(Instant::now()) } else { Start::Beginning };
            (from, floor.place(from))
        };
        // A claim from the beginning finds events that have lost leases. Only a claim by lease counts these losses.
        if from != Start::Beginning && self.holds.has_room() {
            let claim = self.hold(ask, from, floor).await?;
            if !ask.whole || !claim.is_empty() {
                return Ok(claim);
            }
            let floor = lock(&self.floor).place(Start::Beginning);
            self.lease(ask, Start::Beginning, floor).await
        } else {
            self.lease(ask, from, floor).await
        }
    }

    /// Claims by lease, beginning at the floor.
    async fn lease(&self, ask: Ask, from: Start, floor: Place) -> Result<Claim, StoreError> {
        let (token, began) = (Uuid::new_v4(), Instant::now());
        let until = began + ask.lease;
        let rows = self
            .schema
            .query(SQL.claim)
            .bind(limit(ask.limit))
            .bind(limit(ask.bytes))
            .bind(ask.lease.as_secs_f64())
            .bind(token)
            .bind(LOSSES_BEFORE_APART.cast_signed())
            .bind(ask.losses_below().cast_signed())
            .bind(floor.0)
            .bind(floor.1)
            .fetch_all(self.holds.pool())
            .await
            .map_err(database("claiming events"))?;
        let mut claimed = Vec::with_capacity(rows.len());
        for row in &rows {
            let (event, deliveries, due_at) = read::claimed(row)?;
            claimed.push(((due_at, event.seq), Claimed::new(event, deliveries, token, until, self.give_back.clone())));
        }
        // RETURNING guarantees no order.
        claimed.sort_by_key(|(place, _)| *place);
        let last = claimed.last().map(|(place, _)| *place);
        lock(&self.floor).read(from, began, Instant::now(), last, claimed.len() >= ask.limit);
        Ok(Claim::new(claimed.into_iter().map(|(_, claimed)| claimed).collect()))
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
