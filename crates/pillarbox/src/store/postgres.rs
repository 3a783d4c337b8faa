//! The store on PostgreSQL: claims by row locks for a moment, or by lease; settles fenced by the lock or the lease's token.
//!
//! The statements are in `sql/postgres`, one file per verb. Claims and settles are here. The rest is in `store/sql`, for all
//! SQL databases. It knows no sinks.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sqlx::postgres::PgPool;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::row::seconds;
use super::sql::{self, sql_folder};
pub(super) use super::sql::{database, limit};
use super::walk::SharedWalk;
use super::{Ask, Claim, Claims, Settlement, Ticket, WakeUp};
use crate::error::StoreError;
use crate::relay::wake::Waker;

mod adopted;
mod claim;
mod cleanup;
mod connect;
mod database;
mod error;
mod examine;
mod hold;
#[cfg(feature = "wal")]
pub(crate) mod lead;
mod link;
mod listen;
mod locked;
mod log;
#[cfg(feature = "wal")]
pub(crate) mod lsn;
mod moment;
mod outbox_table;
mod peers;
mod pinned;
mod public;
mod read;
#[cfg(feature = "wal")]
pub(crate) mod replication;
mod schema;
mod servers;
mod settle;
#[cfg(feature = "wal")]
pub(crate) mod spill;
mod statement;
mod tls;
mod url;
mod wire;

use claim::{BEGINNING, Place};
use cleanup::CleanedUntil;
pub use connect::PostgresSettings;
pub(super) use connect::{Connections, open};
use error::Error;
use hold::{Holds, lock};
pub use log::{LogError, LogSettings, LogStatus, LogWait};
pub use outbox_table::{OutboxColumns, OutboxTable, ROW_ID};
use peers::Peers;
use pinned::Pinned;
use schema::MIGRATIONS;
pub(super) use statement::{Schema, Statement};

sql_folder! {
    /// The statements that only PostgreSQL has.
    SQL: Sql = "postgres" {
        blame, claim, claim_ordered, cleanup, cleanup_lock, examine_horizon, examine_indexes, examine_rights,
        examine_server, fail, farewell, find_beyond, find_recent, grants_emit, grants_relay, hold, hold_delete, hold_deliver, hold_lease, hold_light,
        hold_park, log_table, peers, next_due, release, renew, retry, session, settle, settle_attempts, settle_delete,
        settle_deliveries, sweep, sweep_relays, unpark, unpark_shared, unpark_these, wake, walls, wal_barrier, wal_blockers, wal_close, wal_drop, wal_enable,
        wal_facts, wal_forget, wal_passed, wal_reader, wal_shut, wal_slot, wal_slot_failover, wal_status, wal_take,
        wal_transactions, wal_writers, working,
    }
}

/// An outbox in a PostgreSQL database.
///
/// ```no_run
/// use pillarbox::store::postgres::{PostgresSettings, PostgresStore};
/// use std::time::Duration;
///
/// # async fn open() -> Result<(), Box<dyn std::error::Error>> {
/// // Several hosts: the store follows the primary among them.
/// let url = "postgres://shop@db1.example,db2.example/shop";
/// let settings = PostgresSettings { connections: 20, deadline: Duration::from_secs(5), ..PostgresSettings::default() };
/// let store = PostgresStore::connect_with(url, "public", settings).await?;
/// // In a deployment, `pillarbox migrate` does this once.
/// store.migrate().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct PostgresStore {
    pool: Pinned,
    schema: Schema,
    give_back: mpsc::UnboundedSender<Ticket>,
    holds: Arc<Holds>,
    /// Whether claims may be held by locks: this store's relay has written a heartbeat, and its peers are alive.
    calm: Arc<AtomicBool>,
    /// The heartbeats of other relays that each relay on this store has seen.
    peers: Arc<Mutex<HashMap<Uuid, Peers>>>,
    /// Whether connections keep prepared statements, because no transaction pooler is in between.
    keeps_statements: Arc<AtomicBool>,
    walk: SharedWalk<Place>,
    cleaned_until: Arc<Mutex<CleanedUntil>>,
}

