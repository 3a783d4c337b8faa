//! The outbox of one test on the simulated store, in real time: nothing breaks, and statements take no time. It implements the
//! relay's traits, and the part of `Inspect` that their checks need.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use pillarbox::store::{
    AuditView, Counts, DeadLetters, Depth, Entry, EventDetail, EventView, Filter, Finding, Found, Marked, Minute, Page,
    Paging, PausedView, RelayView, Replayed, Retried, Selection, ToDestination, Waiting,
};
use pillarbox::{Emitted, Event, Inspect, Store, StoreError, StoredEvent};
use uuid::Uuid;

use super::Outbox;
use crate::simulation::plan::Plan;
use crate::simulation::store::SimulatedStore;
use crate::simulation::table::Table;
use crate::simulation::world::{World, lock};

/// A table in memory.
#[derive(Clone)]
pub struct SimulatedOutbox {
    world: Arc<World>,
    store: Arc<SimulatedStore>,
}

impl SimulatedOutbox {
    /// Creates an empty table.
    pub async fn create() -> Self {
        let world = Arc::new(World::new(Plan::calm()));
        // The checks compare minutes by the host's clock with the database's.
        world.step_clock(Utc::now() - world.now());
        let store = SimulatedStore::connect(&world, world.start(0));
        Self { world, store }
    }

    /// Inserts in one transaction. Its rows are invisible before it ends.
    fn write(&self, events: Vec<Event>, commit: bool) -> Vec<Emitted> {
        self.with(|table, now| {
            let insert = |event| {
                let (event, deliver_at) = stored(event);
                let seq = table.emit(event, deliver_at, now);
                Emitted::for_tests(&table.rows[&seq].event)
            };
            let emitted: Vec<Emitted> = events.into_iter().map(insert).collect();
            emitted.iter().filter(|_| !commit).filter_map(|emitted| emitted.seq).for_each(|seq| table.remove(seq));
            emitted
        })
    }

    /// Runs one statement.
    fn with<T>(&self, run: impl FnOnce(&mut Table, DateTime<Utc>) -> T) -> T {
        let now = self.world.now();
        run(&mut lock(&self.world.table), now)
    }
}

/// Returns the row of an event to insert, and its delivery time.
fn stored(event: Event) -> (StoredEvent, Option<DateTime<Utc>>) {
    let new = event.prepare().expect("an event that can be emitted");
    let mut event = StoredEvent::for_tests(&new.event_type, &new.payload);
    event.id = new.id;
    event.aggregate_type = new.aggregate_type;
    event.aggregate_id = new.aggregate_id;
    event.idempotency_key = new.idempotency_key;
    event.max_attempts = new.max_attempts.map(i32::unsigned_abs);
    event.headers = new.headers.map_or_else(Default::default, |text| serde_json::from_str(&text).expect("headers"));
    (event, new.deliver_at)
}

fn shift(by: Duration) -> TimeDelta {
    TimeDelta::from_std(by).expect("a time that fits")
}

#[async_trait]
impl Outbox for SimulatedOutbox {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as Arc<dyn Store>
    }

    fn inspect(&self) -> Arc<dyn Inspect> {
        Arc::new(self.clone())
    }

    async fn another(&self) -> Arc<dyn Store> {
        SimulatedStore::connect(&self.world, self.world.start(0))
    }

    async fn emit(&self, events: Vec<Event>) -> Vec<Emitted> {
        self.write(events, true)
    }

    async fn emit_and_roll_back(&self, events: Vec<Event>) -> Vec<Emitted> {
        self.write(events, false)
    }

    async fn now(&self) -> DateTime<Utc> {
        self.world.now()
    }

    async fn age(&self, event: Uuid, by: Duration) {
        self.with(|table, _| table.age(event, shift(by)));
    }

    async fn rename(&self, _: Uuid, _: Uuid) {
        panic!("{NO_PEOPLE}");
    }

    async fn age_relay(&self, relay: Uuid, by: Duration) {
        self.with(|table, _| table.age_relay(relay, shift(by)));
    }

    async fn rows(&self, table: &str) -> u64 {
        self.with(|all, _| all.count(table)).expect("a table that is simulated") as u64
    }

    async fn forget_schema(&self) {
        panic!("{NO_PEOPLE}");
    }

    async fn migrate(&self) -> Result<usize, StoreError> {
        refused()
    }

    async fn pretend_migration(&self, _: i32, _: &str) {
        panic!("{NO_PEOPLE}");
    }
}

