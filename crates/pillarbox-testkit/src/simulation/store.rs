//! The simulated store of one process: the table behind a network and a server that are late, refuse, hang, and lose responses.
//! A dead process gets no responses at all.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pillarbox::store::{
    Ask, Claim, Claimed, Cleaned, EventKind, Heartbeat, LOSSES_BEFORE_APART, LOSSES_BEFORE_FAILED, ParkedEvent,
    ParkedPlace, Retention, Settlement, Swept, Ticket, Told, WakeUp,
};
use pillarbox::{Claims, Fleet, Parking, StoreError, Waker};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::plan::Mishap;
use super::table::{Moment, Table};
use super::world::{Process, World, lock};

/// The timeout of a silent statement, as in the real stores.
const DEADLINE: Duration = Duration::from_secs(10);

/// How fast payloads are read. The simulation's payloads and limits are about a thousandth of real ones, so this is, too.
const BYTES_PER_SECOND: f64 = 200_000.0;

/// The database as one process sees it.
pub struct SimulatedStore {
    world: Arc<World>,
    process: Process,
    give_back: mpsc::UnboundedSender<Ticket>,
}

impl SimulatedStore {
    /// Connects this process.
    pub fn connect(world: &Arc<World>, process: Process) -> Arc<Self> {
        let (give_back, mut dropped) = mpsc::unbounded_channel();
        let store = Arc::new(Self { world: Arc::clone(world), process, give_back });
        let world = Arc::clone(world);
        tokio::spawn(async move {
            while let Some(ticket) = dropped.recv().await {
                world.network().await;
                if world.lives(process) {
                    let now = world.now();
                    lock(&world.table).release(ticket, now);
                }
            }
        });
        store
    }

    /// Runs a statement, which is late and may fail.
    async fn run<T>(&self, doing: &'static str, apply: impl FnOnce(&mut Table, Moment) -> T) -> Result<T, StoreError> {
        let world = &self.world;
        lock(&world.journal).statements += 1;
        world.network().await;
        self.unless_dead().await;
        if let Some(error) = self.mishap(doing).await {
            return Err(error);
        }
        let answer = {
            let now = world.now();
            apply(&mut lock(&world.table), now)
        };
        let lost = world.elapsed() < world.plan.heals_at && world.chance() < world.plan.losses;
        world.network().await;
        self.unless_dead().await;
        if lost {
            world.log(format!("process {}: the answer is lost: {doing}", self.process));
            return Err(failed(doing, "the connection was closed"));
        }
        Ok(answer)
    }

    /// Waits forever if the process is dead.
    async fn unless_dead(&self) {
        if !self.world.lives(self.process) {
            std::future::pending::<()>().await;
        }
    }

    async fn mishap(&self, doing: &'static str) -> Option<StoreError> {
        let now = self.world.elapsed();
        for (from, mishap) in &self.world.plan.mishaps {
            let (time, hangs) = match mishap {
                Mishap::Refuse(time) => (*time, false),
                Mishap::RefuseSettles(time) if doing == "settling" => (*time, false),
                Mishap::Silence(time) => (*time, true),
                _ => continue,
            };
            if (*from..*from + time).contains(&now) {
                if hangs {
                    tokio::time::sleep(DEADLINE).await;
                    self.unless_dead().await;
                    return Some(failed(doing, "no answer in time"));
                }
                return Some(failed(doing, "the database refuses"));
            }
        }
        None
    }
}

fn failed(doing: &'static str, what: &str) -> StoreError {
    StoreError::Database { doing, source: what.into() }
}

#[async_trait]
impl Claims for SimulatedStore {
    fn can_order(&self) -> bool {
        true
    }

    async fn claim(&self, ask: Ask<'_>) -> Result<Claim, StoreError> {
        let token = self.world.id();
        let until = tokio::time::Instant::now().into_std() + ask.lease;
        let (world, process) = (&self.world, self.process);
        let mut heard = Vec::new();
        let claimed = self
            .run("claiming", |table, now| {
                let events = table.claim(ask, token, now);
                let mut journal = lock(&world.journal);
                journal.holders.insert(token, process);
                heard.extend(events.iter().map(|(event, _)| event.id));
                for (event, _) in events.iter().filter(|(event, _)| event.claims >= LOSSES_BEFORE_APART) {
                    if let Some(known) = journal.known.get_mut(&event.id) {
                        known.suspect = true;
                    }
                }
                events
            })
            .await;
        if claimed.is_err() {
            // No process knows of these leases, so they expire.
            let free_at = world.elapsed() + ask.lease;
            let mut journal = lock(&world.journal);
            for id in &heard {
                if let Some(known) = journal.known.get_mut(id) {
                    known.free_at = free_at;
                }
            }
        }
        let events = claimed?;
        let bytes: usize = events.iter().map(|(event, _)| event.payload.get().len()).sum();
        tokio::time::sleep(Duration::from_secs_f64(bytes as f64 / BYTES_PER_SECOND)).await;
        if !events.is_empty() {
            world.log(format!("process {process} claims {}", events.len()));
            for (event, _) in events.iter().filter(|(event, _)| event.claims >= LOSSES_BEFORE_APART) {
                world.log(format!("process {process} has the suspect {}, lost {} times", event.id, event.claims));
            }
        }
        let claimed = |(event, deliveries)| Claimed::new(event, deliveries, token, until, self.give_back.clone());
        Ok(Claim::new(events.into_iter().map(claimed).collect()))
    }

