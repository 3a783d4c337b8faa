//! Finds the events that a text names: an event's id, an idempotency key or an aggregate. Every statement goes through an index.
//!
//! Where no index has delivered events by aggregate, they are found by the key that emit gives to events without one, and among
//! the newest events. The result says what was not searched.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::list::{ids, views};
use super::{Call, Database, Row, Through, database};
use crate::error::{DriverError, StoreError};
use crate::store::list::BUDGET;
use crate::store::search::{Found, SEARCH_LIMIT, Search, Unseen};

/// The statements that search delivered events where no index has them by aggregate.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct Recent {
    /// Returns the events of aggregates among the newest ones.
    pub(in crate::store) find: &'static str,
    /// Returns the time of the newest event that is not among these.
    pub(in crate::store) beyond: &'static str,
}

pub(super) async fn find<D: Database>(store: &D, text: &str) -> Result<Found, StoreError> {
    let Some(search) = Search::parse(text) else { return Ok(Found::default()) };
    let (ids, unseen) = matching(store, &search).await.map_err(database("searching events"))?;
    let mut events = views(store, &ids).await.map_err(database("reading events"))?;
    events.reverse();
    // An event's own id needs no further search.
    let is_it = events.iter().any(|event| Some(event.id) == search.id());
    Ok(Found { events, unseen: unseen.filter(|_| !is_it) })
}

async fn matching<D: Database>(store: &D, search: &Search) -> Result<(Vec<Uuid>, Option<Unseen>), DriverError> {
    let types = types(store).await?;
    let named = search.named(&types);
    let (mut newest, mut unseen) = (Vec::new(), None);
    for aggregate in existing(store, &named).await? {
        newest.extend(of_aggregate(store, aggregate).await?);
    }
    if let Some(recent) = D::FIND_RECENT {
        newest.extend(among_recent(store, recent, &named).await?);
        unseen = beyond(store, recent).await?.map(|delivered_before| Unseen { delivered_before });
    }
    newest.sort_unstable_by_key(|(seq, _)| std::cmp::Reverse(*seq));
    newest.dedup();
    let exact = Call::new(D::statements().find).bind(search.keys(&named)).bind(search.id());
    let mut found = ids(store, exact).await?;
    found.extend(newest.into_iter().take(SEARCH_LIMIT).map(|(_, id)| id));
    Ok((found, unseen))
}

async fn types<D: Database>(store: &D) -> Result<Vec<String>, DriverError> {
    let rows = store.rows(Through::Index, Call::new(D::statements().find_types).bind(BUDGET)).await?;
    rows.iter().map(|row| row.text("aggregate_type")).collect()
}

/// Returns the aggregates that exist, by the index of aggregates.
async fn existing<D: Database>(store: &D, named: &[(String, String)]) -> Result<Vec<(String, String)>, DriverError> {
    let rows = store.rows(Through::Index, of_pairs(D::statements().find_aggregates, named)).await?;
    rows.iter().map(|row| Ok((row.text("aggregate_type")?, row.text("aggregate_id")?))).collect()
}

/// Returns the newest events of an aggregate, with their places in the order of emits.
async fn of_aggregate<D: Database>(store: &D, named: (String, String)) -> Result<Vec<(i64, Uuid)>, DriverError> {
    let call = Call::new(D::statements().find_newest).bind(named.0).bind(named.1).bind(SEARCH_LIMIT);
    places(&store.rows(Through::Index, call).await?)
}

async fn among_recent<D: Database>(
    store: &D,
    recent: Recent,
    named: &[(String, String)],
) -> Result<Vec<(i64, Uuid)>, DriverError> {
    let call = of_pairs(recent.find, named).bind(BUDGET);
    places(&store.rows(Through::Index, call).await?)
}

async fn beyond<D: Database>(store: &D, recent: Recent) -> Result<Option<DateTime<Utc>>, DriverError> {
    let rows = store.rows(Through::Index, Call::new(recent.beyond).bind(BUDGET)).await?;
    rows.first().map(|row| row.moment("created_at")).transpose()
}

fn of_pairs(text: &'static str, named: &[(String, String)]) -> Call {
    let (types, ids): (Vec<String>, Vec<String>) = named.iter().cloned().unzip();
    Call::new(text).bind(types).bind(ids)
}

fn places(rows: &[impl Row]) -> Result<Vec<(i64, Uuid)>, DriverError> {
    rows.iter().map(|row| Ok((row.number("seq")?, row.id("id")?))).collect()
}
