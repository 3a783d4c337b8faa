//! Lists of events on PostgreSQL: a stretch of an index at a time.

use chrono::{DateTime, Utc};
use sqlx::Row;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::moment::Moment;
use super::{PostgresStore, Statement, database, limit, read};
use crate::error::StoreError;
use crate::store::dead_letters::{DeadLetters, Groups, Letter};
use crate::store::inspect::{EventView, State};
use crate::store::list::{BUDGET, FOUND, Filter, NEAR, NEIGHBOURS, Page, Passed, Plan, Stretch, Turn, Way};
use crate::store::row::{like, search_like};

impl PostgresStore {
    pub(super) async fn list_page(&self, filter: &Filter, turn: &Turn) -> Result<Page, StoreError> {
        let mut plan = Plan::of(filter, turn)?;
        while let Some((stretch, most, budget)) = plan.next() {
            let between = (Moment::of(&stretch.from.0)?, Moment::of(&stretch.to.0)?);
            let entries = self.walk_along(&stretch, between, filter, most, budget).await;
            plan.read(&stretch, entries.map_err(database("listing events"))?, 0, budget);
        }
        Ok(plan.page())
    }

    async fn walk_along(
        &self,
        stretch: &Stretch,
        between: (Moment, Moment),
        filter: &Filter,
        most: usize,
        budget: u64,
    ) -> Result<Vec<Passed>, sqlx::Error> {
        // Through the connections that claim: they are held to the indexes.
        let mut tx = self.holds.pool().begin().await?;
        let query = self.ask(&statement(stretch), (stretch, between), filter, most, budget);
        let rows = query.fetch_all(&mut *tx).await?;
        tx.commit().await?;
        rows.iter().map(|row| passed(row, stretch.way)).collect()
    }

    /// A statement that takes the values of `list.sql`.
    fn ask(
        &self,
        text: &str,
        (stretch, (from, to)): (&Stretch, (Moment, Moment)),
        filter: &Filter,
        most: usize,
        budget: u64,
    ) -> Statement {
        let routes = filter.destination.as_ref().map(|to| to.routes.iter().collect::<Vec<_>>()).unwrap_or_default();
        let name = filter.destination.as_ref().map(|to| to.name.clone());
        let leads = |to: &[String]| name.as_ref().is_some_and(|name| to.contains(name));
        self.schema
            .query(text)
            .bind(filter.state.map(State::as_str))
            .bind(filter.event_type.as_deref().map(like))
            .bind(filter.aggregate_type.clone())
            .bind(filter.aggregate_id.clone())
            .bind(filter.parked_on.clone())
            .bind(filter.search.as_deref().map(search_like))
            .bind(filter.since.map(Moment::from))
            .bind(filter.until.map(Moment::from))
            .bind(limit(most))
            .bind(budget.cast_signed())
            .bind(stretch.ids.0)
            .bind(stretch.ids.1)
            .bind(from)
            .bind(stretch.from.1)
            .bind(to)
            .bind(stretch.to.1)
            .bind(stretch.parked_on.clone())
            .bind(name.clone())
            .bind(routes.iter().map(|route| like(route.events.as_str())).collect::<Vec<_>>())
            .bind(routes.iter().map(|route| like(route.aggregates.as_str())).collect::<Vec<_>>())
            .bind(routes.iter().map(|route| leads(&route.to)).collect::<Vec<_>>())
    }

    pub(super) async fn group_dead_letters(
        &self,
        filter: &Filter,
        oldest: DateTime<Utc>,
    ) -> Result<DeadLetters, sqlx::Error> {
        if !filter.can_match() {
            return Ok(Groups::new(oldest, oldest).told(0, None));
        }
        let filter = &Filter { state: Some(State::Failed), ..filter.clone() };
        let stretch = Stretch::failed_since(filter, oldest);
        let text = include_str!("../../../sql/postgres/dead_letters.sql").replace("{list}", &statement(&stretch));
        let mut tx = self.holds.pool().begin().await?;
        let from = Moment::of(&stretch.from.0).unwrap_or(oldest.into());
        let within = (&stretch, (from, Moment::LATEST));
        let rows = self.ask(&text, within, filter, usize::MAX, BUDGET).fetch_all(&mut *tx).await?;
        tx.commit().await?;
        let Some(last) = rows.last() else { return Ok(Groups::new(oldest, oldest).told(0, None)) };
        let looked_at = last.try_get::<i64, _>("number")?.unsigned_abs();
        let reached = if looked_at < BUDGET { None } else { Some(read::moment(last, "updated_at")?) };
        let mut groups = Groups::new(oldest, read::moment(last, "now")?);
        for row in &rows {
            if row.try_get("matches")? {
                groups.add(letter(row)?);
            }
        }
        Ok(groups.told(looked_at, reached))
    }

    pub(super) async fn find_exactly(&self, text: &str) -> Result<Vec<EventView>, StoreError> {
        if text.contains('\0') {
            return Ok(Vec::new());
        }
        let recent = Filter { aggregate_id: Some(text.to_owned()), ..Filter::default() };
        let recent = self.list_page(&recent, &Turn::default()).await?.events;
        let mut ids: Vec<Uuid> = self
            .of_index(include_str!("../../../sql/postgres/find.sql"), |query| {
                query.bind(text.to_owned()).bind(Uuid::parse_str(text).ok()).bind(limit(FOUND))
            })
            .await
            .map_err(database("looking for events"))?;
        ids.extend(recent.iter().map(|event| event.id));
        let mut found = self.views(&ids).await.map_err(database("reading events"))?;
        found.reverse();
        Ok(found)
    }

    pub(super) async fn neighbours_of(&self, id: Uuid) -> Result<Vec<EventView>, sqlx::Error> {
        let ids = self
            .of_index(include_str!("../../../sql/postgres/get_neighbours.sql"), |query| {
                query.bind(id).bind(limit(NEIGHBOURS)).bind(limit(NEAR))
            })
            .await?;
        self.views(&ids).await
    }

    /// Ids, found by statements that are held to the indexes.
    async fn of_index(
        &self,
        text: &str,
        bind: impl FnOnce(Statement<Uuid>) -> Statement<Uuid>,
    ) -> Result<Vec<Uuid>, sqlx::Error> {
        let mut tx = self.holds.pool().begin().await?;
        let ids = bind(self.schema.query_scalar(text)).fetch_all(&mut *tx).await?;
        tx.commit().await?;
        Ok(ids)
    }

    /// In the order of `seq`.
    async fn views(&self, ids: &[Uuid]) -> Result<Vec<EventView>, sqlx::Error> {
        let query = self.schema.query(include_str!("../../../sql/postgres/views.sql")).bind(ids.to_vec());
        query.fetch_all(&self.pool).await?.iter().map(read::view).collect()
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

fn passed(row: &PgRow, way: Way) -> Result<Passed, sqlx::Error> {
    let number: i64 = row.try_get("number")?;
    let mark: Option<Moment> = row.try_get(way.column())?;
    Ok(Passed {
        event: read::view(row)?,
        number: number.unsigned_abs(),
        matches: row.try_get("matches")?,
        mark: mark.map(Moment::mark),
    })
}

fn letter(row: &PgRow) -> Result<Letter, sqlx::Error> {
    Ok(Letter {
        failed_at: read::moment(row, "updated_at")?,
        failed_on: row.try_get("failed_on")?,
        event_type: row.try_get("event_type")?,
        error: row.try_get("error_message")?,
    })
}
