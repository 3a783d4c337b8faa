//! People's side of an outbox on PostgreSQL. What it writes is on disk when it answers.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use sqlx::Row;
use uuid::Uuid;

use super::link::Link;
use super::moment::Moment;
use super::{PostgresStore, database, read};
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
impl Inspect for PostgresStore {
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

impl PostgresStore {
    async fn emit_alone(&self, event: Event, once: bool, who: Option<&str>) -> Result<Emitted, StoreError> {
        let mut tx = self.pool.begin().await.map_err(database("beginning a transaction"))?;
        let choose = self.schema.sql("SET LOCAL search_path TO {schema}");
        Link::run(&mut tx, choose).await.map_err(database("choosing the schema"))?;
        let emitted = if once { emit::emit_once(&mut tx, event).await } else { emit::emit(&mut tx, event).await }?;
        if let Some(who) = who.filter(|_| emitted.is_new) {
            let entry = Entry::Anew { who, target: &format!("{} {}", emitted.event_type, emitted.id) };
            self.write_down(&mut tx, entry, "emit", 1).await.map_err(database("writing down who emitted"))?;
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
        let row = self
            .schema
            .query(include_str!("../../../sql/postgres/get.sql"))
            .bind(id)
            .fetch_optional(&self.pool)
            .await?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(EventDetail {
            event: read::view(&row)?,
            payload: read::json(row.try_get("payload")?)?,
            headers: read_headers(row.try_get("headers")?),
            deliveries: self.deliveries_of(id).await?,
            failed_attempts: self.attempts_of(id).await?,
        }))
    }

    async fn deliveries_of(&self, id: Uuid) -> Result<Vec<DeliveryView>, sqlx::Error> {
        type Columns = (String, String, i32, Option<Moment>, Option<Moment>, String);
        let rows: Vec<Columns> = self
            .schema
            .query_as(include_str!("../../../sql/postgres/get_deliveries.sql"))
            .bind(id)
            .fetch_all(&self.pool)
            .await?;
        let view = |(destination, status, attempts, next_attempt_at, delivered_at, error): Columns| {
            let status = status.parse().map_err(read::bad)?;
            Ok(DeliveryView {
                destination,
                status,
                attempts: read::count(attempts),
                next_attempt_at: next_attempt_at.map(Moment::shown),
                delivered_at: delivered_at.map(Moment::shown),
                error,
            })
        };
        rows.into_iter().map(view).collect()
    }

    async fn attempts_of(&self, id: Uuid) -> Result<Vec<AttemptView>, sqlx::Error> {
        type Columns = (i32, String, Moment, i64, Option<i32>, String, Option<String>);
        let rows: Vec<Columns> = self
            .schema
            .query_as(include_str!("../../../sql/postgres/get_attempts.sql"))
            .bind(id)
            .fetch_all(&self.pool)
            .await?;
        let view = |(number, destination, attempted_at, took_ms, status_code, error, answer): Columns| AttemptView {
            number: read::count(number),
            destination,
            attempted_at: attempted_at.shown(),
            took_ms: took_ms.unsigned_abs(),
            status_code: status_code.and_then(|code| u16::try_from(code).ok()),
            error,
            answer,
        };
        Ok(rows.into_iter().map(view).collect())
    }

    async fn count(&self) -> Result<Counts, sqlx::Error> {
        let row = self.schema.query(include_str!("../../../sql/postgres/counts.sql")).fetch_one(&self.pool).await?;
        let parked: Vec<(String, i64)> =
            self.schema.query_as(include_str!("../../../sql/postgres/counts_parked.sql")).fetch_all(&self.pool).await?;
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
        // Through the connections that claim: they are held to the indexes.
        let mut tx = self.holds.pool().begin().await?;
        let row = self
            .schema
            .query(include_str!("../../../sql/postgres/depth.sql"))
            .bind(Depth::EXACT.cast_signed())
            .fetch_one(&mut *tx)
            .await?;
        tx.commit().await?;
        let told = |name: &str, once: &str| {
            let counted = row.try_get::<i64, _>(name)?.unsigned_abs();
            Ok::<_, sqlx::Error>(Depth::told(counted, row.try_get(once)?))
        };
        let oldest: Option<f64> = row.try_get("oldest_due")?;
        let due = told("due", "due_once")?;
        let counted = |name: &str| row.try_get::<i64, _>(name).map(i64::unsigned_abs);
        let (scheduled, sending) = (counted("scheduled")?, counted("sending")?);
        let cut_short = scheduled + sending >= Depth::EXACT;
        let once = row.try_get::<f64, _>("due_once")? - due as f64 - sending as f64;
        Ok(Depth {
            due,
            scheduled: if cut_short { scheduled.max(once.max(0.0) as u64) } else { scheduled },
            sending,
            parked: told("parked", "parked_once")?,
            failed: told("failed", "failed_once")?,
            oldest_due: oldest.map(seconds),
        })
    }
}
