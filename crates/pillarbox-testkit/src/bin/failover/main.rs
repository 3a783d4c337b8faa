//! A real failover: a primary with a synchronous standby is killed under load and the standby is promoted, again and again.
//! Relays and producers find the primary by a URL with several hosts, or through HAProxy. A third way makes connections silent
//! while new ones work. In a fourth, events are in the write-ahead log of PostgreSQL 18, and the standby copies the slot. At the end, every event in the database must have arrived, and every event whose commit was confirmed
//! must be in the database. The program prints how long after each promotion the first new event arrived.
//!
//! `make failover`, or less of it: `make failover ARGS="--failovers 3 --way haproxy"`.

mod balancer;
mod cluster;
mod load;
mod report;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use clap::{Parser, ValueEnum};
use pillarbox::store::postgres::PostgresStore;
use pillarbox_testkit::{Program, Proxy, Receiver, Swallow};

use balancer::Balancer;
use cluster::Cluster;
use load::{Arrivals, Producers};
use report::Report;

/// Kills primaries, promotes standbys, and counts lost events.
#[derive(Parser)]
struct Arguments {
    /// The number of failovers of each way.
    #[arg(long, default_value_t = 20)]
    failovers: usize,
    /// How the relays find the primary.
    #[arg(long, value_enum, default_values_t = [Way::SeveralHosts, Way::Haproxy, Way::Swallow, Way::Slot])]
    way: Vec<Way>,
    /// The number of relays that run at once.
    #[arg(long, default_value_t = 2)]
    relays: usize,
    /// The maximum time of a relay to recover, in seconds.
    #[arg(long, default_value_t = 15)]
    within: u64,
    /// The program to test; by default the one beside this program.
    #[arg(long)]
    program: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Way {
    /// Both servers are in the URL.
    SeveralHosts,
    /// HAProxy forwards to the primary.
    Haproxy,
    /// One server, whose connections become silent.
    Swallow,
    /// Both servers are in the URL, events are in the log, and the standby copies the slot.
    Slot,
}

/// The timeout of anything that must happen.
const PATIENCE: Duration = Duration::from_secs(60);
/// The number of events that must arrive between two failovers.
const BETWEEN: usize = 50;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let program = match &arguments.program {
        Some(program) => program.clone(),
        None => std::env::current_exe()?.with_file_name("pillarbox"),
    };
    ensure!(
        program.exists(),
        "there is no program {}; build it with `cargo build -p pillarbox-cli`",
        program.display()
    );
    let mut good = true;
    for way in &arguments.way {
        let report = match way {
            Way::Swallow => swallow(&arguments, &program).await?,
            _ => fail_over(*way, &arguments, &program).await?,
        };
        say(&report.to_string());
        good &= report.is_good(Duration::from_secs(arguments.within));
    }
    if !good {
        bail!("events were lost, invented or late: see above");
    }
    say("nothing lost");
    Ok(())
}

async fn fail_over(way: Way, arguments: &Arguments, program: &Path) -> Result<Report> {
    let mut cluster = match way {
        Way::Slot => Cluster::start_with_slots().await?,
        _ => Cluster::start().await?,
    };
    let balancer = match way {
        Way::Haproxy => Some(Balancer::start(cluster.ports()).await),
        _ => None,
    };
    let url = balancer.as_ref().map_or_else(|| cluster.url(), Balancer::url);
    let source = if way == Way::Slot { "wal" } else { "outbox_event" };
    let scene = Scene::start(&url, &url, source, arguments, program).await?;
    let mut report = Report::new(way);
    for _ in 0..arguments.failovers {
        scene.arrivals.wait_for_more(BETWEEN, PATIENCE).await?;
        cluster.make_synchronous().await?;
        let killed = Instant::now();
        cluster.kill_primary().await;
        cluster.promote().await;
        let promoted = Instant::now();
        let first = scene.arrivals.first_emitted_after_now(PATIENCE).await?;
        report.add(promoted - killed, first - promoted);
        if way == Way::Slot {
            cluster.wait_for_the_gate().await?;
            report.read_on(promoted.elapsed());
        }
        cluster.rebuild_standby().await;
    }
    let direct = PostgresStore::connect(&cluster.url(), "public").await?;
    scene.end(&direct, Some(&cluster), report).await
}

async fn swallow(arguments: &Arguments, program: &Path) -> Result<Report> {
    let server = pillarbox_testkit::PrivatePostgres::start_with(&[]).await;
    cluster::migrate(&server.url()).await?;
    let proxy = Proxy::before_postgres(&server.url()).await;
    let scene = Scene::start(&proxy.url(&server.url()), &server.url(), "outbox_event", arguments, program).await?;
    let mut report = Report::new(Way::Swallow);
    for round in 0..arguments.failovers {
        scene.arrivals.wait_for_more(BETWEEN, PATIENCE).await?;
        let what = [Swallow::Requests, Swallow::Answers, Swallow::Both][round % 3];
        let began = Instant::now();
        proxy.swallow(what);
        let first = scene.arrivals.first_emitted_after_now(PATIENCE).await?;
        report.add(Duration::ZERO, first - began);
    }
    let direct = PostgresStore::connect(&server.url(), "public").await?;
    scene.end(&direct, None, report).await
}

/// Relays, producers, and the receiver of their events.
struct Scene {
    _directory: tempfile::TempDir,
    relays: Vec<Program>,
    producers: Producers,
    receiver: Receiver,
    arrivals: Arrivals,
}

impl Scene {
    async fn start(
        relays_url: &str,
        producers_url: &str,
        source: &str,
        arguments: &Arguments,
        program: &Path,
    ) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let receiver = Receiver::start_counting().await;
        let arrivals = Arrivals::of(&receiver);
        let config = directory.path().join("pillarbox.toml");
        std::fs::write(&config, configuration(relays_url, source, &receiver.url("events")))?;
        let relays = (0..arguments.relays).map(|_| {
            let mut command = std::process::Command::new(program);
            command.arg("relay").arg("--config").arg(&config).env("RUST_LOG", "warn");
            Program::start(command)
        });
        let relays = relays.collect();
        let producers = Producers::start(&PostgresStore::connect(producers_url, "public").await?);
        Ok(Self { _directory: directory, relays, producers, receiver, arrivals })
    }

    async fn end(mut self, outbox: &PostgresStore, cluster: Option<&Cluster>, mut report: Report) -> Result<Report> {
        let confirmed = self.producers.stop().await;
        if let Some(cluster) = cluster {
            cluster.wait_until_drained().await?;
        }
        load::wait_until_settled(outbox, PATIENCE).await?;
        for relay in &mut self.relays {
            relay.kill().await;
        }
        self.receiver.stop().await;
        report.judge(&confirmed, &load::all_of(outbox).await?, &self.arrivals.all());
        Ok(report)
    }
}

fn configuration(database: &str, source: &str, receiver: &str) -> String {
    format!(
        r#"[database]
url = "{database}"

[source]
kind = "{source}"

[relay]
lease = "10s"
retry = {{ base = "50ms", cap = "500ms", max_attempts = 0 }}

[destinations.receiver]
kind = "http"
url = "{receiver}"
timeout = "1s"
allow_private = true

[[routes]]
events = "*"
to = ["receiver"]

[admin]
listen = "off"
"#
    )
}

#[expect(clippy::print_stdout, reason = "this program's output is its result")]
fn say(line: &str) {
    println!("{line}");
}
