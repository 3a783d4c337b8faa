//! The store on MariaDB and MySQL: the same verbs and the same tables. Claims are leases.
//!
//! The servers have no `UPDATE … RETURNING` and no partial indexes: `docs/design/mysql.md` says what stands in their place. The
//! statements are in `sql/mysql`, with the same names as on the other databases, and use only syntax that both servers document.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::migrate::Migration;
use super::row::seconds;
use super::sql::{self, Call, Row, Transaction, database, sql_folder};
use super::walk::SharedWalk;
use super::{Ask, Claim, Claims, Settlement, Ticket, WakeUp};
use crate::error::{DriverError, StoreError};
use crate::relay::wake::Waker;

mod adopted;
mod claim;
mod connect;
mod database;
mod examine;
mod grant;
mod moment;
mod order;
mod rights;
mod server;
mod settle;
mod statement;
mod url;
mod watch;

use connect::{Connections, repeating};
use statement::pairs;

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "outbox", sql: include_str!("../../sql/mysql/migrations/0001_outbox.sql") },
    Migration { version: 2, name: "desk", sql: include_str!("../../sql/mysql/migrations/0002_desk.sql") },
];

sql_folder! {
    /// The statements that only MariaDB and MySQL have.
    SQL: Sql = "mysql" {
        blame, claim, claim_due, claim_free, claim_ordered, claim_read, cleanup, cleanup_due, cleanup_more, connect,
        delete_attempts, delete_deliveries, examine_history, examine_indexes, examine_metrics, examine_rights, examine_server, examine_session, fail, fail_asked, fail_deliveries, farewell,
        farewell_lanes, grants_emit, grants_relay, held, migrate_lock, migrate_unlock, next_due, outbox_emit, prune_attempts, release, renew, retry, retry_asked,
        retry_deliveries, server, server_account, settle, settle_attempts, settle_delete, settle_deliveries, settle_plain, sweep, sweep_due, sweep_lanes,
        sweep_metrics, sweep_relays, unpark, unpark_deliveries, unpark_due, unpark_shared, unpark_these, walls, watch,
    }
}

/// The error of a procedure that exists.
const PROCEDURE_EXISTS: u16 = 1304;

/// How a store connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MysqlSettings {
    /// The maximum number of connections.
    pub connections: u32,
    /// How long a statement may take. After that its connection is closed.
    pub deadline: Duration,
    /// The timeout of connecting.
    pub connect_timeout: Duration,
}

impl Default for MysqlSettings {
    fn default() -> Self {
        Self { connections: 10, deadline: Duration::from_secs(30), connect_timeout: Duration::from_secs(3) }
    }
}

/// An outbox in a database of MariaDB or MySQL.
#[derive(Debug, Clone)]
pub struct MysqlStore {
    connections: Arc<Connections>,
    give_back: mpsc::UnboundedSender<Ticket>,
    walk: SharedWalk<moment::Place>,
}

