//! What the benchmark drives: Pillarbox embedded as an application embeds it, under load. Each command does one thing to
//! a database or a broker that exists already and prints one JSON object with what it counted; how often, beside whom
//! and what it means is the benchmark's affair.

mod drain;
mod emit;
mod fill;
mod latency;
mod meter;
mod produce;
mod raw;
mod relay;
mod slow;
mod spread;
mod steady;
mod usage;

use anyhow::Result;
use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// Puts a database or a broker under load and says as JSON what came of it.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Writes events into the table, as fast as the database takes them.
    Fill(fill::Fill),
    /// Relays until so many events are settled, or for so long.
    Drain(drain::Drain),
    /// Emits in transactions of its own, at a pace.
    Produce(produce::Produce),
    /// Relays what is produced meanwhile, and says how long it took from commit to handler.
    Steady(steady::Steady),
    /// Single events at random moments and an idle relay: from commit to handler.
    Latency(latency::Latency),
    /// What an event costs its writer, or a bare INSERT in its place.
    Emit(emit::Emit),
    /// Events for two destinations, one of which is slow: how fast the other one is served.
    Slow(slow::Slow),
    /// What the HTTP sink reaches without a database.
    RawHttp(raw::http::Http),
    /// What RabbitMQ confirms of messages like ours, from a client without a database.
    RawAmqp(raw::amqp::Amqp),
    /// What Redis takes of messages like ours, from a client without a database.
    RawRedis(raw::redis::Redis),
}

#[tokio::main]
async fn main() -> Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn,lapin=off"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let answer = match Arguments::parse().command {
        Command::Fill(fill) => fill.run().await?,
        Command::Drain(drain) => drain.run().await?,
        Command::Produce(produce) => produce.run().await?,
        Command::Steady(steady) => steady.run().await?,
        Command::Latency(latency) => latency.run().await?,
        Command::Emit(emit) => emit.run().await?,
        Command::Slow(slow) => slow.run().await?,
        Command::RawHttp(http) => http.run().await?,
        Command::RawAmqp(amqp) => amqp.run().await?,
        Command::RawRedis(redis) => redis.run().await?,
    };
    say(&answer);
    Ok(())
}

#[expect(clippy::print_stdout, reason = "this program's output is its result")]
fn say(answer: &serde_json::Value) {
    println!("{answer}");
}
