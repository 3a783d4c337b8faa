//! Lists of events on PostgreSQL: a stretch of an index at a time.

use sqlx::Row;
use sqlx::postgres::PgRow;

use super::{PostgresStore, database, limit, read};
use crate::error::StoreError;
use crate::store::State;
use crate::store::list::{Filter, Page, Passed, Plan, Stretch, Turn, Way};
use crate::store::row::{like, search_like};

impl PostgresStore {
    pub(super) async fn list_page(&self, filter: &Filter, turn: &Turn) -> Result<Page, StoreError> {
        let mut plan = Plan::of(filter, turn)?;
        while let Some((stretch, most, budget)) = plan.next() {
            let entries = self.walk_along(&stretch, filter, most, budget).await;
            plan.read(&stretch, entries.map_err(database("listing events"))?, 0, budget);
        }
        Ok(plan.page())
    }

    async fn walk_along(
        &self,
        stretch: &Stretch,
        filter: &Filter,
        most: usize,
        budget: u64,
    ) -> Result<Vec<Passed>, sqlx::Error> {
        let routes = filter.destination.as_ref().map(|to| to.routes.iter().collect::<Vec<_>>()).unwrap_or_default();
        let name = filter.destination.as_ref().map(|to| to.name.as_str());
        let leads = |to: &[String]| name.is_some_and(|name| to.iter().any(|place| place == name));
        // Through the connections that claim: they are held to the indexes.
        let mut tx = self.holds.pool().begin().await?;
        let rows = self
            .schema
            .query(&statement(stretch))
            .bind(filter.state.map(State::as_str))
            .bind(filter.event_type.as_deref().map(like))
            .bind(&filter.aggregate_type)
            .bind(&filter.aggregate_id)
            .bind(&filter.parked_on)
            .bind(filter.search.as_deref().map(search_like))
            .bind(filter.since)
            .bind(filter.until)
            .bind(limit(most))
            .bind(budget.cast_signed())
            .bind(stretch.ids.0)
            .bind(stretch.ids.1)
            .bind(stretch.from.0)
            .bind(stretch.from.1)
            .bind(stretch.to.0)
            .bind(stretch.to.1)
            .bind(&stretch.parked_on)
            .bind(name)
            .bind(routes.iter().map(|route| like(route.events.as_str())).collect::<Vec<_>>())
            .bind(routes.iter().map(|route| like(route.aggregates.as_str())).collect::<Vec<_>>())
            .bind(routes.iter().map(|route| leads(&route.to)).collect::<Vec<_>>())
            .fetch_all(&mut *tx)
            .await?;
        tx.commit().await?;
        rows.iter().map(entry).collect()
    }
}

/// Two fixed texts are put together, and one of two words.
fn statement(stretch: &Stretch) -> String {
    let way = match stretch.way {
        Way::Id => include_str!("../../../sql/postgres/list_by_id.sql"),
        Way::Waiting => include_str!("../../../sql/postgres/list_waiting.sql"),
        Way::Parked => include_str!("../../../sql/postgres/list_parked.sql"),
        Way::ParkedOn => include_str!("../../../sql/postgres/list_parked_on.sql"),
        Way::Failed => include_str!("../../../sql/postgres/list_failed.sql"),
        Way::Delivered => include_str!("../../../sql/postgres/list_delivered.sql"),
    };
    stretch.put_into(include_str!("../../../sql/postgres/list.sql"), way)
}

fn entry(row: &PgRow) -> Result<Passed, sqlx::Error> {
    let number: i64 = row.try_get("number")?;
    Ok(Passed { event: read::view(row)?, number: number.unsigned_abs(), matches: row.try_get("matches")? })
}
