//! Steady: producers in a process of their own, a relay in this one, and the time from commit to handler.

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use pillarbox::{Message, SendError};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::meter::Meter;
use crate::produce::{self, Moments, note};
use crate::relay::{RelayArguments, counts, gate_open};
use crate::spread::spread;
use crate::usage::Usage;

/// Relays events while they are produced.
#[derive(Args)]
pub(crate) struct Steady {
    #[command(flatten)]
    relay: RelayArguments,
    /// Events per second; 0 means as fast as the producers can.
    #[arg(long)]
    rate: f64,
    #[arg(long)]
    seconds: f64,
    #[arg(long, default_value_t = 8)]
    writers: u32,
    #[arg(long, default_value_t = 10)]
    per_transaction: u64,
}

/// The timeout of the delivery of all events after the last commit.
const PATIENCE: Duration = Duration::from_secs(300);

impl Steady {
    pub(crate) async fn run(self) -> Result<Value> {
        let (store, log) = self.relay.store(&self.relay.open().await?);
        let meter = Arc::new(Meter::new(u64::MAX));
        let handled = Arc::new(Handled::default());
        let handler = {
            let handled = Arc::clone(&handled);
            move |message: Message| {
                handled.note(&message);
                async { Ok::<(), SendError>(()) }
            }
        };
        let relay = self.relay.handled(store, handler).observer(Arc::clone(&meter) as _).build()?;
        let mut produced = Ok((Value::Null, Moments::new()));
        let load = async {
            if let Some(log) = &log
                && let Err(error) = gate_open(log).await
            {
                produced = Err(error);
                return;
            }
            produced = self.produce().await;
            if let Ok((report, _)) = &produced {
                meter.expect(report["count"].as_u64().unwrap_or(0));
                let _ = tokio::time::timeout(PATIENCE, meter.reached()).await;
            }
        };
        relay.run(load).await?;
        let (report, committed) = produced?;
        let (handled, repeated) = handled.take();
        ensure!(handled.len() == committed.len(), "{} were committed, {} handled", committed.len(), handled.len());
        let mut answer = summary(&committed, &handled);
        answer["log"] = log.map_or(Value::Null, |log| counts(&log));
        answer["produced"] = report;
        answer["repeated"] = json!(repeated);
        answer["usage"] = serde_json::to_value(Usage::now()?)?;
        Ok(answer)
    }

    /// Runs the producers as a process of their own, so that their usage is not counted as the relay's.
    async fn produce(&self) -> Result<(Value, Moments)> {
        let moments = NamedTempFile::new()?;
        let output = tokio::process::Command::new(std::env::current_exe()?)
            .args(["produce", "--database", &self.relay.database])
            .args(["--rate", &self.rate.to_string(), "--seconds", &self.seconds.to_string()])
            .args(["--writers", &self.writers.to_string()])
            .args(["--per-transaction", &self.per_transaction.to_string()])
            .arg("--moments")
            .arg(moments.path())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .output()
            .await?;
        ensure!(output.status.success(), "the producers ended with {}", output.status);
        Ok((serde_json::from_slice(&output.stdout)?, produce::read(moments.path())?))
    }
}

/// When each event arrived at the handler.
#[derive(Default)]
struct Handled(Mutex<(Moments, u64)>);

impl Handled {
    fn note(&self, message: &Message) {
        let at = produce::now();
        let number = message.aggregate_id.parse().unwrap_or(0);
        if let Ok(mut noted) = self.0.lock() {
            let (moments, repeated) = &mut *noted;
            if !note(moments, number, at) {
                *repeated += 1;
            }
        }
    }

    fn take(&self) -> (Moments, u64) {
        self.0.lock().map(|mut noted| std::mem::take(&mut *noted)).unwrap_or_default()
    }
}

/// Returns the rate from the first commit to the last handler, and the latencies of all events and of each second.
fn summary(committed: &Moments, handled: &Moments) -> Value {
    let began = committed.iter().copied().min().unwrap_or(0);
    let ended = handled.iter().copied().max().unwrap_or(0);
    let seconds = ended.saturating_sub(began) as f64 / 1e9;
    let second = |at: u64| (at.saturating_sub(began) / 1_000_000_000) as usize;
    let mut took: Vec<Vec<i64>> = vec![Vec::new(); second(ended) + 1];
    let mut delivered = vec![0_u64; second(ended) + 1];
    for (commit, handler) in committed.iter().zip(handled) {
        took[second(*commit)].push(handler.wrapping_sub(*commit).cast_signed());
        delivered[second(*handler)] += 1;
    }
    let latency = spread(took.concat());
    let each = delivered.iter().zip(took).map(|(delivered, took)| {
        let produced = took.len();
        let spread = spread(took);
        json!({ "produced": produced, "delivered": delivered, "p50": spread["p50"], "p99": spread["p99"] })
    });
    let each: Vec<Value> = each.collect();
    let count = committed.len();
    json!({ "count": count, "seconds": seconds, "rate": count as f64 / seconds, "latency": latency, "each": each })
}
