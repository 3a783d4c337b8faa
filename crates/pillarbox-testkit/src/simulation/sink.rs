//! The simulated destinations: they respond late or not at all, refuse, and lose responses, as the plan says. Each arrival is
//! checked at once against the relays' promises.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use pillarbox::{Message, SendError, Sink, runs};

use super::checks;
use super::plan::{Mishap, Mode};
use super::world::{Process, World, lock};

/// The connection of one process to one place.
pub struct SimulatedSink {
    world: Arc<World>,
    process: Process,
    place: usize,
}

impl SimulatedSink {
    /// Creates the sink of this process for this place.
    pub fn new(world: &Arc<World>, process: Process, place: usize) -> Self {
        Self { world: Arc::clone(world), process, place }
    }

    /// Waits forever if the process is dead: it sends and receives nothing.
    async fn unless_dead(&self) {
        if !self.world.lives(self.process) {
            std::future::pending::<()>().await;
        }
    }

    fn is_cut_off(&self) -> bool {
        let (slot, now) = (self.world.slot(self.process), self.world.elapsed());
        self.world.plan.mishaps.iter().any(|(from, mishap)| match mishap {
            Mishap::Cut(relay, place, time) => {
                (*relay, *place) == (slot, self.place) && (*from..*from + *time).contains(&now)
            }
            _ => false,
        })
    }

    async fn send_one(&self, message: &Message) -> Result<(), SendError> {
        self.unless_dead().await;
        let world = &self.world;
        lock(&world.journal).sends += 1;
        checks::send_begins(world, self.process, self.place, message);
        tokio::time::sleep(world.millis(0, 2)).await;
        self.unless_dead().await;
        if self.is_cut_off() {
            std::future::pending::<()>().await;
        }
        let answer = self.arrive(message).await;
        self.unless_dead().await;
        if answer.is_ok() {
            let at = world.elapsed();
            lock(&world.journal).confirmed.entry((message.id, self.place)).or_insert(at);
        }
        answer
    }

    async fn arrive(&self, message: &Message) -> Result<(), SendError> {
        let world = &self.world;
        let (_, mode) = world.plan.places[self.place].mode(world.elapsed());
        match mode {
            Mode::Healthy(most) => self.receive_after(world.millis(1, most), message).await,
            Mode::Slow(least, most) => self.receive_after(world.millis(least, most), message).await,
            Mode::Refusing => Err(SendError::unavailable("connection refused")),
            Mode::Hanging => std::future::pending().await,
            Mode::Mute => {
                self.receive(message).await;
                std::future::pending().await
            }
            Mode::Failing(share) => {
                tokio::time::sleep(world.millis(1, 20)).await;
                if world.chance() >= share {
                    self.receive(message).await;
                    return Ok(());
                }
                Err(SendError::retry("500"))
            }
            Mode::Throttling(pause) => Err(SendError::unavailable("429").after(Some(Duration::from_millis(pause)))),
        }
    }

    async fn receive_after(&self, time: Duration, message: &Message) -> Result<(), SendError> {
        tokio::time::sleep(time).await;
        self.receive(message).await;
        Ok(())
    }

    async fn receive(&self, message: &Message) {
        let kills = lock(&self.world.journal).known.get(&message.id).is_some_and(|known| known.emit.kills);
        if kills && self.world.lives(self.process) {
            self.world.kill(self.process);
            std::future::pending::<()>().await;
        }
        checks::received(&self.world, self.process, self.place, message);
    }
}

/// The most messages of a batch to a place that keeps order.
const RUN: usize = 20;

#[async_trait]
impl Sink for SimulatedSink {
    /// Sends the runs side by side, and each run one after another up to its first failure.
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        let send_run = async |run: &[Message]| {
            let mut answers = Vec::with_capacity(run.len());
            for message in run {
                let answer = match answers.last() {
                    Some(Err(_)) => Err(SendError::retry("an earlier event of its run failed")),
                    _ => self.send_one(message).await,
                };
                answers.push(answer);
            }
            answers
        };
        join_all(runs(batch).map(send_run)).await.concat()
    }

    fn batch_limit(&self) -> usize {
        if self.keeps_order() { RUN } else { 1 }
    }

    fn keeps_order(&self) -> bool {
        self.world.plan.places[self.place].keeps_order
    }
}
