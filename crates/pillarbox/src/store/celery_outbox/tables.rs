//! What a database does for the store: its statements on the tables of django-celery-outbox.

use std::collections::HashMap;
use std::fmt::Debug;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use super::fence;
use crate::celery::AGGREGATE_TYPE;
use crate::celery::adopted::AdoptedRow;
use crate::error::DriverError;
use crate::event::{Headers, StoredEvent};

/// A row's id, and the `updated_at` that it has while its claim is valid. On MariaDB and MySQL
/// it is the server's local time, read as if it were UTC.
pub(in crate::store) type HeldRow = (i64, DateTime<Utc>);

/// The rows whose claim was still valid, with the time that was written into rows that stay.
pub(in crate::store) type Settled = HashMap<i64, Option<DateTime<Utc>>>;

/// Which tasks are due.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct Due {
    /// The number of seconds after which a claim is stale.
    pub(in crate::store) stale: f64,
    /// The retries from which on a task is not sent any more; 0 means no limit.
    pub(in crate::store) max_retries: i32,
}

/// A batch, grouped by the statement that settles it.
#[derive(Debug, Default)]
pub(in crate::store) struct Batch<'a> {
    pub(in crate::store) delivered: Vec<HeldRow>,
    pub(in crate::store) failed: Vec<(HeldRow, &'a str)>,
    pub(in crate::store) staying: Vec<Staying>,
}

/// The change of a row that stays.
#[derive(Debug)]
pub(in crate::store) struct Staying {
    pub(in crate::store) held: HeldRow,
    pub(in crate::store) change: &'static str,
    pub(in crate::store) attempts: i32,
    pub(in crate::store) after: f64,
}

/// The tables in one database. Every method is one transaction.
#[async_trait]
pub(in crate::store) trait Tables: Debug + Send + Sync + 'static {
    /// Returns the name of the schema that the tables are in.
    fn schema(&self) -> &str;

    /// Fails if the database does not respond.
    async fn ping(&self) -> Result<(), DriverError>;

    /// Returns the columns of both tables: the table, the column, and whether an INSERT must name it.
    async fn columns(&self) -> Result<Vec<(String, String, bool)>, DriverError>;

    /// Claims due tasks, and returns them with the time of the claim, in any order.
    async fn claim(
        &self,
        due: Due,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<(StoredEvent, DateTime<Utc>)>, DriverError>;

    /// Settles the rows whose claim is still valid.
    async fn settle(&self, batch: &Batch<'_>) -> Result<Settled, DriverError>;

    /// Renews the claims that are still valid, and returns them as they are now.
    async fn renew(&self, held: &[HeldRow]) -> Result<Vec<HeldRow>, DriverError>;

    /// Makes delayed rows due that are unchanged, and returns their number.
    async fn unpark(&self, parked: &[HeldRow]) -> Result<u64, DriverError>;

    /// Turns due tasks with too many retries into dead letters. It examines `most` due tasks of each kind.
    async fn sweep(&self, due: Due, error: &str, most: i64) -> Result<Vec<StoredEvent>, DriverError>;

    /// Returns the seconds until the next task is due.
    async fn next_due(&self, due: Due) -> Result<Option<f64>, DriverError>;

    /// Returns the number of due tasks that no relay holds, and the seconds that the oldest of them has been waiting.
    async fn remaining(&self, stale: f64) -> Result<(i64, Option<f64>), DriverError>;

    /// Returns the number of dead letters.
    async fn dead_letters(&self) -> Result<i64, DriverError>;

    /// Returns how many of the `most` oldest tasks have an unknown schema_version, and the highest such version.
    async fn other_versions(&self, most: i64) -> Result<(i64, Option<i64>), DriverError>;
}

/// Returns the event that the relay sees. Relative times in it count from `now`.
pub(in crate::store) fn event(
    id: i64,
    retries: i64,
    created_at: DateTime<Utc>,
    adopted: &AdoptedRow<'_>,
    now: DateTime<Utc>,
) -> StoredEvent {
    StoredEvent {
        id: fence::event_id(id),
        seq: id,
        aggregate_type: AGGREGATE_TYPE.to_owned(),
        aggregate_id: adopted.task_id.to_owned(),
        event_type: adopted.task_name.to_owned(),
        payload: adopted.payload(now),
        headers: Headers::new(),
        idempotency_key: id.to_string(),
        attempts: u32::try_from(retries).unwrap_or_default(),
        max_attempts: None,
        claims: 0,
        created_at,
    }
}
