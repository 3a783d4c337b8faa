//! Measures the first questions of users on real parts: is each event sent once, and what happens when a relay or an endpoint
//! dies. `make measure`, or one of them: `make measure ARGS=death`. For throughput and latency, see `make bench`.

mod death;
mod once;
mod outage;
mod scene;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Measures the program against a PostgreSQL and a receiver of its own.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Subcommand, Clone, Copy)]
enum What {
    /// Two relays, 20,000 events: each is received exactly once when nothing fails.
    Once,
    /// A relay that holds claims dies by SIGKILL and by SIGTERM: how soon the other relay delivers its events.
    Death,
    /// An endpoint is down with 100,000 events waiting: other endpoints are not slowed, nothing is rewritten, nothing fails.
    Outage,
}

#[tokio::main]
async fn main() -> Result<()> {
    let all = vec![What::Once, What::Death, What::Outage];
    for what in Arguments::parse().what.map_or(all, |what| vec![what]) {
        match what {
            What::Once => once::measure().await?,
            What::Death => death::measure().await?,
            What::Outage => outage::measure().await?,
        }
    }
    Ok(())
}

#[expect(clippy::print_stdout, reason = "this program's output is its result")]
fn say(line: impl std::fmt::Display) {
    println!("{line}");
}
