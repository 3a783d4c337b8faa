//! The run of a relay, from the check of the schema to shutdown.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::task::{AbortHandle, JoinHandle};
use uuid::Uuid;

use super::load::Weight;
use super::settler::Settling;
use super::upkeep::Pulse;
use super::wake::Pace;
use super::{Engine, Phase, Relay};
use crate::clock;
use crate::delivery::{Change, Verdict};
use crate::error::StoreError;
use crate::store::{Claim, Ticket, WakeUp};

/// How long the claim loop waits for room before it sheds events from the queues of slow destinations.
pub(super) const PATIENCE: Duration = Duration::from_millis(250);
/// Pauses shorter than this are not worth a query.
const WORTH_ASKING: Duration = Duration::from_millis(100);
/// How long everything else waits for an event that must be sent alone: once before the send, and again during it. An event
/// that kills its relay later than this is identified only when there is nothing else to send.
const SOLITUDE: Duration = Duration::from_millis(250);
const FIRST_BACKOFF: Duration = Duration::from_millis(50);
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);
/// The least time that the database has to respond during shutdown.
const LEAST_PATIENCE: Duration = Duration::from_secs(1);

impl Relay {
    /// Relays events until `shutdown` is ready. Then it stops claiming, finishes the sends in flight within the shutdown
    /// timeout, and gives the rest back. Database errors during the run are logged and retried.
    ///
    /// # Errors
    /// Only before the run starts: an unsupported schema, or a database that does not respond.
    pub async fn run(&self, shutdown: impl Future<Output = ()>) -> Result<(), StoreError> {
        let engine = &self.engine;
        engine.store.check().await?;
        engine.heed_pauses().await?;
        engine.phase.set(Phase::Running);
        engine.running.store(true, Ordering::Relaxed);
        engine.waker.employ();
        let mut unfinished = Unfinished { engine, tasks: Vec::new() };
        engine.start_settling();
        let pulse = Arc::new(Pulse::new(Uuid::new_v4()));
        let pace = engine.listen().await;
        engine.beat(&pulse).await;
        engine.tell_metrics(pulse.id, &pulse.metrics).await;
        let upkeep = engine.start_upkeep(&pulse);
        unfinished.tasks.push(upkeep.abort_handle());
        let cycle = engine.start_cycle(pace, &pulse);
        unfinished.tasks.push(cycle.abort_handle());
        let told_to_stop = async {
            shutdown.await;
            engine.phase.set(Phase::Stopping);
        };
        let cycled = async {
            if let Err(error) = cycle.await
                && let Ok(panic) = error.try_into_panic()
            {
                std::panic::resume_unwind(panic);
            }
        };
        tokio::join!(told_to_stop, cycled);

        engine.finish().await;
        engine.end(upkeep, &pulse).await;
        drop(unfinished);
        // The relay may run again, or run single passes.
        engine.phase.set(Phase::Running);
        Ok(())
    }
}

/// Ends the tasks of a run when it is dropped. If the run itself was dropped, this gives its events back.
struct Unfinished<'a> {
    engine: &'a Engine,
    tasks: Vec<AbortHandle>,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let engine = self.engine;
        engine.phase.set(Phase::Aborting);
        self.tasks.iter().for_each(AbortHandle::abort);
        engine.give_back_followers();
        engine.lanes.values().for_each(|lane| lane.release(engine));
        engine.waker.retire();
        engine.running.store(false, Ordering::Relaxed);
    }
}

/// The event that is sent alone, and the time from which the next one may be.
#[derive(Default)]
struct Solitude {
    /// The event and the number of leases it has lost. If the relay dies, that counts against this event, until other events
    /// are sent beside it.
    blamed: Option<(Ticket, u32)>,
    until: Option<Instant>,
}

/// Keeps workers from starting sends until it is dropped.
struct Hush<'a>(&'a Engine);

impl<'a> Hush<'a> {
    fn begin(engine: &'a Engine) -> Self {
        engine.hush.set(true);
        Self(engine)
    }
}

impl Drop for Hush<'_> {
    fn drop(&mut self) {
        self.0.hush.set(false);
    }
}

impl Solitude {
    fn is_over(&self) -> bool {
        self.until.is_none_or(|until| until <= clock::now())
    }

    /// Schedules the next solitude, so that events that are sent alone take half of the time at most.
    fn rest(&mut self, began: Instant) {
        self.until = Some(clock::now() + clock::since(began));
    }
}

impl Engine {
    // These two are not generic, so that their tasks are compiled here and once, not in each crate that calls `run`.

    fn start_upkeep(self: &Arc<Self>, pulse: &Arc<Pulse>) -> JoinHandle<()> {
        tokio::spawn(Arc::clone(self).upkeep(Arc::clone(pulse)))
    }

