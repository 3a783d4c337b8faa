//! Lead: the statements of the relay that reads the log. One relay leads at a time, by a lease on the server's clock; the epoch
//! fences whatever a former leader still writes. It knows no stream and no sinks.

use std::time::Duration;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::error::Error;
use super::lsn::Lsn;
use super::outbox_table::OutboxTable;
use super::replication::{Identity, Replication, ReplicationError, Subscription};
use super::servers::Servers;
use super::sql::sql_folder;
use super::statement::PgRow;
use super::{PostgresStore, database};
use crate::error::StoreError;

sql_folder! {
    /// The statements of the log's reader.
    LOG: LogSql = "postgres" {
        log_beat, log_enabled, log_fence, log_lead, log_leave, log_position, log_pour, log_slot, log_snapshot,
        log_spill, log_timeline,
    }
}

/// How long the gate stays open without another beat, in seconds.
const OPEN: f64 = 5.0;

/// Why the leader does not stream while `synchronous_standby_names` has `*`.
pub(crate) const SYNCHRONOUS: &str = "synchronous_standby_names matches the relay's connection pillarbox/log, so commits would wait for \
    the relay, which waits until it sees them; name the standbys in it";

/// A lead that this relay has taken.
#[derive(Debug, Clone)]
pub(crate) struct Lead {
    pub(crate) leader: Uuid,
    pub(crate) epoch: i64,
    pub(crate) secret: String,
    pub(crate) slot: String,
    pub(crate) publication: String,
    /// The server's timeline, in hexadecimal digits as in the names of WAL files. The lead ends when a standby is promoted.
    pub(crate) timeline: String,
    /// Whether the last leader did not give the lead back: it may have died while it sent.
    pub(crate) after_a_death: bool,
}

/// The state of the slot before it is streamed.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) exists: bool,
    pub(crate) wal_status: Option<String>,
    /// The position that the server keeps for the slot.
    pub(crate) flushed: Option<Lsn>,
    /// The position that the last leader stored.
    pub(crate) confirmed: Option<Lsn>,
    /// The end of the log.
    pub(crate) end: Lsn,
    pub(crate) wal_level: String,
    /// Whether another connection streamed the slot, which was asked to end.
    pub(crate) was_streamed: bool,
    /// The server that the stored position belongs to.
    pub(crate) system: Option<String>,
    /// Whether the slot was synchronised to this server while it was a standby.
    pub(crate) synced: bool,
    /// Whether commits would wait for the relay that streams, as for a synchronous standby.
    pub(crate) is_synchronous: bool,
}

/// The answer to a heartbeat of the leader.
#[derive(Debug)]
pub(crate) struct Beat {
    /// The position that is stored by now.
    pub(crate) confirmed: Lsn,
    pub(crate) leaving: bool,
    /// The reason why emits cannot use the log now.
    pub(crate) closed: Option<String>,
    /// The bytes of the log that are not confirmed.
    pub(crate) lag: u64,
    /// The end of the log during the heartbeat. The commit of the heartbeat before it is below.
    pub(crate) end: Lsn,
    /// Whether the server sends the log only when standbys have it.
    pub(crate) waits: bool,
    /// As for [`Slot`].
    pub(crate) is_synchronous: bool,
    /// The age of the oldest commit that may not be confirmed.
    pub(crate) behind: Duration,
    /// The bytes that can still be written before the slot may be lost.
    pub(crate) left: Option<u64>,
    /// The server's `max_slot_wal_keep_size`; `None` without a limit.
    pub(crate) keep: Option<u64>,
}

/// What the leader tells with a heartbeat.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Telling<'a> {
    /// The position below which every event is delivered, or in the table.
    pub(crate) position: Lsn,
    /// When the oldest open event was committed.
    pub(crate) oldest: Option<DateTime<Utc>>,
    /// Whether nothing is open, and everything up to the last beat was read.
    pub(crate) is_up_to_date: bool,
    /// The reason why the relay wants the gate closed.
    pub(crate) closed: Option<&'a str>,
    /// The same, if the server has no better reason.
    pub(crate) doubt: Option<&'a str>,
    /// The server that is streamed.
    pub(crate) server: Option<&'a Identity>,
    /// Whether the slot may be lost with the server.
    pub(crate) accepts_loss: bool,
}

/// Returns a position that was reached; `None` if the log was not read yet.
fn known(position: Lsn) -> Option<String> {
    (position > Lsn::default()).then(|| position.to_string())
}

/// Returns a number of bytes; `None` for no limit.
fn size(bytes: Option<i64>) -> Option<u64> {
    bytes.and_then(|bytes| u64::try_from(bytes).ok())
}

fn lsn(text: Option<String>) -> Result<Option<Lsn>, Error> {
    text.map(|text| text.parse().map_err(|problem: String| Error::Value(problem.into()))).transpose()
}

impl PostgresStore {
    /// Takes the lead if nobody has it, and if no other table than this is in the publication.
    pub(crate) async fn log_lead(
        &self,
        leader: Uuid,
        lease: Duration,
        table: Option<&OutboxTable>,
    ) -> Result<Option<Lead>, StoreError> {
        let statement = self.schema.query(LOG.log_lead).bind(leader).bind(lease.as_secs_f64());
        let statement =
            statement.bind(table.map(|table| table.schema.as_str())).bind(table.map(|table| table.name.as_str()));
        let read = |row: PgRow| {
            Ok::<_, Error>(Lead {
                leader,
                epoch: row.try_get(0)?,
                secret: row.try_get(1)?,
                slot: row.try_get(2)?,
                publication: row.try_get(3)?,
                after_a_death: row.try_get(5)?,
                timeline: row.try_get(6)?,
            })
        };
        let row = statement.fetch_optional(&self.pool).await.map_err(database("taking the lead of the log"))?;
        row.map(read).transpose().map_err(database("taking the lead of the log"))
    }

