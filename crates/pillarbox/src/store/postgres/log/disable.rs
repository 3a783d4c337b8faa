//! Disable: closes the gate, waits until no transaction can have an event in the log that the relay has not delivered, and removes
//! the slot.
//!
//! Closing the gate does not recall transactions that are open: each may have an event in the log, or may have seen the gate open.
//! So all of them must end first. Only then is there a position behind every event.

use std::time::{Duration, Instant};

use uuid::Uuid;

use super::{LogError, LogWait};
use crate::error::StoreError;
use crate::store::postgres::error::Error;
use crate::store::postgres::{PostgresStore, SQL, database};

/// How often to look whether a wait is over.
const LOOK: Duration = Duration::from_millis(200);
/// How many looks until what is waited for is told again.
const WORD: u32 = 5;
/// How long no relay may lead. The next leader waits for the lease of the last one.
const LEADERLESS: Duration = Duration::from_secs(30);
/// How long a reader of the slot may take to stop by itself.
const STOP: Duration = Duration::from_secs(5);
/// The server's code for a slot that is in use.
const IN_USE: &str = "55006";

/// How the names of prepared transactions begin.
const PREPARED: &str = "prepared/";

/// A transaction that is open.
struct Open {
    /// A name that no later transaction has.
    name: String,
    /// What people are told.
    told: String,
}

impl PostgresStore {
    /// Disables the log: emits go into the table, the relay delivers the rest of the log, and the slot is dropped. Returns false if
    /// the log was not enabled. It can be run again after it was interrupted.
    ///
    /// `waiting` is called once a second with what is waited for. There is no limit for open transactions.
    ///
    /// # Errors
    /// [`LogError::NoRelay`] when nobody reads the log: emits go into the table already then, and nothing is dropped. Otherwise when
    /// the database returns an error.
    pub async fn log_disable(&self, waiting: &mut (dyn FnMut(LogWait) + Send)) -> Result<bool, LogError> {
        let Some(status) = self.log_status().await? else { return Ok(false) };
        if !status.is_whole() {
            let gone = match (status.has_slot, status.wal_status.as_deref()) {
                (false, _) => "is gone",
                (true, Some("lost")) => "is lost",
                (true, _) => "was created again or moved by another program",
            };
            return Err(LogError::Refused(format!(
                "the replication slot {} {gone}, and the events behind {} that were in the log may be lost with it; remove the rest with \
                 `pillarbox wal disable --force --yes`",
                status.slot,
                status.confirmed.as_deref().unwrap_or("its beginning")
            )));
        }
        self.log_close().await?;
        self.log_wait_for_transactions(waiting).await?;
        self.log_wait_for_relay(waiting).await?;
        self.log_remove().await?;
        Ok(true)
    }

    /// Disables the log without a relay. Events that are in the log and not delivered are lost: see
    /// [`LogStatus::undelivered_bytes`](super::LogStatus::undelivered_bytes). Returns false if the log was not enabled.
    ///
    /// # Errors
    /// When the database returns an error.
    pub async fn log_disable_now(&self) -> Result<bool, LogError> {
        if self.log_status().await?.is_none() {
            return Ok(false);
        }
        self.log_close().await?;
        self.log_remove().await?;
        Ok(true)
    }

    async fn log_close(&self) -> Result<(), StoreError> {
        let close = async || {
            let mut tx = self.pool.begin().await?;
            self.schema.query(SQL.wal_close).execute(&mut *tx).await?;
            self.schema.query(SQL.wal_shut).fetch_one(&mut *tx).await?;
            tx.commit().await
        };
        close().await.map_err(database("closing the log"))
    }

    /// Waits for all transactions that are open now. One that is prepared meanwhile gets another name, so all that are prepared
    /// by then are waited for, too.
    async fn log_wait_for_transactions(&self, waiting: &mut (dyn FnMut(LogWait) + Send)) -> Result<(), StoreError> {
        let open = self.open_transactions(None).await?;
        self.log_wait_for(open, waiting).await?;
        let mut prepared = self.open_transactions(None).await?;
        prepared.retain(|open| open.name.starts_with(PREPARED));
        self.log_wait_for(prepared, waiting).await
    }

