//! Ordered claims on PostgreSQL: page by page through what is due, until one has events that may be sent.

use std::time::Instant;

use chrono::{DateTime, Utc};
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::{PostgresStore, database, limit, read};
use crate::error::StoreError;
use crate::store::walk::{Page, Step};
use crate::store::{Ask, Claim, Claimed, LOSSES_BEFORE_ALONE, LOSSES_BEFORE_FAILED, OnFailed};

/// The place of a due event: its time, and its `seq`.
pub(super) type Place = (DateTime<Utc>, i64);

impl PostgresStore {
    pub(super) async fn claim_ordered(&self, ask: Ask, on_failed: OnFailed) -> Result<Claim, StoreError> {
        let mut steps = self.walk.lock().begin(ask.limit, ask.whole, Instant::now());
        loop {
            let Some(step) = self.walk.lock().next(&mut steps) else { return Ok(Claim::default()) };
            let (claim, page) = self.claim_page(ask, on_failed, &step).await?;
            self.walk.lock().saw(&mut steps, &step, page);
            if !claim.is_empty() {
                return Ok(claim);
            }
        }
    }

    async fn claim_page(
        &self,
        ask: Ask,
        on_failed: OnFailed,
        step: &Step<Place>,
    ) -> Result<(Claim, Page<Place>), StoreError> {
        let token = Uuid::new_v4();
        let began = Instant::now();
        let rows = self
            .schema
            .query(include_str!("../../../sql/postgres/claim_ordered.sql"))
            .bind(limit(ask.limit))
            .bind(limit(ask.bytes))
            .bind(ask.lease.as_secs_f64())
            .bind(token)
            .bind(LOSSES_BEFORE_ALONE.cast_signed())
            .bind(LOSSES_BEFORE_FAILED.cast_signed())
            .bind(on_failed == OnFailed::Block)
            .bind(limit(step.rows))
            .bind(step.after.map(|(due_at, _)| due_at))
            .bind(step.after.map_or(i64::MIN, |(_, seq)| seq))
            .fetch_all(&self.pool)
            .await
            .map_err(database("claiming events"))?;
        let mut claimed = Vec::with_capacity(rows.len());
        for row in rows.iter().filter(|row| is_event(row)) {
            let (event, deliveries, turn) = read::claimed(row)?;
            let held = Claimed::new(event, deliveries, token, began + ask.lease, self.give_back.clone());
            claimed.push(((turn, held.event().seq), held));
        }
        // RETURNING promises no order.
        claimed.sort_by_key(|(place, _)| *place);
        let claim = Claim::new(claimed.into_iter().map(|(_, claimed)| claimed).collect());
        let page = page(&rows, claim.len(), began).map_err(database("reading a claim"))?;
        Ok((claim, page))
    }
}

/// A page without an event to take is told in one row without one.
fn is_event(row: &PgRow) -> bool {
    row.try_get::<Option<Uuid>, _>("id").is_ok_and(|id| id.is_some())
}

fn page(rows: &[PgRow], taken: usize, began: Instant) -> Result<Page<Place>, sqlx::Error> {
    let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    let count = |name| row.try_get::<i64, _>(name).map(|count| usize::try_from(count).unwrap_or_default());
    let until: Option<DateTime<Utc>> = row.try_get("seen_until")?;
    let seq: Option<i64> = row.try_get("seen_seq")?;
    Ok(Page { seen: count("seen")?, free: count("free")?, taken, until: until.zip(seq), took: began.elapsed() })
}
