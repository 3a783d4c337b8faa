//! The desk: reads and actions on a store, combined with the configuration: destinations, routes, masks. Pages, API and the
//! program's commands use it. It knows no HTTP, no HTML and no SQL. Its callers decide whether a user may act, and name the
//! user for the audit.
//!
//! The cost of a read is bounded, however many events there are: pages are bounded, and nothing is counted row by row.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use pillarbox::event::Opaque;
use pillarbox::route::OfKind;
use pillarbox::store::{AdminStore, AuditView, DeadLetters, Depth, EventView, Found, Minute, Page, Paging, RelayView};
use pillarbox::{Route, Routes, StoreError};
use serde_json::value::RawValue;
use uuid::Uuid;

pub use self::destinations::{DestinationInfo, DestinationStatus, Lane, RequestText};
pub use self::filter::EventFilter;
pub use self::health::{ENOUGH, Health, RECENT};
use self::jobs::Jobs;
pub use self::jobs::{Action, GroupKey, Job, JobScope, JobState, Preview, RATES};
pub use self::kept::Kept;
pub use self::metrics::{DeadSpan, Metrics, Observations, Overview, Point};
pub use self::problems::{LATE, Problem, ProblemKind};
pub use self::story::{EventStory, Moment, Request, What};
use self::testing::Trials;
pub use self::testing::{Tester, Trial, advice, kind_name};
use crate::mask::Mask;
use crate::opaque::OpaqueView;

pub(crate) mod acting;
mod destinations;
mod filter;
mod health;
mod jobs;
mod kept;
mod metrics;
mod problems;
mod story;
mod testing;

/// The maximum number of audit lines of a page, and of events that one call names.
pub const MOST: usize = 500;

/// Reads and acts on an outbox.
pub struct Desk {
    store: Arc<dyn AdminStore>,
    destinations: Vec<DestinationInfo>,
    routes: Routes,
    mask: Mask,
    kept: Option<Kept>,
    jobs: Jobs,
    trials: Trials,
}

/// Builds a [`Desk`]; see [`Desk::builder`].
#[must_use]
pub struct DeskBuilder {
    store: Arc<dyn AdminStore>,
    destinations: Vec<DestinationInfo>,
    routes: Vec<Route>,
    mask: Mask,
    kept: Option<Kept>,
}

/// The reason why the desk refused or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeskError {
    /// There is no such event, job or destination.
    #[error("{0}")]
    Unknown(String),
    /// The request is invalid.
    #[error("{0}")]
    Refused(String),
    /// Too many jobs are running, or a test of the destination.
    #[error("{0}")]
    Busy(String),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl DeskBuilder {
    /// Adds a destination of the relay.
    pub fn destination(mut self, destination: DestinationInfo) -> Self {
        self.destinations.push(destination);
        self
    }

    /// Adds destinations of the relay.
    pub fn destinations(mut self, destinations: impl IntoIterator<Item = DestinationInfo>) -> Self {
        self.destinations.extend(destinations);
        self
    }

    /// Sets the relay's routes, in their order. They determine the destinations of an event.
    pub fn routes(mut self, routes: impl IntoIterator<Item = Route>) -> Self {
        self.routes = routes.into_iter().collect();
        self
    }

    /// Sets the mask of values in payloads.
    pub fn mask(mut self, mask: Mask) -> Self {
        self.mask = mask;
        self
    }

    /// Sets how long the relays keep delivered events, which the pages say where people search for one. `None` if that is not
    /// known, or if they are never deleted.
    pub fn kept(mut self, kept: Option<Kept>) -> Self {
        self.kept = kept;
        self
    }

    /// Builds the desk.
    #[must_use]
    pub fn build(self) -> Desk {
        let Self { store, destinations, routes, mask, kept } = self;
        Desk {
            store,
            destinations,
            routes: Routes::new(routes),
            mask,
            kept,
            jobs: Jobs::default(),
            trials: Trials::default(),
        }
    }
}

/// The whole payload of an event, masked.
#[derive(Debug)]
pub enum WholePayload {
    /// JSON, as it is stored.
    Json(Box<RawValue>),
    /// The bytes of an opaque payload.
    Bytes(Vec<u8>),
}

impl Desk {
    /// Returns a builder on a store. Without destinations and routes, the desk shows those that relays report.
    pub fn builder(store: Arc<dyn AdminStore>) -> DeskBuilder {
        DeskBuilder { store, destinations: Vec::new(), routes: Vec::new(), mask: Mask::default(), kept: None }
    }

    /// Returns a page of events.
    ///
    /// # Errors
    /// Fails if the cursor is not one of this list, or if the database fails.
    pub async fn events(&self, filter: &EventFilter, turn: &Paging) -> Result<Page, DeskError> {
        Ok(self.store.list(&filter.with_routes(&self.routes), turn).await?)
    }

    /// Returns the number of waiting events and dead letters, at a bounded cost.
    ///
    /// # Errors
    /// Fails if the database fails.
    pub async fn depth(&self) -> Result<Depth, DeskError> {
        Ok(self.store.depth().await?)
    }

