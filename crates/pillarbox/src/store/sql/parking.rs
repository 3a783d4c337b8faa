//! Parked events and deliveries, and paused destinations.

use async_trait::async_trait;

use uuid::Uuid;

use super::{Call, Database, Row, Through, act, database, limit, routed};
use crate::error::{DriverError, StoreError};
use crate::event::read_headers;
use crate::store::list::Bound;
use crate::store::{EventKind, ParkedEvent, ParkedPlace, Parking};

#[async_trait]
impl<D: Database> Parking for D {
    async fn parked_on(&self) -> Result<Vec<String>, StoreError> {
        parked_on(self).await.map_err(database("reading parked events"))
    }

    async fn paused(&self) -> Result<Vec<String>, StoreError> {
        let pauses = act::pauses(self).await.map_err(database("reading paused destinations"))?;
        Ok(pauses.into_iter().map(|pause| pause.destination).collect())
    }

    async fn parked_kinds(&self, on: &str) -> Result<Vec<EventKind>, StoreError> {
        parked_kinds(self, on).await.map_err(database("reading parked events"))
    }

    async fn parked_events(
        &self,
        on: &str,
        kind: &EventKind,
        after: &ParkedPlace,
        at_most: usize,
    ) -> Result<Vec<ParkedEvent>, StoreError> {
        parked_events(self, on, kind, after, at_most).await.map_err(database("reading parked events"))
    }

    async fn unpark_these(&self, on: &str, ids: &[Uuid]) -> Result<u64, StoreError> {
        Database::unpark_these(self, on, ids).await.map_err(database("unparking events"))
    }

    async fn unpark(&self, on: &str, kind: Option<&EventKind>, at_most: usize) -> Result<u64, StoreError> {
        let doing = "unparking events";
        let whole = self.unpark_whole(on, kind, limit(at_most)).await.map_err(database(doing))?;
        let left = limit(at_most).saturating_sub_unsigned(whole);
        if kind.is_some() || left <= 0 {
            return Ok(whole);
        }
        Ok(whole + self.unpark_shared(on, left).await.map_err(database(doing))?)
    }
}

pub(super) async fn parked_on<D: Database>(store: &D) -> Result<Vec<String>, DriverError> {
    let rows = store.rows(Through::People, Call::new(D::statements().parked_on)).await?;
    rows.iter().map(|row| row.text("parked_on")).collect()
}

async fn parked_kinds<D: Database>(store: &D, on: &str) -> Result<Vec<EventKind>, DriverError> {
    let rows = store.rows(Through::People, Call::new(D::statements().parked_kinds).bind(on)).await?;
    let kind = |row: &D::Row| {
        Ok(EventKind { event_type: row.text("event_type")?, aggregate_type: row.text("aggregate_type")? })
    };
    rows.iter().map(kind).collect()
}

async fn parked_events<D: Database>(
    store: &D,
    on: &str,
    kind: &EventKind,
    after: &ParkedPlace,
    most: usize,
) -> Result<Vec<ParkedEvent>, DriverError> {
    let call = Call::new(D::statements().parked_events)
        .bind(on)
        .bind(kind.event_type.as_str())
        .bind(kind.aggregate_type.as_str())
        .bind(Bound::Mark(after.parked_at.clone()))
        .bind(after.seq)
        .bind(most);
    let read = |row: &D::Row| {
        Ok(ParkedEvent {
            id: row.id("id")?,
            payload: routed::payload(&row.text("payload")?)?,
            headers: read_headers(row.maybe_text("headers")?.as_deref()),
            place: ParkedPlace { parked_at: row.mark("next_attempt_at")?.unwrap_or_default(), seq: row.number("seq")? },
        })
    };
    store.rows(Through::Index, call).await?.iter().map(read).collect()
}
