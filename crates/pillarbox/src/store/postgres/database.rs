//! The `Database` of PostgreSQL: how it runs statements, binds values and reads rows.

use std::borrow::Cow;
use std::time::Duration;

use ::tokio_postgres::Column;
use ::tokio_postgres::types::Type;
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::error::Error;
use super::link::{Link, Tx};
use super::log::LogStatus;
use super::moment::Moment;
use super::pinned::Pinned;
use super::statement::{PgQuery, PgRow, Runs};
use super::{MIGRATIONS, PostgresStore, SQL, Statement};
use crate::emit::postgres::{Columns, EXISTING, emitted, many, one};
use crate::emit::{self, Emitted, tokio_postgres};
use crate::error::DriverError;
use crate::event::NewEvent;
use crate::store::examine::Finding;
use crate::store::list::{BadCursor, Bound};
use crate::store::log::LogView;
use crate::store::migrate::Migration;
use crate::store::row::like;
use crate::store::sql::{
    Asked, Call, Database, Recent, Row, Statements, Through, Transaction, Value, load_statements, shared_statements,
};
use crate::store::{Cleaned, EventKind, Retention};

shared_statements!(load_statements!("postgres",));

/// The time limit of a migration, for example of a table with many rows.
const LONGEST_MIGRATION: Duration = Duration::from_secs(4 * 3600);
/// The codes for a missing relation and a missing schema.
const NOT_THERE: [&str; 2] = ["42P01", "3F000"];

#[async_trait]
impl Database for PostgresStore {
    type Row = PgRow;
    type Tx = SchemaTx;

