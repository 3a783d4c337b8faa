//! Calls the HTTP sink itself, as a relay's lane does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use pillarbox::Sink;
use serde_json::Value;
use tokio::task::JoinSet;

/// Sends events that were never in a table.
#[derive(Args)]
pub(crate) struct Http {
    #[arg(long)]
    url: String,
    #[arg(long)]
    count: u64,
    #[arg(long, default_value_t = 64)]
    concurrency: usize,
    /// The approximate number of bytes of JSON.
    #[arg(long, default_value_t = 490)]
    payload: usize,
}

impl Http {
    pub(crate) async fn run(self) -> Result<Value> {
        let sink = Arc::new(crate::relay::http(&self.url)?);
        let left = Arc::new(AtomicU64::new(0));
        let message = super::plain(self.payload);
        let bytes = message.payload.get().len();
        let began = Instant::now();
        let mut senders = JoinSet::new();
        for _ in 0..self.concurrency {
            let (sink, left, batch) = (Arc::clone(&sink), Arc::clone(&left), [message.clone()]);
            senders.spawn(async move {
                while left.fetch_add(1, Ordering::Relaxed) < self.count {
                    if let Some(Err(error)) = sink.send(&batch).await.pop() {
                        bail!("the receiver did not take it: {error}");
                    }
                }
                Ok(())
            });
        }
        while let Some(sent) = senders.join_next().await {
            sent??;
        }
        super::report(self.count, bytes, began)
    }
}
