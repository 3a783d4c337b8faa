//! What goes wrong, and when: the causes that duplicates must have.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pillarbox_testkit::{Answer, Program, Received, Receiver};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use uuid::Uuid;

use crate::database::Database;
use crate::producers::POISON;

pub(crate) struct Chaos {
    random: StdRng,
    receiver: Receiver,
    relays: Vec<Program>,
    disturbances: Vec<Instant>,
    accepted: Arc<Mutex<HashMap<Uuid, Vec<Instant>>>>,
    counts: Counts,
}

/// How often what was done.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) kills: usize,
    pub(crate) restarts: usize,
    pub(crate) receiver: usize,
}

/// How the receiver behaves for a while.
#[derive(Debug, Clone, Copy)]
enum Mood {
    Fine,
    Failing,
    Overloaded,
    Hanging,
    Dropping,
}

impl Chaos {
    pub(crate) fn new(seed: u64, receiver: Receiver, relays: Vec<Program>) -> Self {
        let chaos = Self {
            random: StdRng::seed_from_u64(seed),
            receiver,
            relays,
            disturbances: Vec::new(),
            accepted: Arc::default(),
            counts: Counts::default(),
        };
        chaos.receiver_is(Mood::Fine);
        chaos
    }

    pub(crate) fn kills(&self) -> usize {
        self.counts.kills
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// When each id was answered with success.
    pub(crate) fn accepted(&self) -> HashMap<Uuid, Vec<Instant>> {
        self.accepted.lock().expect("nobody panics with it").clone()
    }

    pub(crate) fn disturbances(&self) -> &[Instant] {
        &self.disturbances
    }

    /// One thing goes wrong, after a while.
    pub(crate) async fn disturb(&mut self, database: &mut Database, start_relay: &impl Fn() -> Program) {
        tokio::time::sleep(Duration::from_millis(self.random.random_range(20..400))).await;
        match self.random.random_range(0..100) {
            0..60 => self.kill_a_relay(start_relay).await,
            60..64 => {
                self.disturbances.push(Instant::now());
                if database.crash().await {
                    self.counts.restarts += 1;
                }
                self.disturbances.push(Instant::now());
            }
            64..70 => {
                self.disturbances.push(Instant::now());
                self.counts.receiver += 1;
                self.receiver.stop().await;
                tokio::time::sleep(Duration::from_millis(self.random.random_range(50..1500))).await;
                self.receiver.restart().await;
                self.disturbances.push(Instant::now());
            }
            _ => {
                self.counts.receiver += 1;
                let moods = [Mood::Fine, Mood::Fine, Mood::Failing, Mood::Overloaded, Mood::Hanging, Mood::Dropping];
                let mood = moods[self.random.random_range(0..moods.len())];
                self.receiver_is(mood);
            }
        }
    }

    async fn kill_a_relay(&mut self, start_relay: &impl Fn() -> Program) {
        let victim = self.random.random_range(0..self.relays.len());
        self.disturbances.push(Instant::now());
        self.relays[victim].kill().await;
        self.disturbances.push(Instant::now());
        self.relays[victim] = start_relay();
        self.counts.kills += 1;
    }

    /// Nothing goes wrong any more.
    pub(crate) async fn calm(&mut self) {
        self.receiver_is(Mood::Fine);
    }

    pub(crate) async fn end(mut self) {
        for relay in &mut self.relays {
            relay.kill().await;
        }
        self.receiver.stop().await;
    }

    fn receiver_is(&self, mood: Mood) {
        let accepted = Arc::clone(&self.accepted);
        self.receiver.answer_with(move |request| {
            let poison = request.headers.get("pillarbox-event-type").is_some_and(|value| value == POISON);
            // Even a bad mood lets some through: a timeout is then no outage.
            let lucky = request.id.is_some_and(|id| id.as_u128() % 3 == 0);
            match mood {
                _ if poison => Answer::status(410),
                Mood::Failing if !lucky => Answer::status(500),
                Mood::Overloaded if !lucky => Answer::status(503),
                Mood::Hanging if !lucky => Answer::Hang,
                Mood::Dropping if !lucky => Answer::Drop,
                _ => accept(&accepted, request),
            }
        });
    }
}

fn accept(accepted: &Mutex<HashMap<Uuid, Vec<Instant>>>, request: &Received) -> Answer {
    if let Some(id) = request.id {
        accepted.lock().expect("nobody panics with it").entry(id).or_default().push(Instant::now());
    }
    Answer::ok()
}
