//! The `Database` of SQLite. Ids and times are text, and lists of values are bound as one JSON value.

use std::borrow::Cow;
use std::collections::HashSet;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde_json::json;
use sqlx::sqlite::{SqliteArguments, SqlitePool, SqliteRow};
use sqlx::{AssertSqlSafe, Executor, Row as _, Sqlite};
use uuid::Uuid;

use super::{MIGRATIONS, SQL, SqliteStore, read};
use crate::emit::sqlite::{moment, read_moment};
use crate::error::DriverError;
use crate::store::examine::Finding;
use crate::store::list::{BadCursor, Bound};
use crate::store::migrate::Migration;
use crate::store::row::glob;
use crate::store::sql::{
    Asked, Call, Database, Recent, Row, Statements, Through, Transaction, Value, load_statements, shared_statements,
};
use crate::store::{Cleaned, EventKind, Retention};

shared_statements!(load_statements!("sqlite",));

type Tx = sqlx::Transaction<'static, Sqlite>;

#[async_trait]
impl Database for SqliteStore {
    type Row = SqliteRow;
    type Tx = Tx;

    const MIGRATIONS: &'static [Migration] = MIGRATIONS;
    const LIST_LENGTH: Option<&'static str> = Some(SQL.list_length);
    const FIND_RECENT: Option<Recent> = Some(Recent { find: SQL.find_recent, beyond: SQL.find_beyond });
    const FAREWELL: &'static [&'static str] = &[SQL.farewell, SQL.farewell_lanes];
    const FORGET: &'static [&'static str] = &[SQL.sweep_relays, SQL.sweep_lanes, SQL.sweep_metrics];

    fn statements() -> &'static Statements {
        &STATEMENTS
    }

    async fn rows(&self, through: Through, call: Call) -> Result<Vec<SqliteRow>, DriverError> {
        Ok(statement(call).fetch_all(self.pool_for(through)).await?)
    }

    async fn done(&self, through: Through, call: Call) -> Result<u64, DriverError> {
        Ok(statement(call).execute(self.pool_for(through)).await?.rows_affected())
    }

    async fn begin(&self, through: Through) -> Result<Tx, DriverError> {
        let begin = match through {
            Through::Index => "BEGIN",
            Through::People | Through::Relay => "BEGIN IMMEDIATE",
        };
        Ok(self.pool_for(through).begin_with(begin).await?)
    }

    async fn begin_to_migrate(&self) -> Result<Tx, DriverError> {
        self.begin(Through::People).await
    }

    fn is_missing_table(error: &DriverError) -> bool {
        let said = error.downcast_ref::<sqlx::Error>().and_then(sqlx::Error::as_database_error);
        said.is_some_and(|error| error.message().contains("no such table"))
    }

    fn pattern(name: &str) -> String {
        glob(name)
    }

    /// Times are compared as text, and any text can be compared.
    fn check_bound(_bound: &Bound) -> Result<(), BadCursor> {
        Ok(())
    }

    async fn retry_events(&self, tx: &mut Tx, asked: Asked<'_>) -> Result<Vec<(Uuid, String)>, DriverError> {
        let statuses = statuses(tx, asked.ids).await?;
        let due = ids(tx, Call::new(SQL.retry).bind(asked.ids).bind(asked.unchanged_since)).await?;
        tx.done(Call::new(SQL.retry_deliveries).bind(due.clone())).await?;
        Ok(answers(statuses, &due, "due", "failed"))
    }

    async fn fail_events(
        &self,
        tx: &mut Tx,
        asked: Asked<'_>,
        reason: &str,
    ) -> Result<Vec<(Uuid, String)>, DriverError> {
        let statuses = statuses(tx, asked.ids).await?;
        let call = Call::new(SQL.fail).bind(asked.ids).bind(reason).bind(asked.unchanged_since);
        let failed = ids(tx, call).await?;
        tx.done(Call::new(SQL.fail_deliveries).bind(failed.clone()).bind(reason)).await?;
        Ok(answers(statuses, &failed, "failed", "already"))
    }

    async fn sweep_events(&self, losses: u32, error: &str) -> Result<Vec<SqliteRow>, DriverError> {
        let mut tx = self.begin(Through::Relay).await?;
        let rows = tx.rows(Call::new(SQL.sweep).bind(losses).bind(error)).await?;
        if !rows.is_empty() {
            let ids = rows.iter().map(|row| row.id("id")).collect::<Result<Vec<_>, _>>()?;
            tx.done(Call::new(SQL.fail_deliveries).bind(ids).bind(error)).await?;
        }
        Transaction::commit(tx).await?;
        Ok(rows)
    }

    async fn unpark_whole(&self, on: &str, kind: Option<&EventKind>, most: i64) -> Result<u64, DriverError> {
        let call = Call::new(SQL.unpark)
            .bind(on)
            .bind(most)
            .bind(kind.map(|kind| kind.event_type.as_str()))
            .bind(kind.map(|kind| kind.aggregate_type.as_str()));
        self.unpark_events(on, call).await
    }

    async fn unpark_these(&self, on: &str, ids: &[Uuid]) -> Result<u64, DriverError> {
        self.unpark_events(on, Call::new(SQL.unpark_these).bind(on).bind(ids)).await
    }

    async fn unpark_shared(&self, on: &str, most: i64) -> Result<u64, DriverError> {
        self.unpark_events(on, Call::new(SQL.unpark_shared).bind(on).bind(most)).await
    }

    async fn cleanup_batch(&self, retention: &Retention) -> Result<Cleaned, DriverError> {
        let (delivered, failed) = (retention.delivered_after.as_secs_f64(), retention.failed_after.as_secs_f64());
        let mut tx = self.begin(Through::Relay).await?;
        let deleted = ids(&mut tx, Call::new(SQL.cleanup).bind(delivered).bind(failed).bind(retention.batch)).await?;
        for text in [SQL.delete_deliveries, SQL.delete_attempts] {
            tx.done(Call::new(text).bind(deleted.clone())).await?;
        }
        let rows = tx.rows(Call::new(SQL.cleanup_more).bind(delivered).bind(failed)).await?;
        let more = rows.first().map(|row| row.flag("more")).transpose()?.unwrap_or_default();
        Transaction::commit(tx).await?;
        Ok(Cleaned { deleted: deleted.len() as u64, more, elsewhere: false })
    }

    async fn look_for_trouble(&self) -> Result<Vec<Finding>, DriverError> {
        self.examine_database().await
    }
}

