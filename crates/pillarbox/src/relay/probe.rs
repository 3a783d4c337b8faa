//! The probe: while a destination is down, one event is sent again and again to find out when it is back. If that event itself
//! makes the destination look down, other events find that out.

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
use crate::sink::{Receipt, SendError, SendErrorKind};

/// How long a probe that has failed waits for the results of other events.
const SECOND_OPINION: Duration = Duration::from_secs(10);
/// The number of other events that are tried then.
const OTHERS: usize = 8;

/// Marks an opening of the breaker as being probed. If the breaker is still open when this is dropped, the next event is the
/// probe: an open breaker always has one.
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

    /// Returns whether the outage that it probes still lasts. Other events may have got through, and a new outage may have
    /// begun.
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

/// Probes a destination that is down: sends one event again and again, while the others stay parked in the table.
pub(super) async fn probe(probing: Probing, mut job: Job) {
    let (engine, lane, opening) = (Arc::clone(&probing.engine), Arc::clone(&probing.lane), probing.opening);
    loop {
        let (probe_at, last_error) = {
            let state = lock(&lane.state);
            // Other events may have got through, and a new outage may have begun since. That one has its own probe.
            let ours = state.breaker.openings() == opening;
            (state.breaker.probe_at().filter(|_| ours), state.last_error.clone())
        };
        let parked = Answer::Parked { error: last_error, tried: None };
        let Some(probe_at) = probe_at else { return job.answer(&engine, parked) };
        if engine.rest_renewing(&job, probe_at.saturating_duration_since(clock::now())).await {
            return job.answer(&engine, parked);
        }
        let Some(held) = engine.keep_leased(vec![job], lane.timeout).await.pop() else {
            // The lease was lost or could not be renewed: `keep_leased` has given the event back.
            return;
        };
        job = held;
        if lane.is_paused() {
            // After the resume, the next event is the probe.
            return job.answer(&engine, Answer::Paused);
        }
        engine.hush.wait_for(|hush| !hush).await;
        let started = clock::now();
        let answer = lane.try_out(&engine, &mut job).await;
        match answer {
            // A timeout of a probe is always an outage, even if an earlier send was answered since: nothing else is sent now.
            Some(Err(error)) if matches!(error.kind, SendErrorKind::Unavailable | SendErrorKind::Timeout) => {
                let error = SendError { kind: SendErrorKind::Unavailable, ..error };
                lane.tally.failed(&error, clock::since(started));
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

/// Waits until a probe is due, and then lets the longest parked event probe. An event with other destinations is not held for
/// the one that is down.
pub(super) async fn probe_with_the_next(probing: Probing) {
    let probe_at = lock(&probing.lane.state).breaker.probe_at();
    let pause = probe_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(clock::now()));
    probing.engine.rest_unless(Phase::Stopping, pause).await;
}

impl Lane {
    /// Sends a probe. Without a timeout it may never be answered, so after a while another event probes, too.
    async fn try_out(&self, engine: &Engine, job: &mut Job) -> Option<Result<Receipt, SendError>> {
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

    /// Notes a probe that failed. Returns whether it is time to probe with another event.
    fn still_down(&self, error: &SendError) -> bool {
        let mut state = lock(&self.state);
        let now = clock::now();
        state.breaker.still_down(now, error.after);
        state.met_outage(error, now);
        state.breaker.wants_another()
    }

    /// Lets other events probe, in case this event makes the destination look down. If they get through, the event has
    /// failed, and that uses an attempt.
    async fn second_opinion(&self, engine: &Engine, opening: u64, error: SendError, took: Duration) -> Answer {
        let answered = self.answered.load(Ordering::Relaxed);
        // At least half of the lease is left after a send.
        let end = clock::now() + SECOND_OPINION.min(engine.settings.lease / 4);
        self.let_others_probe(engine, OTHERS);
        while clock::now() < end && !engine.rest_unless(Phase::Stopping, SECOND_OPINION / 500).await {
            if self.answered.load(Ordering::Relaxed) > answered {
                // The event failed, not the destination.
                return Answer::Failed { error: SendError { kind: SendErrorKind::Retry, ..error }, took };
            }
            if lock(&self.state).breaker.openings() > opening {
                break;
            }
        }
        Answer::Parked { error: Some(error), tried: Some(took) }
    }

    /// Sets the breaker ajar: the next event is the probe. Up to `count` events are unparked for that.
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