    /// Returns the destinations that an event is routed to by its types; `None` if no route matches, or if a condition on the payload
    /// decides.
    #[must_use]
    pub fn goes_to(&self, event: &EventView) -> Option<Vec<String>> {
        match self.routes.of_kind(&event.event_type, &event.aggregate_type) {
            OfKind::Same(destinations) => destinations.map(<[String]>::to_vec),
            OfKind::ByPayload => None,
        }
    }

    /// Returns these events, in their order. Events that do not exist are left out.
    ///
    /// # Errors
    /// Fails if more than [`MOST`] are named, or if the database fails.
    pub async fn chosen(&self, ids: &[Uuid]) -> Result<Vec<EventView>, DeskError> {
        acting::checked(ids)?;
        let mut events = Vec::with_capacity(ids.len());
        for id in ids {
            events.extend(self.store.get(*id).await?.map(|detail| detail.event));
        }
        Ok(events)
    }

    /// Returns one event with its history, masked.
    ///
    /// # Errors
    /// Fails if there is no such event, or if the database fails.
    pub async fn event(&self, id: Uuid) -> Result<EventStory, DeskError> {
        let mut detail = self.store.get(id).await?.ok_or_else(|| no_event(id))?;
        // The routes and the size are those of the payload as it is stored.
        let goes_to = self.routes.route(&detail).map(<[String]>::to_vec);
        let opaque = OpaqueView::of(&detail, &self.mask);
        self.mask.detail(&mut detail);
        Ok(EventStory::tell(detail, goes_to, opaque, &self.destinations))
    }

    /// Returns the payload of an event as receivers get it, masked. With any mask an opaque payload is hidden as a whole.
    ///
    /// # Errors
    /// Fails if there is no such event, or if the database fails.
    pub async fn payload(&self, id: Uuid) -> Result<WholePayload, DeskError> {
        let mut detail = self.store.get(id).await?.ok_or_else(|| no_event(id))?;
        if self.mask.is_empty()
            && let Ok(Some(opaque)) = Opaque::of(&detail.payload, &detail.headers)
        {
            return Ok(WholePayload::Bytes(opaque.bytes));
        }
        self.mask.detail(&mut detail);
        Ok(WholePayload::Json(detail.payload))
    }

    /// Returns events of the same aggregate around this one, without the event itself.
    ///
    /// # Errors
    /// Fails if there is no such event, or if the database fails.
    pub async fn neighbours(&self, id: Uuid) -> Result<Vec<EventView>, DeskError> {
        let neighbours = self.store.neighbours(id).await?;
        if neighbours.is_empty() && self.store.get(id).await?.is_none() {
            return Err(no_event(id));
        }
        Ok(neighbours)
    }

    /// Returns the events that a text names by id, idempotency key or aggregate (`Order 42`, `Order:42`, `42`); see
    /// [`Inspect::find`](pillarbox::Inspect::find).
    ///
    /// # Errors
    /// Fails if the database fails.
    pub async fn find(&self, text: &str) -> Result<Found, DeskError> {
        Ok(self.store.find(text).await?)
    }

    /// Returns the dead letters that failed since then, grouped by destination and error.
    ///
    /// # Errors
    /// Fails if the database fails.
    pub async fn dead_letters(&self, filter: &EventFilter, since: DateTime<Utc>) -> Result<DeadLetters, DeskError> {
        Ok(self.store.dead_letters(&filter.with_routes(&self.routes), since).await?)
    }

    /// Returns the relays that have written a heartbeat.
    ///
    /// # Errors
    /// Fails if the database fails.
    pub async fn relays(&self) -> Result<Vec<RelayView>, DeskError> {
        Ok(self.store.relays().await?)
    }

    /// Returns deliveries and failures of the last `window`, per minute and destination.
    ///
    /// # Errors
    /// Fails if the database fails.
    pub async fn minutes(&self, window: Duration) -> Result<Vec<Minute>, DeskError> {
        Ok(self.store.minutes(ago(window)).await?)
    }

    /// Returns the actions of people, newest first, at most [`MOST`] lines.
    ///
    /// # Errors
    /// Fails if the database fails.
    pub async fn audit(&self, before: Option<i64>, limit: usize) -> Result<Vec<AuditView>, DeskError> {
        Ok(self.store.audit(before, limit.min(MOST)).await?)
    }

    /// Returns the store, for the users' sessions.
    pub(crate) fn store(&self) -> Arc<dyn AdminStore> {
        Arc::clone(&self.store)
    }

    /// Returns the names of the configured destinations.
    #[must_use]
    pub fn destination_names(&self) -> Vec<String> {
        self.destinations.iter().map(|destination| destination.name.clone()).collect()
    }
}

fn no_event(id: Uuid) -> DeskError {
    DeskError::Unknown(format!("there is no event {id}; it may have been cleaned up"))
}

/// Returns the time that long ago, by this host's clock, which is precise enough for the windows of lists and charts.
#[must_use]
pub fn ago(window: Duration) -> DateTime<Utc> {
    let window = TimeDelta::from_std(window).unwrap_or(TimeDelta::MAX);
    Utc::now().checked_sub_signed(window).unwrap_or(DateTime::UNIX_EPOCH)
}
