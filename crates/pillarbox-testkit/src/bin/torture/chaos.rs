//! The disturbances and their times: the causes that duplicates must have.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use pillarbox_testkit::Program;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::Source;
use crate::database::Database;
use crate::receivers::{Mood, Receivers};

pub(crate) struct Chaos {
    random: StdRng,
    receivers: Receivers,
    relays: Vec<NumberedRelay>,
    disturbances: Disturbances,
    counts: Counts,
    source: Source,
}

/// A relay, and the number by which receivers know it. Numbers begin with 1 and are never reused.
pub(crate) struct NumberedRelay {
    pub(crate) number: u32,
    pub(crate) program: Program,
}

/// The times of disturbances.
#[derive(Default)]
pub(crate) struct Disturbances {
    /// When each relay was killed: a cause of duplicates of events that the relay had sent.
    pub(crate) kills: HashMap<u32, Instant>,
    /// Crashes of the database, and times in which it refused writes: a cause of duplicates at every receiver.
    pub(crate) of_database: Vec<Instant>,
    /// Kills of the disturbed receiver: a cause of duplicates there only.
    pub(crate) of_receiver: Vec<Instant>,
}

/// The number of disturbances of each kind.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) kills: usize,
    pub(crate) crashes: usize,
    pub(crate) outages: usize,
    pub(crate) moods: usize,
    /// The number of times that events of the log could not be spilled for a while.
    pub(crate) refusals: usize,
    /// The number of deliveries of fan-outs that were parked at the end of an outage.
    pub(crate) parked: i64,
}

impl Chaos {
    pub(crate) fn new(seed: u64, receivers: Receivers, relays: Vec<NumberedRelay>, source: Source) -> Self {
        Self {
            source,
            random: StdRng::seed_from_u64(seed),
            receivers,
            relays,
            disturbances: Disturbances::default(),
            counts: Counts::default(),
        }
    }

    pub(crate) fn kills(&self) -> usize {
        self.counts.kills
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    pub(crate) fn receivers(&self) -> &Receivers {
        &self.receivers
    }

    pub(crate) fn disturbances(&self) -> &Disturbances {
        &self.disturbances
    }

    /// Causes one disturbance, after a pause.
    pub(crate) async fn disturb(&mut self, database: &mut Database, start_relay: &impl Fn() -> NumberedRelay) {
        // A relay that reads the log must live for a while: the next one waits for the end of its lease.
        let longest = if self.source == Source::Wal { 3000 } else { 400 };
        tokio::time::sleep(Duration::from_millis(self.random.random_range(20..longest))).await;
        match self.random.random_range(0..100) {
            0..60 => self.kill_a_relay(start_relay).await,
            60..64 => {
                self.disturbances.of_database.push(Instant::now());
                if database.crash().await {
                    self.counts.crashes += 1;
                }
                self.disturbances.of_database.push(Instant::now());
            }
            64..70 => {
                self.stop_receiver().await;
                tokio::time::sleep(Duration::from_millis(self.random.random_range(50..1500))).await;
                // The count is for information only: a server that is recovering may refuse it.
                self.counts.parked += database.outbox().parked_deliveries().await.unwrap_or_default();
                self.restart_receiver().await;
            }
            70..74 if self.source == Source::Wal => self.refuse_spills(database).await,
            _ => {
                self.counts.moods += 1;
                let moods = [Mood::Fine, Mood::Fine, Mood::Failing, Mood::Overloaded, Mood::Hanging, Mood::Dropping];
                let mood = moods[self.random.random_range(0..moods.len())];
                self.receivers.disturbed_is(mood);
            }
        }
    }

    /// Causes an outage of the disturbed receiver until a delivery of a fan-out is parked. Every run with fan-outs needs one.
    pub(crate) async fn park(&mut self, database: &Database, patience: Duration) -> Result<()> {
        self.stop_receiver().await;
        let began = Instant::now();
        loop {
            let parked = database.outbox().parked_deliveries().await?;
            if parked > 0 {
                self.counts.parked += parked;
                break;
            }
            if began.elapsed() > patience {
                bail!("no delivery was parked within {patience:?} of an outage");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.restart_receiver().await;
        Ok(())
    }

    /// Lets spills fail for a while, while the receiver fails, too, so that there is something to spill.
    async fn refuse_spills(&mut self, database: &Database) {
        self.counts.refusals += 1;
        self.disturbances.of_database.push(Instant::now());
        self.receivers.disturbed_is(Mood::Failing);
        until_done(async || database.outbox().refuse_inserts(true).await).await;
        tokio::time::sleep(Duration::from_millis(self.random.random_range(500..3000))).await;
        until_done(async || database.outbox().refuse_inserts(false).await).await;
        self.disturbances.of_database.push(Instant::now());
    }

    async fn stop_receiver(&mut self) {
        self.counts.outages += 1;
        self.disturbances.of_receiver.push(Instant::now());
        self.receivers.stop_disturbed().await;
    }

    async fn restart_receiver(&mut self) {
        self.receivers.restart_disturbed().await;
        self.disturbances.of_receiver.push(Instant::now());
    }

    async fn kill_a_relay(&mut self, start_relay: &impl Fn() -> NumberedRelay) {
        let victim = self.random.random_range(0..self.relays.len());
        let relay = &mut self.relays[victim];
        self.disturbances.kills.insert(relay.number, Instant::now());
        relay.program.kill().await;
        *relay = start_relay();
        self.counts.kills += 1;
    }

    /// Ends all disturbances.
    pub(crate) fn calm(&self) {
        self.receivers.disturbed_is(Mood::Fine);
    }

    pub(crate) async fn end(mut self) {
        for relay in &mut self.relays {
            relay.program.kill().await;
        }
        self.receivers.end().await;
    }
}

/// Repeats a statement until it succeeds: a server that has just restarted may refuse it.
async fn until_done(statement: impl AsyncFn() -> Result<()>) {
    while statement().await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
