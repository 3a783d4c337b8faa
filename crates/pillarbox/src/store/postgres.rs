//! The store on PostgreSQL: claims by lease, `FOR NO KEY UPDATE SKIP LOCKED`, settles fenced by the lease's token.
//!
//! The statements stand in `sql/postgres`, one file per verb. This file runs the relay's; `postgres/inspect.rs` runs
//! people's. It knows no sinks.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sqlx::postgres::PgPool;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::row::{killed_its_relays, seconds};
use super::walk::SharedWalk;
use super::{
    Ask, Claim, Cleaned, EventKind, Heartbeat, LOSSES_BEFORE_FAILED, Retention, Settlement, Store, Swept, Ticket, Told,
    WakeUp,
};
use crate::error::StoreError;
use crate::relay::wake::Waker;

mod act;
mod claim;
mod cleanup;
mod connect;
mod examine;
mod figures;
mod floor;
mod hold;
mod inspect;
pub(super) mod link;
mod list;
mod listen;
mod locked;
pub(super) mod moment;
mod neighbours;
mod ordered;
mod people;
pub(super) mod pinned;
mod read;
mod schema;
mod servers;
mod settle;
mod statement;
mod url;

use cleanup::CleanedUntil;
pub use connect::PostgresSettings;
pub(super) use connect::{Connections, open};
use floor::{Floor, From, Place};
use hold::{Holds, lock};
use neighbours::Neighbours;
use pinned::Pinned;
pub(super) use statement::{Schema, Statement};

/// An outbox in a PostgreSQL database.
#[derive(Debug, Clone)]
pub struct PostgresStore {
    pool: Pinned,
    schema: Schema,
    give_back: mpsc::UnboundedSender<Ticket>,
    holds: Arc<Holds>,
    floor: Arc<Mutex<Floor>>,
    /// The relay of this store has said that it lives, and its neighbours do: what it claims may be held by locks.
    calm: Arc<AtomicBool>,
    /// What each relay on this store has seen of the others.
    neighbours: Arc<Mutex<HashMap<Uuid, Neighbours>>>,
    /// Connections keep what is prepared on them: there is no transaction pooler between.
    keeps_statements: Arc<AtomicBool>,
    walk: SharedWalk<Place>,
    cleaned_until: Arc<Mutex<CleanedUntil>>,
}

impl PostgresStore {
    /// Connects. The tables are looked for in `schema`; [`Store::check`] says whether they are there.
    ///
    /// The URL may name several hosts, as libpq has it: `postgres://ann@a:5432,b:5432/shop`. Each new connection then goes to
    /// the one that can be written to, unless `target_session_attrs` says otherwise.
    ///
    /// # Errors
    /// When the URL cannot be read or the database does not answer.
    pub async fn connect(url: &str, schema: &str) -> Result<Self, StoreError> {
        Self::connect_with(url, schema, PostgresSettings::default()).await
    }

    /// As [`PostgresStore::connect`], with other settings.
    ///
    /// # Errors
    /// As there.
    pub async fn connect_with(url: &str, schema: &str, settings: PostgresSettings) -> Result<Self, StoreError> {
        Self::over(open(url, settings).await?, schema)
    }

    /// On a pool of the application's. It must be called within a tokio runtime.
    ///
    /// A statement that is not answered within 30 seconds fails, and its connection is not given back to the pool. Following a
    /// failover to another host is then up to the pool: [`PostgresStore::connect`] does so by itself.
    ///
    /// # Errors
    /// When the schema's name cannot be one.
    pub fn new(pool: PgPool, schema: &str) -> Result<Self, StoreError> {
        Self::over(Connections::on(pool), schema)
    }

    fn over(connections: Arc<Connections>, schema: &str) -> Result<Self, StoreError> {
        let schema = Schema::new(schema)?;
        let holds = Arc::new(Holds::new(&connections));
        let pool = Pinned::new(connections);
        let (give_back, dropped) = mpsc::unbounded_channel();
        tokio::spawn(give_back_dropped(pool.clone(), schema.clone(), Arc::downgrade(&holds), dropped));
        Ok(Self {
            pool,
            schema,
            give_back,
            holds,
            floor: Arc::new(Mutex::new(Floor::new())),
            calm: Arc::default(),
            neighbours: Arc::default(),
            keeps_statements: Arc::default(),
            walk: SharedWalk::default(),
            cleaned_until: Arc::default(),
        })
    }