    const MIGRATIONS: &'static [Migration] = MIGRATIONS;
    const WAKE: Option<&'static str> = Some(SQL.wake);
    const FIND_RECENT: Option<Recent> = Some(Recent { find: SQL.find_recent, beyond: SQL.find_beyond });
    const FAREWELL: &'static [&'static str] = &[SQL.farewell];
    const FORGET: &'static [&'static str] = &[SQL.sweep_relays];

    fn statements() -> &'static Statements {
        &STATEMENTS
    }

    async fn rows(&self, through: Through, call: Call) -> Result<Vec<PgRow>, DriverError> {
        Ok(self.statement(call).fetch_all(self.pool_for(through)).await?)
    }

    async fn done(&self, through: Through, call: Call) -> Result<u64, DriverError> {
        Ok(self.statement(call).execute(self.pool_for(through)).await?)
    }

    async fn begin(&self, through: Through) -> Result<SchemaTx, DriverError> {
        Ok(self.in_schema(self.pool_for(through).begin().await?))
    }

    async fn begin_to_emit(&self) -> Result<SchemaTx, DriverError> {
        let mut tx = self.begin(Through::People).await?;
        tx.script("SET LOCAL search_path TO {schema}".into()).await?;
        Ok(tx)
    }

    async fn begin_to_migrate(&self) -> Result<SchemaTx, DriverError> {
        let mut tx = self.in_schema(self.pool.patient(LONGEST_MIGRATION).begin().await?);
        tx.script("SELECT pg_advisory_xact_lock(hashtext('pillarbox migrate'))".into()).await?;
        // IF NOT EXISTS would still need the right to create schemas, which an owner of tables may not have.
        let there = "SELECT FROM pg_namespace WHERE nspname = $1";
        if tx.rows(Call::new(there).bind(self.schema.name())).await?.is_empty() {
            tx.script("CREATE SCHEMA {schema}".into()).await?;
        }
        tx.script("SET LOCAL search_path TO {schema}".into()).await?;
        Ok(tx)
    }

    fn is_missing_table(error: &DriverError) -> bool {
        let code = error.downcast_ref::<Error>().and_then(Error::code);
        code.is_some_and(|code| NOT_THERE.contains(&code))
    }

    fn pattern(name: &str) -> String {
        like(name)
    }

    fn check_bound(bound: &Bound) -> Result<(), BadCursor> {
        Moment::of(bound).map(drop)
    }

    async fn retry_events(&self, tx: &mut SchemaTx, asked: Asked<'_>) -> Result<Vec<(Uuid, String)>, DriverError> {
        let call = Call::new(SQL.retry).bind(asked.ids).bind(asked.unchanged_since);
        tx.rows(call).await?.iter().map(answer).collect()
    }

    async fn fail_events(
        &self,
        tx: &mut SchemaTx,
        asked: Asked<'_>,
        reason: &str,
    ) -> Result<Vec<(Uuid, String)>, DriverError> {
        let call = Call::new(SQL.fail).bind(asked.ids).bind(reason).bind(asked.unchanged_since);
        tx.rows(call).await?.iter().map(answer).collect()
    }

    async fn sweep_events(&self, losses: u32, error: &str) -> Result<Vec<PgRow>, DriverError> {
        Database::rows(self, Through::Relay, Call::new(SQL.sweep).bind(losses).bind(error)).await
    }

    async fn unpark_whole(&self, on: &str, kind: Option<&EventKind>, most: i64) -> Result<u64, DriverError> {
        let call = Call::new(SQL.unpark)
            .bind(on)
            .bind(most)
            .bind(kind.map(|kind| kind.event_type.as_str()))
            .bind(kind.map(|kind| kind.aggregate_type.as_str()));
        self.done(Through::Relay, call).await
    }

    async fn unpark_these(&self, on: &str, ids: &[Uuid]) -> Result<u64, DriverError> {
        self.done(Through::Relay, Call::new(SQL.unpark_these).bind(on).bind(ids)).await
    }

    async fn unpark_shared(&self, on: &str, most: i64) -> Result<u64, DriverError> {
        self.done(Through::Relay, Call::new(SQL.unpark_shared).bind(on).bind(most)).await
    }

    async fn cleanup_batch(&self, retention: &Retention) -> Result<Cleaned, DriverError> {
        Ok(self.delete_old(retention).await?)
    }

    async fn heartbeat_written(&self, relay: Uuid) -> Result<(), DriverError> {
        Ok(self.look_around(relay).await?)
    }

    fn relay_left(&self, relay: Uuid) {
        self.forget_relay(relay);
    }

    async fn view_log(&self) -> Result<Option<LogView>, DriverError> {
        Ok(self.read_log_status().await?.map(LogStatus::view))
    }

    async fn look_for_trouble(&self) -> Result<Vec<Finding>, DriverError> {
        Ok(self.examine_database().await?)
    }
}

/// Reads an event's id and its result.
fn answer(row: &PgRow) -> Result<(Uuid, String), DriverError> {
    Ok((row.id("id")?, row.text("answer")?))
}

impl PostgresStore {
    fn pool_for(&self, through: Through) -> &Pinned {
        match through {
            Through::People | Through::Relay => &self.pool,
            Through::Index => self.holds.pool(),
        }
    }

    fn in_schema(&self, tx: Tx) -> SchemaTx {
        SchemaTx { tx, store: self.clone() }
    }

    fn statement(&self, call: Call) -> Statement {
        call.values.into_iter().fold(self.schema.query(&call.text), bind)
    }
}

fn bind(statement: Statement, value: Value) -> Statement {
    match value {
        Value::Number(number) => statement.bind(number),
        Value::Float(number) => statement.bind(number),
        Value::Flag(flag) => statement.bind(flag),
        Value::Text(text) => statement.bind(text),
        Value::Id(id) => statement.bind(id),
        Value::Moment(moment) => statement.bind(moment.map(Moment::from)),
        Value::Bound(bound) => statement.bind(Moment::of(&bound).unwrap_or(Moment::EARLIEST)),
        Value::Ids(ids) => statement.bind(ids),
        Value::Texts(texts) => statement.bind(texts),
        Value::Flags(flags) => statement.bind(flags),
    }
}

/// A transaction whose statements are for one schema.
pub(in crate::store) struct SchemaTx {
    tx: Tx,
    store: PostgresStore,
}

