//! Send: the lane of one destination, with its own queue, workers, breaker and rate, so that no destination slows
//! another. It knows no store but through the engine's renew.

use std::collections::{HashSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::FutureExt;

use super::breaker::{Breaker, BreakerSettings};
use super::flight::Job;
use super::load::lock;
use super::rate::Rate;
use super::run::PATIENCE;
use super::tally::Tally;
use super::{Engine, Phase};
use crate::clock;
use crate::delivery::Answer;
use crate::observe::panic_message;
use crate::sink::{SendError, Sink};
use crate::store::{LOSSES_BEFORE_ALONE, Ticket};

pub(super) struct Lane {
    pub(super) name: String,
    pub(super) sink: Arc<dyn Sink>,
    pub(super) timeout: Option<Duration>,
    pub(super) concurrency: usize,
    batch_limit: usize,
    /// How many bytes are sent at once, and wait to be while it is slow: the others need the rest.
    share: usize,
    /// The configuration says that nothing is sent there.
    configured_pause: bool,
    /// People have said so since.
    asked_pause: AtomicBool,
    /// Held by the worker whose turn it is: events wait for their turn in the queue, not in a worker's hand.
    rate: Option<tokio::sync::Mutex<Rate>>,
    pub(super) state: Mutex<State>,
    /// Sends that the destination has answered: what a timeout is depends on whether others got through.
    pub(super) answered: AtomicU64,
    /// Events that are being sent.
    pub(super) sending: AtomicUsize,
    /// For people.
    pub(super) tally: Tally,
}

pub(super) struct State {
    pub(super) queue: VecDeque<Job>,
    queued_bytes: usize,
    sending_bytes: usize,
    workers: usize,
    pub(super) breaker: Breaker,
    /// The opening for which somebody probes, or will.
    pub(super) probing: Option<u64>,
    pub(super) last_error: Option<SendError>,
    /// More was queued than others could wait for: what comes is parked until the queue is short.
    pub(super) congested: bool,
    /// The lane was congested, and its destination has not been quick since. It will be congested again, and other lanes
    /// need not wait to find out.
    slow: bool,
    /// How long the last send took.
    took: Duration,
    /// How many parked events are let back at once.
    pub(super) ramp: usize,
    /// What `answered` was when the last ones were let back.
    answered_at_ramp: u64,
    /// When that was.
    pub(super) ramped_at: Option<Instant>,
}

impl State {
    fn bytes(&self) -> usize {
        self.queued_bytes + self.sending_bytes
    }

    fn push(&mut self, job: Job) {
        self.queued_bytes += job.bytes();
        self.queue.push_back(job);
    }

    /// Takes what is behind the first `keep` out of the queue.
    pub(super) fn split_off(&mut self, keep: usize) -> VecDeque<Job> {
        let taken = self.queue.split_off(keep);
        self.queued_bytes -= taken.iter().map(Job::bytes).sum::<usize>();
        taken
    }

    /// Takes the first of the queue, at most so many, as far as their bytes may be sent now.
    fn take(&mut self, most: usize, share: usize) -> Vec<Job> {
        let mut taken = Vec::with_capacity(most.min(self.queue.len()));
        while taken.len() < most
            && let Some(next) = self.queue.front()
            && (self.sending_bytes == 0 || self.sending_bytes.saturating_add(next.bytes()) <= share)
        {
            let bytes = next.bytes();
            self.queued_bytes -= bytes;
            self.sending_bytes += bytes;
            taken.extend(self.queue.pop_front());
        }
        taken
    }

    /// An open breaker that nobody probes for, as after single passes, is the next event's when it is time for a probe.
    fn watch_over_the_probe(&mut self) {
        let watched = self.probing == Some(self.breaker.openings());
        if !watched && self.breaker.probe_at().is_some_and(|at| at <= clock::now()) {
            self.breaker.ajar();
            // What was let back before has been answered: that is why it is open.
            self.ramped_at = None;
        }
    }

    /// Some were let back to find out whether the destination is there: they come first. Another relay may have taken
    /// them, so not for ever.
    fn awaits_an_answer(&self) -> bool {
        self.breaker.is_ajar() && self.ramped_at.is_some_and(|at| clock::since(at) < ANSWER)
    }
}

/// How many parked events are let back first.
pub(super) const FIRST_RAMP: usize = 8;
/// How long it may take until it is known what became of them.
const ANSWER: Duration = Duration::from_secs(15);

/// What a lane is held to.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) timeout: Option<Duration>,
    pub(super) concurrency: usize,
    pub(super) rate: Option<f64>,
    pub(super) paused: bool,
    pub(super) breaker: BreakerSettings,
    pub(super) share: usize,
}

