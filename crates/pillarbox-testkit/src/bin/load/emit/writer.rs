//! One connection of an application that writes events: through the library, or by a bare INSERT of the same columns.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::Result;
use chrono::{DateTime, Utc};
use pillarbox::{Event, emit, emit_all};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection, MySqlTransaction, PgConnection, PgTransaction};
use uuid::Uuid;

use super::{AGGREGATE, TYPE};
use crate::database::is_mysql;

/// A connection with its driver's cache of statements.
pub(super) enum Writer {
    Postgres(PgConnection),
    Mysql(MySqlConnection),
}

const ONE: &str = "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, idempotency_key, \
    next_attempt_at) VALUES ($1, $2, $3, $4, $5::text::jsonb, $6, coalesce($7, clock_timestamp()))";
const MANY: &str = "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, idempotency_key, \
    next_attempt_at) SELECT id, aggregate_type, aggregate_id, event_type, payload::jsonb, key, \
    coalesce(due, clock_timestamp()) FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], \
    $7::timestamptz[]) AS event (id, aggregate_type, aggregate_id, event_type, payload, key, due)";
const MYSQL: &str = "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, idempotency_key, \
    next_attempt_at) VALUES (?, ?, ?, ?, ?, ?, coalesce(?, utc_timestamp(6)))";
const MYSQL_NEXT: &str = ", (?, ?, ?, ?, ?, ?, coalesce(?, utc_timestamp(6)))";

/// Runs a piece of work in a transaction, and returns how long it took without BEGIN and COMMIT.
macro_rules! timed {
    ($connection:expr, $tx:ident => $work:expr) => {{
        let mut $tx = $connection.begin().await?;
        let began = Instant::now();
        $work;
        let writing = began.elapsed();
        $tx.commit().await?;
        Ok(writing)
    }};
}

impl Writer {
    pub(super) async fn connect(url: &str) -> Result<Self> {
        Ok(if is_mysql(url) {
            Self::Mysql(MySqlConnection::connect(url).await?)
        } else {
            Self::Postgres(PgConnection::connect(url).await?)
        })
    }

    /// Creates the table of the application's own data, beside which events are emitted.
    pub(super) async fn create_data(&mut self) -> Result<()> {
        match self {
            Self::Postgres(connection) => {
                let table =
                    "CREATE TABLE IF NOT EXISTS application_data (id bigint GENERATED ALWAYS AS IDENTITY, name text)";
                sqlx::query(table).execute(connection).await?;
            }
            Self::Mysql(connection) => {
                let table =
                    "CREATE TABLE IF NOT EXISTS application_data (id bigint AUTO_INCREMENT PRIMARY KEY, name text)";
                sqlx::query(table).execute(connection).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn write_own(&mut self) -> Result<()> {
        match self {
            Self::Postgres(connection) => {
                let own = sqlx::query("INSERT INTO application_data (name) VALUES ($1)").bind("42");
                own.execute(connection).await?;
            }
            Self::Mysql(connection) => {
                let own = sqlx::query("INSERT INTO application_data (name) VALUES (?)").bind("42");
                own.execute(connection).await?;
            }
        }
        Ok(())
    }

    /// Emits in one transaction.
    pub(super) async fn emit(&mut self, mut events: Vec<Event>) -> Result<Duration> {
        macro_rules! emitted {
            ($connection:expr) => {
                timed!($connection, tx => match events.pop() {
                    Some(event) if events.is_empty() => emit(&mut tx, event).await.map(drop)?,
                    last => emit_all(&mut tx, events.into_iter().chain(last)).await.map(drop)?,
                })
            };
        }
        match self {
            Self::Postgres(connection) => emitted!(connection),
            Self::Mysql(connection) => emitted!(connection),
        }
    }

    /// Writes the same rows without the library, in one transaction.
    pub(super) async fn bare(&mut self, content: &Value, due: Option<DateTime<Utc>>, many: usize) -> Result<Duration> {
        match self {
            Self::Postgres(connection) if many == 1 => timed!(connection, tx => one(&mut tx, content, due).await?),
            Self::Postgres(connection) => timed!(connection, tx => several(&mut tx, content, due, many).await?),
            Self::Mysql(connection) => timed!(connection, tx => mysql(&mut tx, content, due, many).await?),
        }
    }
}

async fn one(tx: &mut PgTransaction<'_>, content: &Value, due: Option<DateTime<Utc>>) -> Result<()> {
    let id = Uuid::now_v7();
    sqlx::query(ONE)
        .bind(id)
        .bind(AGGREGATE)
        .bind("42")
        .bind(TYPE)
        .bind(serde_json::to_string(content)?)
        .bind(id.to_string())
        .bind(due)
        .execute(&mut **tx)
        .await?;
    Ok(())
}

async fn several(tx: &mut PgTransaction<'_>, content: &Value, due: Option<DateTime<Utc>>, many: usize) -> Result<()> {
    let ids: Vec<Uuid> = (0..many).map(|_| Uuid::now_v7()).collect();
    let payloads = ids.iter().map(|_| serde_json::to_string(content)).collect::<Result<Vec<_>, _>>()?;
    let keys: Vec<String> = ids.iter().map(Uuid::to_string).collect();
    sqlx::query(MANY)
        .bind(ids)
        .bind(vec![AGGREGATE; many])
        .bind(vec!["42"; many])
        .bind(vec![TYPE; many])
        .bind(payloads)
        .bind(keys)
        .bind(vec![due; many])
        .execute(&mut **tx)
        .await?;
    Ok(())
}

async fn mysql(tx: &mut MySqlTransaction<'_>, content: &Value, due: Option<DateTime<Utc>>, many: usize) -> Result<()> {
    let mut text = MYSQL.to_owned();
    for _ in 1..many {
        write!(text, "{MYSQL_NEXT}")?;
    }
    let mut insert = sqlx::query(AssertSqlSafe(text));
    for _ in 0..many {
        let id = Uuid::now_v7();
        insert = insert.bind(id).bind(AGGREGATE).bind("42").bind(TYPE).bind(serde_json::to_string(content)?);
        insert = insert.bind(id.to_string()).bind(due.map(|due| due.naive_utc()));
    }
    insert.execute(&mut **tx).await?;
    Ok(())
}