const NO_PEOPLE: &str = "the simulated store has no lists, no audit and no schema: call relay_suite!, not store_suite!";

fn refused<T>() -> Result<T, StoreError> {
    Err(StoreError::Database { doing: "using a simulated store", source: NO_PEOPLE.into() })
}

#[async_trait]
impl Inspect for SimulatedOutbox {
    async fn get(&self, id: Uuid) -> Result<Option<EventDetail>, StoreError> {
        Ok(self.with(|table, now| table.detail(id, now)))
    }

    /// Returns the relays only.
    async fn counts(&self) -> Result<Counts, StoreError> {
        let mut counts = Counts::default();
        counts.relays = self.relays().await?;
        Ok(counts)
    }

    async fn minutes(&self, since: DateTime<Utc>) -> Result<Vec<Minute>, StoreError> {
        Ok(self.with(|table, _| table.minutes(since)))
    }

    async fn relays(&self) -> Result<Vec<RelayView>, StoreError> {
        Ok(self.with(|table, now| table.relays(now)))
    }

    /// Ignores filters, which belong to the lists.
    async fn retry(&self, selection: &Selection, _: Entry<'_>) -> Result<Vec<(Uuid, Retried)>, StoreError> {
        Ok(self.with(|table, now| {
            let ids = match selection {
                Selection::Ids(ids) => ids.clone(),
                Selection::Failed(_, limit) => table.failed().into_iter().take(*limit).collect(),
            };
            ids.into_iter().map(|id| (id, table.retry(id, now))).collect()
        }))
    }

    async fn list(&self, _: &Filter, _: &Paging) -> Result<Page, StoreError> {
        refused()
    }

    async fn find(&self, _: &str) -> Result<Found, StoreError> {
        refused()
    }

    async fn neighbours(&self, _: Uuid) -> Result<Vec<EventView>, StoreError> {
        refused()
    }

    async fn dead_letters(&self, _: &Filter, _: DateTime<Utc>) -> Result<DeadLetters, StoreError> {
        refused()
    }

    async fn depth(&self) -> Result<Depth, StoreError> {
        refused()
    }

    async fn waiting(&self) -> Result<Vec<Waiting>, StoreError> {
        refused()
    }

    async fn fail(&self, _: &[Uuid], _: &str, _: Entry<'_>) -> Result<Vec<(Uuid, Marked)>, StoreError> {
        refused()
    }

    async fn replay(
        &self,
        _: &[Uuid],
        _: Option<&ToDestination>,
        _: Entry<'_>,
    ) -> Result<Vec<(Uuid, Replayed)>, StoreError> {
        refused()
    }

    async fn open_entry(&self, _: &str, _: &str, _: &str) -> Result<i64, StoreError> {
        refused()
    }

    async fn pause(&self, _: &str, _: &str) -> Result<bool, StoreError> {
        refused()
    }

    async fn resume(&self, _: &str, _: &str) -> Result<bool, StoreError> {
        refused()
    }

    async fn pauses(&self) -> Result<Vec<PausedView>, StoreError> {
        refused()
    }

    async fn audit(&self, _: Option<i64>, _: usize) -> Result<Vec<AuditView>, StoreError> {
        refused()
    }

    async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        refused()
    }

    async fn emit(&self, _: Event) -> Result<Emitted, StoreError> {
        refused()
    }

    async fn emit_once(&self, _: Event) -> Result<Emitted, StoreError> {
        refused()
    }

    async fn emit_by(&self, _: &str, _: Event, _: bool) -> Result<Emitted, StoreError> {
        refused()
    }
}
