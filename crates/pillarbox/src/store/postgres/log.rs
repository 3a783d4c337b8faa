//! The write-ahead log as the outbox, seen from the side that sets it up: its settings and its state. `log/enable.rs` creates the
//! slot, `log/disable.rs` removes it, `log/examine.rs` finds problems. Emit and the relay's reader are elsewhere.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use uuid::Uuid;

use super::error::Error;
use super::moment::Moment;
use super::outbox_table::OutboxTable;
use super::statement::PgRow;
use super::{PostgresStore, SQL, database};
use crate::error::StoreError;
use crate::store::log::LogView;

mod disable;
mod enable;
mod examine;
pub(crate) mod published;

/// The settings of [`PostgresStore::log_enable`].
#[derive(Debug, Clone)]
pub struct LogSettings {
    /// The name of the replication slot and of the publication. `None` means `pillarbox_<schema>_<database>`.
    pub slot: Option<String>,
    /// The largest event that goes into the log, in bytes of payload and headers. Larger ones go into the table.
    pub size_limit: i32,
    /// How long to wait for transactions that are open.
    pub patience: Duration,
    /// Whether events may be lost when a standby is promoted, on servers whose standbys do not copy slots.
    pub accept_failover_loss: bool,
    /// An outbox table of the application, whose rows are events, too. It is added to the publication.
    pub table: Option<OutboxTable>,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            slot: None,
            size_limit: 65_536,
            patience: Duration::from_secs(3600),
            accept_failover_loss: false,
            table: None,
        }
    }
}

/// The reason why the log could not be enabled or disabled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The server, the role or the state of the log does not allow it. The text says what to do.
    #[error("{0}")]
    Refused(String),
    /// No relay delivers the rest of the log.
    #[error(
        "no relay reads the log, and {bytes} bytes of it may contain undelivered events; start a relay with \
         [source] kind = \"wal\" and run this again, or give these events up with --force"
    )]
    NoRelay {
        /// The bytes of the log that were not read.
        bytes: i64,
    },
    /// The database returned an error.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What enabling or disabling waits for, for people.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum LogWait {
    /// Transactions that are open, each with its process.
    Transactions(Vec<String>),
    /// A relay that delivers the rest of the log: the bytes that are left.
    Relay(i64),
}

