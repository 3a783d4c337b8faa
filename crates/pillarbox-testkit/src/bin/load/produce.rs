//! Produce: an application that writes in transactions of its own, at a rate or as fast as it can. It knows no relay.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use clap::Args;
use pillarbox::Event;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::database::Database;
use crate::fill::payload;

/// Emits events.
#[derive(Args, Clone)]
pub(crate) struct Produce {
    /// postgres://… or mysql://…
    #[arg(long)]
    database: String,
    /// Events per second of all writers together; 0 means as fast as possible.
    #[arg(long)]
    rate: f64,
    #[arg(long)]
    seconds: f64,
    #[arg(long, default_value_t = 8)]
    writers: u32,
    #[arg(long, default_value_t = 10)]
    per_transaction: u64,
    /// The approximate number of bytes of JSON.
    #[arg(long, default_value_t = 490)]
    payload: usize,
    /// The file for the times of the commits, by the numbers of the events.
    #[arg(long)]
    moments: Option<PathBuf>,
}

/// Times in nanoseconds since 1970, by the numbers of the events; 0 means none.
pub(crate) type Moments = Vec<u64>;

impl Produce {
    pub(crate) async fn run(self) -> Result<Value> {
        let database = Database::open(&self.database).await?;
        let next = Arc::new(AtomicU64::new(0));
        let began = Instant::now();
        let mut writers = JoinSet::new();
        for writer in 0..self.writers {
            writers.spawn(self.clone().write(database.clone(), Arc::clone(&next), began, writer));
        }
        let mut moments = Moments::new();
        while let Some(written) = writers.join_next().await {
            for (number, at) in written?? {
                note(&mut moments, number, at);
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        if let Some(path) = &self.moments {
            let bytes: Vec<u8> = moments.iter().flat_map(|at| at.to_le_bytes()).collect();
            std::fs::write(path, bytes)?;
        }
        Ok(json!({ "count": moments.len(), "seconds": seconds, "rate": moments.len() as f64 / seconds }))
    }

    /// Writes on one connection. A late writer does not wait, so that the rate is kept if possible.
    async fn write(
        self,
        database: Database,
        next: Arc<AtomicU64>,
        began: Instant,
        writer: u32,
    ) -> Result<Vec<(u64, u64)>> {
        let apart = Duration::from_secs_f64(if self.rate > 0.0 {
            f64::from(self.writers) * self.per_transaction as f64 / self.rate
        } else {
            0.0
        });
        let content = payload(self.payload);
        let end = began + Duration::from_secs_f64(self.seconds);
        let mut due = began + apart * writer / self.writers;
        let mut committed = Vec::new();
        while due.max(Instant::now()) < end {
            tokio::time::sleep_until(due.into()).await;
            let first = next.fetch_add(self.per_transaction, Ordering::Relaxed);
            let numbers = first..first + self.per_transaction;
            let event = |number| Event::new("Order", number, "order.placed").repeatable().payload(&content);
            database.emit(numbers.clone().map(event).collect()).await?;
            let at = now();
            committed.extend(numbers.map(|number| (number, at)));
            due += apart;
        }
        Ok(committed)
    }
}

/// Reads the times that a producer has written.
pub(crate) fn read(path: &std::path::Path) -> Result<Moments> {
    let bytes = std::fs::read(path)?;
    bytes.chunks(8).map(|eight| Ok(u64::from_le_bytes(eight.try_into().context("half a moment")?))).collect()
}

/// Records the first time of a number, and returns whether it was the first.
pub(crate) fn note(moments: &mut Moments, number: u64, at: u64) -> bool {
    let place = number as usize;
    if moments.len() <= place {
        moments.resize(place + 1, 0);
    }
    let first = moments[place] == 0;
    if first {
        moments[place] = at;
    }
    first
}

/// Returns nanoseconds since 1970, by the clock that all processes of a machine share.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
