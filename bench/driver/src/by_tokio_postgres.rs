//! As it could be: BEGIN and the claim go out together, and so do the settle and COMMIT.

use futures_util::TryStreamExt;
use futures_util::future::try_join;
use serde_json::value::RawValue;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, NoTls, Row, RowStream, Statement};
use uuid::Uuid;

use crate::{Ask, BEGIN, Driver, Event, Failure, SHARE};

pub struct TokioPostgres {
    client: Client,
    claim: String,
    settle: String,
    prepared: Option<(Statement, Statement)>,
}

impl TokioPostgres {
    pub async fn connect(ask: &Ask) -> Result<Self, Failure> {
        let (client, connection) = tokio_postgres::connect(&ask.url, NoTls).await?;
        tokio::spawn(connection);
        let (claim, settle) = (ask.claim(), ask.settle());
        let prepared = if ask.prepared {
            let claim = client.prepare_typed(&claim, &[Type::INT8, Type::INT8, Type::TIMESTAMPTZ, Type::INT8]).await?;
            Some((claim, client.prepare_typed(&settle, &[Type::UUID_ARRAY]).await?))
        } else {
            None
        };
        Ok(Self { client, claim, settle, prepared })
    }

    async fn claim(&self, ask: &Ask) -> Result<RowStream, tokio_postgres::Error> {
        let epoch = chrono::DateTime::UNIX_EPOCH;
        let values: [(&(dyn ToSql + Sync), Type); 4] = [
            (&ask.batch, Type::INT8),
            (&SHARE, Type::INT8),
            (&epoch, Type::TIMESTAMPTZ),
            (&i64::MIN, Type::INT8),
        ];
        match &self.prepared {
            Some((claim, _)) => self.client.query_raw(claim, values.map(|(value, _)| value)).await,
            None => self.client.query_typed_raw(&self.claim, values).await,
        }
    }

    async fn settle(&self, ids: &[Uuid]) -> Result<(), tokio_postgres::Error> {
        match &self.prepared {
            Some((_, settle)) => self.client.execute(settle, &[&ids]).await.map(drop),
            None => self.client.query_typed(&self.settle, &[(&ids, Type::UUID_ARRAY)]).await.map(drop),
        }
    }
}

impl Driver for TokioPostgres {
    async fn cycle(&mut self, ask: &Ask) -> Result<usize, Failure> {
        let ((), rows) = try_join(self.client.batch_execute(BEGIN), self.claim(ask)).await?;
        let mut rows = std::pin::pin!(rows);
        let mut events = Vec::with_capacity(500);
        while let Some(row) = rows.try_next().await? {
            events.push(event(&row)?);
        }
        if events.is_empty() {
            self.client.batch_execute("COMMIT").await?;
            return Ok(0);
        }
        let ids: Vec<Uuid> = events.iter().map(|event| event.id).collect();
        try_join(self.settle(&ids), self.client.batch_execute("COMMIT")).await?;
        Ok(events.len())
    }
}

fn event(row: &Row) -> Result<Event, Failure> {
    let text = |place: usize| row.try_get::<_, &str>(place).map(str::to_owned);
    let maybe = |place: usize| row.try_get::<_, Option<&str>>(place).map(|text| text.map(str::to_owned));
    let moment = |place: usize| row.try_get::<_, chrono::DateTime<chrono::Utc>>(place).map(|at| at.timestamp_micros());
    Ok(Event {
        id: row.try_get(0)?,
        seq: row.try_get(1)?,
        aggregate_type: text(2)?,
        aggregate_id: text(3)?,
        event_type: text(4)?,
        payload: RawValue::from_string(text(5)?)?,
        headers: maybe(6)?,
        idempotency_key: text(7)?,
        attempts: row.try_get(8)?,
        max_attempts: row.try_get(9)?,
        claims: row.try_get(10)?,
        created_at: moment(11)?,
        due_at: moment(12)?,
        deliveries: maybe(13)?,
        fresh: row.try_get(14)?,
    })
}
