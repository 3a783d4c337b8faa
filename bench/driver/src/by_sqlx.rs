//! As the store does it: each step waits for the answer to the one before.

use futures_util::TryStreamExt;
use serde_json::value::RawValue;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Connection, Executor, Row};
use uuid::Uuid;

use crate::{Ask, BEGIN, Driver, Event, Failure, SHARE};

pub struct Sqlx {
    connection: PgConnection,
    claim: String,
    settle: String,
}

impl Sqlx {
    pub async fn connect(ask: &Ask) -> Result<Self, Failure> {
        let connection = PgConnection::connect(&ask.url).await?;
        Ok(Self { connection, claim: ask.claim(), settle: ask.settle() })
    }
}

impl Driver for Sqlx {
    async fn cycle(&mut self, ask: &Ask) -> Result<usize, Failure> {
        self.connection.execute(BEGIN).await?;
        let mut events = Vec::with_capacity(500);
        {
            let query = sqlx::query(AssertSqlSafe(self.claim.clone()))
                .persistent(ask.prepared)
                .bind(ask.batch)
                .bind(SHARE)
                .bind(chrono::DateTime::UNIX_EPOCH)
                .bind(i64::MIN);
            let mut rows = query.fetch(&mut self.connection);
            while let Some(row) = rows.try_next().await? {
                events.push(event(&row)?);
            }
        }
        if !events.is_empty() {
            let ids: Vec<Uuid> = events.iter().map(|event| event.id).collect();
            let settle = sqlx::query(AssertSqlSafe(self.settle.clone())).persistent(ask.prepared).bind(ids);
            settle.execute(&mut self.connection).await?;
        }
        self.connection.execute("COMMIT").await?;
        Ok(events.len())
    }
}

fn event(row: &PgRow) -> Result<Event, Failure> {
    let moment = |place: usize| row.try_get::<chrono::DateTime<chrono::Utc>, _>(place).map(|at| at.timestamp_micros());
    Ok(Event {
        id: row.try_get(0)?,
        seq: row.try_get(1)?,
        aggregate_type: row.try_get(2)?,
        aggregate_id: row.try_get(3)?,
        event_type: row.try_get(4)?,
        payload: RawValue::from_string(row.try_get(5)?)?,
        headers: row.try_get(6)?,
        idempotency_key: row.try_get(7)?,
        attempts: row.try_get(8)?,
        max_attempts: row.try_get(9)?,
        claims: row.try_get(10)?,
        created_at: moment(11)?,
        due_at: moment(12)?,
        deliveries: row.try_get(13)?,
        fresh: row.try_get(14)?,
    })
}
