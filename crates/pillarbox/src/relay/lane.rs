//! Send: the lane of one destination. Each lane has its own queue, workers, breaker and rate limit, so that no destination
//! slows another. A lane reaches the store only through the engine's renew.

mod outage;
mod state;

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use chrono::Utc;
use futures_util::FutureExt;

pub(super) use self::state::{FIRST_RAMP, State};
use super::breaker::BreakerSettings;
use super::flight::Job;
use super::load::lock;
use super::rate::Rate;
use super::run::PATIENCE;
use super::tally::Tally;
use super::{Engine, Phase};
use crate::clock;
use crate::delivery::Answer;
use crate::observe::panic_message;
use crate::sink::Sink;
use crate::store::{LOSSES_BEFORE_ALONE, Ticket};

/// Events that wait for this long for the configured rate make their destination rate limited, for people.
const LIMITED: Duration = Duration::from_secs(1);

pub(super) struct Lane {
    pub(super) name: String,
    pub(super) sink: Arc<dyn Sink>,
    pub(super) timeout: Option<Duration>,
    pub(super) concurrency: usize,
    batch_limit: usize,
    keeps_order: bool,
    /// The most bytes that are sent at once, and that may be queued while the destination is slow. Other lanes need the rest.
    share: usize,
    /// Whether the configuration pauses the destination.
    configured_pause: bool,
    /// Whether a person paused the destination.
    asked_pause: AtomicBool,
    /// Locked by the worker whose turn it is. Events wait for their turn in the queue, not in a worker.
    rate: Option<tokio::sync::Mutex<Rate>>,
    pub(super) state: Mutex<State>,
    /// The number of sends that the destination answered. A timeout counts as an outage unless other sends got through.
    pub(super) answered: AtomicU64,
    /// The number of events that are being sent.
    pub(super) sending: AtomicUsize,
    /// Counts results for people.
    pub(super) tally: Tally,
}

