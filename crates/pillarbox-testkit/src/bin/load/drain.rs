//! Drain: a relay and a backlog.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use pillarbox::Store;
use serde_json::Value;

use crate::meter::Meter;
use crate::relay::RelayArguments;
use crate::usage::Usage;

/// Relays what is there.
#[derive(Args)]
pub(crate) struct Drain {
    #[command(flatten)]
    relay: RelayArguments,
    /// How many events are there: it ends when they are settled.
    #[arg(long)]
    count: u64,
    /// Others relay, too: it ends when nothing is due any more, and counts its own.
    #[arg(long)]
    share: bool,
    /// It ends after so long at the latest; how far it came is the answer.
    #[arg(long)]
    seconds: Option<f64>,
    /// How often it is noted how many are settled, in milliseconds.
    #[arg(long, default_value_t = 100)]
    every: u64,
}

/// A drain that takes longer has stopped.
const PATIENCE: Duration = Duration::from_secs(900);
/// Nothing has been settled for so long: time to ask whether anything is left.
const QUIET: Duration = Duration::from_millis(200);

impl Drain {
    pub(crate) async fn run(self) -> Result<Value> {
        let store = self.relay.store().await?;
        let meter = Arc::new(Meter::new(self.count));
        let observer = Arc::clone(&meter);
        let relay = self.relay.relay(store.clone())?.observer(observer).build()?;
        let patience = self.seconds.map_or(PATIENCE, Duration::from_secs_f64);
        let watching = tokio::spawn({
            let (meter, every) = (Arc::clone(&meter), Duration::from_millis(self.every));
            async move { meter.watch(every).await }
        });
        let done = async {
            tokio::select! {
                () = meter.reached() => {}
                () = drained(&meter, &store), if self.share => {}
                () = tokio::time::sleep(patience) => {}
            }
        };
        relay.run(done).await?;
        watching.abort();
        ensure!(
            self.seconds.is_some() || self.share || meter.settled() >= self.count,
            "it has stopped: {}",
            meter.report()
        );
        let mut report = meter.report();
        report["usage"] = serde_json::to_value(Usage::now()?)?;
        Ok(report)
    }
}

/// Until nothing is pending, with nobody: another relay may give back what it holds. What was settled last was the end.
async fn drained(meter: &Meter, store: &impl Store) {
    loop {
        meter.quiet(QUIET).await;
        if store.next_due().await.is_ok_and(|due| due.is_none()) {
            return;
        }
    }
}
