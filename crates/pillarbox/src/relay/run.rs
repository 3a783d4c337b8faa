//! The relay's life: from the first look at the schema to the farewell.

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

/// How long the claim loop waits for room before it takes some from the queues of slow destinations.
pub(super) const PATIENCE: Duration = Duration::from_millis(250);
/// Shorter pauses are not worth a question to the database.
const WORTH_ASKING: Duration = Duration::from_millis(100);
/// How long everything else waits for an event that must be sent alone: before it, and again while it is sent. What kills its
/// relay later is found out only when there is nothing else to send.
const SOLITUDE: Duration = Duration::from_millis(250);
const FIRST_BACKOFF: Duration = Duration::from_millis(50);
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);
/// What the database has to answer in, at least, when the relay stops.
const LEAST_PATIENCE: Duration = Duration::from_secs(1);

impl Relay {
    /// Relays until `shutdown` is ready; then claims no more, finishes what is under way within the shutdown timeout,
    /// and gives the rest back. Errors of the database on the way are logged and waited out.
    ///
    /// # Errors
    /// Before it has begun: a schema that it cannot work on, or a database that does not answer.
    pub async fn run(&self, shutdown: impl Future<Output = ()>) -> Result<(), StoreError> {
        let engine = &self.engine;
        engine.store.check().await?;
        engine.heed_pauses().await?;
        engine.phase.set(Phase::Running);
        engine.probing.store(true, Ordering::Relaxed);
        engine.waker.employ();
        engine.start_settling();
        let pulse = Arc::new(Pulse::new(Uuid::new_v4()));
        let pace = engine.listen().await;
        engine.beat(&pulse).await;
        engine.tell_figures(pulse.id, &pulse.figures).await;
        let upkeep = tokio::spawn(Arc::clone(engine).upkeep(Arc::clone(&pulse)));

        // A task of its own: whoever calls this may be on a thread that is woken for each packet.
        let cycle = tokio::spawn({
            let (engine, pulse) = (Arc::clone(engine), Arc::clone(&pulse));
            async move { engine.cycle(pace, &pulse).await }
        });
        let unfinished = Unfinished { engine, tasks: [cycle.abort_handle(), upkeep.abort_handle()] };
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
        // It may run again, or do single passes.
        engine.phase.set(Phase::Running);
        Ok(())
    }
}

/// Ends what goes on beside a run, also of one that is dropped: then what it had is given back.
struct Unfinished<'a> {
    engine: &'a Engine,
    tasks: [AbortHandle; 2],
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let engine = self.engine;
        engine.phase.set(Phase::Aborting);
        self.tasks.iter().for_each(AbortHandle::abort);
        engine.give_back_followers();
        engine.lanes.values().for_each(|lane| lane.release(engine));
        engine.waker.retire();
        engine.probing.store(false, Ordering::Relaxed);
    }
}

/// The event that is sent alone, and when the next one may be.
#[derive(Default)]
struct Solitude {
    /// A death of the relay counts against this event, which has lost so many leases, until others are sent beside it.
    blamed: Option<(Ticket, u32)>,
    until: Option<Instant>,
}

/// Workers begin nothing until it is dropped.
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

    /// Events that are sent alone take half of the time at most.
    fn rest(&mut self, began: Instant) {
        self.until = Some(clock::now() + clock::since(began));
    }
}

impl Engine {
    /// Wake: answers the pace of polling, which is faster when nothing else wakes the relay.
    async fn listen(&self) -> Pace {
        let (poll, faster) = (self.longest_pause(true), self.longest_pause(false));
        match self.store.wake(self.waker.clone()).await {
            Ok(WakeUp::Tested) => Pace::new(poll),
            Ok(WakeUp::Polling) => Pace::new(faster),
            Ok(WakeUp::Eaten) => {
                tracing::warn!(
                    "notifications do not arrive: is there a transaction pooler between? Give the relay a direct \
                     connection; until then it polls every {faster:?}"
                );
                Pace::deaf(faster)
            }
            Err(error) => {
                tracing::warn!(%error, "notifications cannot be listened for; polling every {faster:?} instead");
                Pace::deaf(faster)
            }
        }
    }

    /// Between two looks of an idle relay, if notifications arrive and if they do not.
    fn longest_pause(&self, notified: bool) -> Duration {
        let poll = self.settings.poll_interval;
        if notified { poll } else { poll.min(self.settings.poll_interval_unwoken) }
    }