    async fn settle(&self, settlements: &[Settlement], delete: bool) -> Result<Vec<Ticket>, StoreError> {
        self.run("settling", |table, now| {
            let lost = settlements.iter().filter(|one| !table.settle(one.ticket(), one.verdict(), delete, now));
            lost.map(Settlement::ticket).collect()
        })
        .await
    }

    async fn renew(&self, tickets: &[Ticket], lease: Duration) -> Result<Vec<Ticket>, StoreError> {
        self.run("renewing", |table, now| {
            tickets.iter().filter(|ticket| table.renew(**ticket, lease, now)).copied().collect()
        })
        .await
    }

    async fn blame(&self, ticket: Ticket, losses: u32) -> Result<(), StoreError> {
        self.world.log(format!("process {} blames {} for {losses} losses", self.process, ticket.id));
        self.run("recording losses", |table, _| table.blame(ticket, losses)).await
    }

    async fn next_due(&self) -> Result<Option<Duration>, StoreError> {
        self.run("reading the next due time", |table, now| table.next_due(now)).await
    }

    async fn remaining(&self) -> Result<u64, StoreError> {
        self.run("counting", |table, now| table.remaining(now)).await
    }

    async fn wake(&self, waker: Waker) -> Result<WakeUp, StoreError> {
        self.run("listening", |_, _| ()).await?;
        self.world.listen(self.process, waker);
        Ok(WakeUp::Tested)
    }
}

#[async_trait]
impl Parking for SimulatedStore {
    async fn parked_on(&self) -> Result<Vec<String>, StoreError> {
        self.run("reading parked events", |table, _| table.parked_on().into_iter().collect()).await
    }

    async fn parked_kinds(&self, on: &str) -> Result<Vec<EventKind>, StoreError> {
        self.run("reading parked events", |table, _| table.parked_kinds(on)).await
    }

    async fn parked_events(
        &self,
        on: &str,
        kind: &EventKind,
        after: &ParkedPlace,
        limit: usize,
    ) -> Result<Vec<ParkedEvent>, StoreError> {
        self.run("reading parked events", |table, _| table.parked_events(on, kind, after, limit)).await
    }

    async fn unpark_these(&self, on: &str, ids: &[Uuid]) -> Result<u64, StoreError> {
        self.run("unparking", |table, now| table.unpark_these(on, ids, now)).await
    }

    async fn unpark(&self, on: &str, kind: Option<&EventKind>, limit: usize) -> Result<u64, StoreError> {
        self.run("unparking", |table, now| table.unpark(on, kind, limit, now)).await
    }
}

#[async_trait]
impl Fleet for SimulatedStore {
    async fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn heartbeat(&self, heartbeat: &Heartbeat) -> Result<(), StoreError> {
        self.run("beating", |table, now| table.heartbeat(heartbeat, now)).await
    }

    /// The host's clock decides when a relay writes its metrics. So this statement takes no time and draws no random numbers,
    /// and a seed's run stays the same.
    async fn tell(&self, told: Told<'_>) -> Result<(), StoreError> {
        lock(&self.world.table).tell(told);
        Ok(())
    }

    async fn farewell(&self, relay: Uuid) -> Result<(), StoreError> {
        self.run("removing the heartbeat", |table, _| table.farewell(relay)).await
    }

    async fn sweep(&self) -> Result<Vec<Swept>, StoreError> {
        let error = format!("given up: {LOSSES_BEFORE_FAILED} relays died or hung while they had this event");
        let events = self.run("sweeping", |table, now| table.sweep(&error, now)).await?;
        Ok(events.into_iter().map(|event| Swept { event, error: error.clone() }).collect())
    }

    async fn cleanup(&self, retention: &Retention) -> Result<Cleaned, StoreError> {
        self.run("cleaning up", |table, now| table.cleanup(retention, now)).await
    }
}
