//! People's side of an outbox on SQLite. What it writes is on disk when it answers.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::Uuid;

use super::act::write_down;
use super::{SqliteStore, database, read};
use crate::emit::{self, Emitted};
use crate::error::{EmitError, StoreError};
use crate::event::{Event, read_headers};
use crate::store::act::{Entry, Marked, Replayed, Retried, Selection};
use crate::store::dead_letters::DeadLetters;
use crate::store::examine::Finding;
use crate::store::figures::Minute;
use crate::store::inspect::{
    AttemptView, AuditView, Counts, DeliveryView, Depth, EventDetail, EventView, Inspect, Parked, PausedView,
    RelayView, State,
};
use crate::store::list::{Filter, Page, Turn};
use crate::store::row::seconds;

#[async_trait]
impl Inspect for SqliteStore {
    async fn list(&self, filter: &Filter, turn: &Turn) -> Result<Page, StoreError> {
        self.list_page(filter, turn).await
    }

    async fn find(&self, text: &str) -> Result<Vec<EventView>, StoreError> {
        self.find_exactly(text).await
    }

    async fn neighbours(&self, id: Uuid) -> Result<Vec<EventView>, StoreError> {
        self.neighbours_of(id).await.map_err(database("looking for an event's neighbours"))
    }

    async fn dead_letters(&self, filter: &Filter, oldest: DateTime<Utc>) -> Result<DeadLetters, StoreError> {
        self.group_dead_letters(filter, oldest).await.map_err(database("looking at dead letters"))
    }

    async fn get(&self, id: Uuid) -> Result<Option<EventDetail>, StoreError> {
        self.get_detail(id).await.map_err(database("reading an event"))
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        self.count().await.map_err(database("counting events"))
    }

    async fn depth(&self) -> Result<Depth, StoreError> {
        self.look().await.map_err(database("looking at what waits"))
    }

    async fn minutes(&self, since: DateTime<Utc>) -> Result<Vec<Minute>, StoreError> {
        self.read_minutes(since).await.map_err(database("reading figures"))
    }

    async fn relays(&self) -> Result<Vec<RelayView>, StoreError> {
        self.read_relays().await.map_err(database("reading what relays say"))
    }

    async fn retry(&self, selection: &Selection, entry: Entry<'_>) -> Result<Vec<(Uuid, Retried)>, StoreError> {
        let ids = match selection {
            Selection::Ids(ids) => ids.clone(),
            Selection::Failed(filter, most) => self.failed_ids(filter, *most).await?,
        };
        self.retry_ids(&ids, entry).await.map_err(database("retrying events"))
    }

    async fn fail(&self, ids: &[Uuid], reason: &str, entry: Entry<'_>) -> Result<Vec<(Uuid, Marked)>, StoreError> {
        self.fail_ids(ids, reason, entry).await.map_err(database("marking events as failed"))
    }

    async fn replay(&self, ids: &[Uuid], entry: Entry<'_>) -> Result<Vec<(Uuid, Replayed)>, StoreError> {
        self.replay_ids(ids, entry).await.map_err(database("replaying events"))
    }

    async fn open_entry(&self, who: &str, what: &str, target: &str) -> Result<i64, StoreError> {
        self.begin_entry(who, what, target).await.map_err(database("writing down what people do"))
    }

    async fn pause(&self, destination: &str, who: &str) -> Result<bool, StoreError> {
        self.set_paused(destination, who, true).await.map_err(database("pausing a destination"))
    }

    async fn resume(&self, destination: &str, who: &str) -> Result<bool, StoreError> {
        self.set_paused(destination, who, false).await.map_err(database("resuming a destination"))
    }

    async fn pauses(&self) -> Result<Vec<PausedView>, StoreError> {
        self.read_pauses().await.map_err(database("reading what is paused"))
    }

    async fn audit(&self, before: Option<i64>, limit: usize) -> Result<Vec<AuditView>, StoreError> {
        self.read_audit(before, limit).await.map_err(database("reading what people did"))
    }

    async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        self.look_for_trouble().await.map_err(database("looking for trouble"))
    }

    async fn emit(&self, event: Event) -> Result<Emitted, StoreError> {
        self.emit_alone(event, false, None).await
    }

    async fn emit_once(&self, event: Event) -> Result<Emitted, StoreError> {
        self.emit_alone(event, true, None).await
    }

    async fn emit_by(&self, who: &str, event: Event, once: bool) -> Result<Emitted, StoreError> {
        self.emit_alone(event, once, Some(who)).await
    }
}

