//! The store on SQLite: the same verbs and the same table, for one machine. The clock is the host's.
//!
//! SQLite has one writer at a time, so a claim is `BEGIN IMMEDIATE`, a read and a write; nothing is skipped or waited
//! for inside. Lists of values travel as one JSON value. The statements stand in `sql/sqlite`, named as on PostgreSQL.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde_json::json;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteRow,
    SqliteSynchronous,
};
use sqlx::{ConnectOptions, Row, Sqlite, Transaction};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::row::{killed_its_relays, seconds};
use super::walk::SharedWalk;
use super::{
    Ask, Claim, Claimed, Cleaned, EventKind, Heartbeat, LOSSES_BEFORE_ALONE, LOSSES_BEFORE_APART, LOSSES_BEFORE_FAILED,
    Order, Retention, Settlement, Store, Swept, Ticket, Told, WakeUp,
};
use crate::delivery::Delivery;
use crate::error::StoreError;
use crate::event::StoredEvent;
use crate::relay::wake::Waker;

mod act;
mod examine;
mod figures;
mod inspect;
mod list;
mod ordered;
mod people;
mod read;
mod schema;
mod settle;
mod watch;

/// An outbox in a SQLite file.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    /// Claims and settles: a commit that a power cut takes back is a duplicate, not a loss.
    relaxed: SqlitePool,
    /// What people do: on disk when it answers.
    durable: SqlitePool,
    give_back: mpsc::UnboundedSender<Ticket>,
    walk: SharedWalk<ordered::Place>,
}

/// How long a statement waits for another process that writes.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two attempts to open a file that somebody is writing to.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

impl SqliteStore {
    /// Opens the file, and makes it if it is not there. [`Store::check`] says whether the tables are.
    ///
    /// # Errors
    /// When it cannot be opened or made.
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

    /// The pool, for transactions to emit in.
    #[must_use]
    pub fn pool(&self) -> &SqlitePool {
        &self.durable
    }
}

/// A file that others keep in another journal mode is not changed while they write, and SQLite does not wait for them.
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

/// `SQLITE_BUSY`, whatever the extended code adds.
fn is_busy(error: &dyn sqlx::error::DatabaseError) -> bool {
    error.code().and_then(|code| code.parse::<u32>().ok()).is_some_and(|code| code & 0xff == 5)
}

/// Keeps what the database said, and adds what was being done.
fn database<E: Into<crate::error::DriverError>>(doing: &'static str) -> impl FnOnce(E) -> StoreError {
    move |source| StoreError::Database { doing, source: source.into() }
}

/// `Drop` cannot await, so dropped claims arrive here; the task ends with the store.
async fn give_back_dropped(pool: SqlitePool, mut dropped: mpsc::UnboundedReceiver<Ticket>) {
    let mut tickets = Vec::new();
    while dropped.recv_many(&mut tickets, 1000).await > 0 {
        let release = sqlx::query(include_str!("../../sql/sqlite/release.sql")).bind(pairs(&tickets));
        if let Err(error) = release.execute(&pool).await {
            tracing::warn!(events = tickets.len(), %error, "dropped claims could not be given back; their leases will run out");
        }
        tickets.clear();
    }
}

/// `[[id, token], …]`
fn pairs(tickets: &[Ticket]) -> String {
    let pairs: Vec<_> = tickets.iter().map(|ticket| json!([ticket.id, ticket.token])).collect();
    json!(pairs).to_string()
}

fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

async fn unpark_deliveries(connection: &mut SqliteConnection, on: &str, ids: &[String]) -> Result<(), sqlx::Error> {
    if !ids.is_empty() {
        sqlx::query(include_str!("../../sql/sqlite/unpark_deliveries.sql"))
            .bind(json!(ids).to_string())
            .bind(on)
            .execute(connection)
            .await?;
    }
    Ok(())
}

/// Claim, second half: the lease.
async fn lease(
    mut tx: Transaction<'_, Sqlite>,
    events: &[(StoredEvent, Vec<Delivery>)],
    ask: Ask,
    token: Uuid,
) -> Result<(), sqlx::Error> {
    let ids: Vec<Uuid> = events.iter().map(|(event, _)| event.id).collect();
    sqlx::query(include_str!("../../sql/sqlite/claim.sql"))
        .bind(json!(ids).to_string())
        .bind(ask.lease.as_secs_f64())
        .bind(token.hyphenated())
        .bind(LOSSES_BEFORE_ALONE)
        .execute(&mut *tx)
        .await?;
    tx.commit().await
}

#[async_trait]
impl Store for SqliteStore {
    async fn check(&self) -> Result<(), StoreError> {
        self.check_schema().await
    }

    fn can_order(&self) -> bool {
        true
    }