/// The state of the log. The secret is not part of it.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct LogStatus {
    /// The replication slot.
    pub slot: String,
    /// The publication that the slot's output plugin needs. It is empty unless the rows of an outbox table are read.
    pub publication: String,
    /// The tables in the publication: rows that are inserted into them are in the log.
    pub tables: Vec<String>,
    /// When the log was enabled.
    pub enabled_at: DateTime<Utc>,
    /// The number of leaders so far.
    pub epoch: i64,
    /// The relay that reads the log, or read it last.
    pub leader: Option<Uuid>,
    /// The end of its lease.
    pub leader_until: Option<DateTime<Utc>>,
    /// Whether the lease has not run out.
    pub is_led: bool,
    /// The position below which every event is delivered, or in the table.
    pub confirmed: Option<String>,
    /// Every event that was committed before this time is delivered, or in the table.
    pub confirmed_at: DateTime<Utc>,
    /// The seconds since that time; a relay that is up to date writes it once a second.
    pub behind_seconds: f64,
    /// The bytes of the log behind that position.
    pub undelivered_bytes: Option<i64>,
    /// Whether emit writes into the log.
    pub is_open: bool,
    /// Why the leader keeps events out of the log; empty while it takes them.
    pub closed: String,
    /// Whether `wal disable` has begun.
    pub leaving: bool,
    /// The largest event that goes into the log, in bytes; -1 while the log is being disabled.
    pub size_limit: Option<i32>,
    /// Whether the leader reads this server. False after a standby was promoted, until a relay leads there.
    pub is_here: bool,
    /// Whether the slot exists.
    pub has_slot: bool,
    /// Whether a relay is connected to the slot.
    pub is_active: bool,
    /// The server's word on the slot: `reserved`, `extended`, `unreserved` or `lost`.
    pub wal_status: Option<String>,
    /// The bytes that can still be written before the slot may be lost.
    pub safe_wal_bytes: Option<i64>,
    /// The bytes of the log that the server keeps for the slot.
    pub retained_bytes: Option<i64>,
    /// The position of the slot. On a standby: how far the copy of the slot has come.
    pub flushed: Option<String>,
    /// Whether the slot begins behind the confirmed position: it was created again, or moved by another program. A leader stores each
    /// position before it moves the slot.
    pub has_moved: bool,
    /// Why the server has invalidated the slot, since version 17: `wal_removed`, `wal_level_insufficient`, `idle_timeout` or another reason.
    pub invalidation: Option<String>,
    /// Whether standbys copy the slot; `None` before version 17.
    pub fails_over: Option<bool>,
    /// Whether the slot was copied from another server: this one is a standby, or was promoted. `None` before version 17.
    pub is_synced: Option<bool>,
    /// Whether the slot is temporary. A standby's copy is, until it has everything; a promotion before that drops it.
    pub is_temporary: bool,
    /// The slots of `synchronized_standby_slots`: the server sends the log of a failover slot only when these standbys have it.
    pub standby_slots: Option<String>,
    /// Those of them that do not exist. The server waits for them.
    pub absent_standby_slots: Option<String>,
    /// Those of them whose standby is not connected.
    pub idle_standby_slots: Option<String>,
    /// Whether this server is a standby.
    pub is_standby: bool,
    /// Whether `synchronous_standby_names` matches the relay's connection: commits would wait for the relay.
    pub is_synchronous: bool,
    /// The server's `wal_level`.
    pub wal_level: String,
    /// The server's `max_slot_wal_keep_size` in bytes; `None` without a limit.
    pub keep_bytes: Option<i64>,
    /// The server's `idle_replication_slot_timeout`, since version 18; `None` if a slot that nobody reads is not invalidated.
    pub idle_timeout: Option<String>,
    /// The number of connected standbys.
    pub standbys: i64,
    /// Whether this role may read replication slots.
    pub may_replicate: bool,
}

/// What the server and this role allow.
#[derive(Debug, Clone)]
struct Facts {
    wal_level: String,
    version: i32,
    encoding: String,
    database: String,
    role: String,
    is_standby: bool,
    keep_bytes: Option<i64>,
    idle_timeout: Option<String>,
    free_slots: i32,
    may_replicate: bool,
    may_publish: bool,
    standbys: i64,
}

/// The first version whose standbys copy slots.
const FAILOVER_SLOTS: i32 = 170_000;

impl PostgresStore {
    /// Returns the state of the log, or `None` if it is not enabled.
    ///
    /// # Errors
    /// When the database returns an error.
    pub async fn log_status(&self) -> Result<Option<LogStatus>, StoreError> {
        self.read_log_status().await.map_err(database("reading the state of the log"))
    }

    pub(super) async fn read_log_status(&self) -> Result<Option<LogStatus>, Error> {
        match self.schema.query(SQL.wal_status).fetch_optional(&self.pool).await? {
            Some(row) => Ok(Some(LogStatus::read(&row, self.log_facts().await?)?)),
            None => Ok(None),
        }
    }

    async fn log_facts(&self) -> Result<Facts, Error> {
        Facts::read(&self.schema.query(SQL.wal_facts).fetch_one(&self.pool).await?)
    }
}

