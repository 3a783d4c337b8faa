//! Drain: a relay and a backlog.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use pillarbox::Store;
use serde_json::Value;

use crate::meter::Meter;
use crate::relay::{RelayArguments, counts};
use crate::usage::Usage;

/// Relays the existing events.
#[derive(Args)]
pub(crate) struct Drain {
    #[command(flatten)]
    relay: RelayArguments,
    /// The number of events; the command ends when they are settled.
    #[arg(long)]
    count: u64,
    /// Other relays run, too: the command ends when no event is due any more, and counts its own events.
    #[arg(long)]
    share: bool,
    /// The maximum time in seconds; the result is the progress until then.
    #[arg(long)]
    seconds: Option<f64>,
    /// How often the number of settled events is recorded, in milliseconds.
    #[arg(long, default_value_t = 100)]
    every: u64,
}

/// The timeout of a drain.
const PATIENCE: Duration = Duration::from_secs(900);
/// The time without a settle after which the command asks whether events are left.
const QUIET: Duration = Duration::from_millis(200);

impl Drain {
    pub(crate) async fn run(self) -> Result<Value> {
        let (store, log) = self.relay.store(&self.relay.open().await?);
        let meter = Arc::new(Meter::new(self.count));
        let observer = Arc::clone(&meter);
        let relay = self.relay.relay(Arc::clone(&store))?.observer(observer).build()?;
        let patience = self.seconds.map_or(PATIENCE, Duration::from_secs_f64);
        let watching = tokio::spawn({
            let (meter, every) = (Arc::clone(&meter), Duration::from_millis(self.every));
            async move { meter.watch(every).await }
        });
        let done = async {
            tokio::select! {
                () = meter.reached() => {}
                () = drained(&meter, &*store), if self.share => {}
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
        report["log"] = log.map_or(Value::Null, |log| counts(&log));
        report["usage"] = serde_json::to_value(Usage::now()?)?;
        Ok(report)
    }
}

/// Waits until no event is pending at any relay, because another relay may give events back. The last settle was the end.
async fn drained(meter: &Meter, store: &dyn Store) {
    loop {
        meter.quiet(QUIET).await;
        if store.next_due().await.is_ok_and(|due| due.is_none()) {
            return;
        }
    }
}
