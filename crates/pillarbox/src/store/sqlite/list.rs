//! Lists of events in SQLite: a stretch of an index at a time.

use chrono::{DateTime, Utc};
use serde_json::json;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Arguments, AssertSqlSafe, Row};
use uuid::Uuid;

use super::{SqliteStore, database, read};
use crate::emit::sqlite::moment;
use crate::error::{DriverError, StoreError};
use crate::store::dead_letters::{DeadLetters, Groups, Letter};
use crate::store::inspect::{EventView, State};
use crate::store::list::{
    BUDGET, Bound, FOUND, Filter, NEAR, NEIGHBOURS, Page, Passed, Plan, Stretch, ToDestination, Turn, Way,
};
use crate::store::row::{glob, search_like};

impl SqliteStore {
    pub(super) async fn list_page(&self, filter: &Filter, turn: &Turn) -> Result<Page, StoreError> {
        let mut plan = Plan::of(filter, turn)?;
        while let Some((stretch, most, budget)) = plan.next() {
            let walked = self.walk_along(&stretch, filter, most, budget).await;
            let (entries, length) = walked.map_err(database("listing events"))?;
            plan.read(&stretch, entries, length, budget);
        }
        Ok(plan.page())
    }

    /// What was found, and how many entries there are, if that is less than was wanted.
    async fn walk_along(
        &self,
        stretch: &Stretch,
        filter: &Filter,
        most: usize,
        budget: u64,
    ) -> Result<(Vec<Passed>, u64), sqlx::Error> {
        let bound = || arguments(stretch, filter, most, budget).map_err(sqlx::Error::Encode);
        let list = statement(stretch, include_str!("../../../sql/sqlite/list.sql"));
        // Both see the same table.
        let mut tx = self.durable.begin().await?;
        let rows = sqlx::query_with(AssertSqlSafe(list), bound()?).fetch_all(&mut *tx).await?;
        let mut length = 0;
        if rows.len() < most {
            let statement = statement(stretch, include_str!("../../../sql/sqlite/list_length.sql"));
            let (entries,): (i64,) =
                sqlx::query_as_with(AssertSqlSafe(statement), bound()?).fetch_one(&mut *tx).await?;
            length = entries.unsigned_abs();
        }
        tx.commit().await?;
        let entries: Result<_, _> = rows.iter().map(|row| passed(row, stretch.way)).collect();
        Ok((entries?, length))
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
        let list = statement(&stretch, include_str!("../../../sql/sqlite/list.sql"));
        let text = include_str!("../../../sql/sqlite/dead_letters.sql").replace("{list}", &list);
        let bound = || arguments(&stretch, filter, usize::MAX, BUDGET).map_err(sqlx::Error::Encode);
        let mut tx = self.durable.begin().await?;
        let rows = sqlx::query_with(AssertSqlSafe(text), bound()?).fetch_all(&mut *tx).await?;
        let length = statement(&stretch, include_str!("../../../sql/sqlite/list_length.sql"));
        let (length,): (i64,) = sqlx::query_as_with(AssertSqlSafe(length), bound()?).fetch_one(&mut *tx).await?;
        tx.commit().await?;
        let looked_at = length.unsigned_abs();
        let Some(last) = rows.last() else { return Ok(Groups::new(oldest, oldest).told(looked_at, None)) };
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
        let mut ids: Vec<String> = sqlx::query_scalar(include_str!("../../../sql/sqlite/find.sql"))
            .bind(text)
            .bind(Uuid::parse_str(text).ok().map(Uuid::hyphenated))
            .bind(i64::try_from(FOUND).unwrap_or(i64::MAX))
            .fetch_all(&self.durable)
            .await
            .map_err(database("looking for events"))?;
        ids.extend(recent.iter().map(|event| event.id.to_string()));
        let mut found = self.views(&ids).await.map_err(database("reading events"))?;
        found.reverse();
        Ok(found)
    }

