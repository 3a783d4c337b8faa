//! Claim on SQLite: reads due events page by page, until a page has events that may be sent, and writes the lease into them.

use std::time::Instant;

use chrono::TimeDelta;
use serde_json::json;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use super::{SQL, SqliteStore, database, limit, read};
use crate::error::StoreError;
use crate::store::walk::{self, Page, Step};
use crate::store::{Ask, Claim, Claimed, LOSSES_BEFORE_ALONE, LOSSES_BEFORE_APART, OnFailed, Order};

/// The place of a due event: its time, as text, and its `seq`.
pub(super) type Place = (String, i64);

impl walk::Place for Place {
    /// Returns the beginning. SQLite removes the entries of settled events from the index at once.
    fn earlier_by(&self, _span: TimeDelta) -> Option<Self> {
        None
    }
}

impl SqliteStore {
    pub(super) async fn claim_due(&self, ask: Ask<'_>) -> Result<Claim, StoreError> {
        let mut steps = self.walk.lock().begin(&ask, Instant::now());
        loop {
            let Some(step) = self.walk.lock().next(&mut steps, Instant::now()) else { return Ok(Claim::default()) };
            let (claim, page) = self.claim_page(ask, &step).await?;
            self.walk.lock().saw(&mut steps, &step, page, Instant::now());
            if !claim.is_empty() {
                return Ok(claim);
            }
        }
    }

    async fn claim_page(&self, ask: Ask<'_>, step: &Step<Place>) -> Result<(Claim, Page<Place>), StoreError> {
        let doing = "claiming events";
        let (token, until) = (Uuid::new_v4(), step.began + ask.lease);
        let mut tx = self.relaxed.begin_with("BEGIN IMMEDIATE").await.map_err(database(doing))?;
        let mut query = sqlx::query(if ask.order == Order::None { SQL.claim_due } else { SQL.claim_ordered })
            .bind(limit(ask.limit))
            .bind(limit(ask.bytes))
            .bind(LOSSES_BEFORE_APART)
            .bind(ask.losses_below());
        if let Order::Aggregate(on_failed) = ask.order {
            let (due_at, seq) = step.after.clone().unwrap_or_default();
            query = query
                .bind(on_failed == OnFailed::Block)
                .bind(limit(step.rows))
                .bind(due_at)
                .bind(seq)
                .bind(json!(ask.behind).to_string());
        }
        let rows = query.fetch_all(&mut *tx).await.map_err(database(doing))?;
        let events =
            rows.iter().filter(|row| is_event(row)).map(read::claimed).collect::<Result<Vec<_>, StoreError>>()?;
        let page = match ask.order {
            // Without a place: the next claim begins at the beginning, too.
            Order::None => Page::taken(events.len(), None, step),
            Order::Aggregate(_) => page(&rows, events.len(), step).map_err(database("reading a claim"))?,
        };
        if !events.is_empty() {
            let ids: Vec<Uuid> = events.iter().map(|(event, _)| event.id).collect();
            let lease = sqlx::query(SQL.claim)
                .bind(json!(ids).to_string())
                .bind(ask.lease.as_secs_f64())
                .bind(token.hyphenated())
                .bind(LOSSES_BEFORE_ALONE);
            lease.execute(&mut *tx).await.map_err(database(doing))?;
            tx.commit().await.map_err(database(doing))?;
        }
        let claimed = |(event, deliveries)| Claimed::new(event, deliveries, token, until, self.give_back.clone());
        Ok((Claim::new(events.into_iter().map(claimed).collect()), page))
    }
}

/// Returns whether the row has an event. An ordered page without an event to take is one row without an event.
fn is_event(row: &SqliteRow) -> bool {
    row.try_get::<Option<String>, _>("id").is_ok_and(|id| id.is_some())
}

/// Reads the result of an ordered page.
fn page(rows: &[SqliteRow], taken: usize, step: &Step<Place>) -> Result<Page<Place>, sqlx::Error> {
    let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    let count = |name| row.try_get::<i64, _>(name).map(|count| usize::try_from(count).unwrap_or_default());
    let until: Option<String> = row.try_get("seen_until")?;
    let seq: Option<i64> = row.try_get("seen_seq")?;
    let seen = count("seen")?;
    Ok(Page { seen, free: count("free")?, taken, until: until.zip(seq), full: seen >= step.rows })
}
