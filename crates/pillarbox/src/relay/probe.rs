//! The probe: while a destination is down, one event finds out when it is back. If it is the event that makes the
//! destination look down, others find that out.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::flight::Job;
use super::lane::Lane;
use super::load::lock;
use super::{Engine, Phase};
use crate::clock;
use crate::delivery::Answer;
use crate::sink::{SendError, SendErrorKind};

/// How long an event that has probed in vain waits for others to try.
const SECOND_OPINION: Duration = Duration::from_secs(10);
/// How many others try then.
const OTHERS: usize = 8;

/// Somebody probes. When it is dropped and the breaker is still open, the next event is the probe: an open breaker is never
/// left without one.
pub(super) struct Probing {
    engine: Arc<Engine>,
    lane: Arc<Lane>,
    opening: u64,
}

impl Probing {
    pub(super) fn begin(engine: &Arc<Engine>, lane: &Arc<Lane>) -> Self {
        let opening = {
            let mut state = lock(&lane.state);
            let opening = state.breaker.openings();
            state.probing = Some(opening);
            opening
        };
        Self { engine: Arc::clone(engine), lane: Arc::clone(lane), opening }
    }

    /// Whether the outage that it probes for goes on. Others may have got through, and the destination may be down again.
    fn is_open(&self) -> bool {
        let state = lock(&self.lane.state);
        state.breaker.is_open() && state.breaker.openings() == self.opening
    }
}

impl Drop for Probing {
    fn drop(&mut self) {
        {
            let mut state = lock(&self.lane.state);
            if state.probing == Some(self.opening) {
                state.probing = None;
            }
        }
        if self.is_open() {
            self.lane.let_others_probe(&self.engine, 1);
        }
    }
}

/// While a destination is down, one event is tried again and again; the others wait untouched in the table.
pub(super) async fn probe(probing: Probing, mut job: Job) {
    let (engine, lane, opening) = (Arc::clone(&probing.engine), Arc::clone(&probing.lane), probing.opening);
    loop {
        let (probe_at, last_error) = {
            let state = lock(&lane.state);
            // Others may have got through meanwhile, and the destination may be down again since: not our affair.
            let ours = state.breaker.openings() == opening;
            (state.breaker.probe_at().filter(|_| ours), state.last_error.clone())
        };
        let parked = Answer::Parked { error: last_error, tried: None };
        let Some(probe_at) = probe_at else { return job.answer(&engine, parked) };
        if engine.rest_renewing(&job, probe_at.saturating_duration_since(clock::now())).await {
            return job.answer(&engine, parked);
        }
        let Some(held) = engine.hold(vec![job], lane.timeout).await.pop() else {
            // Its lease was lost, so somebody else has it.
            return;
        };
        job = held;
        if lane.is_paused() {
            // When it is resumed, the first that comes finds out.
            return job.answer(&engine, Answer::Paused);
        }
        let started = clock::now();
        let answer = lane.try_out(&engine, &mut job).await;
        match answer {
            // A timeout is an outage here, whatever was sent before it and answered since: nothing else is sent now.
            Some(Err(error)) if matches!(error.kind, SendErrorKind::Unavailable | SendErrorKind::Timeout) => {
                let error = SendError { kind: SendErrorKind::Unavailable, ..error };
                lane.tally.failed(&error);
                lane.log_still_down(&engine, &job, &error);
                if lane.still_down(&error) {
                    let answer = lane.second_opinion(&engine, opening, error, clock::since(started)).await;
                    return job.answer(&engine, answer);
                }
            }
            Some(answer) => return lane.answered(&engine, job, answer, clock::since(started)),
            None => return job.answer(&engine, Answer::Released),
        }
    }
}

/// An event with other destinations is not held for the one that is down: when it is time, the one that has waited
/// longest is let back, and is the probe.
pub(super) async fn probe_with_the_next(probing: Probing) {
    let probe_at = lock(&probing.lane.state).breaker.probe_at();
    let pause = probe_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(clock::now()));
    probing.engine.rest_unless(Phase::Stopping, pause).await;
}

impl Lane {
    /// Sends a probe. One without a timeout may never be answered: after a while others probe, too.
    async fn try_out(&self, engine: &Engine, job: &mut Job) -> Option<Result<(), SendError>> {
        let patience =
            self.timeout.map_or(engine.settings.breaker.cap.max(engine.settings.lease / 4), |timeout| timeout * 2);
        let mut sending = pin!(self.send(engine, std::slice::from_mut(job)));
        let answers = match tokio::time::timeout(patience, sending.as_mut()).await {
            Ok(answers) => answers,
            Err(_) => {
                self.let_others_probe(engine, 1);
                sending.await
            }
        };
        answers.and_then(|mut answers| answers.pop())
    }

    /// A probe failed. Answers whether it is time to probe with another event.
    fn still_down(&self, error: &SendError) -> bool {
        let mut state = lock(&self.state);
        state.breaker.still_down(clock::now(), error.after);
        state.last_error = Some(error.clone());
        state.breaker.wants_another()
    }

    /// Perhaps it is the event that makes the destination look down. If others get through, it was: that used an attempt.
    async fn second_opinion(&self, engine: &Engine, opening: u64, error: SendError, took: Duration) -> Answer {
        let answered = self.answered.load(Ordering::Relaxed);
        // Half of the lease at least is left after a send.
        let end = clock::now() + SECOND_OPINION.min(engine.settings.lease / 4);
        self.let_others_probe(engine, OTHERS);
        while clock::now() < end && !engine.rest_unless(Phase::Stopping, SECOND_OPINION / 500).await {
            if self.answered.load(Ordering::Relaxed) > answered {
                // It was the event that failed, not the destination.
                return Answer::Failed { error: SendError { kind: SendErrorKind::Retry, ..error }, took };
            }
            if lock(&self.state).breaker.openings() > opening {
                break;
            }
        }
        Answer::Parked { error: Some(error), tried: Some(took) }
    }

    /// The next event that comes is the probe; so many are let back for that.
    fn let_others_probe(&self, engine: &Engine, count: usize) {
        {
            let mut state = lock(&self.state);
            state.breaker.ajar();
            state.ramp = count;
            state.ramped_at = None;
        }
        engine.recovered.notify_one();
    }
}
