//! The `Database` of MariaDB and MySQL. Statements that change rows return none, so events are locked and read first, and then
//! changed by their ids.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, NaiveDateTime, Utc};
use sqlx::Row as _;
use sqlx::mysql::MySqlRow;
use tokio::time::timeout;
use uuid::Uuid;

use super::connect::{Connections, Done, Link, number, repeating};
use super::{MIGRATIONS, MysqlStore, SQL, moment};
use crate::emit::{self, Emitted, sqlx_mysql};
use crate::error::DriverError;
use crate::event::{NewEvent, readable};
use crate::store::examine::Finding;
use crate::store::list::{BadCursor, Bound};
use crate::store::migrate::Migration;
use crate::store::row::like;
use crate::store::sql::{
    Asked, Call, Database, Row, Statements, Through, Transaction, load_statements, shared_statements,
};
use crate::store::{Cleaned, EventKind, Retention};

shared_statements!(load_statements!("mysql",));

/// How long a program waits for another one that migrates, in seconds.
const MIGRATING: i64 = 20;
/// The error of a missing table.
const NO_TABLE: u16 = 1146;

#[async_trait]
impl Database for MysqlStore {
    type Row = MySqlRow;
    type Tx = Tx;

    const MIGRATIONS: &'static [Migration] = MIGRATIONS;
    const FAREWELL: &'static [&'static str] = &[SQL.farewell, SQL.farewell_lanes];
    const FORGET: &'static [&'static str] = &[SQL.sweep_relays, SQL.sweep_lanes, SQL.sweep_metrics];

    fn statements() -> &'static Statements {
        &STATEMENTS
    }

    async fn rows(&self, _through: Through, call: Call) -> Result<Vec<MySqlRow>, DriverError> {
        Ok(self.run(call).await?.rows)
    }

    async fn done(&self, _through: Through, call: Call) -> Result<u64, DriverError> {
        Ok(self.run(call).await?.matched)
    }

    async fn begin(&self, _through: Through) -> Result<Tx, DriverError> {
        self.transaction().await
    }

    async fn begin_to_migrate(&self) -> Result<Tx, DriverError> {
        let mut link = self.connections.acquire().await?;
        // DDL ends transactions, so the lock belongs to the session.
        link.keep();
        let rows = link.run(&Call::new(SQL.migrate_lock).bind(MIGRATING)).await?.rows;
        if !rows.first().map(|row| row.flag("locked")).transpose()?.unwrap_or_default() {
            return Err(format!("another program has been migrating for {MIGRATING} s; try again").into());
        }
        Ok(Tx { link, end: SQL.migrate_unlock })
    }

    fn is_missing_table(error: &DriverError) -> bool {
        number(error) == Some(NO_TABLE)
    }

    fn pattern(name: &str) -> String {
        like(name)
    }

    fn check_bound(bound: &Bound) -> Result<(), BadCursor> {
        moment::check(bound)
    }

    async fn retry_events(&self, tx: &mut Tx, asked: Asked<'_>) -> Result<Vec<(Uuid, String)>, DriverError> {
        let answers = answers(tx, SQL.retry_asked, asked).await?;
        let due = changed(&answers, "due");
        if !due.is_empty() {
            tx.done(Call::new(SQL.retry).bind(due.clone())).await?;
            tx.done(Call::new(SQL.retry_deliveries).bind(due)).await?;
        }
        Ok(answers)
    }

    async fn fail_events(
        &self,
        tx: &mut Tx,
        asked: Asked<'_>,
        reason: &str,
    ) -> Result<Vec<(Uuid, String)>, DriverError> {
        let answers = answers(tx, SQL.fail_asked, asked).await?;
        let failed = changed(&answers, "failed");
        if !failed.is_empty() {
            tx.done(Call::new(SQL.fail).bind(failed.clone()).bind(reason)).await?;
            tx.done(Call::new(SQL.fail_deliveries).bind(failed).bind(reason)).await?;
        }
        Ok(answers)
    }

    async fn sweep_events(&self, losses: u32, error: &str) -> Result<Vec<MySqlRow>, DriverError> {
        repeating!(self.try_sweep(losses, error))
    }

    async fn unpark_whole(&self, on: &str, kind: Option<&EventKind>, most: i64) -> Result<u64, DriverError> {
        let call = || {
            Call::new(SQL.unpark_due)
                .bind(on)
                .bind(most)
                .bind(kind.map(|kind| kind.event_type.as_str()))
                .bind(kind.map(|kind| kind.aggregate_type.as_str()))
        };
        repeating!(self.unpark_events(on, call()))
    }

    async fn unpark_these(&self, on: &str, ids: &[Uuid]) -> Result<u64, DriverError> {
        repeating!(self.unpark_events(on, Call::new(SQL.unpark_these).bind(on).bind(ids)))
    }

    async fn unpark_shared(&self, on: &str, most: i64) -> Result<u64, DriverError> {
        repeating!(self.unpark_events(on, Call::new(SQL.unpark_shared).bind(on).bind(most)))
    }

    async fn cleanup_batch(&self, retention: &Retention) -> Result<Cleaned, DriverError> {
        repeating!(self.try_cleanup(retention))
    }

    async fn look_for_trouble(&self) -> Result<Vec<Finding>, DriverError> {
        self.examine_database().await
    }
}

