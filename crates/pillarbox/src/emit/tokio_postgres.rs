//! Emit through a tokio-postgres transaction.

use chrono::{DateTime, Utc};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::postgres::{Columns, EXISTING, Written, emitted, many, one};
use super::{Emitted, Transaction};
use crate::error::DriverError;
use crate::event::NewEvent;

impl Transaction for tokio_postgres::Transaction<'_> {
    async fn insert(&mut self, rows: &[NewEvent]) -> Result<Vec<Emitted>, DriverError> {
        let columns = Columns::new(rows);
        // With the types given, nothing is prepared. That is one round trip, and works through a pooler.
        let written = self
            .query_typed(
                many(rows),
                &[
                    (&columns.ids, Type::UUID_ARRAY),
                    (&columns.aggregate_types, Type::TEXT_ARRAY),
                    (&columns.aggregate_ids, Type::TEXT_ARRAY),
                    (&columns.event_types, Type::TEXT_ARRAY),
                    (&columns.payloads, Type::TEXT_ARRAY),
                    (&columns.headers, Type::TEXT_ARRAY),
                    (&columns.keys, Type::TEXT_ARRAY),
                    (&columns.max_attempts, Type::INT4_ARRAY),
                    (&columns.deliver_at, Type::TIMESTAMPTZ_ARRAY),
                ],
            )
            .await?;
        written.iter().map(|row| emitted(read(row)?, true)).collect()
    }

    async fn insert_one(&mut self, row: &NewEvent) -> Result<Option<(i64, DateTime<Utc>)>, DriverError> {
        let written = self
            .query_typed_opt(
                one(row),
                &[
                    (&row.id, Type::UUID),
                    (&row.aggregate_type, Type::TEXT),
                    (&row.aggregate_id, Type::TEXT),
                    (&row.event_type, Type::TEXT),
                    (&row.payload, Type::TEXT),
                    (&row.headers, Type::TEXT),
                    (&row.idempotency_key, Type::TEXT),
                    (&row.max_attempts, Type::INT4),
                    (&row.deliver_at, Type::TIMESTAMPTZ),
                ],
            )
            .await?;
        written.map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).transpose()
    }

    async fn find(&mut self, event_type: &str, key: &str) -> Result<Option<Emitted>, DriverError> {
        let row = self.query_typed_opt(EXISTING, &[(&event_type, Type::TEXT), (&key, Type::TEXT)]).await?;
        row.map(|row| emitted(read(&row)?, false)).transpose()
    }

    async fn run(&mut self, statement: &'static str) -> Result<(), DriverError> {
        self.batch_execute(statement).await?;
        Ok(())
    }
}

pub(crate) fn read(row: &Row) -> Result<Written, tokio_postgres::Error> {
    Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?, row.try_get(4)?, row.try_get(5)?))
}
