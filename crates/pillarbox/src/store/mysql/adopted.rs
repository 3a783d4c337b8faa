//! The tables of django-celery-outbox on MariaDB and MySQL.
//!
//! Statements that change rows return none, so rows are locked and read first, and then changed by their ids. The columns
//! `updated_at` and `retry_after` are local times of the server, because the package's own relay writes them so.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::Row as _;
use sqlx::mysql::MySqlRow;

use super::connect::{Connections, repeating};
use super::database::Tx;
use super::{MysqlSettings, database};
use crate::celery::adopted::AdoptedRow;
use crate::error::{DriverError, StoreError};
use crate::event::StoredEvent;
use crate::store::celery_outbox::tables::{self, Batch, Due, HeldRow, Settled, Tables};
use crate::store::celery_outbox::{CeleryOutboxSettings, CeleryOutboxStore};
use crate::store::row::kept;
use crate::store::sql::{Call, Row, Transaction, sql_folder};

sql_folder! {
    SQL: Sql = "celery_outbox/mysql" {
        claim, claim_due, claim_read, columns, connect, dead_letters, held, next_due, other_versions, remaining, renew, schema, settle,
        settle_deliver, settle_fail, sweep, sweep_due, unpark,
    }
}

/// A search of stale claims among many tasks is not repeated before this many times its duration.
const SEARCH_PAUSE: u32 = 20;

#[derive(Debug)]
struct Adopted {
    connections: Arc<Connections>,
    schema: String,
    /// When stale claims may be searched among many tasks again. The index of the search also has the tasks that wait for a
    /// retry, so it is slow while many of these failed long ago.
    search_at: Mutex<Instant>,
}

impl CeleryOutboxStore {
    /// Connects to `mysql://user:password@host:port/database`, the database of the Django project.
    ///
    /// The sessions have the time zone of the server, as Django's have. If Django sets another one (`init_command`), name it in
    /// the URL: `?timezone=%2B00:00`. With different time zones, the two relays would misread each other's claims.
    ///
    /// # Errors
    /// When the server does not respond, is too old, or is a node of a Galera cluster.
    pub async fn connect_mysql(url: &str, settings: CeleryOutboxSettings) -> Result<Self, StoreError> {
        Self::connect_mysql_with(url, settings, MysqlSettings::default()).await
    }

    /// As [`CeleryOutboxStore::connect_mysql`], with other connection settings.
    ///
    /// # Errors
    /// As there.
    pub async fn connect_mysql_with(
        url: &str,
        settings: CeleryOutboxSettings,
        connections: MysqlSettings,
    ) -> Result<Self, StoreError> {
        // The driver sets the time zone of the URL, or UTC, before.
        let zone = if has_time_zone(url) { "" } else { "; SET time_zone = @@global.time_zone" };
        let connections = Connections::open(url, connections, &format!("{}{zone}", SQL.connect)).await?;
        let reading = "reading the name of the database";
        let rows = connections.run(Call::new(SQL.schema)).await.map_err(database(reading))?.rows;
        let schema = first(&rows).and_then(|row| row.text("name")).map_err(database(reading))?;
        let adopted = Adopted { connections, schema, search_at: Mutex::new(Instant::now()) };
        Ok(Self::over(Box::new(adopted), settings))
    }
}

/// Returns whether the URL names a time zone, as the driver reads it.
fn has_time_zone(url: &str) -> bool {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    query.split('&').any(|pair| matches!(pair.split_once('='), Some(("timezone" | "time-zone", _))))
}

#[async_trait]
impl Tables for Adopted {
    fn schema(&self) -> &str {
        &self.schema
    }

    async fn ping(&self) -> Result<(), DriverError> {
        self.connections.run(Call::new("SELECT 1")).await.map(drop)
    }

    async fn columns(&self) -> Result<Vec<(String, String, bool)>, DriverError> {
        let rows = self.connections.run(Call::new(SQL.columns)).await?.rows;
        rows.iter().map(|row| Ok((row.text("of_table")?, row.text("named")?, row.flag("needed")?))).collect()
    }

