//! The load programs of the benchmark: Pillarbox embedded as in an application, under load. Each command does one thing to an
//! existing database or broker and prints one JSON object with its results. The benchmark decides how often a command runs,
//! what it is compared to, and what the results mean.

mod cost;
mod database;
mod drain;
mod emit;
mod fill;
mod latency;
mod meter;
mod order;
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

/// Puts a database or a broker under load and prints the results as JSON.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Writes events into the table, as fast as the database accepts them.
    Fill(fill::Fill),
    /// Relays until a number of events are settled, or for a time.
    Drain(drain::Drain),
    /// Emits in transactions of its own, at a rate.
    Produce(produce::Produce),
    /// Relays events while they are produced, and measures the time from commit to handler.
    Steady(steady::Steady),
    /// Measures single events at random times and an idle relay: from commit to handler.
    Latency(latency::Latency),
    /// Measures the cost of an event for its writer, compared to a bare INSERT.
    Emit(emit::Emit),
    /// Measures the server's CPU time of an event, compared to a bare INSERT, without the commit.
    Cost(cost::Cost),
    /// Relays events to two destinations, one of which is slow, and measures how fast the other one is served.
    Slow(slow::Slow),
    /// Measures the HTTP sink without a database.
    RawHttp(raw::http::Http),
    /// Measures how fast RabbitMQ confirms such messages, from a client without a database.
    RawAmqp(raw::amqp::Amqp),
    /// Measures how fast Redis accepts such messages, from a client without a database.
    RawRedis(raw::redis::Redis),
    /// Measures how fast MariaDB lets events be taken and settled, by SQL alone.
    RawMysql(raw::mysql::Mysql),
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
        Command::Cost(cost) => cost.run().await?,
        Command::Slow(slow) => slow.run().await?,
        Command::RawHttp(http) => http.run().await?,
        Command::RawAmqp(amqp) => amqp.run().await?,
        Command::RawRedis(redis) => redis.run().await?,
        Command::RawMysql(mysql) => mysql.run().await?,
    };
    say(&answer);
    Ok(())
}

#[expect(clippy::print_stdout, reason = "this program's output is its result")]
fn say(answer: &serde_json::Value) {
    println!("{answer}");
}
