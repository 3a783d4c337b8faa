//! The store on SQLite: the same verbs and the same table, for one machine. The clock is the host's.
//!
//! SQLite has one writer at a time, so a claim is `BEGIN IMMEDIATE`, a read and a write. It skips no rows and waits for none.
//! Lists of values are bound as one JSON value. The statements are in `sql/sqlite`, with the same names as on PostgreSQL.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde_json::json;
use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::row::seconds;
use super::sql::{self, database, limit, sql_folder};
use super::walk::SharedWalk;
use super::{Ask, Claim, Claims, Settlement, Ticket, WakeUp};
use crate::error::StoreError;
use crate::relay::wake::Waker;

mod claim;
mod database;
mod examine;
mod read;
mod schema;
mod settle;
mod watch;

use schema::MIGRATIONS;

sql_folder! {
    /// The statements that only SQLite has.
    SQL: Sql = "sqlite" {
        blame, claim, claim_due, claim_ordered, cleanup, cleanup_more, data_version, delete_attempts, delete_deliveries, fail,
        fail_deliveries, farewell, farewell_lanes, find_beyond, find_recent, list_length, next_due, prune_attempts, release, renew, retry,
        retry_deliveries, settle, settle_attempts, settle_delete, settle_deliveries, statuses, sweep, sweep_metrics,
        sweep_lanes, sweep_relays, unpark, unpark_deliveries, unpark_shared, unpark_these,
    }
}

/// An outbox in a SQLite file.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    /// Connections for claims and settles. A commit that a power failure undoes causes a duplicate, not a loss.
    relaxed: SqlitePool,
    /// Connections for people's actions, which are on disk when they return.
    durable: SqlitePool,
    give_back: mpsc::UnboundedSender<Ticket>,
    walk: SharedWalk<claim::Place>,
}

/// How long a statement waits for another process that writes.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two attempts to open a file that another process is writing to.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

impl SqliteStore {
    /// Opens the file, or creates it. [`Fleet::check`](crate::Fleet::check) returns whether the tables exist.
    ///
    /// # Errors
    /// When the file cannot be opened or created.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(PATIENCE)
            .disable_statement_logging();
        let relaxed = connect(1, options.clone().synchronous(SqliteSynchronous::Normal)).await?;
        let durable = connect(4, options.synchronous(SqliteSynchronous::Full)).await?;
        let (give_back, dropped) = mpsc::unbounded_channel();
        tokio::spawn(give_back_dropped(relaxed.clone(), dropped));
        Ok(Self { relaxed, durable, give_back, walk: SharedWalk::default() })
    }

    /// Returns the pool, for transactions to emit in.
    #[must_use]
    pub fn pool(&self) -> &SqlitePool {
        &self.durable
    }
}

/// Connects, and retries while the file is busy. SQLite does not wait for writers when it changes the journal mode.
async fn connect(connections: u32, options: SqliteConnectOptions) -> Result<SqlitePool, StoreError> {
    let started = Instant::now();
    let pool = SqlitePoolOptions::new().max_connections(connections).acquire_timeout(PATIENCE);
    loop {
        match pool.clone().connect_with(options.clone()).await {
            Err(sqlx::Error::Database(error)) if is_busy(&*error) && started.elapsed() < PATIENCE => {
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            connected => return connected.map_err(database("opening the database's file")),
        }
    }
}

/// Returns whether the error is `SQLITE_BUSY`, with any extended code.
fn is_busy(error: &dyn sqlx::error::DatabaseError) -> bool {
    error.code().and_then(|code| code.parse::<u32>().ok()).is_some_and(|code| code & 0xff == 5)
}

/// Gives back dropped claims. They arrive through a channel because `Drop` cannot await. The task ends with the store.
async fn give_back_dropped(pool: SqlitePool, mut dropped: mpsc::UnboundedReceiver<Ticket>) {
    let mut tickets = Vec::new();
    while dropped.recv_many(&mut tickets, 1000).await > 0 {
        let release = sqlx::query(SQL.release).bind(pairs(&tickets));
        if let Err(error) = release.execute(&pool).await {
            tracing::warn!(events = tickets.len(), %error, "releasing dropped claims failed; their leases will run out");
        }
        tickets.clear();
    }
}

/// Returns `[[id, token], …]`.
fn pairs(tickets: &[Ticket]) -> String {
    let pairs: Vec<_> = tickets.iter().map(|ticket| json!([ticket.id, ticket.token])).collect();
    json!(pairs).to_string()
}

#[async_trait]
impl Claims for SqliteStore {
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
        let rows: Vec<String> = sqlx::query_scalar(SQL.renew)
            .bind(pairs(tickets))
            .bind(lease.as_secs_f64())
            .fetch_all(&self.relaxed)
            .await
            .map_err(database("renewing leases"))?;
        let renewed = read::ids(&rows).map_err(database("renewing leases"))?;
        Ok(tickets.iter().filter(|ticket| renewed.contains(&ticket.id)).copied().collect())
    }

    async fn blame(&self, ticket: Ticket, losses: u32) -> Result<(), StoreError> {
        sqlx::query(SQL.blame)
            .bind(ticket.id.hyphenated())
            .bind(ticket.token.hyphenated())
            .bind(losses)
            .execute(&self.relaxed)
            .await
            .map_err(database("recording the losses of an event"))?;
        Ok(())
    }

    async fn remaining(&self) -> Result<u64, StoreError> {
        sql::remaining(self).await
    }

    async fn next_due(&self) -> Result<Option<Duration>, StoreError> {
        let due_in: Option<f64> = sqlx::query_scalar(SQL.next_due)
            .fetch_optional(&self.durable)
            .await
            .map_err(database("reading the next due time"))?;
        Ok(due_in.map(seconds))
    }

    async fn wake(&self, waker: Waker) -> Result<WakeUp, StoreError> {
        watch::start(&self.durable, waker).await.map_err(database("watching the file"))
    }
}