impl Connections {
    /// Runs a call in a transaction of its own, and repeats it after a deadlock.
    pub(super) async fn run(self: &Arc<Self>, call: Call) -> Result<Done, DriverError> {
        repeating!(self.run_once(&call))
    }

    async fn run_once(self: &Arc<Self>, call: &Call) -> Result<Done, DriverError> {
        let mut link = self.acquire().await?;
        if !call.text.contains(';') {
            return link.run(call).await;
        }
        link.begin().await?;
        let done = link.run(call).await?;
        link.end("COMMIT").await?;
        Ok(done)
    }

    pub(super) async fn transaction(self: &Arc<Self>) -> Result<Tx, DriverError> {
        let mut link = self.acquire().await?;
        link.begin().await?;
        Ok(Tx { link, end: "COMMIT" })
    }
}

impl MysqlStore {
    /// Runs a call in a transaction of its own, and repeats it after a deadlock.
    pub(super) async fn run(&self, call: Call) -> Result<Done, DriverError> {
        self.connections.run(call).await
    }

    pub(super) async fn transaction(&self) -> Result<Tx, DriverError> {
        self.connections.transaction().await
    }

    async fn try_sweep(&self, losses: u32, error: &str) -> Result<Vec<MySqlRow>, DriverError> {
        let mut tx = self.transaction().await?;
        let rows = tx.rows(Call::new(SQL.sweep_due).bind(losses)).await?;
        if !rows.is_empty() {
            let ids = ids(&rows)?;
            tx.done(Call::new(SQL.sweep).bind(ids.clone()).bind(error)).await?;
            tx.done(Call::new(SQL.fail_deliveries).bind(ids).bind(error)).await?;
        }
        tx.commit().await?;
        Ok(rows)
    }

    async fn try_cleanup(&self, retention: &Retention) -> Result<Cleaned, DriverError> {
        let (delivered, failed) = (retention.delivered_after.as_secs_f64(), retention.failed_after.as_secs_f64());
        let mut tx = self.transaction().await?;
        let due = Call::new(SQL.cleanup_due).bind(delivered).bind(failed).bind(retention.batch);
        let deleted = ids(&tx.rows(due).await?)?;
        if !deleted.is_empty() {
            for text in [SQL.cleanup, SQL.delete_deliveries, SQL.delete_attempts] {
                tx.done(Call::new(text).bind(deleted.clone())).await?;
            }
        }
        let rows = tx.rows(Call::new(SQL.cleanup_more).bind(delivered).bind(failed)).await?;
        let more = rows.first().map(|row| row.flag("more")).transpose()?.unwrap_or_default();
        tx.commit().await?;
        Ok(Cleaned { deleted: deleted.len() as u64, more, elsewhere: false })
    }

    /// Makes the events due that the statement locks, with their deliveries to this destination.
    async fn unpark_events(&self, on: &str, call: Call) -> Result<u64, DriverError> {
        let mut tx = self.transaction().await?;
        let unparked = ids(&tx.rows(call).await?)?;
        let count = unparked.len() as u64;
        if count > 0 {
            tx.done(Call::new(SQL.unpark).bind(unparked.clone())).await?;
            tx.done(Call::new(SQL.unpark_deliveries).bind(unparked).bind(on)).await?;
        }
        tx.commit().await?;
        Ok(count)
    }
}

fn ids(rows: &[MySqlRow]) -> Result<Vec<Uuid>, DriverError> {
    rows.iter().map(|row| row.id("id")).collect()
}

/// Locks the events and returns the result for each one.
async fn answers(tx: &mut Tx, text: &'static str, asked: Asked<'_>) -> Result<Vec<(Uuid, String)>, DriverError> {
    let rows = tx.rows(Call::new(text).bind(asked.ids).bind(asked.unchanged_since)).await?;
    rows.iter().map(|row| Ok((row.id("id")?, row.text("answer")?))).collect()
}