    async fn claim(
        &self,
        due: Due,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<(StoredEvent, DateTime<Utc>)>, DriverError> {
        repeating!(self.try_claim(due, limit, bytes))
    }

    async fn settle(&self, batch: &Batch<'_>) -> Result<Settled, DriverError> {
        repeating!(self.try_settle(batch))
    }

    async fn renew(&self, held: &[HeldRow]) -> Result<Vec<HeldRow>, DriverError> {
        repeating!(self.try_renew(held))
    }

    async fn unpark(&self, parked: &[HeldRow]) -> Result<u64, DriverError> {
        Ok(self.connections.run(Call::new(SQL.unpark).bind(pairs(parked))).await?.matched)
    }

    async fn sweep(&self, due: Due, error: &str, most: i64) -> Result<Vec<StoredEvent>, DriverError> {
        repeating!(self.try_sweep(due, error, most))
    }

    async fn next_due(&self, due: Due) -> Result<Option<f64>, DriverError> {
        let (began, search) = (Instant::now(), self.may_search());
        let call = Call::new(SQL.next_due).bind(due.stale).bind(due.max_retries).bind(search);
        let rows = self.connections.run(call).await?.rows;
        self.searched(search, began);
        first(&rows)?.maybe_float("due_in")
    }

    async fn remaining(&self, stale: f64) -> Result<(i64, Option<f64>), DriverError> {
        let rows = self.connections.run(Call::new(SQL.remaining).bind(stale)).await?.rows;
        let row = first(&rows)?;
        Ok((row.number("due")?, row.maybe_float("oldest")?))
    }

    async fn dead_letters(&self) -> Result<i64, DriverError> {
        first(&self.connections.run(Call::new(SQL.dead_letters)).await?.rows)?.number("dead_letters")
    }

    async fn other_versions(&self, most: i64) -> Result<(i64, Option<i64>), DriverError> {
        let rows = self.connections.run(Call::new(SQL.other_versions).bind(most)).await?.rows;
        let row = first(&rows)?;
        Ok((row.number("tasks")?, row.maybe_number("highest")?))
    }
}

impl Adopted {
    async fn try_claim(
        &self,
        due: Due,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<(StoredEvent, DateTime<Utc>)>, DriverError> {
        let (began, search) = (Instant::now(), self.may_search());
        let mut tx = self.connections.transaction().await?;
        let call = Call::new(SQL.claim_due).bind(limit).bind(due.stale).bind(due.max_retries).bind(search);
        let rows = tx.rows(call).await?;
        self.searched(search, began);
        let taken = pick(&rows, limit, bytes as u64)?;
        if taken.is_empty() {
            tx.roll_back().await?;
            return Ok(Vec::new());
        }
        let rows = tx.rows(Call::new(SQL.claim_read).bind(as_json(&taken))).await?;
        let at = first(&rows)?.moment("claimed_at")?;
        tx.last(vec![with_ids(SQL.claim, &taken).replace("{at}", &written(at))]).await?;
        rows.iter().map(|row| Ok((event(row)?, at))).collect()
    }

    async fn try_settle(&self, batch: &Batch<'_>) -> Result<Settled, DriverError> {
        let rows = batch.delivered.iter().chain(batch.failed.iter().map(|(row, _)| row));
        let rows: Vec<HeldRow> = rows.chain(batch.staying.iter().map(|row| &row.held)).copied().collect();
        let mut tx = self.connections.transaction().await?;
        let held: HashSet<i64> = ids(&tx.rows(Call::new(SQL.held).bind(pairs(&rows))).await?)?.collect();
        let ours = |row: &HeldRow| held.contains(&row.0);

        let failed: Vec<(i64, &str)> =
            batch.failed.iter().filter(|(row, _)| ours(row)).map(|(row, error)| (row.0, *error)).collect();
        fail(&mut tx, &failed).await?;
        let delivered = batch.delivered.iter().filter(|row| ours(row)).map(|row| row.0);
        let gone: Vec<i64> = delivered.chain(failed.iter().map(|(id, _)| *id)).collect();
        let staying = batch.staying.iter().filter(|row| ours(&row.held));
        let staying: Vec<Value> = staying.map(|row| json!([row.held.0, row.change, row.attempts, row.after])).collect();
        let mut settled = Settled::new();
        if !staying.is_empty() {
            for row in tx.rows(Call::new(SQL.settle).bind(as_json(staying))).await? {
                settled.insert(row.number("id")?, row.maybe_moment("updated_at")?);
            }
        }
        settled.extend(gone.iter().map(|id| (*id, None)));
        tx.last(deletion(&gone)).await?;
        Ok(settled)
    }

    async fn try_renew(&self, held: &[HeldRow]) -> Result<Vec<HeldRow>, DriverError> {
        let mut tx = self.connections.transaction().await?;
        let ids = as_json(ids(&tx.rows(Call::new(SQL.held).bind(pairs(held))).await?)?);
        let rows = tx.rows(Call::new(SQL.renew).bind(ids)).await?;
        tx.commit().await?;
        rows.iter().map(|row| Ok((row.number("id")?, row.moment("updated_at")?))).collect()
    }

    async fn try_sweep(&self, due: Due, error: &str, most: i64) -> Result<Vec<StoredEvent>, DriverError> {
        let call = Call::new(SQL.sweep_due).bind(due.stale).bind(due.max_retries).bind(most);
        let found = self.connections.run(call).await?.rows;
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let found =
            found.iter().map(|row| Ok(json!([row.number("id")?, row.maybe_moment("updated_at")?.map(written)])));
        let found = found.collect::<Result<Vec<Value>, DriverError>>()?;
        let mut tx = self.connections.transaction().await?;
        let rows = tx.rows(Call::new(SQL.sweep).bind(as_json(found)).bind(due.max_retries)).await?;
        let failed: Vec<(i64, &str)> = ids(&rows)?.map(|id| (id, error)).collect();
        fail(&mut tx, &failed).await?;
        tx.last(deletion(&failed.iter().map(|(id, _)| *id).collect::<Vec<_>>())).await?;
        rows.iter().map(event).collect()
    }

    fn may_search(&self) -> bool {
        *self.lock() <= Instant::now()
    }

    fn searched(&self, search: bool, began: Instant) {
        if search {
            *self.lock() = Instant::now() + began.elapsed() * SEARCH_PAUSE;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Instant> {
        self.search_at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies locked tasks to the dead letters.
async fn fail(tx: &mut Tx, failed: &[(i64, &str)]) -> Result<(), DriverError> {
    if failed.is_empty() {
        return Ok(());
    }
    let rows = as_json(failed.iter().map(|(id, error)| json!([id, kept(error)])));
    tx.done(Call::new(SQL.settle_fail).bind(rows)).await.map(drop)
}

/// Returns the statement that deletes tasks, if there are any.
fn deletion(ids: &[i64]) -> Vec<String> {
    if ids.is_empty() { Vec::new() } else { vec![with_ids(SQL.settle_deliver, ids)] }
}

/// Inserts ids into a text. A list of numbers is faster than a join with JSON_TABLE.
fn with_ids(text: &str, ids: &[i64]) -> String {
    text.replace("{ids}", &ids.iter().map(i64::to_string).collect::<Vec<_>>().join(","))
}

/// Returns the ids of the locked tasks to take: the oldest, as many as the bytes allow, at least one.
fn pick(rows: &[MySqlRow], limit: usize, bytes: u64) -> Result<Vec<i64>, DriverError> {
    let mut locked: Vec<(i64, u64)> =
        rows.iter().map(|row| Ok((row.number("id")?, row.count("bytes")?))).collect::<Result<_, DriverError>>()?;
    locked.sort_unstable();
    let mut before = 0_u64;
    let fits = |(_, size): &(i64, u64)| {
        let fits = before == 0 || before < bytes;
        before = before.saturating_add(*size);
        fits
    };
    Ok(locked.into_iter().take(limit).take_while(fits).map(|(id, _)| id).collect())
}

fn first(rows: &[MySqlRow]) -> Result<&MySqlRow, DriverError> {
    rows.first().ok_or_else(|| "the statement returned no row".into())
}

fn ids(rows: &[MySqlRow]) -> Result<impl Iterator<Item = i64>, DriverError> {
    Ok(rows.iter().map(|row| row.number("id")).collect::<Result<Vec<_>, _>>()?.into_iter())
}

fn as_json<T: serde::Serialize>(rows: impl IntoIterator<Item = T>) -> String {
    json!(rows.into_iter().collect::<Vec<_>>()).to_string()
}

/// Returns `[[id, updated_at], …]`.
fn pairs(held: &[HeldRow]) -> String {
    as_json(held.iter().map(|(id, since)| json!([id, written(*since)])))
}

/// Returns a time as the server writes it.
fn written(at: DateTime<Utc>) -> String {
    at.format("%Y-%m-%d %H:%M:%S%.6f").to_string()
}

/// Reads an event. JSON columns are text on MariaDB.
fn event(row: &MySqlRow) -> Result<StoredEvent, DriverError> {
    let adopted = AdoptedRow {
        task_id: row.try_get_unchecked("task_id")?,
        task_name: row.try_get_unchecked("task_name")?,
        args: row.try_get_unchecked("args")?,
        kwargs: row.try_get_unchecked("kwargs")?,
        options: row.try_get_unchecked("options")?,
        sentry_trace_id: row.try_get_unchecked("sentry_trace_id")?,
        sentry_baggage: row.try_get_unchecked("sentry_baggage")?,
        structlog_context: row.try_get_unchecked("structlog_context")?,
    };
    let (id, retries) = (row.number("id")?, row.number("retries")?);
    Ok(tables::event(id, retries, row.moment("created_at")?, &adopted, row.moment("read_at")?))
}

#[cfg(test)]
mod tests {
    use super::has_time_zone;

    #[test]
    fn a_url_may_name_a_time_zone() {
        assert!(has_time_zone("mysql://a@b/c?ssl-mode=disabled&timezone=%2B02:00"));
        assert!(has_time_zone("mysql://a@b/c?time-zone=UTC"));
        assert!(!has_time_zone("mysql://a@b/c?socket=timezone") && !has_time_zone("mysql://a@b/timezone"));
    }
}
