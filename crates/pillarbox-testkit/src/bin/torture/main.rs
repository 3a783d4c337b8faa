//! Tests that nothing is lost: producers commit and roll back while relays are killed, the database is restarted, and the
//! receiver fails, hangs and dies. At the end, every committed event has arrived, no rolled-back event has, only the expected
//! events have failed, and every duplicate has a cause. With `--order`, relays keep the order of aggregates, of which there are
//! few, and first arrivals of each aggregate must be in order. With `--fan-out`, half of the events also go to a second
//! receiver, which is never disturbed: they must arrive at both.
//!
//! With `--source wal`, events are in the write-ahead log while a relay reads it, relays are killed less often, so that one does, and
//! the table refuses inserts now and then, so that events of the log cannot be spilled.
//!
//! `make torture`, or with the seed of an earlier run: `make torture ARGS="--seed 42 --kills 50 --database sqlite"`.

mod chaos;
mod database;
mod producers;
mod receivers;
mod verdict;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use pillarbox_testkit::Program;

use chaos::{Chaos, NumberedRelay};
use database::Database;
use producers::{Habits, Producers, SHARED};
use receivers::{RELAY, Receivers};
use verdict::Verdict;

/// Kills relays, databases and receivers at random, and counts lost events.
#[derive(Parser)]
struct Arguments {
    /// Repeat the choices of this seed; by default a seed is drawn and printed.
    #[arg(long)]
    seed: Option<u64>,
    /// The number of relays to kill, on each database.
    #[arg(long, default_value_t = 300)]
    kills: usize,
    /// The number of relays that run at once.
    #[arg(long, default_value_t = 3)]
    relays: usize,
    /// The databases to test.
    #[arg(long, value_enum, default_values_t = [Kind::Postgres, Kind::Mysql, Kind::Sqlite])]
    database: Vec<Kind>,
    /// How PostgreSQL's claims are held: auto (which is by lease while relays are being killed), lease or lock.
    #[arg(long, default_value = "lock")]
    claim_by: String,
    /// Relays keep the order of each aggregate's events.
    #[arg(long)]
    order: bool,
    /// Half of the events go to two receivers, one of which is disturbed.
    #[arg(long)]
    fan_out: bool,
    /// Whether relays keep delivered events or delete them.
    #[arg(long, value_enum, default_value_t = OnDelivered::Keep)]
    on_delivered: OnDelivered,
    /// Where events are: in the table, or in PostgreSQL's write-ahead log while a relay reads it.
    #[arg(long, value_enum, default_value_t = Source::Table)]
    source: Source,
    /// The program to test; by default the one beside this program.
    #[arg(long)]
    program: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Mysql,
    Postgres,
    Sqlite,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Source {
    Table,
    Wal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnDelivered {
    Keep,
    Delete,
}

/// The environment variable with a relay's number.
const NUMBER: &str = "TORTURE_RELAY";
/// How long all events may take to arrive after the last disturbance.
const PATIENCE: Duration = Duration::from_secs(180);

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let seed = arguments.seed.unwrap_or_else(rand::random);
    let program = match &arguments.program {
        Some(program) => program.clone(),
        None => std::env::current_exe()?.with_file_name("pillarbox"),
    };
    if !program.exists() {
        bail!("there is no program {}; build it with `cargo build --release -p pillarbox-cli`", program.display());
    }
    if arguments.source == Source::Wal && arguments.database != [Kind::Postgres] {
        bail!("only PostgreSQL has a log that can be read; add --database postgres");
    }
    say(&format!("seed {seed}"));
    let mut good = true;
    for kind in &arguments.database {
        let verdict = torture(*kind, seed, &arguments, &program).await?;
        say(&verdict.to_string());
        good &= verdict.is_good();
    }
    if !good {
        bail!(
            "events were lost, invented, wrongly failed, out of order or sent twice without a cause: see above (seed \
             {seed})"
        );
    }
    say("nothing lost");
    Ok(())
}

/// Returns how producers write.
fn habits(arguments: &Arguments) -> Habits {
    Habits { order: arguments.order, fan_out: arguments.fan_out, large: arguments.source == Source::Wal }
}

async fn torture(kind: Kind, seed: u64, arguments: &Arguments, program: &std::path::Path) -> Result<Verdict> {
    let began = Instant::now();
    let dir = tempfile::tempdir()?;
    let mut database = Database::start(kind, arguments.source, dir.path()).await?;
    let receivers = Receivers::start(arguments.fan_out).await;
    let config = dir.path().join("pillarbox.toml");
    std::fs::write(&config, configuration(&database.url(), &receivers, arguments))?;
    let started = AtomicU32::new(0);
    let start_relay = || {
        let number = started.fetch_add(1, Ordering::Relaxed) + 1;
        let mut command = std::process::Command::new(program);
        command.arg("relay").arg("--config").arg(&config).env("RUST_LOG", "warn").env(NUMBER, number.to_string());
        NumberedRelay { number, program: Program::start(command) }
    };

    let producers = Producers::start(&database.outbox(), seed, habits(arguments));
    let relays = (0..arguments.relays).map(|_| start_relay()).collect();
    let mut chaos = Chaos::new(seed, receivers, relays, arguments.source);
    if arguments.fan_out {
        chaos.park(&database, PATIENCE).await?;
    }
    while chaos.kills() < arguments.kills {
        chaos.disturb(&mut database, &start_relay).await;
    }
    chaos.calm();
    let emitted = producers.stop().await;
    say(&format!("{kind:?}: {} kills in {:?}; waiting for the rest to arrive", chaos.kills(), began.elapsed()));
    let settled = database.outbox().wait_until_settled(PATIENCE).await;
    let verdict = Verdict::of(kind, &database.outbox(), &emitted, &chaos, arguments.order, began.elapsed())
        .await
        .context("reading what became of the events")?;
    chaos.end().await;
    settled.with_context(|| format!("the verdict so far: {verdict}"))?;
    database.stop().await;
    Ok(verdict)
}

/// Returns a configuration with short leases and retries, so that much happens in little time. Attempts are unlimited, so only
/// poison may fail.
fn configuration(database: &str, receivers: &Receivers, arguments: &Arguments) -> String {
    let claim_by = &arguments.claim_by;
    let order = if arguments.order { "aggregate" } else { "none" };
    let on_delivered = match arguments.on_delivered {
        OnDelivered::Keep => "keep",
        OnDelivered::Delete => "delete",
    };
    let source = match arguments.source {
        Source::Table => "outbox_event",
        Source::Wal => "wal",
    };
    let receiver = receivers.disturbed_url();
    let fan_out = receivers.bystander_url().map(|url| fan_out(&url)).unwrap_or_default();
    format!(
        r#"[database]
url = "{database}"

[source]
kind = "{source}"
lease = "2500ms"

[relay]
batch_size = 50
claim_by = "{claim_by}"
lease = "3s"
poll_interval = "200ms"
shutdown_timeout = "1s"
on_delivered = "{on_delivered}"
order = "{order}"
order_on_failed = "skip"
retry = {{ base = "50ms", cap = "500ms", max_attempts = 0 }}

[destinations.receiver]
kind = "http"
url = "{receiver}"
headers = {{ {RELAY} = "env:{NUMBER}" }}
timeout = "1s"
allow_private = true
{fan_out}
[[routes]]
events = "*"
to = ["receiver"]
"#
    )
}

/// Returns the second receiver and the route to both.
fn fan_out(bystander: &str) -> String {
    format!(
        r#"
[destinations.bystander]
kind = "http"
url = "{bystander}"
headers = {{ {RELAY} = "env:{NUMBER}" }}
timeout = "1s"
allow_private = true

[[routes]]
events = "{SHARED}.*"
to = ["receiver", "bystander"]
"#
    )
}

#[expect(clippy::print_stdout, reason = "this program's output is its result")]
fn say(line: &str) {
    println!("{line}");
}