    /// Starts the claim loop. It is a task of its own, because the caller's thread may be woken for each packet.
    fn start_cycle(self: &Arc<Self>, pace: Pace, pulse: &Arc<Pulse>) -> JoinHandle<()> {
        let (engine, pulse) = (Arc::clone(self), Arc::clone(pulse));
        tokio::spawn(async move { engine.cycle(pace, &pulse).await })
    }

    /// Wake: subscribes to wake-ups and returns the pace of polling. Polling is faster when nothing else wakes the relay.
    async fn listen(&self) -> Pace {
        let (poll, faster) = (self.longest_pause(true), self.longest_pause(false));
        match self.store.wake(self.waker.clone()).await {
            Ok(WakeUp::Tested) => Pace::new(poll),
            Ok(WakeUp::Polling) => Pace::new(faster),
            Ok(WakeUp::Eaten) => {
                tracing::warn!(
                    "notifications do not arrive; polling every {faster:?} instead; if the connection goes through a \
                     transaction pooler, give the relay a direct one"
                );
                Pace::deaf(faster)
            }
            Err(error) => {
                tracing::warn!(%error, "listening for notifications failed; polling every {faster:?} instead");
                Pace::deaf(faster)
            }
        }
    }

    /// Returns the longest pause between two claims of an idle relay.
    fn longest_pause(&self, notified: bool) -> Duration {
        let poll = self.settings.poll_interval;
        if notified { poll } else { poll.min(self.settings.poll_interval_unwoken) }
    }

    /// Claims, routes and sends until shutdown. The settler settles.
    async fn cycle(self: &Arc<Self>, mut pace: Pace, pulse: &Pulse) {
        let mut backoff = FIRST_BACKOFF;
        let mut solitude = Solitude::default();
        while self.room().await {
            let (claim, offer) = match self.unless_silent(self.claim(solitude.is_over())).await {
                Some(Ok(claimed)) => claimed,
                None => return,
                Some(Err(error)) => {
                    tracing::warn!(event = %self.named("relay_iteration_failed"), %error, "claim failed; retrying");
                    self.rest_unless(Phase::Stopping, backoff).await;
                    backoff = (backoff * 2).min(LONGEST_BACKOFF);
                    continue;
                }
            };
            backoff = FIRST_BACKOFF;
            if let Some(notified) = self.waker.is_notified() {
                pace.hears(notified, self.longest_pause(notified));
            }
            let empty = claim.is_empty();
            if let Some(idle) = pace.claimed(empty, clock::now()) {
                pulse.set_idle(idle);
                self.beat(pulse).await;
                pace.told(idle);
            }
            if empty {
                drop(offer);
                self.rest(self.until_due(&mut pace).await).await;
            } else if self.phase.get() < Phase::Aborting {
                self.dispatch_claim(claim, &mut solitude).await;
                drop(offer);
                self.take_back_if_dropped();
            }
        }
    }

    /// Empties the queues again if the run was dropped: the drop may have emptied them before the last dispatch filled them.
    fn take_back_if_dropped(&self) {
        if self.phase.get() >= Phase::Aborting {
            self.give_back_followers();
            self.lanes.values().for_each(|lane| lane.release(self));
        }
    }

    /// Dispatches a claim. A suspect event is sent while no other send starts. If the relay dies then, this event is the cause.
    /// The others do not wait long: if the suspect takes longer, they are sent beside it, and a death no longer counts against
    /// it.
    async fn dispatch_claim(self: &Arc<Self>, claim: Claim, solitude: &mut Solitude) {
        if let Some((ticket, losses)) = solitude.blamed.take() {
            self.blame(ticket, losses - 1).await;
        }
        if let Some((ticket, losses)) = claim.sent_alone() {
            let began = clock::now();
            let _hush = Hush::begin(self);
            // Events that are still in flight after this pause have not killed the relay for a while.
            self.rest_unless_idle(SOLITUDE).await;
            if self.blame(ticket, losses).await {
                solitude.blamed = Some((ticket, losses));
            }
            if self.phase.get() >= Phase::Stopping {
                return self.give_back(claim);
            }
            self.dispatch(claim);
            self.rest_unless_idle(SOLITUDE).await;
            solitude.rest(began);
        } else {
            self.dispatch(claim);
        }
    }

    /// Rests until nothing is in flight, the relay stops, or the pause is over.
    async fn rest_unless_idle(&self, pause: Duration) {
        tokio::select! {
            biased;
            () = self.load.at_most(Weight::default()) => {}
            _ = self.rest_unless(Phase::Stopping, pause) => {}
        }
    }

    /// Writes the number of losses that count against the event. Returns whether that succeeded.
    pub(super) async fn blame(&self, suspect: Ticket, losses: u32) -> bool {
        let written = self.store.blame(suspect, losses).await;
        if let Err(error) = &written {
            tracing::warn!(id = %suspect.id, %error, "recording the losses of a suspect event failed");
        }
        written.is_ok()
    }

