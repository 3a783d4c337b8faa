//! Lists of events in SQLite: a stretch of an index at a time.

use serde_json::json;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Arguments, AssertSqlSafe, Row};

use super::{SqliteStore, database, read};
use crate::emit::sqlite::moment;
use crate::error::{DriverError, StoreError};
use crate::store::State;
use crate::store::list::{Filter, Page, Passed, Plan, Stretch, ToDestination, Turn, Way};
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
        let entries: Result<_, _> = rows.iter().map(entry).collect();
        Ok((entries?, length))
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
    values.add(moment(stretch.from.0))?;
    values.add(stretch.from.1)?;
    values.add(moment(stretch.to.0))?;
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

fn entry(row: &SqliteRow) -> Result<Passed, sqlx::Error> {
    let number: i64 = row.try_get("number")?;
    Ok(Passed { event: read::view(row)?, number: number.unsigned_abs(), matches: row.try_get("matches")? })
}
