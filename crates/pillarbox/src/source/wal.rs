//! The write-ahead log as a source: one relay at a time leads, streams the replication slot and delivers what it reads; no table is
//! written when all goes well.
//!
//! Everything else is spilled into the table: retries, parked events, dead letters, slow sends, large transactions. From then on the
//! wrapped store has them. The leader confirms to the server the part of the log below which every event is delivered or
//! spilled. A relay that does not lead works on the table alone. It knows no sinks.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::clock;
use crate::error::StoreError;
use crate::relay::wake::Waker;
use crate::store::postgres::PostgresStore;
pub use crate::store::postgres::{OutboxColumns, OutboxTable};
use crate::store::{
    Ask, Claim, Claimed, Claims, Cleaned, EventKind, Fleet, Heartbeat, ParkedEvent, ParkedPlace, Parking, Retention,
    Settlement, Swept, Ticket, Told, WakeUp,
};

mod beat;
mod content;
mod frame;
mod leader;
mod ledger;
mod log;
mod reader;
mod row;
mod settle;
mod snapshot;
mod told;

use log::Log;
pub use log::LogMetrics;

/// How long a stopping relay waits for its last spill.
const FAREWELL: Duration = Duration::from_secs(20);

/// The settings of the log as a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalSettings {
    /// The URL of a direct connection for the stream, if the store's goes through a pooler.
    pub url: Option<String>,
    /// How long a relay leads without a heartbeat. After a crash, another relay waits that long. A send begins only while more of it
    /// is left than the timeout of its destination; otherwise the event goes through the table.
    pub lease: Duration,
    /// An outbox table of the application, whose rows are events beside the messages of emit. It must be in the publication of the log:
    /// see [`LogSettings::table`](crate::store::postgres::LogSettings::table).
    pub table: Option<OutboxTable>,
    /// Whether undelivered events in the log may be lost when a standby is promoted, on a server before PostgreSQL 17, whose standbys
    /// do not copy slots. If not, events go into the table while such a server has a standby.
    pub accept_failover_loss: bool,
}

impl Default for WalSettings {
    fn default() -> Self {
        Self { url: None, lease: Duration::from_secs(15), table: None, accept_failover_loss: false }
    }
}

/// An outbox in PostgreSQL whose events may be in the write-ahead log.
///
/// A relay on it leads, or waits to lead, while it runs; single passes work on the table alone.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use pillarbox::Relay;
/// use pillarbox::source::wal::{WalSettings, WalStore};
/// use pillarbox::store::postgres::PostgresStore;
///
/// # async fn open() -> Result<(), Box<dyn std::error::Error>> {
/// let store = PostgresStore::connect("postgres://shop@127.0.0.1/shop", "public").await?;
/// let relay = Relay::builder(Arc::new(WalStore::new(store, WalSettings::default())));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct WalStore {
    table: PostgresStore,
    log: Arc<Log>,
    running: Arc<Mutex<Option<Running>>>,
}

/// The task that leads, or waits to lead.
#[derive(Debug)]
struct Running {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl WalStore {
    /// Wraps a store. Call it within a tokio runtime.
    #[must_use]
    pub fn new(table: PostgresStore, settings: WalSettings) -> Self {
        let (give_back, dropped) = mpsc::unbounded_channel();
        let log = Arc::new(Log::new(table.clone(), settings, give_back));
        tokio::spawn(give_back_dropped(Arc::downgrade(&log), dropped));
        Self { table, log, running: Arc::default() }
    }

    /// Returns the store of the table.
    #[must_use]
    pub fn table(&self) -> &PostgresStore {
        &self.table
    }

    /// Returns the metrics of the log, as this relay sees them.
    #[must_use]
    pub fn log_metrics(&self) -> LogMetrics {
        self.log.metrics()
    }

    /// Stops leading: spills what is open, stores the position and gives the lead back.
    async fn stop(&self) {
        let Some(running) = self.running.lock().await.take() else { return };
        let _ = running.stop.send(true);
        let abort = running.task.abort_handle();
        match tokio::time::timeout(FAREWELL, running.task).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "reading the log failed"),
            Err(_) => {
                abort.abort();
                tracing::warn!(
                    "database does not respond; the next leader reads the log again from the stored position"
                );
            }
        }
    }
}

/// Gives back claimed events of the log that were dropped. The task ends with the store.
async fn give_back_dropped(log: std::sync::Weak<Log>, mut dropped: mpsc::UnboundedReceiver<Ticket>) {
    let mut tickets = Vec::new();
    while dropped.recv_many(&mut tickets, 1000).await > 0 {
        let Some(log) = log.upgrade() else { return };
        log.give_back(&tickets).await;
        tickets.clear();
    }
}

#[async_trait]
impl Claims for WalStore {
    fn can_order(&self) -> bool {
        true
    }