    fn give_back(&self, claim: Claim) {
        for claimed in claim {
            let verdict = Verdict::of(Change::Release { after: Duration::ZERO }, claimed.event().attempts);
            self.settler.settle(Settling::untried(claimed.settle(verdict), self.load.admit(0)));
        }
    }

    /// Waits until the next batch fits and settling works. Returns false when the relay stops.
    async fn room(&self) -> bool {
        // Events that are being sent, and as many that are next, take no room from a claim. So any number of slow
        // destinations can keep that much.
        let sending: usize = self.lanes.values().map(|lane| lane.capacity().saturating_mul(2)).sum();
        let most = Weight { events: self.settings.batch_size + sending, bytes: self.settings.bytes_in_flight / 2 };
        loop {
            let ready = async {
                self.settler.working().await;
                self.load.at_most(most).await;
            };
            tokio::select! {
               biased;
                () = self.phase_reached(Phase::Stopping) => return false,
                () = ready => return true,
                () = tokio::time::sleep(PATIENCE) => self.make_room(),
            }
        }
    }

    /// Gives queued events of slow destinations and slow aggregates back to the table, so that they do not stop the others.
    fn make_room(&self) {
        if !self.settler.is_working() {
            return;
        }
        let followers = self.give_back_followers();
        if followers > 0 {
            tracing::info!(events = followers, "events released; they wait for earlier events of their aggregates");
        }
        if self.lanes.len() < 2 {
            return;
        }
        for lane in self.lanes.values() {
            let shed = lane.shed(self, PATIENCE);
            if shed > 0 {
                tracing::info!(destination = lane.name, events = shed, "destination is slow; its events are parked");
            }
        }
    }

    /// Returns the pause until the next claim. A long one ends when the next retry, delayed event or lost lease is due.
    async fn until_due(&self, pace: &mut Pace) -> Duration {
        let pause = pace.rest();
        if pause < WORTH_ASKING {
            return pause;
        }
        let due = self.store.next_due().await.ok().flatten();
        pace.until_due(pause, due)
    }

    async fn rest(&self, pause: Duration) {
        tokio::select! {
            biased;
            () = self.waker.woken() => {}
            _ = self.rest_unless(Phase::Stopping, pause) => {}
        }
    }

    /// Waits for everything in flight, up to the shutdown timeout, and then gives the rest back. Starts nothing new.
    async fn finish(&self) {
        self.give_back_followers();
        self.lanes.values().for_each(|lane| lane.release(self));
        let in_flight = self.load.now().events;
        if in_flight > 0 {
            tracing::info!(in_flight, "stopping: waiting for events in flight");
        }
        if tokio::time::timeout(self.settings.shutdown_timeout, self.all_settled()).await.is_err() {
            let (event, in_flight) = (self.named("relay_shutdown_deadline_exceeded"), self.load.now().events);
            tracing::warn!(%event, in_flight, "stopping: releasing the events still in flight");
            self.phase.set(Phase::Aborting);
            self.lanes.values().for_each(|lane| lane.release(self));
            // A database that does not respond must not keep the relay from ending.
            let _ = tokio::time::timeout(LONGEST_BACKOFF, self.all_settled()).await;
        }
    }

    /// Ends upkeep, writes the last metrics, and removes the relay from the table of relays.
    async fn end(&self, mut upkeep: JoinHandle<()>, pulse: &Pulse) {
        match self.unless_silent(&mut upkeep).await {
            Some(Ok(())) => {}
            Some(Err(error)) => tracing::error!(%error, "upkeep task failed"),
            None => upkeep.abort(),
        }
        self.unless_silent(self.tell_metrics(pulse.id, &pulse.metrics)).await;
        match self.unless_silent(self.store.farewell(pulse.id)).await {
            Some(Ok(())) => {}
            Some(Err(error)) => tracing::warn!(%error, "removing the heartbeat failed"),
            None => tracing::warn!("database does not respond; the relay stops without removing its heartbeat"),
        }
    }

    /// Returns the result, or `None` if the relay stops and the database does not respond. The database gets some seconds,
    /// because a claim that was made but not received would block its events until the end of its lease.
    async fn unless_silent<T>(&self, answer: impl Future<Output = T>) -> Option<T> {
        let silent = async {
            self.phase_reached(Phase::Stopping).await;
            tokio::time::sleep(self.settings.shutdown_timeout.clamp(LEAST_PATIENCE, LONGEST_BACKOFF)).await;
        };
        tokio::select! {
           biased;
            answer = answer => Some(answer),
            () = silent => None,
        }
    }

    /// Waits until nothing is in flight, neither as load nor as a probe.
    async fn all_settled(&self) {
        self.load.at_most(Weight::default()).await;
        self.probes.at_most(Weight::default()).await;
    }
}