impl SqliteStore {
    async fn emit_alone(&self, event: Event, once: bool, who: Option<&str>) -> Result<Emitted, StoreError> {
        let mut tx = self.durable.begin_with("BEGIN IMMEDIATE").await.map_err(database("beginning a transaction"))?;
        let emitted = if once { emit::emit_once(&mut tx, event).await } else { emit::emit(&mut tx, event).await }?;
        if let Some(who) = who.filter(|_| emitted.is_new) {
            let entry = Entry::Anew { who, target: &format!("{} {}", emitted.event_type, emitted.id) };
            write_down(&mut tx, entry, "emit", 1).await.map_err(database("writing down who emitted"))?;
        }
        tx.commit().await.map_err(|error| EmitError::Driver(error.into()))?;
        Ok(emitted)
    }

    /// The oldest dead letters that the filter finds.
    async fn failed_ids(&self, filter: &Filter, most: usize) -> Result<Vec<Uuid>, StoreError> {
        let filter = Filter { state: Some(State::Failed), ..filter.clone() };
        let mut ids = Vec::new();
        let mut turn = Turn { limit: most, oldest_first: true, ..Turn::default() };
        while ids.len() < most {
            turn.limit = most - ids.len();
            let page = self.list_page(&filter, &turn).await?;
            ids.extend(page.events.iter().map(|event| event.id));
            turn.after = page.next;
            if turn.after.is_none() {
                break;
            }
        }
        Ok(ids)
    }

    async fn get_detail(&self, id: Uuid) -> Result<Option<EventDetail>, sqlx::Error> {
        let row = sqlx::query(include_str!("../../../sql/sqlite/get.sql"))
            .bind(id.hyphenated())
            .fetch_optional(&self.durable)
            .await?;
        let Some(row) = row else { return Ok(None) };
        let deliveries = sqlx::query(include_str!("../../../sql/sqlite/get_deliveries.sql"))
            .bind(id.hyphenated())
            .fetch_all(&self.durable)
            .await?;
        let attempts = sqlx::query(include_str!("../../../sql/sqlite/get_attempts.sql"))
            .bind(id.hyphenated())
            .fetch_all(&self.durable)
            .await?;
        Ok(Some(EventDetail {
            event: read::view(&row)?,
            payload: read::json(row.try_get("payload")?)?,
            headers: read_headers(row.try_get("headers")?),
            deliveries: deliveries.iter().map(delivery).collect::<Result<_, _>>()?,
            failed_attempts: attempts.iter().map(attempt).collect::<Result<_, _>>()?,
        }))
    }

    async fn count(&self) -> Result<Counts, sqlx::Error> {
        let row = sqlx::query(include_str!("../../../sql/sqlite/counts.sql")).fetch_one(&self.durable).await?;
        let parked: Vec<(String, i64)> =
            sqlx::query_as(include_str!("../../../sql/sqlite/counts_parked.sql")).fetch_all(&self.durable).await?;
        let number = |name: &str| row.try_get::<i64, _>(name).map(i64::unsigned_abs);
        let oldest: Option<f64> = row.try_get("oldest_due")?;
        Ok(Counts {
            due: number("due")?,
            scheduled: number("scheduled")?,
            sending: number("sending")?,
            parked: parked.into_iter().map(|(on, count)| Parked { on, count: count.unsigned_abs() }).collect(),
            delivered: number("delivered")?,
            failed: number("failed")?,
            oldest_due: oldest.map(seconds),
            relays: self.read_relays().await?,
        })
    }

    async fn look(&self) -> Result<Depth, sqlx::Error> {
        let row = sqlx::query(include_str!("../../../sql/sqlite/depth.sql"))
            .bind(Depth::EXACT.cast_signed())
            .fetch_one(&self.durable)
            .await?;
        let counted = |name: &str| row.try_get::<i64, _>(name).map(i64::unsigned_abs);
        let oldest: Option<f64> = row.try_get("oldest_due")?;
        Ok(Depth {
            due: counted("due")?,
            scheduled: counted("scheduled")?,
            sending: counted("sending")?,
            parked: counted("parked")?,
            failed: counted("failed")?,
            oldest_due: oldest.map(seconds),
        })
    }
}

fn delivery(row: &SqliteRow) -> Result<DeliveryView, sqlx::Error> {
    Ok(DeliveryView {
        destination: row.try_get("destination")?,
        status: row.try_get::<String, _>("status")?.parse().map_err(read::bad)?,
        attempts: row.try_get("attempts")?,
        next_attempt_at: read::maybe_moment(row, "next_attempt_at")?,
        delivered_at: read::maybe_moment(row, "delivered_at")?,
        error: row.try_get("error")?,
    })
}

fn attempt(row: &SqliteRow) -> Result<AttemptView, sqlx::Error> {
    Ok(AttemptView {
        number: row.try_get("number")?,
        destination: row.try_get("destination")?,
        attempted_at: read::moment(row, "attempted_at")?,
        took_ms: row.try_get::<i64, _>("took_ms")?.unsigned_abs(),
        status_code: row.try_get("status_code")?,
        error: row.try_get("error")?,
        answer: row.try_get("answer")?,
    })
}