impl Lane {
    pub(super) fn new(name: String, sink: Arc<dyn Sink>, limits: Limits) -> Self {
        let Limits { timeout, concurrency, rate, paused, breaker, share } = limits;
        let state = State {
            queue: VecDeque::new(),
            queued_bytes: 0,
            sending_bytes: 0,
            workers: 0,
            breaker: Breaker::new(breaker),
            probing: None,
            last_error: None,
            congested: false,
            slow: false,
            took: Duration::ZERO,
            ramp: FIRST_RAMP,
            answered_at_ramp: 0,
            ramped_at: None,
        };
        let rate = rate.map(|per_second| tokio::sync::Mutex::new(Rate::new(per_second)));
        let batch_limit = sink.batch_limit().max(1);
        let (state, answered, sending) = (Mutex::new(state), AtomicU64::new(0), AtomicUsize::new(0));
        Self {
            name,
            sink,
            timeout,
            concurrency,
            batch_limit,
            share,
            configured_pause: paused,
            asked_pause: AtomicBool::new(false),
            rate,
            state,
            answered,
            sending,
            tally: Tally::default(),
        }
    }

    /// How many events can be under way to it at once.
    pub(super) fn capacity(&self) -> usize {
        self.concurrency.saturating_mul(self.batch_limit)
    }

    /// Takes a job: it is queued, or waits for the destination in the table.
    pub(super) fn accept(self: &Arc<Self>, engine: &Arc<Engine>, job: Job) {
        let refused = {
            let mut state = lock(&self.state);
            state.watch_over_the_probe();
            // With somebody at work: it is workers who find the queue short again.
            if state.slow && state.workers > 0 && self.is_full(&state, job.bytes()) {
                state.congested = true;
            }
            if self.is_paused() {
                Some((job, Answer::Paused))
            } else if state.breaker.is_open() || state.congested {
                let error = state.last_error.clone().filter(|_| state.breaker.is_open());
                Some((job, Answer::Parked { error, tried: None }))
            } else if job.event().claims >= LOSSES_BEFORE_ALONE {
                // It is sent at once, beside the workers, who begin nothing for a moment.
                let (engine, lane) = (Arc::clone(engine), Arc::clone(self));
                tokio::spawn(async move { work_on(&engine, &lane, vec![job]).await });
                None
            } else {
                state.push(job);
                if state.workers < self.concurrency {
                    state.workers += 1;
                    tokio::spawn(work(Arc::clone(engine), Arc::clone(self)));
                }
                None
            }
        };
        if let Some((job, answer)) = refused {
            job.answer(engine, answer);
        }
    }

    /// Whether a slow destination has enough waiting.
    fn is_full(&self, state: &State, more: usize) -> bool {
        state.queue.len() >= self.capacity() || (state.bytes() > 0 && state.bytes().saturating_add(more) > self.share)
    }

    /// Nothing is sent there, by the configuration or because people said so.
    pub(super) fn is_paused(&self) -> bool {
        self.configured_pause || self.asked_pause.load(Ordering::Relaxed)
    }