    /// For tests: claims from now on are held by locks, as those of a relay that works on a backlog in peace.
    #[doc(hidden)]
    pub fn hold_from_now_on(&self) {
        self.calm.store(true, Ordering::Relaxed);
        *lock(&self.floor) = Floor::after_a_sweep();
        self.walk.lock().leased(Instant::now() + Duration::from_secs(3600));
    }

    /// The pool, for transactions to emit in: the application's, or one with connections of its own, which are made when they
    /// are needed.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        self.pool.pool()
    }
}

/// Keeps what the database said, and adds what was being done.
pub(super) fn database<E: Into<crate::error::DriverError>>(doing: &'static str) -> impl FnOnce(E) -> StoreError {
    move |source| StoreError::Database { doing, source: source.into() }
}

/// `Drop` cannot await, so dropped claims arrive here; the task ends with the store.
async fn give_back_dropped(
    pool: Pinned,
    schema: Schema,
    holds: Weak<Holds>,
    mut dropped: mpsc::UnboundedReceiver<Ticket>,
) {
    let mut tickets = Vec::new();
    while dropped.recv_many(&mut tickets, 1000).await > 0 {
        if let Some(holds) = holds.upgrade() {
            tickets.retain(|ticket| !holds.drop_ticket(*ticket));
        }
        if tickets.is_empty() {
            continue;
        }
        let (ids, tokens) = columns(&tickets);
        let release = schema.query(include_str!("../../sql/postgres/release.sql"));
        if let Err(error) = release.bind(ids).bind(tokens).execute(&pool).await {
            tracing::warn!(events = tickets.len(), %error, "dropped claims could not be given back; their leases will run out");
        }
        tickets.clear();
    }
}

fn columns(tickets: &[Ticket]) -> (Vec<Uuid>, Vec<Uuid>) {
    tickets.iter().map(|ticket| (ticket.id, ticket.token)).unzip()
}

pub(super) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

#[async_trait]
impl Store for PostgresStore {
    async fn check(&self) -> Result<(), StoreError> {
        self.check_schema().await
    }

    fn can_order(&self) -> bool {
        true
    }

    async fn claim(&self, ask: Ask) -> Result<Claim, StoreError> {
        self.claim_due(ask).await
    }

    async fn settle(&self, settlements: &[Settlement], delete: bool) -> Result<Vec<Ticket>, StoreError> {
        let settled: HashSet<Uuid> =
            self.settle_batch(settlements, delete).await.map_err(database("settling events"))?;
        let lost = settlements.iter().map(Settlement::ticket).filter(|ticket| !settled.contains(&ticket.id));
        Ok(lost.collect())
    }

    async fn renew(&self, tickets: &[Ticket], lease: Duration) -> Result<Vec<Ticket>, StoreError> {
        let (ids, tokens) = columns(tickets);
        let rows: Vec<(Uuid, Uuid)> = self
            .schema
            .query_as(include_str!("../../sql/postgres/renew.sql"))
            .bind(ids)
            .bind(tokens)
            .bind(lease.as_secs_f64())
            .fetch_all(&self.pool)
            .await
            .map_err(database("renewing leases"))?;
        Ok(rows.into_iter().map(|(id, token)| Ticket { id, token }).collect())
    }

    async fn blame(&self, ticket: Ticket, losses: u32) -> Result<(), StoreError> {
        self.schema
            .query(include_str!("../../sql/postgres/blame.sql"))
            .bind(ticket.id)
            .bind(ticket.token)
            .bind(losses.cast_signed())
            .execute(&self.pool)
            .await
            .map_err(database("counting the losses of an event"))?;
        Ok(())
    }

    async fn sweep(&self) -> Result<Vec<Swept>, StoreError> {
        let error = killed_its_relays();
        let rows = self
            .schema
            .query(include_str!("../../sql/postgres/sweep.sql"))
            .bind(LOSSES_BEFORE_FAILED.cast_signed())
            .bind(&error)
            .fetch_all(&self.pool)
            .await
            .map_err(database("sweeping events"))?;
        self.schema
            .query(include_str!("../../sql/postgres/sweep_relays.sql"))
            .execute(&self.pool)
            .await
            .map_err(database("sweeping relays"))?;
        rows.iter().map(|row| Ok(Swept { event: read::event(row)?, error: error.clone() })).collect()
    }

    async fn parked_on(&self) -> Result<Vec<String>, StoreError> {
        self.schema
            .query_scalar(include_str!("../../sql/postgres/parked_on.sql"))
            .fetch_all(&self.pool)
            .await
            .map_err(database("looking for parked events"))
    }

    async fn paused(&self) -> Result<Vec<String>, StoreError> {
        let pauses = self.read_pauses().await.map_err(database("reading what is paused"))?;
        Ok(pauses.into_iter().map(|pause| pause.destination).collect())
    }