    async fn claim(&self, ask: Ask<'_>) -> Result<Claim, StoreError> {
        self.log.note_order(ask.order);
        if !self.log.is_tables_turn(ask.whole)
            && let Some(claim) = self.log.claim(&ask)
        {
            return Ok(claim);
        }
        if !self.log.asks_table(ask.whole) {
            return Ok(Claim::default());
        }
        let claim = self.table.claim(ask).await?;
        self.log.asked_table(!claim.is_empty());
        if claim.is_empty() {
            return Ok(self.log.claim(&ask).unwrap_or_default());
        }
        Ok(claim)
    }

    async fn settle(&self, settlements: &[Settlement], delete: bool) -> Result<Vec<Ticket>, StoreError> {
        let others = self.log.settle(settlements, delete).await?;
        if others.is_empty() {
            return Ok(Vec::new());
        }
        if others.len() == settlements.len() {
            return self.table.settle(settlements, delete).await;
        }
        let others: Vec<Settlement> = others.into_iter().map(Settlement::copy).collect();
        self.table.settle(&others, delete).await
    }

    async fn renew(&self, tickets: &[Ticket], lease: Duration) -> Result<Vec<Ticket>, StoreError> {
        // An event of the log has the leader's lease, which is short. For a longer one it needs a row. If it cannot get one, the leases
        // of other events, which have rows, are renewed nevertheless.
        let leased = self.log.lease(tickets).await;
        let renewed = self.table.renew(tickets, lease).await?;
        leased.map(|()| renewed)
    }

    async fn blame(&self, ticket: Ticket, losses: u32) -> Result<(), StoreError> {
        self.table.blame(ticket, losses).await
    }

    async fn next_due(&self) -> Result<Option<Duration>, StoreError> {
        if self.log.has_ready() { Ok(Some(Duration::ZERO)) } else { self.table.next_due().await }
    }

    async fn remaining(&self) -> Result<u64, StoreError> {
        self.table.remaining().await
    }

    async fn wake(&self, waker: Waker) -> Result<WakeUp, StoreError> {
        self.stop().await;
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(leader::keep_leading(Arc::clone(&self.log), waker.clone(), stopped));
        *self.running.lock().await = Some(Running { stop, task });
        self.table.wake(waker).await
    }
}

#[async_trait]
impl Parking for WalStore {
    async fn parked_on(&self) -> Result<Vec<String>, StoreError> {
        self.table.parked_on().await
    }

    async fn paused(&self) -> Result<Vec<String>, StoreError> {
        self.table.paused().await
    }

    async fn parked_kinds(&self, on: &str) -> Result<Vec<EventKind>, StoreError> {
        self.table.parked_kinds(on).await
    }

    async fn parked_events(
        &self,
        on: &str,
        kind: &EventKind,
        after: &ParkedPlace,
        limit: usize,
    ) -> Result<Vec<ParkedEvent>, StoreError> {
        self.table.parked_events(on, kind, after, limit).await
    }

    async fn unpark_these(&self, on: &str, ids: &[Uuid]) -> Result<u64, StoreError> {
        self.table.unpark_these(on, ids).await
    }

    async fn unpark(&self, on: &str, kind: Option<&EventKind>, limit: usize) -> Result<u64, StoreError> {
        self.table.unpark(on, kind, limit).await
    }
}

#[async_trait]
impl Fleet for WalStore {
    async fn check(&self) -> Result<(), StoreError> {
        self.table.check().await
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<(), StoreError> {
        self.table.heartbeat(heartbeat).await
    }

    async fn tell(&self, told: Told<'_>) -> Result<(), StoreError> {
        self.table.tell(told).await
    }

    async fn farewell(&self, relay: Uuid) -> Result<(), StoreError> {
        self.stop().await;
        self.table.farewell(relay).await
    }

    async fn sweep(&self) -> Result<Vec<Swept>, StoreError> {
        self.table.sweep().await
    }

    async fn cleanup(&self, retention: &Retention) -> Result<Cleaned, StoreError> {
        self.table.cleanup(retention).await
    }
}

impl Log {
    /// Hands out events of the log, if this relay leads and its lease allows it.
    fn claim(&self, ask: &Ask<'_>) -> Option<Claim> {
        // An event that is spilled while it is held gets a row with the lease that the relay asked for. It may be the shorter one.
        let (now, lease) = (clock::now(), ask.lease.min(self.lease_length()));
        let until = self.leads_until()?.min(now + lease);
        if self.is_ordered() || until <= now {
            return None;
        }
        let token = Uuid::new_v4();
        let taken = self.take(ask, token);
        if taken.is_empty() {
            return None;
        }
        let claimed = |event| {
            let claimed = Claimed::of_shared(event, Vec::new(), token, until, self.give_back_channel());
            claimed.fresh(true).leased_for(lease)
        };
        Some(Claim::new(taken.into_iter().map(claimed).collect()))
    }
}
