//! Ordered claims on SQLite: reads due events page by page, until a page has events that may be sent.

use std::time::Instant;

use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use super::{SQL, SqliteStore, database, lease, limit, read};
use crate::error::StoreError;
use crate::store::walk::{Page, Step};
use crate::store::{Ask, Claim, Claimed, LOSSES_BEFORE_APART, OnFailed};

/// The place of a due event: its time, as text, and its `seq`.
pub(super) type Place = (String, i64);

impl SqliteStore {
    pub(super) async fn claim_ordered(&self, ask: Ask, on_failed: OnFailed) -> Result<Claim, StoreError> {
        let mut steps = self.walk.lock().begin(ask.limit, ask.whole, false, Instant::now());
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
        let doing = "claiming events";
        let token = Uuid::new_v4();
        let began = Instant::now();
        let (due_at, seq) = step.after.clone().unwrap_or_default();
        let mut tx = self.relaxed.begin_with("BEGIN IMMEDIATE").await.map_err(database(doing))?;
        let rows = sqlx::query(SQL.claim_ordered)
            .bind(limit(ask.limit))
            .bind(limit(ask.bytes))
            .bind(LOSSES_BEFORE_APART)
            .bind(ask.losses_below())
            .bind(on_failed == OnFailed::Block)
            .bind(limit(step.rows))
            .bind(due_at)
            .bind(seq)
            .fetch_all(&mut *tx)
            .await
            .map_err(database(doing))?;
        let events =
            rows.iter().filter(|row| is_event(row)).map(read::claimed).collect::<Result<Vec<_>, StoreError>>()?;
        let page = page(&rows, events.len(), began).map_err(database("reading a claim"))?;
        if !events.is_empty() {
            lease(tx, &events, ask, token).await.map_err(database(doing))?;
        }
        let until = began + ask.lease;
        let claimed = |(event, deliveries)| Claimed::new(event, deliveries, token, until, self.give_back.clone());
        Ok((Claim::new(events.into_iter().map(claimed).collect()), page))
    }
}

/// Returns whether the row has an event. A page without an event to take is one row without an event.
fn is_event(row: &SqliteRow) -> bool {
    row.try_get::<Option<String>, _>("id").is_ok_and(|id| id.is_some())
}

fn page(rows: &[SqliteRow], taken: usize, began: Instant) -> Result<Page<Place>, sqlx::Error> {
    let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
    let count = |name| row.try_get::<i64, _>(name).map(|count| usize::try_from(count).unwrap_or_default());
    let until: Option<String> = row.try_get("seen_until")?;
    let seq: Option<i64> = row.try_get("seen_seq")?;
    Ok(Page { seen: count("seen")?, free: count("free")?, taken, until: until.zip(seq), took: began.elapsed() })
}