    async fn claim(&self, ask: Ask) -> Result<Claim, StoreError> {
        if let Order::Aggregate(on_failed) = ask.order {
            return self.claim_ordered(ask, on_failed).await;
        }
        let token = Uuid::new_v4();
        let until = Instant::now() + ask.lease;
        let events = self.claim_due(ask, token).await?;
        let claimed = |(event, deliveries)| Claimed::new(event, deliveries, token, until, self.give_back.clone());
        Ok(Claim::new(events.into_iter().map(claimed).collect()))
    }

    async fn settle(&self, settlements: &[Settlement], delete: bool) -> Result<Vec<Ticket>, StoreError> {
        let settled: HashSet<Uuid> =
            self.settle_batch(settlements, delete).await.map_err(database("settling events"))?;
        let lost = settlements.iter().map(Settlement::ticket).filter(|ticket| !settled.contains(&ticket.id));
        Ok(lost.collect())
    }

    async fn renew(&self, tickets: &[Ticket], lease: Duration) -> Result<Vec<Ticket>, StoreError> {
        let rows: Vec<String> = sqlx::query_scalar(include_str!("../../sql/sqlite/renew.sql"))
            .bind(pairs(tickets))
            .bind(lease.as_secs_f64())
            .fetch_all(&self.relaxed)
            .await
            .map_err(database("renewing leases"))?;
        let renewed = read::ids(&rows).map_err(database("renewing leases"))?;
        Ok(tickets.iter().filter(|ticket| renewed.contains(&ticket.id)).copied().collect())
    }

    async fn blame(&self, ticket: Ticket, losses: u32) -> Result<(), StoreError> {
        sqlx::query(include_str!("../../sql/sqlite/blame.sql"))
            .bind(ticket.id.hyphenated())
            .bind(ticket.token.hyphenated())
            .bind(losses)
            .execute(&self.relaxed)
            .await
            .map_err(database("counting the losses of an event"))?;
        Ok(())
    }

    async fn sweep(&self) -> Result<Vec<Swept>, StoreError> {
        let error = killed_its_relays();
        let rows = self.sweep_events(&error).await.map_err(database("sweeping events"))?;
        let forgotten = [
            include_str!("../../sql/sqlite/sweep_relays.sql"),
            include_str!("../../sql/sqlite/sweep_lanes.sql"),
            include_str!("../../sql/sqlite/sweep_figures.sql"),
        ];
        for statement in forgotten {
            sqlx::query(statement).execute(&self.relaxed).await.map_err(database("sweeping relays"))?;
        }
        rows.iter().map(|row| Ok(Swept { event: read::event(row)?, error: error.clone() })).collect()
    }

    async fn parked_on(&self) -> Result<Vec<String>, StoreError> {
        sqlx::query_scalar(include_str!("../../sql/sqlite/parked_on.sql"))
            .fetch_all(&self.durable)
            .await
            .map_err(database("looking for parked events"))
    }

    async fn paused(&self) -> Result<Vec<String>, StoreError> {
        let pauses = self.read_pauses().await.map_err(database("reading what is paused"))?;
        Ok(pauses.into_iter().map(|pause| pause.destination).collect())
    }

    async fn parked_kinds(&self, on: &str) -> Result<Vec<EventKind>, StoreError> {
        let rows: Vec<(String, String)> = sqlx::query_as(include_str!("../../sql/sqlite/parked_kinds.sql"))
            .bind(on)
            .fetch_all(&self.durable)
            .await
            .map_err(database("looking for parked events"))?;
        Ok(rows.into_iter().map(|(event_type, aggregate_type)| EventKind { event_type, aggregate_type }).collect())
    }

    async fn unpark(&self, on: &str, kind: Option<&EventKind>, at_most: usize) -> Result<u64, StoreError> {
        self.unpark_batch(on, kind, at_most).await.map_err(database("unparking events"))
    }

    async fn cleanup(&self, retention: &Retention) -> Result<Cleaned, StoreError> {
        self.cleanup_batch(retention).await.map_err(database("cleaning up"))
    }

    async fn remaining(&self) -> Result<u64, StoreError> {
        let count: i64 = sqlx::query_scalar(include_str!("../../sql/sqlite/remaining.sql"))
            .fetch_one(&self.durable)
            .await
            .map_err(database("counting due events"))?;
        Ok(count.unsigned_abs())
    }

