//! The desk: what pages and API both call. Reads and actions over people's side of the store, together with what only the
//! configuration knows: destinations, routes, masks. Knows no HTTP, no HTML and no SQL; whether somebody may act is decided
//! before it is asked, and who they are is told to it, for the audit.
//!
//! Reads cost the same however much there is: pages are bounded, and nothing is counted row by row.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use pillarbox::store::{AuditView, DeadLetters, EventView, Inspect, Minute, Page, RelayView, Turn};
use pillarbox::{Routes, StoreError};
use pillarbox_sinks::DestinationSettings;
use serde_json::value::RawValue;
use uuid::Uuid;

pub(super) use self::acting::given_up_because;
use self::jobs::Jobs;
use self::story::EventShown;
pub(crate) use self::wanted::Wanted;
use crate::config::Settings;
use crate::mask::Mask;

mod acting;
mod curl;
pub(crate) mod destinations;
pub(crate) mod figures;
pub(crate) mod jobs;
pub(crate) mod story;
mod wanted;

/// How many lines of the audit, or events, one page has at most.
pub(crate) const MOST: usize = 500;

/// What pages and API work with.
pub(crate) struct Desk {
    store: Arc<dyn Inspect>,
    destinations: Vec<DestinationSettings>,
    routes: Routes,
    mask: Mask,
    jobs: Jobs,
}

/// Why the desk did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum DeskError {
    /// There is no such thing.
    #[error("{0}")]
    Unknown(String),
    /// It cannot be done like this.
    #[error("{0}")]
    Refused(String),
    /// Not now.
    #[error("{0}")]
    Busy(String),
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Desk {
    pub(crate) fn new(store: Arc<dyn Inspect>, settings: &Settings) -> Self {
        Self {
            store,
            jobs: Jobs::default(),
            destinations: settings.destinations.clone(),
            routes: Routes::new(settings.routes.clone()),
            mask: settings.admin.mask.clone(),
        }
    }

    /// A page of events.
    pub(crate) async fn events(&self, wanted: &Wanted, turn: &Turn) -> Result<Page, DeskError> {
        Ok(self.store.list(&self.filter(wanted), turn).await?)
    }

    /// One event with its story.
    pub(crate) async fn event(&self, id: Uuid) -> Result<EventShown, DeskError> {
        let mut detail = self.store.get(id).await?.ok_or_else(|| no_event(id))?;
        self.mask.detail(&mut detail);
        Ok(EventShown::tell(detail, &self.routes, &self.destinations))
    }

    /// The payload alone, masked.
    pub(crate) async fn payload(&self, id: Uuid) -> Result<Box<RawValue>, DeskError> {
        let detail = self.store.get(id).await?.ok_or_else(|| no_event(id))?;
        Ok(self.mask.apply(&detail.payload).payload)
    }

    /// Events of the same aggregate around this one, itself left out.
    pub(crate) async fn neighbours(&self, id: Uuid) -> Result<Vec<EventView>, DeskError> {
        let neighbours = self.store.neighbours(id).await?;
        if neighbours.is_empty() && self.store.get(id).await?.is_none() {
            return Err(no_event(id));
        }
        Ok(neighbours)
    }

    /// Events with exactly this id, idempotency key or aggregate id.
    pub(crate) async fn find(&self, text: &str) -> Result<Vec<EventView>, DeskError> {
        Ok(self.store.find(text).await?)
    }

    /// What failed since then, by destination and error.
    pub(crate) async fn dead_letters(&self, wanted: &Wanted, since: DateTime<Utc>) -> Result<DeadLetters, DeskError> {
        Ok(self.store.dead_letters(&self.filter(wanted), since).await?)
    }

    /// Those that have said that they live.
    pub(crate) async fn relays(&self) -> Result<Vec<RelayView>, DeskError> {
        Ok(self.store.relays().await?)
    }

    /// What was delivered and what failed, per minute and destination.
    pub(crate) async fn minutes(&self, window: Duration) -> Result<Vec<Minute>, DeskError> {
        Ok(self.store.minutes(ago(window)).await?)
    }

    /// What people did, the newest first.
    pub(crate) async fn audit(&self, before: Option<i64>, limit: usize) -> Result<Vec<AuditView>, DeskError> {
        Ok(self.store.audit(before, limit.min(MOST)).await?)
    }

    /// Those of the configuration.
    pub(crate) fn destination_names(&self) -> Vec<String> {
        self.destinations.iter().map(|destination| destination.name.clone()).collect()
    }

    /// Work on many events at once.
    pub(crate) fn jobs(&self) -> &Jobs {
        &self.jobs
    }
}

fn no_event(id: Uuid) -> DeskError {
    DeskError::Unknown(format!("there is no event {id}; it may have been cleaned up"))
}

/// By the clock of this host: windows of what is shown need no better one.
pub(crate) fn ago(window: Duration) -> DateTime<Utc> {
    let window = TimeDelta::from_std(window).unwrap_or(TimeDelta::MAX);
    Utc::now().checked_sub_signed(window).unwrap_or(DateTime::UNIX_EPOCH)
}