impl LogStatus {
    /// Returns whether the slot has everything behind the confirmed position. If not, events in the log may be lost, and only
    /// [`PostgresStore::log_disable_now`] removes the log.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.has_slot && self.wal_status.as_deref() != Some("lost") && !self.has_moved
    }

    /// Returns the state for people.
    pub(super) fn view(self) -> LogView {
        let bytes = |bytes: i64| u64::try_from(bytes).unwrap_or_default();
        let is_whole = self.is_whole();
        let reason = match (self.is_here, self.wal_level.as_str()) {
            (_, level) if level != "logical" => format!("wal_level is {level}"),
            (false, _) => "the server was promoted, and no relay has read it since".to_owned(),
            (true, _) if self.closed.is_empty() && !self.is_open => "its relay has not opened it yet".to_owned(),
            (true, _) => self.closed,
        };
        let is_open = self.is_led && self.is_open && reason.is_empty();
        LogView {
            slot: self.slot,
            is_whole,
            is_read: self.is_led,
            is_open,
            closed: if self.is_led { reason } else { String::new() },
            leaving: self.leaving,
            confirmed: self.confirmed,
            undelivered_bytes: self.undelivered_bytes.map(bytes).unwrap_or_default(),
            behind: Duration::try_from_secs_f64(self.behind_seconds).unwrap_or_default(),
            retained_bytes: self.retained_bytes.map(bytes),
            left_bytes: self.safe_wal_bytes.map(bytes),
        }
    }

    fn read(row: &PgRow, facts: Facts) -> Result<Self, Error> {
        let moment = |column| Ok::<_, Error>(row.try_get::<_, Option<Moment>>(column)?.map(Moment::shown));
        Ok(Self {
            slot: row.try_get("slot")?,
            publication: row.try_get("publication")?,
            tables: row.try_get("tables")?,
            enabled_at: moment("enabled_at")?.unwrap_or_default(),
            epoch: row.try_get("epoch")?,
            leader: row.try_get("leader")?,
            leader_until: moment("leader_until")?,
            is_led: row.try_get("is_led")?,
            confirmed: row.try_get("confirmed")?,
            confirmed_at: moment("confirmed_at")?.unwrap_or_default(),
            behind_seconds: row.try_get("behind")?,
            undelivered_bytes: row.try_get("undelivered")?,
            is_open: row.try_get::<_, Option<bool>>("is_open")?.unwrap_or(false),
            closed: row.try_get("closed")?,
            leaving: row.try_get("leaving")?,
            size_limit: row.try_get("size_limit")?,
            is_here: row.try_get::<_, Option<bool>>("is_here")?.unwrap_or(false),
            has_slot: row.try_get("has_slot")?,
            is_active: row.try_get("is_active")?,
            wal_status: row.try_get("wal_status")?,
            safe_wal_bytes: row.try_get("safe_wal_size")?,
            retained_bytes: row.try_get("retained")?,
            flushed: row.try_get("flushed")?,
            has_moved: row.try_get("has_moved")?,
            invalidation: row.try_get("invalidation")?,
            fails_over: row.try_get("fails_over")?,
            is_synced: row.try_get("is_synced")?,
            is_temporary: row.try_get("is_temporary")?,
            standby_slots: row.try_get("named")?,
            absent_standby_slots: row.try_get("absent")?,
            idle_standby_slots: row.try_get("idle")?,
            is_standby: facts.is_standby,
            is_synchronous: row.try_get("is_synchronous")?,
            wal_level: facts.wal_level,
            keep_bytes: facts.keep_bytes,
            idle_timeout: facts.idle_timeout,
            standbys: facts.standbys,
            may_replicate: facts.may_replicate,
        })
    }
}

impl Facts {
    fn read(row: &PgRow) -> Result<Self, Error> {
        Ok(Self {
            wal_level: row.try_get("wal_level")?,
            version: row.try_get("version")?,
            encoding: row.try_get("encoding")?,
            database: row.try_get("database")?,
            role: row.try_get("role")?,
            is_standby: row.try_get("is_standby")?,
            keep_bytes: Some(row.try_get::<_, i64>("keep")?).filter(|bytes| *bytes >= 0),
            idle_timeout: row.try_get("idle_timeout")?,
            free_slots: row.try_get("free_slots")?,
            may_replicate: row.try_get("may_replicate")?,
            may_publish: row.try_get("may_publish")?,
            standbys: row.try_get("standbys")?,
        })
    }
}