    async fn parked_kinds(&self, on: &str) -> Result<Vec<EventKind>, StoreError> {
        let rows: Vec<(String, String)> = self
            .schema
            .query_as(include_str!("../../sql/postgres/parked_kinds.sql"))
            .bind(on)
            .fetch_all(&self.pool)
            .await
            .map_err(database("looking for parked events"))?;
        Ok(rows.into_iter().map(|(event_type, aggregate_type)| EventKind { event_type, aggregate_type }).collect())
    }

    async fn unpark(&self, on: &str, kind: Option<&EventKind>, at_most: usize) -> Result<u64, StoreError> {
        let done = self
            .schema
            .query(include_str!("../../sql/postgres/unpark.sql"))
            .bind(on)
            .bind(limit(at_most))
            .bind(kind.map(|kind| kind.event_type.as_str()))
            .bind(kind.map(|kind| kind.aggregate_type.as_str()))
            .execute(&self.pool)
            .await
            .map_err(database("unparking events"))?;
        let whole = done.rows_affected();
        let left = limit(at_most).saturating_sub_unsigned(whole);
        if kind.is_some() || left <= 0 {
            return Ok(whole);
        }
        let done = self
            .schema
            .query(include_str!("../../sql/postgres/unpark_shared.sql"))
            .bind(on)
            .bind(left)
            .execute(&self.pool)
            .await
            .map_err(database("unparking events"))?;
        Ok(whole + done.rows_affected())
    }

    async fn cleanup(&self, retention: &Retention) -> Result<Cleaned, StoreError> {
        self.cleanup_batch(retention).await.map_err(database("cleaning up"))
    }

    async fn remaining(&self) -> Result<u64, StoreError> {
        let count: i64 = self
            .schema
            .query_scalar(include_str!("../../sql/postgres/remaining.sql"))
            .fetch_one(&self.pool)
            .await
            .map_err(database("counting due events"))?;
        Ok(count.unsigned_abs())
    }

    async fn next_due(&self) -> Result<Option<Duration>, StoreError> {
        let floor = {
            let floor = lock(&self.floor);
            floor.place(if self.calm() { From::Trailing } else { From::Beginning })
        };
        let due_in: Option<f64> = self
            .schema
            .query_scalar(include_str!("../../sql/postgres/next_due.sql"))
            .bind(floor.0)
            .bind(floor.1)
            .fetch_optional(&self.pool)
            .await
            .map_err(database("looking for the next due event"))?;
        Ok(due_in.map(seconds))
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<(), StoreError> {
        self.schema
            .query(include_str!("../../sql/postgres/heartbeat.sql"))
            .bind(heartbeat.id)
            .bind(&heartbeat.host)
            .bind(limit(heartbeat.in_flight))
            .bind(heartbeat.idle)
            .execute(&self.pool)
            .await
            .map_err(database("saying that the relay lives"))?;
        self.look_around(heartbeat.id).await.map_err(database("looking for other relays"))
    }

    async fn tell(&self, told: Told<'_>) -> Result<(), StoreError> {
        self.write_figures(told).await.map_err(database("writing figures down"))
    }

    async fn farewell(&self, relay: Uuid) -> Result<(), StoreError> {
        self.schema
            .query(include_str!("../../sql/postgres/farewell.sql"))
            .bind(relay)
            .execute(&self.pool)
            .await
            .map_err(database("saying that the relay is gone"))?;
        let mut neighbours = lock(&self.neighbours);
        neighbours.remove(&relay);
        if neighbours.is_empty() {
            self.calm.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn wake(&self, waker: Waker) -> Result<WakeUp, StoreError> {
        listen::start(&self.pool, &self.keeps_statements, waker).await.map_err(database("listening for notifications"))
    }
}

impl PostgresStore {
    /// A statement of which a plan may be kept: it has no other than the right one.
    fn kept_query(&self, text: &str) -> Statement {
        self.schema.query(text).persistent(self.keeps_statements.load(Ordering::Relaxed))
    }

    /// If it is about a statement that the connection does not know, there is a pooler after all; or the table was changed
    /// under it.
    fn forgets_statements(&self, error: sqlx::Error) -> sqlx::Error {
        const UNKNOWN_STATEMENT: [&str; 3] = ["26000", "42P05", "0A000"];
        if let sqlx::Error::Database(error) = &error
            && error.code().is_some_and(|code| UNKNOWN_STATEMENT.contains(&code.as_ref()))
        {
            self.keeps_statements.store(false, Ordering::Relaxed);
        }
        error
    }
}
