//! Lists of events, one stretch of an index at a time.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::get::one;
use super::routed::{self, Listed};
use super::{Call, Database, Row, Through, Transaction, database, read};
use crate::error::{DriverError, StoreError};
use crate::route::Route;
use crate::store::dead_letters::{DeadLetters, Groups};
use crate::store::inspect::{EventView, State};
use crate::store::list::{BUDGET, Filter, NEAR, NEIGHBOURS, Page, Paging, Passed, Plan, Stretch, Way};
use crate::store::row::search_like;

pub(super) async fn page<D: Database>(store: &D, filter: &Filter, paging: &Paging) -> Result<Page, StoreError> {
    let mut plan = Plan::of(filter, paging)?;
    while let Some((stretch, most, budget)) = plan.next() {
        D::check_bound(&stretch.from.0)?;
        D::check_bound(&stretch.to.0)?;
        let walked = walk_along(store, &stretch, filter, most, budget).await;
        let (mut entries, length) = walked.map_err(database("listing events"))?;
        let full = entries.len() >= most;
        if let Some(to) = &filter.destination {
            let listed = entries.iter().filter(|entry| entry.matches).map(|entry| Listed::from(&entry.event));
            let strangers = routed::strangers(store, to, listed).await.map_err(database("listing events"))?;
            entries.iter_mut().for_each(|entry| entry.matches &= !strangers.contains(&entry.event.id));
        }
        plan.read(&stretch, entries, length, budget, full);
    }
    Ok(plan.page())
}

/// Returns the entries that were found. Also returns the stretch's length if it was read to its end and the database must
/// count.
async fn walk_along<D: Database>(
    store: &D,
    stretch: &Stretch,
    filter: &Filter,
    most: usize,
    budget: u64,
) -> Result<(Vec<Passed>, u64), DriverError> {
    let sql = D::statements();
    // One transaction, so that both statements see the same table.
    let mut tx = store.begin(Through::Index).await?;
    let rows = tx.rows(ask::<D>(along::<D>(stretch, sql.list), stretch, filter, most, budget)).await?;
    let length = match D::LIST_LENGTH {
        Some(text) if rows.len() < most => length::<D>(&mut tx, text, stretch, budget).await?,
        _ => 0,
    };
    tx.commit().await?;
    let entries: Result<_, _> = rows.iter().map(|row| passed(row, stretch.way)).collect();
    Ok((entries?, length))
}

async fn length<D: Database>(
    tx: &mut D::Tx,
    text: &'static str,
    stretch: &Stretch,
    budget: u64,
) -> Result<u64, DriverError> {
    let call = ask::<D>(along::<D>(stretch, text), stretch, &Filter::default(), 0, budget);
    one(tx.rows(call).await?)?.count("length")
}

/// Returns a statement with the values of `list.sql`.
fn ask<D: Database>(text: String, stretch: &Stretch, filter: &Filter, most: usize, budget: u64) -> Call {
    let to = filter.destination.as_ref();
    let leads = |route: &[String]| to.is_some_and(|to| route.contains(&to.name));
    // The statement knows no conditions: it returns what may belong to the destination.
    let may_decide = |route: &&Route| route.condition.is_none() || leads(&route.to);
    let routes: Vec<&Route> = to.iter().flat_map(|to| to.routes.iter()).filter(may_decide).collect();
    Call::new(text)
        .bind(filter.state.map(State::as_str))
        .bind(filter.event_type.as_deref().map(D::pattern))
        .bind(filter.aggregate_type.clone())
        .bind(filter.aggregate_id.clone())
        .bind(filter.parked_on.clone())
        .bind(filter.search.as_deref().map(search_like))
        .bind(filter.since)
        .bind(filter.until)
        .bind(most)
        .bind(budget)
        .bind(stretch.ids.0)
        .bind(stretch.ids.1)
        .bind(stretch.from.0.clone())
        .bind(stretch.from.1)
        .bind(stretch.to.0.clone())
        .bind(stretch.to.1)
        .bind(stretch.parked_on.clone())
        .bind(to.map(|to| to.name.clone()))
        .bind(routes.iter().map(|route| D::pattern(route.events.as_str())).collect::<Vec<_>>())
        .bind(routes.iter().map(|route| D::pattern(route.aggregates.as_str())).collect::<Vec<_>>())
        .bind(routes.iter().map(|route| leads(&route.to)).collect::<Vec<_>>())
        .bind(filter.had_failures)
}

