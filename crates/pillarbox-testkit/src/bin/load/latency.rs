//! Latency: single events at random times, and a relay that is otherwise idle. It is measured from the return of the commit to
//! the call of the handler. The database's notification wakes the relay, as if it were another process.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use pillarbox::{Event, Inspect, Message, SendError};
use rand::RngExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::fill::payload;
use crate::relay::{RelayArguments, gate_open};
use crate::spread::spread;

/// Emits one event after another.
#[derive(Args)]
pub(crate) struct Latency {
    #[command(flatten)]
    relay: RelayArguments,
    #[arg(long)]
    count: usize,
    /// The minimum and the maximum pause between two events, in milliseconds.
    #[arg(long, num_args = 2, default_values_t = [20, 120])]
    apart: Vec<u64>,
}

/// The timeout of the relay to become idle, and of an event to arrive.
const PATIENCE: Duration = Duration::from_secs(20);

impl Latency {
    pub(crate) async fn run(self) -> Result<Value> {
        let database = self.relay.open().await?;
        let (calls, mut called) = mpsc::unbounded_channel();
        let handler = move |_: Message| {
            let told = calls.send(Instant::now()).map_err(|_| SendError::retry("nobody listens"));
            async { told }
        };
        let (store, log) = self.relay.store(&database);
        let relay = self.relay.handled(store, handler).build()?;
        let mut took = Ok(Vec::new());
        let events = async {
            took = async {
                tokio::time::timeout(PATIENCE, idle(database.inspect()))
                    .await
                    .context("the relay has not become idle")?;
                if let Some(log) = log {
                    gate_open(&log).await?;
                }
                let mut took = Vec::with_capacity(self.count);
                for number in 0..self.count {
                    let pause = rand::rng().random_range(self.apart[0] * 1000..=self.apart[1] * 1000);
                    tokio::time::sleep(Duration::from_micros(pause)).await;
                    let event = Event::new("Order", number, "order.placed").repeatable().payload(payload(490));
                    database.emit(vec![event]).await?;
                    let committed = Instant::now();
                    let called = tokio::time::timeout(PATIENCE, called.recv()).await?.context("the relay is gone")?;
                    let nanos = called.saturating_duration_since(committed).as_nanos();
                    took.push(i64::try_from(nanos)?);
                }
                anyhow::Ok(took)
            }
            .await;
        };
        relay.run(events).await?;
        let took = took?;
        let milliseconds: Vec<f64> = took.iter().map(|nanos| *nanos as f64 / 1e6).collect();
        let mut answer = spread(took);
        answer["latencies_ms"] = json!(milliseconds);
        Ok(answer)
    }
}

/// Waits until a relay's heartbeat says that it is idle.
async fn idle(store: &dyn Inspect) {
    while !store.counts().await.is_ok_and(|counts| counts.relays.iter().any(|relay| relay.idle)) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