    async fn next_due(&self) -> Result<Option<Duration>, StoreError> {
        let due_in: Option<f64> = sqlx::query_scalar(include_str!("../../sql/sqlite/next_due.sql"))
            .fetch_optional(&self.durable)
            .await
            .map_err(database("looking for the next due event"))?;
        Ok(due_in.map(seconds))
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<(), StoreError> {
        sqlx::query(include_str!("../../sql/sqlite/heartbeat.sql"))
            .bind(heartbeat.id.hyphenated())
            .bind(&heartbeat.host)
            .bind(limit(heartbeat.in_flight))
            .bind(heartbeat.idle)
            .execute(&self.relaxed)
            .await
            .map_err(database("saying that the relay lives"))?;
        Ok(())
    }

    async fn tell(&self, told: Told<'_>) -> Result<(), StoreError> {
        self.write_figures(told).await.map_err(database("writing figures down"))
    }

    async fn farewell(&self, relay: Uuid) -> Result<(), StoreError> {
        for statement in
            [include_str!("../../sql/sqlite/farewell.sql"), include_str!("../../sql/sqlite/farewell_lanes.sql")]
        {
            sqlx::query(statement)
                .bind(relay.hyphenated())
                .execute(&self.relaxed)
                .await
                .map_err(database("saying that the relay is gone"))?;
        }
        Ok(())
    }

    async fn wake(&self, waker: Waker) -> Result<WakeUp, StoreError> {
        watch::start(&self.durable, waker).await.map_err(database("watching the file"))
    }
}

impl SqliteStore {
    async fn sweep_events(&self, error: &str) -> Result<Vec<SqliteRow>, sqlx::Error> {
        let mut tx = self.relaxed.begin_with("BEGIN IMMEDIATE").await?;
        let rows = sqlx::query(include_str!("../../sql/sqlite/sweep.sql"))
            .bind(LOSSES_BEFORE_FAILED)
            .bind(error)
            .fetch_all(&mut *tx)
            .await?;
        if !rows.is_empty() {
            let ids = rows.iter().map(|row| row.try_get("id")).collect::<Result<Vec<String>, _>>()?;
            sqlx::query(include_str!("../../sql/sqlite/fail_deliveries.sql"))
                .bind(json!(ids).to_string())
                .bind(error)
                .execute(&mut *tx)
                .await?;
        }
        tx.commit().await?;
        Ok(rows)
    }

    async fn unpark_batch(&self, on: &str, kind: Option<&EventKind>, at_most: usize) -> Result<u64, sqlx::Error> {
        let mut tx = self.relaxed.begin_with("BEGIN IMMEDIATE").await?;
        let mut ids: Vec<String> = sqlx::query_scalar(include_str!("../../sql/sqlite/unpark.sql"))
            .bind(on)
            .bind(limit(at_most))
            .bind(kind.map(|kind| kind.event_type.as_str()))
            .bind(kind.map(|kind| kind.aggregate_type.as_str()))
            .fetch_all(&mut *tx)
            .await?;
        unpark_deliveries(&mut tx, on, &ids).await?;
        if kind.is_none() && ids.len() < at_most {
            let shared: Vec<String> = sqlx::query_scalar(include_str!("../../sql/sqlite/unpark_shared.sql"))
                .bind(on)
                .bind(limit(at_most - ids.len()))
                .fetch_all(&mut *tx)
                .await?;
            unpark_deliveries(&mut tx, on, &shared).await?;
            ids.extend(shared);
        }
        tx.commit().await?;
        Ok(ids.len() as u64)
    }

    async fn claim_due(&self, ask: Ask, token: Uuid) -> Result<Vec<(StoredEvent, Vec<Delivery>)>, StoreError> {
        let doing = "claiming events";
        let mut tx = self.relaxed.begin_with("BEGIN IMMEDIATE").await.map_err(database(doing))?;
        let rows = sqlx::query(include_str!("../../sql/sqlite/claim_due.sql"))
            .bind(limit(ask.limit))
            .bind(limit(ask.bytes))
            .bind(LOSSES_BEFORE_APART)
            .bind(ask.losses_below())
            .fetch_all(&mut *tx)
            .await
            .map_err(database(doing))?;
        let events = rows.iter().map(read::claimed).collect::<Result<Vec<_>, _>>()?;
        if events.is_empty() {
            return Ok(events);
        }
        lease(tx, &events, ask, token).await.map_err(database(doing))?;
        Ok(events)
    }

    async fn cleanup_batch(&self, retention: &Retention) -> Result<Cleaned, sqlx::Error> {
        let mut tx = self.relaxed.begin_with("BEGIN IMMEDIATE").await?;
        let ids: Vec<String> = sqlx::query_scalar(include_str!("../../sql/sqlite/cleanup.sql"))
            .bind(retention.delivered_after.as_secs_f64())
            .bind(retention.failed_after.as_secs_f64())
            .bind(limit(retention.batch))
            .fetch_all(&mut *tx)
            .await?;
        settle::delete_details(&mut tx, &json!(ids).to_string()).await?;
        let more = sqlx::query_scalar(include_str!("../../sql/sqlite/cleanup_more.sql"))
            .bind(retention.delivered_after.as_secs_f64())
            .bind(retention.failed_after.as_secs_f64())
            .fetch_one(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(Cleaned { deleted: ids.len() as u64, more, elsewhere: false })
    }
}