    /// Claim, route, send, as long as it runs; the settler settles.
    async fn cycle(self: &Arc<Self>, mut pace: Pace, pulse: &Pulse) {
        let mut backoff = FIRST_BACKOFF;
        let mut solitude = Solitude::default();
        while self.room().await {
            let claim = match self.unless_silent(self.claim(solitude.is_over())).await {
                Some(Ok(claim)) => claim,
                None => return,
                Some(Err(error)) => {
                    tracing::warn!(event = %self.named("relay_iteration_failed"), %error, "nothing could be claimed; trying again");
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
                self.rest(self.until_due(pace.rest()).await).await;
            } else if self.phase.get() < Phase::Aborting {
                self.dispatch_claim(claim, &mut solitude).await;
                self.take_back_if_dropped();
            }
        }
    }

    /// Whoever dropped the run has emptied the queues, perhaps before what was dispatched just now came to them.
    fn take_back_if_dropped(&self) {
        if self.phase.get() >= Phase::Aborting {
            self.give_back_followers();
            self.lanes.values().for_each(|lane| lane.release(self));
        }
    }

    /// An event that may have killed relays is sent while nothing else begins: if the relay dies then, it was this one.
    /// Nobody waits long for that. When the event is not answered soon, others are sent beside it, and a death no longer
    /// counts against it.
    async fn dispatch_claim(self: &Arc<Self>, claim: Claim, solitude: &mut Solitude) {
        if let Some((ticket, losses)) = solitude.blamed.take() {
            self.blame(ticket, losses - 1).await;
        }
        if let Some((ticket, losses)) = claim.suspect() {
            let began = clock::now();
            let _hush = Hush::begin(self);
            // Whatever is under way afterwards has not killed the relay for a while.
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

    /// Rests until nothing is in flight, or the relay stops, but no longer than this.
    async fn rest_unless_idle(&self, pause: Duration) {
        tokio::select! {
            biased;
            () = self.load.at_most(Weight::default()) => {}
            _ = self.rest_unless(Phase::Stopping, pause) => {}
        }
    }

    /// Returns whether so many losses count against the event from now on.
    pub(super) async fn blame(&self, suspect: Ticket, losses: u32) -> bool {
        let written = self.store.blame(suspect, losses).await;
        if let Err(error) = &written {
            tracing::warn!(id = %suspect.id, %error, "the losses of a suspect event could not be written");
        }
        written.is_ok()
    }

    fn give_back(&self, claim: Claim) {
        for claimed in claim {
            let verdict = Verdict::of(Change::Release { after: Duration::ZERO }, claimed.event().attempts);
            self.settler.settle(Settling::untried(claimed.settle(verdict), self.load.admit(0)));
        }
    }

    /// Until the next batch fits and settling works. Answers whether to go on.
    async fn room(&self) -> bool {
        // What is being sent, and as much again that is next, takes no room from what is claimed: any number of slow
        // destinations can be left with that much.
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

    /// One slow destination does not stop the others: what waits for it goes back to the table. Neither does one slow
    /// aggregate.
    fn make_room(&self) {
        if !self.settler.is_working() {
            return;
        }
        let followers = self.give_back_followers();
        if followers > 0 {
            tracing::info!(events = followers, "events that wait for others of their aggregates are given back");
        }
        if self.lanes.len() < 2 {
            return;
        }
        for lane in self.lanes.values() {
            let shed = lane.shed(self, PATIENCE);
            if shed > 0 {
                tracing::info!(destination = lane.name, events = shed, "a destination is slow; its events wait for it");
            }
        }
    }

    /// A long pause ends when the next retry, delayed event or lost lease is due.
    async fn until_due(&self, pause: Duration) -> Duration {
        if pause < WORTH_ASKING {
            return pause;
        }
        match self.store.next_due().await {
            Ok(Some(due)) => pause.min(due.max(FIRST_BACKOFF)),
            Ok(None) | Err(_) => pause,
        }
    }

    async fn rest(&self, pause: Duration) {
        tokio::select! {
            biased;
            () = self.waker.woken() => {}
            _ = self.rest_unless(Phase::Stopping, pause) => {}
        }
    }

    /// Nothing new is begun; what is under way may finish, then it is given back.
    async fn finish(&self) {
        self.give_back_followers();
        self.lanes.values().for_each(|lane| lane.release(self));
        let in_flight = self.load.now().events;
        if in_flight > 0 {
            tracing::info!(in_flight, "stopping: waiting for what is under way");
        }
        if tokio::time::timeout(self.settings.shutdown_timeout, self.all_settled()).await.is_err() {
            let (event, in_flight) = (self.named("relay_shutdown_deadline_exceeded"), self.load.now().events);
            tracing::warn!(%event, in_flight, "stopping: giving back what is still under way");
            self.phase.set(Phase::Aborting);
            self.lanes.values().for_each(|lane| lane.release(self));
            // A database that does not answer must not keep the relay from ending.
            let _ = tokio::time::timeout(LONGEST_BACKOFF, self.all_settled()).await;
        }
    }

    /// Upkeep ends, and the relay says that it is gone.
    async fn end(&self, mut upkeep: JoinHandle<()>, pulse: &Pulse) {
        match self.unless_silent(&mut upkeep).await {
            Some(Ok(())) => {}
            Some(Err(error)) => tracing::error!(%error, "upkeep ended badly"),
            None => upkeep.abort(),
        }
        self.unless_silent(self.tell_figures(pulse.id, &pulse.figures)).await;
        match self.unless_silent(self.store.farewell(pulse.id)).await {
            Some(Ok(())) => {}
            Some(Err(error)) => tracing::warn!(%error, "the relay could not say that it is gone"),
            None => tracing::warn!("the database does not answer; the relay ends without a farewell"),
        }
    }

    /// The answer; `None` when the relay stops and the database does not answer. It has some seconds: a claim that was made
    /// and not heard of would have to wait for the end of its lease.
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

    /// Until nothing is in flight, neither as load nor as a probe.
    async fn all_settled(&self) {
        self.load.at_most(Weight::default()).await;
        self.probes.at_most(Weight::default()).await;
    }
}