impl PostgresStore {
    /// Connects. The tables are expected in `schema`; [`Fleet::check`](crate::Fleet::check) returns whether they exist.
    ///
    /// The URL may name several hosts, as in libpq: `postgres://ann@a:5432,b:5432/shop`. Each new connection then goes to the
    /// host that accepts writes, unless `target_session_attrs` says otherwise.
    ///
    /// # Errors
    /// When the URL is invalid or the database does not respond.
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

    /// Creates a store on the database of an application's pool. Call it within a tokio runtime.
    ///
    /// The store connects by itself, with the pool's options and up to as many connections; the pool stays the application's.
    /// The pool names one host; [`PostgresStore::connect`] follows a failover among several.
    ///
    /// # Errors
    /// When the schema's name is invalid.
    pub fn new(pool: PgPool, schema: &str) -> Result<Self, StoreError> {
        Self::over(Connections::beside(pool)?, schema)
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
            calm: Arc::default(),
            peers: Arc::default(),
            keeps_statements: Arc::default(),
            walk: SharedWalk::default(),
            cleaned_until: Arc::default(),
        })
    }

    /// Gives an event back that was claimed, as if the claim had been dropped.
    #[cfg(feature = "wal")]
    pub(crate) fn give_back(&self, ticket: Ticket) {
        // A closed channel means that the runtime has ended. Then the lease expires by itself.
        let _ = self.give_back.send(ticket);
    }

    /// For tests: holds claims by locks from now on, as a relay with a backlog and live peers does.
    #[doc(hidden)]
    pub fn hold_from_now_on(&self) {
        self.calm.store(true, Ordering::Relaxed);
        self.walk.lock().rescan_at(Instant::now() + Duration::from_secs(3600));
    }

    /// Returns the pool, for transactions to emit in: the application's pool, or a separate pool that connects on demand.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        self.pool.pool()
    }
}

/// Gives back dropped claims. They arrive through a channel because `Drop` cannot await. The task ends with the store.
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
        let release = schema.query(SQL.release);
        if let Err(error) = release.bind(ids).bind(tokens).execute(&pool).await {
            tracing::warn!(events = tickets.len(), %error, "releasing dropped claims failed; their leases will run out");
        }
        tickets.clear();
    }
}

fn columns(tickets: &[Ticket]) -> (Vec<Uuid>, Vec<Uuid>) {
    tickets.iter().map(|ticket| (ticket.id, ticket.token)).unzip()
}

#[async_trait]
impl Claims for PostgresStore {
    fn can_order(&self) -> bool {
        true
    }

    async fn claim(&self, ask: Ask<'_>) -> Result<Claim, StoreError> {
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
            .query_as(SQL.renew)
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
            .query(SQL.blame)
            .bind(ticket.id)
            .bind(ticket.token)
            .bind(losses.cast_signed())
            .execute(&self.pool)
            .await
            .map_err(database("recording the losses of an event"))?;
        Ok(())
    }

    async fn remaining(&self) -> Result<u64, StoreError> {
        sql::remaining(self).await
    }

    async fn next_due(&self) -> Result<Option<Duration>, StoreError> {
        let after = self.walk.lock().due_after(self.calm()).unwrap_or(BEGINNING);
        let due_in: Option<f64> = self
            .schema
            .query_scalar(SQL.next_due)
            .bind(after.0)
            .bind(after.1)
            .fetch_optional(&self.pool)
            .await
            .map_err(database("reading the next due time"))?;
        Ok(due_in.map(seconds))
    }

    async fn wake(&self, waker: Waker) -> Result<WakeUp, StoreError> {
        listen::start(&self.pool, &self.keeps_statements, waker).await.map_err(database("listening for notifications"))
    }
}

impl PostgresStore {
    /// Removes the peers that a stopped relay has seen.
    fn forget_relay(&self, relay: Uuid) {
        let mut peers = lock(&self.peers);
        peers.remove(&relay);
        if peers.is_empty() {
            self.calm.store(false, Ordering::Relaxed);
        }
    }

    /// Returns a statement whose plan may be kept, because it has only one possible plan.
    fn kept_query(&self, text: &str) -> Statement {
        self.schema.query(text).persistent(self.keeps_statements.load(Ordering::Relaxed))
    }

    /// Stops keeping statements if the connection does not know one: there is a pooler after all, or the table was altered.
    fn forgets_statements(&self, error: Error) -> Error {
        if error.is_of_kept_statement() {
            self.keeps_statements.store(false, Ordering::Relaxed);
        }
        error
    }
}
