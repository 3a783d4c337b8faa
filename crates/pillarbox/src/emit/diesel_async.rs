//! Emit through a diesel-async connection that is in a transaction.
//!
//! Dereference a pool's connection to get it: `emit(&mut **connection, event)`.

use chrono::{DateTime, Utc};
use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection, TransactionManager};

use super::diesel::{self, emitted};
use super::{Emitted, Transaction};
use crate::error::DriverError;
use crate::event::NewEvent;

impl Transaction for AsyncPgConnection {
    fn is_open(&mut self) -> Result<bool, DriverError> {
        type Manager = <AsyncPgConnection as AsyncConnection>::TransactionManager;
        diesel::is_open(Manager::transaction_manager_status_mut(self))
    }

    async fn insert(&mut self, rows: &[NewEvent]) -> Result<Vec<Emitted>, DriverError> {
        emitted(diesel::insert(rows).load(self).await?, true)
    }

    async fn insert_one(&mut self, row: &NewEvent) -> Result<Option<(i64, DateTime<Utc>)>, DriverError> {
        let written = diesel::insert_one(row).load::<diesel::Place>(self).await?;
        Ok(written.into_iter().next().map(|place| (place.seq, place.created_at)))
    }

    async fn find(&mut self, event_type: &str, key: &str) -> Result<Option<Emitted>, DriverError> {
        let found = emitted(diesel::find(event_type, key).load(self).await?, false)?;
        Ok(found.into_iter().next())
    }

    async fn run(&mut self, statement: &'static str) -> Result<(), DriverError> {
        self.batch_execute(statement).await?;
        Ok(())
    }
}