impl MysqlStore {
    /// Connects to `mysql://user:password@host:port/database`. The parameters `ssl-mode` (`DISABLED`, `PREFERRED`, `REQUIRED`,
    /// `VERIFY_CA` or `VERIFY_IDENTITY`), `ssl-ca`, `ssl-cert` and `ssl-key` are those of the servers' own clients.
    /// [`Fleet::check`](super::Fleet::check) returns whether the tables
    /// exist.
    ///
    /// # Errors
    /// When the server does not respond, is too old, or is a node of a Galera cluster.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Self::connect_with(url, MysqlSettings::default()).await
    }

    /// As [`MysqlStore::connect`], with other settings.
    ///
    /// # Errors
    /// As there.
    pub async fn connect_with(url: &str, settings: MysqlSettings) -> Result<Self, StoreError> {
        let connections = Connections::open(url, settings, SQL.connect).await?;
        let (give_back, dropped) = mpsc::unbounded_channel();
        let store = Self { connections, give_back, walk: SharedWalk::default() };
        tokio::spawn(give_back_dropped(Arc::clone(&store.connections), dropped));
        Ok(store)
    }

    /// Applies the missing migrations and returns them. Several programs may do so at once. DDL commits by itself: a migration that
    /// was cut off is applied again from its beginning, and finds what exists.
    ///
    /// # Errors
    /// When the database returns an error.
    pub async fn migrate(&self) -> Result<Vec<Migration>, StoreError> {
        let made = sql::migrate(self).await?;
        self.create_procedure().await.map_err(database("creating the procedure outbox_emit"))?;
        Ok(made)
    }

    /// Creates the procedure `outbox_emit`, if it does not exist. Without the rights for it, other languages emit by a plain INSERT.
    async fn create_procedure(&self) -> Result<(), DriverError> {
        match self.connections.acquire().await?.script(SQL.outbox_emit.to_owned()).await {
            Err(error) => match connect::number(&error) {
                Some(PROCEDURE_EXISTS) => Ok(()),
                Some(number) if rights::is_denied(number) => {
                    tracing::warn!("procedure outbox_emit not created; grant CREATE ROUTINE, or emit by INSERT");
                    Ok(())
                }
                _ => Err(error),
            },
            Ok(_) => Ok(()),
        }
    }
}

/// Gives back dropped claims. They arrive through a channel because `Drop` cannot await. The task ends with the store.
async fn give_back_dropped(connections: Arc<Connections>, mut dropped: mpsc::UnboundedReceiver<Ticket>) {
    let mut tickets = Vec::new();
    while dropped.recv_many(&mut tickets, 1000).await > 0 {
        if let Err(error) = release(&connections, &tickets).await {
            tracing::warn!(events = tickets.len(), %error, "releasing dropped claims failed; their leases will run out");
        }
        tickets.clear();
    }
}

async fn release(connections: &Arc<Connections>, tickets: &[Ticket]) -> Result<(), DriverError> {
    let call = Call::new(SQL.release).bind(pairs(tickets));
    repeating!(connections.acquire().await?.run(&call)).map(drop)
}

#[async_trait]
impl Claims for MysqlStore {
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
        let renewed = repeating!(self.try_renew(tickets, lease)).map_err(database("renewing leases"))?;
        Ok(tickets.iter().filter(|ticket| renewed.contains(&ticket.id)).copied().collect())
    }

    async fn blame(&self, ticket: Ticket, losses: u32) -> Result<(), StoreError> {
        let call = Call::new(SQL.blame).bind(ticket.id).bind(ticket.token).bind(losses);
        self.run(call).await.map(drop).map_err(database("recording the losses of an event"))
    }

    async fn remaining(&self) -> Result<u64, StoreError> {
        sql::remaining(self).await
    }

    async fn next_due(&self) -> Result<Option<Duration>, StoreError> {
        let doing = "reading the next due time";
        let after = self.walk.lock().due_after(true).unwrap_or(moment::BEGINNING).0;
        let rows = self.run(Call::new(SQL.next_due).bind(after.and_utc())).await.map_err(database(doing))?.rows;
        let due_in = rows.first().map(|row| row.maybe_float("due_in")).transpose().map_err(database(doing))?;
        Ok(due_in.flatten().map(seconds))
    }

    async fn wake(&self, waker: Waker) -> Result<WakeUp, StoreError> {
        watch::start(&self.connections, waker).await.map_err(database("watching for events"))
    }
}

impl MysqlStore {
    async fn try_renew(&self, tickets: &[Ticket], lease: Duration) -> Result<HashSet<Uuid>, DriverError> {
        let mut tx = self.transaction().await?;
        tx.done(Call::new(SQL.renew).bind(pairs(tickets)).bind(lease.as_secs_f64())).await?;
        let rows = tx.rows(Call::new(SQL.held).bind(pairs(tickets))).await?;
        tx.commit().await?;
        rows.iter().map(|row| row.id("id")).collect()
    }
}