    /// Pauses or resumes as people have asked. Events in the queue of a paused destination wait in the table from then on.
    pub(super) fn heed(&self, engine: &Engine, paused: bool) {
        if self.asked_pause.swap(paused, Ordering::Relaxed) == paused {
            return;
        }
        if !paused {
            tracing::info!(destination = self.name, "a destination is resumed");
            return engine.recovered.notify_one();
        }
        tracing::info!(destination = self.name, "a destination is paused; its events wait");
        let queue = lock(&self.state).split_off(0);
        queue.into_iter().for_each(|job| job.answer(engine, Answer::Paused));
    }

    /// Parks what has waited in the queue for longer than this, beyond what is sent next and this lane's share of the bytes:
    /// others need the room. Returns how many.
    pub(super) fn shed(&self, engine: &Engine, patience: Duration) -> usize {
        let shed = {
            let mut state = lock(&self.state);
            let is_slow = state.queue.front().is_some_and(|job| clock::since(job.claimed_at()) >= patience);
            let mut bytes = state.sending_bytes;
            let fits = |job: &&Job| {
                bytes = bytes.saturating_add(job.bytes());
                bytes <= self.share
            };
            let keep = state.queue.iter().take(self.capacity()).take_while(fits).count();
            // It is workers who find the queue short again, and a congested lane gets none.
            if !is_slow || keep == state.queue.len() || state.workers == 0 {
                return 0;
            }
            state.congested = true;
            state.slow = true;
            state.ramp = self.capacity().max(FIRST_RAMP);
            state.split_off(keep)
        };
        let count = shed.len();
        shed.into_iter().for_each(|job| job.answer(engine, Answer::Parked { error: None, tried: None }));
        count
    }

    /// Gives back what waits in the queue: the relay stops.
    pub(super) fn release(&self, engine: &Engine) {
        let queue = lock(&self.state).split_off(0);
        queue.into_iter().for_each(|job| job.answer(engine, Answer::Released));
    }

    /// How many parked events may come back now; `None` while the destination is down or paused. More each time, as
    /// long as it has answered and sent all it had.
    pub(super) fn ramp(&self, most: usize) -> Option<usize> {
        let answered = self.answered.load(Ordering::Relaxed);
        let mut state = lock(&self.state);
        let state = &mut *state;
        state.watch_over_the_probe();
        if self.is_paused() || state.breaker.is_open() {
            return None;
        }
        if state.congested || state.queue.len() > state.ramp / 4 || state.awaits_an_answer() {
            return Some(0);
        }
        if state.slow {
            // What it can send next: the rest would be parked again at once.
            state.answered_at_ramp = answered;
            state.ramped_at = Some(clock::now());
            return Some(self.room(state));
        }
        if state.queue.is_empty() && answered > state.answered_at_ramp {
            state.ramp = (state.ramp * 2).min(most.max(FIRST_RAMP));
        }
        state.answered_at_ramp = answered;
        state.ramped_at = Some(clock::now());
        Some(state.ramp)
    }

    /// How many more events a slow destination can have: as many as it sends next, in its share of the bytes.
    fn room(&self, state: &State) -> usize {
        let events = state.queue.len() + self.sending.load(Ordering::Relaxed);
        let each = state.bytes().checked_div(events).unwrap_or_default().max(1);
        let by_bytes = (self.share.saturating_sub(state.bytes()) / each).max(usize::from(events == 0));
        self.capacity().saturating_sub(state.queue.len()).min(by_bytes)
    }

    /// The next batch, or `None` when the worker can go home.
    fn next(&self) -> Option<Vec<Job>> {
        let mut state = lock(&self.state);
        if state.queue.len() <= self.capacity() / 2 && state.bytes() <= self.share / 2 {
            state.congested = false;
        }
        let batch = state.take(self.batch_limit, self.share);
        if batch.is_empty() {
            if state.queue.is_empty() {
                // A queue that is empty between two slow answers says nothing.
                state.slow &= state.took >= PATIENCE;
                state.congested = false;
            }
            state.workers -= 1;
            return None;
        }
        Some(batch)
    }

