//! Send: sends one batch to one destination, under its timeout, and interprets the answers for the lane. With a tracer, each
//! send has a span.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;

use super::breaker::Met;
use super::flight::Job;
use super::lane::{FIRST_RAMP, Lane};
use super::load::lock;
use super::probe::Probing;
use super::{Engine, Phase, probe};
use crate::clock;
use crate::delivery::Answer;
use crate::observe::panic_message;
use crate::sink::{Message, Receipt, SendError, SendErrorKind};
use crate::trace::SendSpan;

impl Lane {
    pub(super) async fn send_batch(self: &Arc<Self>, engine: &Arc<Engine>, mut batch: Vec<Job>) {
        let started = clock::now();
        let Some(answers) = self.send(engine, &mut batch).await else {
            batch.into_iter().for_each(|job| job.answer(engine, Answer::Released));
            return;
        };
        let took = clock::since(started);
        let mut is_broken = false;
        for (job, answer) in batch.into_iter().zip(answers) {
            // The sink stored nothing of a run after its first failure. Those events were not tried.
            is_broken &= job.follows();
            if is_broken {
                job.answer(engine, Answer::Released);
                continue;
            }
            is_broken = answer.is_err();
            self.answered(engine, job, answer, took);
        }
    }

    pub(super) fn answered(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        job: Job,
        answer: Result<Receipt, SendError>,
        took: Duration,
    ) {
        match answer {
            Ok(Receipt { status }) => {
                self.alive(engine, took);
                self.tally.sent(job.event().created_at, took);
                self.log_sent(&job, took);
                engine.observers.tell("sent", |observer| observer.sent(job.event(), &self.name, took));
                let recorded = engine.settings.records_successes();
                job.answer(engine, if recorded { Answer::Recorded { status, took } } else { Answer::Sent });
            }
            Err(error) => {
                self.tally.failed(&error, took);
                engine.observers.tell("failed", |observer| observer.failed(job.event(), &self.name, &error));
                self.failed(engine, job, error, took);
            }
        }
    }

    fn failed(self: &Arc<Self>, engine: &Arc<Engine>, job: Job, error: SendError, took: Duration) {
        if error.kind != SendErrorKind::Unavailable {
            // A timeout is not an answer. If it counted as one, the next timeout would count as the event's fault, and so on
            // through a whole outage, with an attempt used for each.
            if error.kind != SendErrorKind::Timeout {
                self.tally.responded(took);
                self.alive(engine, took);
            }
            self.log_failed(engine, &job, &error);
            return job.answer(engine, Answer::Failed { error, took });
        }
        let (met, waiting) = {
            let mut state = lock(&self.state);
            let now = clock::now();
            let met = state.breaker.outage(now, error.after);
            state.met_outage(&error, now);
            let waiting = if met == Met::Opened { state.split_off(0) } else { VecDeque::new() };
            if met == Met::Opened {
                state.ramp = FIRST_RAMP;
            }
            (met, waiting)
        };
        let parked = |tried| Answer::Parked { error: Some(error.clone()), tried };
        // Sends that were in flight when the breaker opened show nothing new.
        if met != Met::Down {
            self.log_failed(engine, &job, &error);
        }
        match met {
            Met::Hiccup(after) => job.answer(engine, Answer::Postponed { error: error.clone(), took, after }),
            Met::Down => job.answer(engine, parked(Some(took))),
            Met::Opened => {
                let event = engine.named("relay_breaker_trip");
                tracing::warn!(%event, destination = self.name, %error, "destination is down; its events are parked");
                waiting.into_iter().for_each(|job| job.answer(engine, parked(None)));
                if !engine.is_running() {
                    return job.answer(engine, parked(Some(took)));
                }
                let probing = Probing::begin(engine, self);
                if job.is_shared() {
                    job.answer(engine, parked(Some(took)));
                    tokio::spawn(probe::probe_with_the_next(probing));
                } else {
                    job.reload(engine.probes.admit(0));
                    engine.give_back_followers_of(job.event());
                    tokio::spawn(probe::probe(probing, job));
                }
            }
        }
    }

    /// Sends a batch, and renews leases that would run out meanwhile. Returns `None` if the shutdown timeout is over.
    pub(super) async fn send(&self, engine: &Engine, batch: &mut [Job]) -> Option<Vec<Result<Receipt, SendError>>> {
        let mut messages: Vec<Message> = batch.iter().map(Job::message).collect();
        let spans = self.follow(engine, batch, &mut messages);
        let batch = &*batch;
        let _sending = Sending::begin(&self.sending, batch.len());
        let answered_before = self.answered.load(Ordering::Relaxed);
        let sending = AssertUnwindSafe(engine.sending(self.sink.send_for_receipts(&messages))).catch_unwind();
        let timed_out = async {
            match self.timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        // Concurrently: a sink that waits for the database must not wait for a renewal that waits for it. The sink comes
        // first: if it returns at once, no timers are needed.
        let answers = tokio::select! {
            biased;
            answers = sending => answers.unwrap_or_else(|panic| {
                vec![Err(SendError::retry(format!("the handler panicked: {}", panic_message(&*panic)))); batch.len()]
            }),
            () = timed_out => {
                let error = SendError::timeout(format!("no response within {:?}", self.timeout.unwrap_or_default()));
                vec![Err(error); batch.len()]
            }
            () = engine.phase_reached(Phase::Aborting) => return None,
            () = engine.keep_renewing(batch) => return None,
        };
        let others_got_through = self.answered.load(Ordering::Relaxed) > answered_before;
        let missing = || Err(SendError::retry("the sink returned no result for this event"));
        let answers = answers.into_iter().map(|answer| answer.map_err(|error| resolve(error, others_got_through)));
        let answers: Vec<_> = answers.chain(std::iter::repeat_with(missing)).take(batch.len()).collect();
        for (span, answer) in spans.into_iter().zip(&answers) {
            span.end(answer.as_ref().err());
        }
        Some(answers)
    }

    /// Returns a span for each message, and puts it into the message for the receiver. Without a tracer there are none.
    fn follow(&self, engine: &Engine, batch: &mut [Job], messages: &mut [Message]) -> Vec<Box<dyn SendSpan>> {
        let Some(tracer) = &engine.tracer else { return Vec::new() };
        let follow = |(job, message): (&mut Job, &mut Message)| {
            let span = tracer.sends(message, &self.name, job.claim_span());
            job.is_sent_as(span.context());
            *message = message.clone().traced(span.context());
            span
        };
        batch.iter_mut().zip(messages).map(follow).collect()
    }
}

/// Counts the events that are being sent, until it is dropped.
struct Sending<'a>(&'a AtomicUsize, usize);

impl<'a> Sending<'a> {
    fn begin(sending: &'a AtomicUsize, events: usize) -> Self {
        sending.fetch_add(events, Ordering::Relaxed);
        Self(sending, events)
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

/// Turns a timeout into an outage, unless other sends got through meanwhile. Then it stays a timeout, and uses an attempt.
fn resolve(mut error: SendError, others_got_through: bool) -> SendError {
    if error.kind == SendErrorKind::Timeout && !others_got_through {
        error.kind = SendErrorKind::Unavailable;
    }
    error
}
