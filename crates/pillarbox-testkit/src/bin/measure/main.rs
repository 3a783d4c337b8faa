//! Measures the first questions of users on real parts: is each event sent once, and what happens when a relay or an endpoint
//! dies. `make measure`, or one of them: `make measure ARGS=death`. For throughput and latency, see `make bench`.

mod brokers;
mod death;
mod large;
mod memory;
mod nats;
mod once;
mod outage;
mod scene;
mod slot;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Measures the program against a PostgreSQL and a receiver of its own.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Subcommand)]
enum What {
    /// Two relays, 20,000 events: each is received exactly once when nothing fails.
    Once,
    /// A relay that holds claims dies by SIGKILL and by SIGTERM: how soon the other relay delivers its events.
    Death,
    /// An endpoint is down with 100,000 events waiting: other endpoints are not slowed, nothing is rewritten, nothing fails.
    Outage,
    /// An endpoint is down for minutes while events come in through the write-ahead log: what the slot keeps, and the relay's memory.
    Slot(slot::Options),
    /// Gigabytes of others and a million events, each in one transaction, through the write-ahead log: memory of the relay.
    Large,
    /// Each kind of broker, plainly, over TLS, in order, and while the broker or the relay is killed: what is lost or arrives twice.
    Brokers(brokers::Options),
    /// 20,000 events to a cluster of three NATS servers whose leader is killed every five seconds for a minute.
    Nats,
    /// What the order of aggregates costs on NATS.
    NatsOrder,
}

#[tokio::main]
async fn main() -> Result<()> {
    let all =
        vec![What::Once, What::Death, What::Outage, What::Slot(slot::Options::default()), What::Nats, What::NatsOrder];
    for what in Arguments::parse().what.map_or(all, |what| vec![what]) {
        match what {
            What::Once => once::measure().await?,
            What::Death => death::measure().await?,
            What::Outage => outage::measure().await?,
            What::Slot(options) => slot::measure(options).await?,
            What::Large => large::measure().await?,
            What::Brokers(options) => brokers::measure(options).await?,
            What::Nats => nats::measure().await?,
            What::NatsOrder => nats::order().await?,
        }
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "this program's output is its result")]
fn say(line: impl std::fmt::Display) {
    println!("{line}");
}