fn changed(answers: &[(Uuid, String)], to: &str) -> Vec<Uuid> {
    answers.iter().filter(|(_, answer)| answer == to).map(|(id, _)| *id).collect()
}

/// A transaction, or a session that migrates. Dropped, it closes its connection, and the server rolls back.
pub(in crate::store) struct Tx {
    link: Link,
    end: &'static str,
}

impl std::fmt::Debug for Tx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tx").finish_non_exhaustive()
    }
}

impl Tx {
    /// Runs statements without values, and returns how many rows they have matched.
    pub(super) async fn change(&mut self, statements: Vec<String>) -> Result<u64, DriverError> {
        if statements.is_empty() {
            return Ok(0);
        }
        self.link.script(statements.join(";\n")).await
    }

    /// Runs statements without values and commits, in one round trip.
    pub(super) async fn last(mut self, statements: Vec<String>) -> Result<(), DriverError> {
        let mut text = statements.join(";\n");
        if !text.is_empty() {
            text.push_str(";\n");
        }
        self.link.end(&(text + "COMMIT")).await
    }

    /// Ends the transaction without its changes, and keeps the connection.
    pub(super) async fn roll_back(mut self) -> Result<(), DriverError> {
        self.link.end("ROLLBACK").await
    }
}

#[async_trait]
impl Transaction for Tx {
    type Row = MySqlRow;

    async fn rows(&mut self, call: Call) -> Result<Vec<MySqlRow>, DriverError> {
        Ok(self.link.run(&call).await?.rows)
    }

    async fn done(&mut self, call: Call) -> Result<u64, DriverError> {
        Ok(self.link.run(&call).await?.matched)
    }

    async fn script(&mut self, text: Cow<'static, str>) -> Result<(), DriverError> {
        let text = text.replace("{collation}", self.link.collation());
        self.link.script(text).await.map(drop)
    }

    async fn commit(mut self) -> Result<(), DriverError> {
        self.link.end(self.end).await
    }
}

impl emit::Transaction for Tx {
    async fn insert(&mut self, rows: &[NewEvent]) -> Result<Vec<Emitted>, DriverError> {
        let (deadline, connection) = self.link.busy()?;
        let result = timeout(deadline, sqlx_mysql::insert(connection, rows)).await;
        self.link.ended(result)
    }

    async fn insert_one(&mut self, row: &NewEvent) -> Result<Option<(i64, DateTime<Utc>)>, DriverError> {
        let (deadline, connection) = self.link.busy()?;
        let result = timeout(deadline, sqlx_mysql::insert_one(connection, row)).await;
        self.link.ended(result)
    }

    async fn find(&mut self, event_type: &str, key: &str) -> Result<Option<Emitted>, DriverError> {
        let (deadline, connection) = self.link.busy()?;
        let result = timeout(deadline, sqlx_mysql::find(connection, event_type, key)).await;
        self.link.ended(result)
    }

    async fn run(&mut self, statement: &'static str) -> Result<(), DriverError> {
        self.link.script(statement.to_owned()).await.map(drop)
    }
}

/// Values are read without sqlx's check of their types: an expression may have another type on the other server.
impl Row for MySqlRow {
    fn maybe_number(&self, column: &str) -> Result<Option<i64>, DriverError> {
        Ok(self.try_get_unchecked(column)?)
    }

    /// Reads a missing column as absent, because the statements return no estimates.
    fn maybe_float(&self, column: &str) -> Result<Option<f64>, DriverError> {
        match self.try_get_unchecked(column) {
            Err(sqlx::Error::ColumnNotFound(_)) => Ok(None),
            read => Ok(read?),
        }
    }

    fn maybe_text(&self, column: &str) -> Result<Option<String>, DriverError> {
        Ok(self.try_get_unchecked(column)?)
    }

    fn maybe_moment(&self, column: &str) -> Result<Option<DateTime<Utc>>, DriverError> {
        let at: Option<NaiveDateTime> = self.try_get_unchecked(column)?;
        Ok(at.map(|at| readable(at.and_utc())))
    }

    fn flag(&self, column: &str) -> Result<bool, DriverError> {
        Ok(self.number(column)? != 0)
    }

    fn id(&self, column: &str) -> Result<Uuid, DriverError> {
        Ok(self.try_get_unchecked(column)?)
    }

    fn mark(&self, column: &str) -> Result<Option<String>, DriverError> {
        let at: Option<NaiveDateTime> = self.try_get_unchecked(column)?;
        Ok(at.map(moment::mark))
    }
}