    /// A batch is sent: its bytes are free, and there may be work for more than one.
    fn sent(self: &Arc<Self>, engine: &Arc<Engine>, bytes: usize, took: Duration) {
        let mut state = lock(&self.state);
        state.sending_bytes -= bytes;
        state.took = took;
        // The caller takes the next batch itself.
        let idle = self.concurrency.saturating_sub(state.workers);
        let helpers = idle.min(state.queue.len().div_ceil(self.batch_limit).saturating_sub(1));
        state.workers += helpers;
        drop(state);
        for _ in 0..helpers {
            tokio::spawn(work(Arc::clone(engine), Arc::clone(self)));
        }
    }

    /// The next batch, when the rate allows it.
    async fn turn(&self, engine: &Engine) -> Option<Vec<Job>> {
        engine.hush.wait_for(|hush| !hush).await;
        let Some(rate) = &self.rate else { return self.next() };
        let mut rate = rate.lock().await;
        let now = clock::now();
        engine.rest_unless(Phase::Stopping, rate.ready_at(now).saturating_duration_since(now)).await;
        let batch = self.next()?;
        rate.spend(batch.len(), clock::now());
        Some(batch)
    }

    /// The leases of what waits in the queue that would run out before long.
    pub(super) fn waning(&self, left: Duration) -> Vec<Ticket> {
        lock(&self.state).queue.iter().filter(|job| job.left() < left).filter_map(Job::ticket).collect()
    }

    /// Leases of what waits in the queue were renewed until then.
    pub(super) fn renewed(&self, tickets: &HashSet<Ticket>, until: Instant) {
        let state = lock(&self.state);
        let renewed = state.queue.iter().filter(|job| job.ticket().is_some_and(|ticket| tickets.contains(&ticket)));
        renewed.for_each(|job| job.renewed(until));
    }

    fn is_open(&self) -> bool {
        lock(&self.state).breaker.is_open()
    }

    /// The destination answered, whatever it said.
    pub(super) fn alive(&self, engine: &Engine, took: Duration) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        let now = clock::now();
        if lock(&self.state).breaker.alive(now.checked_sub(took).unwrap_or(now)) {
            tracing::info!(destination = self.name, "a destination is back");
            engine.recovered.notify_one();
        }
    }
}

/// A worker sends batch after batch until the queue is empty.
async fn work(engine: Arc<Engine>, lane: Arc<Lane>) {
    while let Some(batch) = lane.turn(&engine).await {
        let (bytes, began) = (batch.iter().map(Job::bytes).sum(), clock::now());
        // A panic of a store or a tracer gives the batch back; the worker goes on.
        if let Err(panic) = AssertUnwindSafe(work_on(&engine, &lane, batch)).catch_unwind().await {
            tracing::error!(destination = lane.name, panic = panic_message(&*panic), "send panicked");
        }
        lane.sent(&engine, bytes, clock::since(began));
    }
}

async fn work_on(engine: &Arc<Engine>, lane: &Arc<Lane>, batch: Vec<Job>) {
    if lane.is_paused() {
        return batch.into_iter().for_each(|job| job.answer(engine, Answer::Paused));
    }
    if lane.is_open() {
        let error = lock(&lane.state).last_error.clone();
        let parked = || Answer::Parked { error: error.clone(), tried: None };
        return batch.into_iter().for_each(|job| job.answer(engine, parked()));
    }
    let batch = engine.hold(batch, lane.timeout).await;
    if !batch.is_empty() {
        lane.send_batch(engine, batch).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::Discard;

    #[test]
    fn a_lane_is_slow_until_its_destination_is_quick() {
        let limits = Limits {
            timeout: None,
            concurrency: 1,
            rate: None,
            paused: false,
            breaker: BreakerSettings::default(),
            share: usize::MAX,
        };
        let lane = Lane::new("mail".to_owned(), Arc::new(Discard), limits);
        for (took, slow) in [(2 * PATIENCE, true), (PATIENCE / 2, false)] {
            {
                let mut state = lock(&lane.state);
                (state.slow, state.workers, state.took) = (true, 1, took);
            }
            assert!(lane.next().is_none());
            assert_eq!(lock(&lane.state).slow, slow);
        }
    }
}