impl SqliteStore {
    fn pool_for(&self, through: Through) -> &SqlitePool {
        match through {
            Through::People | Through::Index => &self.durable,
            Through::Relay => &self.relaxed,
        }
    }

    /// Makes the events due that the statement returns, with their deliveries to this destination.
    async fn unpark_events(&self, on: &str, call: Call) -> Result<u64, DriverError> {
        let mut tx = self.begin(Through::Relay).await?;
        let unparked = ids(&mut tx, call).await?;
        let count = unparked.len() as u64;
        if count > 0 {
            tx.done(Call::new(SQL.unpark_deliveries).bind(unparked).bind(on)).await?;
        }
        Transaction::commit(tx).await?;
        Ok(count)
    }
}

/// Returns the ids that a statement returns.
async fn ids(tx: &mut Tx, call: Call) -> Result<Vec<Uuid>, DriverError> {
    tx.rows(call).await?.iter().map(|row| row.id("id")).collect()
}

async fn statuses(tx: &mut Tx, ids: &[Uuid]) -> Result<Vec<(Uuid, String)>, DriverError> {
    let rows = tx.rows(Call::new(SQL.statuses).bind(ids)).await?;
    rows.iter().map(|row| Ok((row.id("id")?, row.text("status")?))).collect()
}

/// Returns each event's result: `to` for changed events, `failed` for dead letters that stayed as they are.
fn answers(statuses: Vec<(Uuid, String)>, changed: &[Uuid], to: &str, failed: &str) -> Vec<(Uuid, String)> {
    let changed: HashSet<&Uuid> = changed.iter().collect();
    let answer = |(id, status): (Uuid, String)| {
        let answer = match status.as_str() {
            _ if changed.contains(&id) => to,
            "delivered" => "delivered",
            "failed" => failed,
            _ => "being_sent",
        };
        (id, answer.to_owned())
    };
    statuses.into_iter().map(answer).collect()
}

type Query = sqlx::query::Query<'static, Sqlite, SqliteArguments>;

fn statement(call: Call) -> Query {
    call.values.into_iter().fold(sqlx::query(AssertSqlSafe(call.text)), bind)
}

fn bind(query: Query, value: Value) -> Query {
    match value {
        Value::Number(number) => query.bind(number),
        Value::Float(number) => query.bind(number),
        Value::Flag(flag) => query.bind(flag),
        Value::Text(text) => query.bind(text),
        Value::Id(id) => query.bind(id.map(Uuid::hyphenated)),
        Value::Moment(at) => query.bind(at.map(moment)),
        Value::Bound(Bound::At(at)) => query.bind(moment(at)),
        Value::Bound(Bound::Mark(text)) => query.bind(text),
        Value::Bound(Bound::Latest) => query.bind(char::MAX.to_string()),
        Value::Ids(ids) => query.bind(json!(ids).to_string()),
        Value::Texts(texts) => query.bind(json!(texts).to_string()),
        Value::Flags(flags) => query.bind(json!(flags).to_string()),
    }
}

#[async_trait]
impl Transaction for Tx {
    type Row = SqliteRow;

    async fn rows(&mut self, call: Call) -> Result<Vec<SqliteRow>, DriverError> {
        Ok(statement(call).fetch_all(&mut **self).await?)
    }

    async fn done(&mut self, call: Call) -> Result<u64, DriverError> {
        Ok(statement(call).execute(&mut **self).await?.rows_affected())
    }

    async fn script(&mut self, text: Cow<'static, str>) -> Result<(), DriverError> {
        self.execute(sqlx::raw_sql(AssertSqlSafe(text))).await?;
        Ok(())
    }

    async fn commit(self) -> Result<(), DriverError> {
        Ok(sqlx::Transaction::commit(self).await?)
    }
}

impl Row for SqliteRow {
    fn maybe_number(&self, column: &str) -> Result<Option<i64>, DriverError> {
        Ok(self.try_get(column)?)
    }

    /// Reads a missing column as absent, because SQLite keeps no estimates.
    fn maybe_float(&self, column: &str) -> Result<Option<f64>, DriverError> {
        match self.try_get(column) {
            Err(sqlx::Error::ColumnNotFound(_)) => Ok(None),
            read => Ok(read?),
        }
    }

    fn maybe_text(&self, column: &str) -> Result<Option<String>, DriverError> {
        Ok(self.try_get(column)?)
    }

    fn maybe_moment(&self, column: &str) -> Result<Option<DateTime<Utc>>, DriverError> {
        let text: Option<String> = self.try_get(column)?;
        Ok(text.map(|text| read_moment(&text)))
    }

    fn flag(&self, column: &str) -> Result<bool, DriverError> {
        Ok(self.try_get(column)?)
    }

    fn id(&self, column: &str) -> Result<Uuid, DriverError> {
        Ok(read::id(self, column)?)
    }

    fn mark(&self, column: &str) -> Result<Option<String>, DriverError> {
        self.maybe_text(column)
    }
}