/// Combines two texts of this program and a direction.
fn along<D: Database>(stretch: &Stretch, text: &str) -> String {
    let sql = D::statements();
    let way = match stretch.way {
        Way::Id => sql.list_by_id,
        Way::Waiting => sql.list_waiting,
        Way::Parked if stretch.descending => sql.list_parked_back,
        Way::Parked => sql.list_parked,
        Way::ParkedOn => sql.list_parked_on,
        Way::Failed => sql.list_failed,
        Way::Delivered => sql.list_delivered,
    };
    stretch.put_into(text, way)
}

fn passed(row: &impl Row, way: Way) -> Result<Passed, DriverError> {
    Ok(Passed {
        event: read::view(row)?,
        number: row.count("number")?,
        matches: row.flag("matches")?,
        mark: row.mark(way.column())?,
    })
}

pub(super) async fn dead_letters<D: Database>(
    store: &D,
    filter: &Filter,
    oldest: DateTime<Utc>,
) -> Result<DeadLetters, DriverError> {
    if !filter.can_match() {
        return Ok(Groups::new(oldest, oldest).told(0, None));
    }
    let sql = D::statements();
    let filter = &Filter { state: Some(State::Failed), ..filter.clone() };
    let stretch = Stretch::failed_since(filter, oldest);
    let text = sql.dead_letters.replace("{list}", &along::<D>(&stretch, sql.list));
    let mut tx = store.begin(Through::Index).await?;
    let rows = tx.rows(ask::<D>(text, &stretch, filter, usize::MAX, BUDGET)).await?;
    let looked_at = match (D::LIST_LENGTH, rows.last()) {
        (Some(text), _) => length::<D>(&mut tx, text, &stretch, BUDGET).await?,
        (None, Some(last)) => last.count("number")?,
        (None, None) => 0,
    };
    tx.commit().await?;
    let Some(last) = rows.last() else { return Ok(Groups::new(oldest, oldest).told(looked_at, None)) };
    let reached = if looked_at < BUDGET { None } else { Some(last.moment("updated_at")?) };
    let mut groups = Groups::new(oldest, last.moment("now")?);
    let mut letters = Vec::new();
    for row in &rows {
        if row.flag("matches")? {
            letters.push((row.id("id")?, row.text("aggregate_type")?, read::letter(row)?));
        }
    }
    let strangers = match &filter.destination {
        Some(to) => {
            let listed = letters.iter().map(|(id, aggregate_type, letter)| Listed {
                id: *id,
                event_type: &letter.event_type,
                aggregate_type,
                stands: letter.failed_on.as_deref(),
            });
            routed::strangers(store, to, listed).await?
        }
        None => HashSet::new(),
    };
    let belonging = letters.into_iter().filter(|(id, ..)| !strangers.contains(id));
    belonging.for_each(|(.., letter)| groups.add(letter));
    Ok(groups.told(looked_at, reached))
}

/// Returns the events of the same aggregate around this one.
pub(super) async fn around<D: Database>(store: &D, id: Uuid) -> Result<Vec<EventView>, DriverError> {
    let call = Call::new(D::statements().get_neighbours).bind(id).bind(NEIGHBOURS).bind(NEAR);
    let ids = ids(store, call).await?;
    views(store, &ids).await
}

pub(super) async fn ids<D: Database>(store: &D, call: Call) -> Result<Vec<Uuid>, DriverError> {
    store.rows(Through::Index, call).await?.iter().map(|row| row.id("id")).collect()
}

/// Returns the events in the order of `seq`.
pub(super) async fn views<D: Database>(store: &D, ids: &[Uuid]) -> Result<Vec<EventView>, DriverError> {
    let call = Call::new(D::statements().views).bind(ids);
    store.rows(Through::People, call).await?.iter().map(read::view).collect()
}
