//! The layer that stores on SQL databases share. A [`Database`] defines how it runs a statement, reads its rows and changes
//! events. Everything that people see and do, and the data that relays share, is written once on top of it, in the files
//! beside this one.
//!
//! Statements are in `sql/<database>/<verb>.sql`. The layer knows no driver. Claims and settles do not use it.

use std::borrow::Cow;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::act::Entry;
use super::examine::Finding;
use super::list::{BadCursor, Bound};
use super::log::LogView;
use super::migrate::Migration;
use super::{Cleaned, EventKind, Retention};
use crate::emit;
use crate::error::{DriverError, StoreError};

mod act;
mod desk;
mod find;
mod fleet;
mod get;
mod inspect;
mod list;
mod parking;
mod read;
mod routed;
mod schema;
mod value;

pub(super) use find::Recent;
pub(super) use get::remaining;
#[cfg(feature = "mysql")]
pub(super) use read::event_with as read_event;
pub(super) use schema::migrate;
pub(super) use value::{Call, Row, Value};

/// The text of a file in `sql/`.
macro_rules! sql_file {
    ($folder:literal, $name:ident) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/", $folder, "/", stringify!($name), ".sql"))
    };
}

/// A struct with the texts of the named files of a folder.
macro_rules! sql_folder {
    ($(#[$meta:meta])* $const:ident: $struct:ident = $folder:literal { $($name:ident),* $(,)? }) => {
        $(#[$meta])*
        pub(super) const $const: $struct =
            $struct { $($name: $crate::store::sql::sql_file!($folder, $name)),* };

        pub(super) struct $struct {
            $(pub(super) $name: &'static str),*
        }
    };
}

/// Calls a macro with the names of the statements that every database has.
macro_rules! shared_statements {
    ($then:ident!($($arguments:tt)*)) => {
        $then!($($arguments)*
            audit, audit_add, audit_write, counts, counts_parked, counts_relays, dead_letters, depth, find, find_aggregates, find_newest, find_types, get, get_attempts,
            get_deliveries, get_neighbours, heartbeat, job, job_cancel, job_claim, job_fail, job_forget, job_renew, job_start,
            job_step, jobs, lanes, list, list_by_id, list_delivered, list_failed, list_parked,
            list_parked_back, list_parked_on, list_waiting, migrations_made, migrations_table, migrations_write, minutes, parked_events, parked_kinds, parked_on, pause, paused,
            remaining, replay, replay_deliveries, replay_keys, resume, routed, session_begin, session_end, session_find, session_forget, session_seen,
            tell_lanes, tell_minutes, views, waiting
        );
    };
}

macro_rules! define_statements {
    ($($name:ident),*) => {
        /// The statements that every database has, by the names of their files.
        pub(super) struct Statements {
            $(pub(super) $name: &'static str),*
        }
    };
}
shared_statements!(define_statements!());

/// Defines `STATEMENTS` from a folder of `sql/`.
macro_rules! load_statements {
    ($folder:literal, $($name:ident),*) => {
        static STATEMENTS: $crate::store::sql::Statements =
            $crate::store::sql::Statements { $($name: $crate::store::sql::sql_file!($folder, $name)),* };
    };
}

pub(super) use {load_statements, shared_statements, sql_file, sql_folder};

/// The connections that a statement runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Through {
    /// For people's actions: a write is on disk when it returns.
    People,
    /// For relays: a crash may undo a write.
    Relay,
    /// For reads along an index, which the planner is forced to use.
    Index,
}

/// One SQL database. A store that implements it gets [`Inspect`](super::Inspect), [`Parking`](super::Parking) and
/// [`Fleet`](super::Fleet) from the layer.
#[async_trait]
pub(super) trait Database: Send + Sync + 'static {
    /// What a statement returns.
    type Row: Row;
    /// A transaction of several statements.
    type Tx: Transaction<Row = Self::Row>;

    /// The migrations, oldest first.
    const MIGRATIONS: &'static [Migration];
    /// The statement that wakes idle relays, in the transaction that makes events due.
    const WAKE: Option<&'static str> = None;
    /// The statement that counts the entries of a stretch that a list has read to its end, where `list` does not return it.
    const LIST_LENGTH: Option<&'static str> = None;
    /// The statements that search delivered events where no index has them by aggregate.
    const FIND_RECENT: Option<Recent> = None;
    /// The statements that remove a relay by its id.
    const FAREWELL: &'static [&'static str];
    /// The statements that remove relays that died long ago, and old metrics.
    const FORGET: &'static [&'static str];

    /// Returns the statements of this database.
    fn statements() -> &'static Statements;

    /// Runs one statement and returns its rows.
    async fn rows(&self, through: Through, call: Call) -> Result<Vec<Self::Row>, DriverError>;

    /// Runs one statement and returns the number of rows that it has written.
    async fn done(&self, through: Through, call: Call) -> Result<u64, DriverError>;

    /// Begins a transaction.
    async fn begin(&self, through: Through) -> Result<Self::Tx, DriverError>;

    /// Begins a transaction to emit in.
    async fn begin_to_emit(&self) -> Result<Self::Tx, DriverError> {
        self.begin(Through::People).await
    }

    /// Begins a transaction that excludes other programs that migrate. The schema to migrate is selected.
    async fn begin_to_migrate(&self) -> Result<Self::Tx, DriverError>;

    /// Returns whether an error means that a table is missing.
    fn is_missing_table(error: &DriverError) -> bool;

    /// Converts a name in which `*` matches anything into the database's case-sensitive pattern.
    fn pattern(name: &str) -> String;

    /// Rejects a bound that no cursor of this database has.
    fn check_bound(bound: &Bound) -> Result<(), BadCursor>;

    /// Resets events and makes them due. Returns a result for each existing event, as [`Retried`](super::Retried) parses it.
    async fn retry_events(&self, tx: &mut Self::Tx, asked: Asked<'_>) -> Result<Vec<(Uuid, String)>, DriverError>;

    /// Turns events into dead letters. Returns a result for each existing event, as [`Marked`](super::Marked) parses it.
    async fn fail_events(
        &self,
        tx: &mut Self::Tx,
        asked: Asked<'_>,
        reason: &str,
    ) -> Result<Vec<(Uuid, String)>, DriverError>;

    /// Fails the events that have lost this many leases, and returns their rows.
    async fn sweep_events(&self, losses: u32, error: &str) -> Result<Vec<Self::Row>, DriverError>;

    /// Makes events due that are parked on this name as a whole, and returns their number.
    async fn unpark_whole(&self, on: &str, kind: Option<&EventKind>, most: i64) -> Result<u64, DriverError>;

    /// Makes those of these events due that are parked on this name as a whole, and returns their number.
    async fn unpark_these(&self, on: &str, ids: &[Uuid]) -> Result<u64, DriverError>;

    /// Makes events due that have one delivery parked on this name, and returns their number.
    async fn unpark_shared(&self, on: &str, most: i64) -> Result<u64, DriverError>;

    /// Deletes one batch of old terminal events.
    async fn cleanup_batch(&self, retention: &Retention) -> Result<Cleaned, DriverError>;

    /// Runs after each heartbeat of a relay.
    async fn heartbeat_written(&self, relay: Uuid) -> Result<(), DriverError> {
        let _ = relay;
        Ok(())
    }

    /// Runs after a relay has left.
    fn relay_left(&self, relay: Uuid) {
        let _ = relay;
    }

    /// Returns the state of the write-ahead log, if it is the outbox.
    async fn view_log(&self) -> Result<Option<LogView>, DriverError> {
        Ok(None)
    }

    /// Returns problems of the database.
    async fn look_for_trouble(&self) -> Result<Vec<Finding>, DriverError>;
}

/// Several statements that are committed together, or not at all.
#[async_trait]
pub(super) trait Transaction: emit::Transaction + Send {
    /// What a statement returns.
    type Row: Row;

    /// Runs one statement and returns its rows.
    async fn rows(&mut self, call: Call) -> Result<Vec<Self::Row>, DriverError>;

    /// Runs one statement and returns the number of rows that it has written.
    async fn done(&mut self, call: Call) -> Result<u64, DriverError>;

    /// Runs a file of statements without values.
    async fn script(&mut self, text: Cow<'static, str>) -> Result<(), DriverError>;

    /// Commits. A transaction that is dropped instead is rolled back.
    async fn commit(self) -> Result<(), DriverError>;
}

/// The events that a person asks to change.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) ids: &'a [Uuid],
    /// If set, events that have changed since then are skipped.
    pub(super) unchanged_since: Option<DateTime<Utc>>,
}

impl<'a> Asked<'a> {
    fn new(ids: &'a [Uuid], entry: Entry<'_>) -> Self {
        Self { ids, unchanged_since: entry.unchanged_since() }
    }
}

/// Wraps the database's error with the operation that failed.
pub(super) fn database<E: Into<DriverError>>(doing: &'static str) -> impl FnOnce(E) -> StoreError {
    move |source| StoreError::Database { doing, source: source.into() }
}

/// Converts a count for the database.
pub(super) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