    async fn log_wait_for(
        &self,
        mut open: Vec<Open>,
        waiting: &mut (dyn FnMut(LogWait) + Send),
    ) -> Result<(), StoreError> {
        for look in 0_u32.. {
            if open.is_empty() {
                break;
            }
            if look % WORD == WORD - 1 {
                waiting(LogWait::Transactions(open.iter().map(|open| open.told.clone()).collect()));
            }
            tokio::time::sleep(LOOK).await;
            open = self.open_transactions(Some(open.into_iter().map(|open| open.name).collect())).await?;
        }
        Ok(())
    }

    /// Returns all open transactions, or those of these names that are still open.
    async fn open_transactions(&self, names: Option<Vec<String>>) -> Result<Vec<Open>, StoreError> {
        let query = self.schema.query_as::<(String, i32, String)>(SQL.wal_transactions).bind(names);
        let open = query.fetch_all(&self.pool).await.map_err(database("reading the open transactions"))?;
        Ok(open.into_iter().map(|(name, _, told)| Open { name, told }).collect())
    }

    async fn log_wait_for_relay(&self, waiting: &mut (dyn FnMut(LogWait) + Send)) -> Result<(), LogError> {
        let barrier = self.schema.query_scalar::<String>(SQL.wal_barrier).fetch_one(&self.pool).await;
        let barrier = barrier.map_err(database("writing into the log"))?;
        let mut led_at = Instant::now();
        for look in 0_u32.. {
            let passed = self.schema.query_as::<(bool, bool, i64)>(SQL.wal_passed).bind(&barrier);
            let passed =
                passed.fetch_optional(&self.pool).await.map_err(database("reading the position of the relay"))?;
            let Some((is_passed, is_led, bytes)) = passed else { return Ok(()) };
            if is_passed {
                return Ok(());
            }
            if is_led {
                led_at = Instant::now();
            } else if led_at.elapsed() > LEADERLESS {
                return Err(LogError::NoRelay { bytes });
            }
            if look % WORD == WORD - 1 {
                waiting(LogWait::Relay(bytes));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Takes the log from its leader, drops the slot, and then what is known of it.
    async fn log_remove(&self) -> Result<(), StoreError> {
        let taken =
            self.schema.query_as::<(String, String)>(SQL.wal_take).bind(Uuid::now_v7()).fetch_optional(&self.pool);
        let Some((slot, publication)) = taken.await.map_err(database("taking the log"))? else { return Ok(()) };
        self.log_drop_slot(&slot).await.map_err(database("dropping the replication slot"))?;
        let forget = async || {
            let mut tx = self.pool.begin().await?;
            tx.run(&format!("DROP PUBLICATION IF EXISTS \"{}\"", publication.replace('"', "\"\""))).await?;
            self.schema.query(SQL.wal_forget).execute(&mut *tx).await?;
            self.schema.query(SQL.wal_shut).fetch_one(&mut *tx).await?;
            tx.commit().await
        };
        forget().await.map_err(database("removing the log"))
    }

    async fn log_drop_slot(&self, slot: &str) -> Result<(), Error> {
        let began = Instant::now();
        loop {
            let ends = began.elapsed() > STOP;
            let reader = self.schema.query_as::<(bool, Option<bool>)>(SQL.wal_reader).bind(slot).bind(ends);
            let Some((is_read, _)) = reader.fetch_optional(&self.pool).await? else { return Ok(()) };
            if !is_read {
                match self.schema.query(SQL.wal_drop).bind(slot).fetch_one(&self.pool).await {
                    Err(error) if error.code() == Some(IN_USE) => {}
                    done => return done.map(drop),
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}
