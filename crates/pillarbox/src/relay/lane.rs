//! Send: the lane of one destination, with its own queue, workers, breaker and rate, so that no destination slows
//! another. It knows no store but through the engine's renew.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::breaker::{Breaker, BreakerSettings};
use super::flight::Job;
use super::load::lock;
use super::rate::Rate;
use super::tally::Tally;
use super::{Engine, Phase};
use crate::clock;
use crate::delivery::Answer;
use crate::sink::{SendError, Sink};
use crate::store::Ticket;

pub(super) struct Lane {
    pub(super) name: String,
    pub(super) sink: Arc<dyn Sink>,
    pub(super) timeout: Option<Duration>,
    pub(super) concurrency: usize,
    batch_limit: usize,
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
    workers: usize,
    pub(super) breaker: Breaker,
    pub(super) last_error: Option<SendError>,
    /// More was queued than others could wait for: what comes is parked until the queue is short.
    pub(super) congested: bool,
    /// It was congested, and no worker has found its queue empty since: it will be again, and others need not wait to find out.
    slow: bool,
    /// How many parked events are let back at once.
    pub(super) ramp: usize,
    /// What `answered` was when the last ones were let back.
    answered_at_ramp: u64,
    /// When that was.
    pub(super) ramped_at: Option<Instant>,
}

impl State {
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

impl Lane {
    pub(super) fn new(
        name: String,
        sink: Arc<dyn Sink>,
        timeout: Option<Duration>,
        concurrency: usize,
        rate: Option<f64>,
        paused: bool,
        breaker: BreakerSettings,
    ) -> Self {
        let state = State {
            queue: VecDeque::new(),
            workers: 0,
            breaker: Breaker::new(breaker),
            last_error: None,
            congested: false,
            slow: false,
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
            if state.slow && state.queue.len() >= self.capacity() {
                state.congested = true;
            }
            if self.is_paused() {
                Some((job, Answer::Paused))
            } else if state.breaker.is_open() || state.congested {
                let error = state.last_error.clone().filter(|_| state.breaker.is_open());
                Some((job, Answer::Parked { error, tried: None }))
            } else {
                state.queue.push_back(job);
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

    /// Nothing is sent there, by the configuration or because people said so.
    pub(super) fn is_paused(&self) -> bool {
        self.configured_pause || self.asked_pause.load(Ordering::Relaxed)
    }

    /// What people have said. When it is a pause and news, what waits in the queue waits in the table from now on. Answers
    /// whether a pause is over.
    pub(super) fn heed(&self, engine: &Engine, paused: bool) -> bool {
        if self.asked_pause.swap(paused, Ordering::Relaxed) == paused {
            return false;
        }
        if !paused {
            tracing::info!(destination = self.name, "a destination is resumed");
            engine.recovered.notify_one();
            return true;
        }
        tracing::info!(destination = self.name, "a destination is paused; its events wait");
        let queue = std::mem::take(&mut lock(&self.state).queue);
        queue.into_iter().for_each(|job| job.answer(engine, Answer::Paused));
        false
    }

    /// How many wait in the queue.
    pub(super) fn queued(&self) -> usize {
        lock(&self.state).queue.len()
    }

    /// Parks what waits in the queue beyond what is sent next: others need the room.
    pub(super) fn shed(&self, engine: &Engine) -> usize {
        let shed = {
            let mut state = lock(&self.state);
            // It is workers who find the queue short again. With nothing to shed there may be none, and who is
            // congested gets none.
            if state.queue.len() <= self.capacity() {
                return 0;
            }
            state.congested = true;
            state.slow = true;
            state.ramp = self.capacity().max(FIRST_RAMP);
            state.queue.split_off(self.capacity())
        };
        let count = shed.len();
        shed.into_iter().for_each(|job| job.answer(engine, Answer::Parked { error: None, tried: None }));
        count
    }

    /// Gives back what waits in the queue: the relay stops.
    pub(super) fn release(&self, engine: &Engine) {
        let queue = std::mem::take(&mut lock(&self.state).queue);
        queue.into_iter().for_each(|job| job.answer(engine, Answer::Released));
    }

    /// How many parked events may come back now; `None` while the destination is down or paused. More each time, as
    /// long as it has answered and sent all it had.
    pub(super) fn ramp(&self, most: usize, probing: bool) -> Option<usize> {
        let answered = self.answered.load(Ordering::Relaxed);
        let mut state = lock(&self.state);
        let state = &mut *state;
        // Without a probe of its own (in single passes) the next event is the probe, when it is time for one.
        if !probing && state.breaker.probe_at().is_some_and(|at| at <= clock::now()) {
            state.breaker.ajar();
            // What was let back before has been answered: that is why it is open.
            state.ramped_at = None;
        }
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
            return Some(self.capacity().saturating_sub(state.queue.len()));
        }
        if state.queue.is_empty() && answered > state.answered_at_ramp {
            state.ramp = (state.ramp * 2).min(most.max(FIRST_RAMP));
        }
        state.answered_at_ramp = answered;
        state.ramped_at = Some(clock::now());
        Some(state.ramp)
    }

    /// The next batch, or `None` when the worker can go home.
    fn next(&self) -> Option<Vec<Job>> {
        let mut state = lock(&self.state);
        let count = self.batch_limit.min(state.queue.len());
        if state.queue.len() <= self.capacity() / 2 {
            state.congested = false;
        }
        if count == 0 {
            state.slow = false;
            state.workers -= 1;
            return None;
        }
        Some(state.queue.drain(..count).collect())
    }

    /// The next batch, when the rate allows it.
    async fn turn(&self, engine: &Engine) -> Option<Vec<Job>> {
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
        if lane.is_paused() {
            batch.into_iter().for_each(|job| job.answer(&engine, Answer::Paused));
            continue;
        }
        if lane.is_open() {
            let error = lock(&lane.state).last_error.clone();
            batch.into_iter().for_each(|job| job.answer(&engine, Answer::Parked { error: error.clone(), tried: None }));
            continue;
        }
        let batch = engine.hold(batch, lane.timeout).await;
        if !batch.is_empty() {
            lane.send_batch(&engine, batch).await;
        }
    }
}