    pub(super) async fn neighbours_of(&self, id: Uuid) -> Result<Vec<EventView>, sqlx::Error> {
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let ids: Vec<String> = sqlx::query_scalar(include_str!("../../../sql/sqlite/get_neighbours.sql"))
            .bind(id.hyphenated())
            .bind(number(NEIGHBOURS))
            .bind(number(NEAR))
            .fetch_all(&self.durable)
            .await?;
        self.views(&ids).await
    }

    /// In the order of `seq`.
    async fn views(&self, ids: &[String]) -> Result<Vec<EventView>, sqlx::Error> {
        let query = sqlx::query(include_str!("../../../sql/sqlite/views.sql")).bind(json!(ids).to_string());
        query.fetch_all(&self.durable).await?.iter().map(read::view).collect()
    }
}

/// The values of `list.sql`, in their order.
fn arguments(stretch: &Stretch, filter: &Filter, most: usize, budget: u64) -> Result<SqliteArguments, DriverError> {
    let mut values = SqliteArguments::default();
    values.add(filter.state.map(State::as_str))?;
    values.add(filter.event_type.as_deref().map(glob))?;
    values.add(filter.aggregate_type.clone())?;
    values.add(filter.aggregate_id.clone())?;
    values.add(filter.parked_on.clone())?;
    values.add(filter.search.as_deref().map(search_like))?;
    values.add(filter.since.map(moment))?;
    values.add(filter.until.map(moment))?;
    values.add(i64::try_from(most).unwrap_or(i64::MAX))?;
    values.add(budget.cast_signed())?;
    values.add(stretch.ids.0.hyphenated())?;
    values.add(stretch.ids.1.hyphenated())?;
    values.add(text(&stretch.from.0))?;
    values.add(stretch.from.1)?;
    values.add(text(&stretch.to.0))?;
    values.add(stretch.to.1)?;
    values.add(stretch.parked_on.clone())?;
    values.add(filter.destination.as_ref().map(|to| to.name.clone()))?;
    values.add(filter.destination.as_ref().map(routes))?;
    Ok(values)
}

fn routes(to: &ToDestination) -> String {
    let routes = to.routes.iter().map(|route| {
        json!([glob(route.events.as_str()), glob(route.aggregates.as_str()), route.to.contains(&to.name)])
    });
    serde_json::Value::Array(routes.collect()).to_string()
}

/// Two fixed texts are put together, and one of two words.
fn statement(stretch: &Stretch, text: &str) -> String {
    let way = match stretch.way {
        Way::Id => include_str!("../../../sql/sqlite/list_by_id.sql"),
        Way::Waiting => include_str!("../../../sql/sqlite/list_waiting.sql"),
        Way::Parked => include_str!("../../../sql/sqlite/list_parked.sql"),
        Way::ParkedOn => include_str!("../../../sql/sqlite/list_parked_on.sql"),
        Way::Failed => include_str!("../../../sql/sqlite/list_failed.sql"),
        Way::Delivered => include_str!("../../../sql/sqlite/list_delivered.sql"),
    };
    stretch.put_into(text, way)
}

/// An end of a stretch as the text that moments are compared with.
fn text(bound: &Bound) -> String {
    match bound {
        Bound::At(at) => moment(*at),
        Bound::Mark(text) => text.clone(),
        Bound::Latest => char::MAX.to_string(),
    }
}

fn passed(row: &SqliteRow, way: Way) -> Result<Passed, sqlx::Error> {
    let number: i64 = row.try_get("number")?;
    Ok(Passed {
        event: read::view(row)?,
        number: number.unsigned_abs(),
        matches: row.try_get("matches")?,
        mark: row.try_get(way.column())?,
    })
}

fn letter(row: &SqliteRow) -> Result<Letter, sqlx::Error> {
    Ok(Letter {
        failed_at: read::moment(row, "updated_at")?,
        failed_on: row.try_get("failed_on")?,
        event_type: row.try_get("event_type")?,
        error: row.try_get("error_message")?,
    })
}