/// The limits of a lane.
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
        let rate = rate.map(|per_second| tokio::sync::Mutex::new(Rate::new(per_second)));
        let (batch_limit, keeps_order) = (sink.batch_limit().max(1), sink.keeps_order());
        let (state, answered, sending) = (Mutex::new(State::new(breaker)), AtomicU64::new(0), AtomicUsize::new(0));
        Self {
            name,
            sink,
            timeout,
            concurrency,
            batch_limit,
            keeps_order,
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

    /// Returns the number of events that can be sent to the destination at once.
    pub(super) fn capacity(&self) -> usize {
        self.concurrency.saturating_mul(self.batch_limit)
    }

    /// Returns whether the sink takes runs of an aggregate.
    pub(super) fn keeps_order(&self) -> bool {
        self.keeps_order
    }

    /// Returns the most events of a run.
    pub(super) fn run_limit(&self) -> usize {
        self.batch_limit
    }

    /// Returns the most bytes of a run.
    pub(super) fn run_bytes(&self) -> usize {
        self.share
    }

    /// Accepts a job or the jobs of a run: queues them, or parks their deliveries.
    pub(super) fn accept<J>(self: &Arc<Self>, engine: &Arc<Engine>, jobs: J)
    where
        J: AsRef<[Job]> + IntoIterator<Item = Job>,
    {
        let (bytes, is_suspect) = {
            let jobs = jobs.as_ref();
            let is_suspect = |job: &Job| job.event().claims >= LOSSES_BEFORE_ALONE;
            (jobs.iter().map(Job::bytes).sum(), jobs.iter().any(is_suspect))
        };
        let refused = {
            let mut state = lock(&self.state);
            state.watch_over_the_probe();
            // Only with a worker running: workers clear `congested` when the queue is short again.
            if state.slow && state.workers > 0 && self.is_full(&state, bytes) {
                state.congested = true;
            }
            if self.is_paused() {
                Some((jobs, Answer::Paused))
            } else if state.breaker.is_open() || state.congested {
                let error = state.last_error.clone().filter(|_| state.breaker.is_open());
                Some((jobs, Answer::Parked { error, tried: None }))
            } else if is_suspect {
                // A suspect is sent at once, beside the workers, which start nothing for a moment.
                let (engine, lane, jobs) = (Arc::clone(engine), Arc::clone(self), jobs.into_iter().collect());
                tokio::spawn(async move { work_on(&engine, &lane, jobs).await });
                None
            } else {
                jobs.into_iter().for_each(|job| state.push(job));
                if state.workers < self.concurrency {
                    state.workers += 1;
                    tokio::spawn(work(Arc::clone(engine), Arc::clone(self)));
                }
                None
            }
        };
        if let Some((jobs, answer)) = refused {
            jobs.into_iter().for_each(|job| job.answer(engine, answer.clone()));
        }
    }

    /// Returns whether the lane holds as much as a slow destination may have.
    fn is_full(&self, state: &State, more: usize) -> bool {
        state.queue.len() >= self.capacity() || (state.bytes() > 0 && state.bytes().saturating_add(more) > self.share)
    }

    /// Returns whether the destination is paused, by the configuration or by a person.
    pub(super) fn is_paused(&self) -> bool {
        self.configured_pause || self.asked_pause.load(Ordering::Relaxed)
    }

    /// Pauses or resumes the destination, as people asked. A pause parks the events in the queue.
    pub(super) fn heed(&self, engine: &Engine, paused: bool) {
        if self.asked_pause.swap(paused, Ordering::Relaxed) == paused {
            return;
        }
        if !paused {
            tracing::info!(destination = self.name, "destination resumed");
            return engine.recovered.notify_one();
        }
        tracing::info!(destination = self.name, "destination paused; its events are parked");
        let queue = lock(&self.state).split_off(0);
        queue.into_iter().for_each(|job| job.answer(engine, Answer::Paused));
    }

    /// Parks queued events if the first one has waited for longer than `patience`. The lane keeps the events that it sends
    /// next, within its share of the bytes; other lanes need the rest. Returns the number of parked events.
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
            // Workers clear `congested` when the queue is short again, and a congested lane gets no new worker.
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

    /// Gives the queued events back when the relay stops.
    pub(super) fn release(&self, engine: &Engine) {
        let queue = lock(&self.state).split_off(0);
        queue.into_iter().for_each(|job| job.answer(engine, Answer::Released));
    }

    /// Returns how many parked events may be unparked now, or `None` while the destination is down or paused. The number
    /// doubles each time, as long as the destination answers and the queue is empty.
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
            // Only as many as the lane can send next: the rest would be parked again at once.
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

    /// Returns how many more events a slow destination can take: as many as it sends next, within its share of the bytes.
    fn room(&self, state: &State) -> usize {
        let events = state.queue.len() + self.sending.load(Ordering::Relaxed);
        let each = state.bytes().checked_div(events).unwrap_or_default().max(1);
        let by_bytes = (self.share.saturating_sub(state.bytes()) / each).max(usize::from(events == 0));
        self.capacity().saturating_sub(state.queue.len()).min(by_bytes)
    }

    /// Returns the next batch, or `None` when the worker should end.
    fn next(&self) -> Option<Vec<Job>> {
        let mut state = lock(&self.state);
        if state.queue.len() <= self.capacity() / 2 && state.bytes() <= self.share / 2 {
            state.congested = false;
        }
        let batch = state.take(self.batch_limit, self.share);
        if batch.is_empty() {
            if state.queue.is_empty() {
                // An empty queue between two slow answers proves nothing.
                state.slow &= state.took >= PATIENCE;
                state.congested = false;
            }
            state.workers -= 1;
            return None;
        }
        Some(batch)
    }

    /// Returns whether the rate is limited: by the configuration, with events that wait for it, by a destination that is slower
    /// than its events come in, or by a destination that asked to slow down.
    pub(super) fn is_limited(&self, state: &State) -> bool {
        let now = clock::now();
        let waits = |job: &Job| now.saturating_duration_since(job.claimed_at()) >= LIMITED;
        if state.outage.since().is_some() {
            return state.outage.is_slowed(now);
        }
        state.congested
            || state.outage.is_slowed(now)
            || self.rate.is_some() && (state.slow || state.queue.front().is_some_and(waits))
    }

    /// Frees the bytes of a sent batch and starts workers for the rest of the queue.
    fn sent(self: &Arc<Self>, engine: &Arc<Engine>, bytes: usize, took: Duration) {
        let mut state = lock(&self.state);
        state.sending_bytes -= bytes;
        state.took = took;
        // The calling worker takes the next batch itself.
        let idle = self.concurrency.saturating_sub(state.workers);
        let helpers = idle.min(state.queue.len().div_ceil(self.batch_limit).saturating_sub(1));
        state.workers += helpers;
        drop(state);
        for _ in 0..helpers {
            tokio::spawn(work(Arc::clone(engine), Arc::clone(self)));
        }
    }

    /// Waits until the rate limit allows a send, and returns the next batch.
    async fn turn(&self, engine: &Engine) -> Option<Vec<Job>> {
        engine.hush.wait_for(|hush| !hush).await;
        let Some(rate) = &self.rate else { return self.next() };
        let mut rate = rate.lock().await;
        let now = clock::now();
        engine.rest_unless(Phase::Stopping, rate.ready_at(now).saturating_duration_since(now)).await;
        // A suspect event may have been sent alone meanwhile.
        engine.hush.wait_for(|hush| !hush).await;
        let batch = self.next()?;
        rate.spend(batch.len(), clock::now());
        Some(batch)
    }

    /// Returns the leases of queued jobs that are half over. `lease` is the relay's.
    pub(super) fn waning(&self, lease: Duration) -> Vec<Ticket> {
        lock(&self.state).queue.iter().filter(|job| !job.lasts(None, lease)).filter_map(Job::ticket).collect()
    }

    /// Notes that the leases of these queued jobs were renewed.
    pub(super) fn renewed(&self, tickets: &HashSet<Ticket>, until: Instant) {
        let state = lock(&self.state);
        let renewed = state.queue.iter().filter(|job| job.ticket().is_some_and(|ticket| tickets.contains(&ticket)));
        renewed.for_each(|job| job.renewed(until));
    }

    fn is_open(&self) -> bool {
        lock(&self.state).breaker.is_open()
    }

    /// Notes that the destination answered, with success or with an error.
    pub(super) fn alive(&self, engine: &Engine, took: Duration) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        let now = clock::now();
        let ended = {
            let mut state = lock(&self.state);
            let ended = state.breaker.alive(now.checked_sub(took).unwrap_or(now));
            if ended {
                state.outage.end(Utc::now());
            }
            ended
        };
        if ended {
            tracing::info!(destination = self.name, "destination is up again");
            engine.recovered.notify_one();
        }
    }
}

/// Runs a worker: it sends batch after batch until the queue is empty.
async fn work(engine: Arc<Engine>, lane: Arc<Lane>) {
    while let Some(batch) = lane.turn(&engine).await {
        let (bytes, began) = (batch.iter().map(Job::bytes).sum(), clock::now());
        // A panic of a store or a tracer gives the batch back, and the worker continues.
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
    let batch = engine.keep_leased(batch, lane.timeout).await;
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