    /// Returns whether `pillarbox wal enable` was run.
    pub(crate) async fn log_is_enabled(&self) -> Result<bool, StoreError> {
        let enabled = self.schema.query_scalar(LOG.log_enabled).fetch_one(&self.pool).await;
        enabled.map_err(database("reading whether the log is enabled"))
    }

    /// Returns the state of the slot, and ends another connection that streams it; `None` if another relay leads.
    pub(crate) async fn log_slot(&self, lead: &Lead) -> Result<Option<Slot>, StoreError> {
        let query = self.schema.query(LOG.log_slot).bind(lead.epoch).bind(lead.timeline.as_str()).bind(lead.leader);
        let row = query.fetch_optional(&self.pool).await;
        let read = |row: PgRow| {
            Ok::<_, Error>(Slot {
                exists: row.try_get(0)?,
                wal_status: row.try_get(1)?,
                flushed: lsn(row.try_get(2)?)?,
                confirmed: lsn(row.try_get(3)?)?,
                end: lsn(row.try_get(4)?)?.unwrap_or_default(),
                wal_level: row.try_get(5)?,
                was_streamed: row.try_get::<_, Option<bool>>(6)?.is_some(),
                system: row.try_get(7)?,
                synced: row.try_get(8)?,
                is_synchronous: row.try_get(9)?,
            })
        };
        row.and_then(|row| row.map(read).transpose()).map_err(database("reading the replication slot"))
    }

    /// Renews the lead, stores the position, and opens or closes the gate. Returns `None` if another relay leads.
    pub(crate) async fn log_beat(
        &self,
        lead: &Lead,
        lease: Duration,
        told: Telling<'_>,
    ) -> Result<Option<Beat>, StoreError> {
        let row = self
            .schema
            .query(LOG.log_beat)
            .bind(lead.leader)
            .bind(lead.epoch)
            .bind(lease.as_secs_f64())
            .bind(known(told.position))
            .bind(told.closed)
            .bind(OPEN)
            .bind(told.server.map(|server| server.system.as_str()))
            .bind(lead.timeline.as_str())
            .bind(told.oldest)
            .bind(told.is_up_to_date)
            .bind(told.doubt)
            .bind(told.accepts_loss)
            .fetch_optional(&self.pool)
            .await;
        let read = |row: PgRow| {
            Ok::<_, Error>(Beat {
                confirmed: lsn(row.try_get(0)?)?.unwrap_or_default(),
                leaving: row.try_get(1)?,
                closed: row.try_get(2)?,
                lag: row.try_get::<_, Option<i64>>(3)?.unwrap_or_default().max(0).cast_unsigned(),
                end: lsn(row.try_get(4)?)?.unwrap_or_default(),
                waits: row.try_get(5)?,
                is_synchronous: row.try_get(6)?,
                behind: Duration::try_from_secs_f64(row.try_get(8)?).unwrap_or_default(),
                left: size(row.try_get(9)?),
                keep: size(row.try_get(10)?),
            })
        };
        row.and_then(|row| row.map(read).transpose()).map_err(database("renewing the lead of the log"))
    }

    /// Stores the position, closes the gate and gives the lead back. Returns the stored position; `None` if another relay leads.
    pub(crate) async fn log_leave(&self, lead: &Lead, position: Lsn) -> Result<Option<Lsn>, StoreError> {
        let row = self
            .schema
            .query(LOG.log_leave)
            .bind(lead.leader)
            .bind(lead.epoch)
            .bind(known(position))
            .bind(lead.timeline.as_str())
            .fetch_optional(&self.pool)
            .await;
        let read = |row: PgRow| lsn(row.try_get(0)?);
        let stored = row.and_then(|row| row.map(read).transpose()).map_err(database("giving the lead of the log back"));
        Ok(stored?.flatten())
    }

    /// Lets emit write into the log of this server's timeline, which is being read.
    pub(crate) async fn log_timeline(&self, lead: &Lead) -> Result<(), StoreError> {
        let query = self.schema.query(LOG.log_timeline).bind(lead.epoch).bind(lead.timeline.as_str()).bind(lead.leader);
        let told = query.execute(&self.pool).await;
        told.map(drop).map_err(database("storing the timeline of the log"))
    }

    /// Returns the snapshot of a new statement, as the server writes it.
    pub(crate) async fn log_snapshot(&self) -> Result<String, StoreError> {
        let doing = database("reading which transactions are visible");
        let row = async { self.pool.link().await?.row(LOG.log_snapshot).await?.try_get(0).map_err(Error::from) };
        row.await.map_err(doing)
    }

    /// Streams a slot from the database of this URL, or of the store.
    pub(crate) async fn log_stream(
        &self,
        url: Option<&str>,
        wanted: &Subscription,
    ) -> Result<(Replication, Identity), ReplicationError> {
        let connections = self.pool.connections();
        let limit = connections.deadline() * 2;
        match url {
            None => connections.servers().replicate(wanted, limit).await,
            Some(url) => {
                let servers = Servers::parse(url, connections.deadline());
                let servers = servers.map_err(|error| ReplicationError::Settings(error.into()))?;
                servers.replicate(wanted, limit).await
            }
        }
    }
}
