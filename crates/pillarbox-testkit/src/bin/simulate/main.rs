//! `make simulate`: many simulated runs, each from its own seed, and their results. For a single seed, it prints the whole log.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use pillarbox_testkit::simulation::{self, Outcome};

/// Runs real relays on a simulated store, network and destinations.
#[derive(Parser)]
struct Arguments {
    /// The number of runs.
    #[arg(long, default_value_t = 100_000)]
    runs: u64,
    /// The first seed; the others follow it.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Run only this seed, and print its log.
    #[arg(long)]
    seed: Option<u64>,
    /// The number of threads; by default all processors.
    #[arg(long)]
    threads: Option<usize>,
}

#[derive(Default)]
struct Sum {
    runs: u64,
    events: u64,
    sends: u64,
    time: Duration,
    longest_wait: Duration,
    /// For each theme, the number of runs, and the seeds that broke a promise, each with the first broken promise.
    themes: BTreeMap<String, (u64, Vec<(u64, String)>)>,
}

impl Sum {
    fn add(&mut self, outcome: &Outcome) {
        self.runs += 1;
        self.events += outcome.events as u64;
        self.sends += outcome.sends;
        self.time += outcome.time;
        self.longest_wait = self.longest_wait.max(outcome.longest_wait);
        let (runs, broken) = self.themes.entry(format!("{:?}", outcome.plan.theme)).or_default();
        *runs += 1;
        broken.extend(outcome.broken.first().map(|first| (outcome.plan.seed, first.clone())));
    }

    fn broken(&self) -> usize {
        self.themes.values().map(|(_, broken)| broken.len()).sum()
    }
}

#[allow(clippy::print_stdout, reason = "this is a program")]
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(seed) = arguments.seed {
        return tell(&simulation::run(seed));
    }
    let began = Instant::now();
    let threads =
        arguments.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(2, std::num::NonZero::get));
    let (next, sum) = (AtomicU64::new(0), Mutex::new(Sum::default()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let run = next.fetch_add(1, Ordering::Relaxed);
                    if run >= arguments.runs {
                        return;
                    }
                    let outcome = simulation::run(arguments.first + run);
                    simulation::world::lock(&sum).add(&outcome);
                }
            });
        }
    });
    let sum = simulation::world::lock(&sum);
    for (theme, (runs, broken)) in &sum.themes {
        println!("{theme:10} {runs:7} runs, {:5} broke a promise", broken.len());
        for (seed, what) in broken.iter().take(5) {
            println!("           seed {seed}: {what}");
        }
    }
    let took = began.elapsed();
    println!(
        "{} runs in {:.1} s ({:.0} a second): {} events, {} sends, {:.1} days of simulated time; a steady destination's event waited {:?} at most",
        sum.runs,
        took.as_secs_f64(),
        sum.runs as f64 / took.as_secs_f64(),
        sum.events,
        sum.sends,
        sum.time.as_secs_f64() / 86_400.0,
        sum.longest_wait,
    );
    if sum.broken() > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

#[allow(clippy::print_stdout, reason = "this is a program")]
fn tell(outcome: &Outcome) -> ExitCode {
    println!("{:#?}", outcome.plan);
    outcome.lines.iter().for_each(|line| println!("{line}"));
    outcome.broken.iter().for_each(|broken| println!("BROKEN: {broken}"));
    if outcome.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
