//! Slow: two destinations, one of which responds late or never. It measures how fast the other one is served.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use async_trait::async_trait;
use clap::Args;
use pillarbox::{Destination, Message, Relay, Route, SendError, Sink};
use serde_json::Value;

use crate::meter::Meter;
use crate::relay::RelayArguments;
use crate::usage::Usage;

/// Relays events of the types `fast` and `slow`.
#[derive(Args)]
pub(crate) struct Slow {
    #[command(flatten)]
    relay: RelayArguments,
    /// The number of fast events; the command ends when they are settled.
    #[arg(long)]
    count: u64,
    /// The slow destination responds after this many seconds; by default at once.
    #[arg(long)]
    answers_after: Option<f64>,
    /// The slow destination never responds.
    #[arg(long)]
    never: bool,
    /// The slow destination is paused: its events are parked without an attempt, which is the minimum of work.
    #[arg(long)]
    paused: bool,
}

const PATIENCE: Duration = Duration::from_secs(300);

impl Slow {
    pub(crate) async fn run(self) -> Result<Value> {
        let store = self.relay.open().await?.store();
        let meter = Arc::new(Meter::new(self.count).only("fast"));
        let late = Late { after: self.answers_after.map(Duration::from_secs_f64), never: self.never };
        let mut settings = self.relay.settings();
        settings.shutdown_timeout = Duration::from_millis(100);
        let relay = Relay::builder(store)
            .settings(settings)
            .handler("fast", async |_| Ok::<(), SendError>(()))
            .destination(Destination::new("late", late).paused(self.paused))
            .route(Route::new("slow", ["late"]))
            .observer(Arc::clone(&meter) as _)
            .build()?;
        let done = async {
            let _ = tokio::time::timeout(PATIENCE, meter.reached()).await;
        };
        relay.run(done).await?;
        ensure!(meter.settled() >= self.count, "the fast ones have stopped: {}", meter.report());
        let mut report = meter.report();
        report["usage"] = serde_json::to_value(Usage::now()?)?;
        Ok(report)
    }
}

/// A slow destination, with the timeout that every destination has.
struct Late {
    after: Option<Duration>,
    never: bool,
}

#[async_trait]
impl Sink for Late {
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        if self.never {
            std::future::pending::<()>().await;
        }
        if let Some(after) = self.after {
            tokio::time::sleep(after).await;
        }
        vec![Ok(()); batch.len()]
    }
}
