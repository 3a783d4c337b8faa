//! `Inspect` for every SQL database. Writes are on disk when a method returns.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::{Database, act, database, find, fleet, get, list};
use crate::emit::Emitted;
use crate::error::StoreError;
use crate::event::Event;
use crate::store::act::{Entry, Marked, Replayed, Retried, Selection};
use crate::store::dead_letters::DeadLetters;
use crate::store::examine::Finding;
use crate::store::inspect::{
    AuditView, Counts, Depth, EventDetail, EventView, Inspect, PausedView, RelayView, Waiting,
};
use crate::store::list::{Filter, Page, Paging, ToDestination};
use crate::store::log::LogView;
use crate::store::metrics::Minute;
use crate::store::search::Found;

#[async_trait]
impl<D: Database> Inspect for D {
    async fn list(&self, filter: &Filter, paging: &Paging) -> Result<Page, StoreError> {
        list::page(self, filter, paging).await
    }

    async fn find(&self, text: &str) -> Result<Found, StoreError> {
        find::find(self, text).await
    }

    async fn neighbours(&self, id: Uuid) -> Result<Vec<EventView>, StoreError> {
        list::around(self, id).await.map_err(database("reading the events of an aggregate"))
    }

    async fn dead_letters(&self, filter: &Filter, oldest: DateTime<Utc>) -> Result<DeadLetters, StoreError> {
        list::dead_letters(self, filter, oldest).await.map_err(database("reading dead letters"))
    }

    async fn get(&self, id: Uuid) -> Result<Option<EventDetail>, StoreError> {
        get::detail(self, id).await.map_err(database("reading an event"))
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        get::counts(self).await.map_err(database("counting events"))
    }

    async fn depth(&self) -> Result<Depth, StoreError> {
        get::depth(self).await.map_err(database("reading the queue's depth"))
    }

    async fn waiting(&self) -> Result<Vec<Waiting>, StoreError> {
        get::waiting(self).await.map_err(database("counting waiting events"))
    }

    async fn minutes(&self, since: DateTime<Utc>) -> Result<Vec<Minute>, StoreError> {
        fleet::minutes(self, since).await.map_err(database("reading metrics"))
    }

    async fn relays(&self) -> Result<Vec<RelayView>, StoreError> {
        fleet::relays(self).await.map_err(database("reading relays"))
    }

    async fn retry(&self, selection: &Selection, entry: Entry<'_>) -> Result<Vec<(Uuid, Retried)>, StoreError> {
        let ids = match selection {
            Selection::Ids(ids) => ids.clone(),
            Selection::Failed(filter, most) => act::failed_ids(self, filter, *most).await?,
        };
        act::retry(self, &ids, entry).await.map_err(database("retrying events"))
    }

    async fn fail(&self, ids: &[Uuid], reason: &str, entry: Entry<'_>) -> Result<Vec<(Uuid, Marked)>, StoreError> {
        act::fail(self, ids, reason, entry).await.map_err(database("marking events as failed"))
    }

    async fn replay(
        &self,
        ids: &[Uuid],
        only: Option<&ToDestination>,
        entry: Entry<'_>,
    ) -> Result<Vec<(Uuid, Replayed)>, StoreError> {
        act::replay(self, ids, only, entry).await.map_err(database("replaying events"))
    }

    async fn open_entry(&self, who: &str, what: &str, target: &str) -> Result<i64, StoreError> {
        act::open_entry(self, who, what, target).await.map_err(database("writing the audit"))
    }

    async fn pause(&self, destination: &str, who: &str) -> Result<bool, StoreError> {
        act::set_paused(self, destination, who, true).await.map_err(database("pausing a destination"))
    }

    async fn resume(&self, destination: &str, who: &str) -> Result<bool, StoreError> {
        act::set_paused(self, destination, who, false).await.map_err(database("resuming a destination"))
    }

    async fn pauses(&self) -> Result<Vec<PausedView>, StoreError> {
        act::pauses(self).await.map_err(database("reading paused destinations"))
    }

    async fn audit(&self, before: Option<i64>, limit: usize) -> Result<Vec<AuditView>, StoreError> {
        act::audit(self, before, limit).await.map_err(database("reading the audit"))
    }

    async fn log(&self) -> Result<Option<LogView>, StoreError> {
        self.view_log().await.map_err(database("reading the state of the log"))
    }

    async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        self.look_for_trouble().await.map_err(database("examining the database"))
    }

    async fn emit(&self, event: Event) -> Result<Emitted, StoreError> {
        get::emit(self, event, false, None).await
    }

    async fn emit_once(&self, event: Event) -> Result<Emitted, StoreError> {
        get::emit(self, event, true, None).await
    }

    async fn emit_by(&self, who: &str, event: Event, once: bool) -> Result<Emitted, StoreError> {
        get::emit(self, event, once, Some(who)).await
    }
}