#[async_trait]
impl Transaction for SchemaTx {
    type Row = PgRow;

    async fn rows(&mut self, call: Call) -> Result<Vec<PgRow>, DriverError> {
        Ok(self.store.statement(call).fetch_all(&mut *self.tx).await?)
    }

    async fn done(&mut self, call: Call) -> Result<u64, DriverError> {
        Ok(self.store.statement(call).execute(&mut *self.tx).await?)
    }

    async fn script(&mut self, text: Cow<'static, str>) -> Result<(), DriverError> {
        Ok(Link::run(&mut self.tx, &self.store.schema.sql(&text)).await?)
    }

    async fn commit(self) -> Result<(), DriverError> {
        Ok(self.tx.commit().await?)
    }
}

impl emit::Transaction for SchemaTx {
    async fn insert(&mut self, rows: &[NewEvent]) -> Result<Vec<Emitted>, DriverError> {
        let columns = Columns::new(rows);
        let query = PgQuery::new(many(rows))
            .bind(columns.ids)
            .bind(columns.aggregate_types)
            .bind(columns.aggregate_ids)
            .bind(columns.event_types)
            .bind(columns.payloads)
            .bind(columns.headers)
            .bind(columns.keys)
            .bind(columns.max_attempts)
            .bind(columns.deliver_at);
        let written = (&mut *self.tx).rows(query).await?;
        written.iter().map(|row| emitted(tokio_postgres::read(row)?, true)).collect()
    }

    async fn insert_one(&mut self, row: &NewEvent) -> Result<Option<(i64, DateTime<Utc>)>, DriverError> {
        let query = PgQuery::new(one(row))
            .bind(row.id)
            .bind(&row.aggregate_type)
            .bind(&row.aggregate_id)
            .bind(&row.event_type)
            .bind(&row.payload)
            .bind(&row.headers)
            .bind(&row.idempotency_key)
            .bind(row.max_attempts)
            .bind(row.deliver_at);
        let written = (&mut *self.tx).rows(query).await?;
        written.first().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).transpose()
    }

    async fn find(&mut self, event_type: &str, key: &str) -> Result<Option<Emitted>, DriverError> {
        let found = (&mut *self.tx).rows(PgQuery::new(EXISTING).bind(event_type).bind(key)).await?;
        found.first().map(|row| emitted(tokio_postgres::read(row)?, false)).transpose()
    }

    async fn run(&mut self, statement: &'static str) -> Result<(), DriverError> {
        Ok(Link::run(&mut self.tx, statement).await?)
    }
}

impl Row for PgRow {
    /// Reads a number of any size. `integer` and `smallint` need their own types.
    fn maybe_number(&self, column: &str) -> Result<Option<i64>, DriverError> {
        let kind = self.columns().iter().find(|known| known.name() == column).map(Column::type_);
        Ok(match kind {
            Some(&Type::INT2) => self.try_get::<_, Option<i16>>(column)?.map(i64::from),
            Some(&Type::INT4) => self.try_get::<_, Option<i32>>(column)?.map(i64::from),
            _ => self.try_get(column)?,
        })
    }

    fn maybe_float(&self, column: &str) -> Result<Option<f64>, DriverError> {
        Ok(self.try_get(column)?)
    }

    fn maybe_text(&self, column: &str) -> Result<Option<String>, DriverError> {
        Ok(self.try_get(column)?)
    }

    fn maybe_moment(&self, column: &str) -> Result<Option<DateTime<Utc>>, DriverError> {
        Ok(self.try_get::<_, Option<Moment>>(column)?.map(Moment::shown))
    }

    fn flag(&self, column: &str) -> Result<bool, DriverError> {
        Ok(self.try_get(column)?)
    }

    fn id(&self, column: &str) -> Result<Uuid, DriverError> {
        Ok(self.try_get(column)?)
    }

    fn mark(&self, column: &str) -> Result<Option<String>, DriverError> {
        Ok(self.try_get::<_, Option<Moment>>(column)?.map(Moment::mark))
    }
}
