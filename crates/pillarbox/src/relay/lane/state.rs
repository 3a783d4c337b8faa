//! The changing part of a lane: its queue, its breaker, and how fast parked events come back. Nothing here waits or sends.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use chrono::Utc;

use super::outage::Outage;
use crate::clock;
use crate::relay::breaker::{Breaker, BreakerSettings};
use crate::relay::flight::Job;
use crate::sink::SendError;

/// The number of parked events that are unparked first.
pub(in crate::relay) const FIRST_RAMP: usize = 8;
/// How long to wait for the result of those events.
const ANSWER: Duration = Duration::from_secs(15);

pub(in crate::relay) struct State {
    pub(in crate::relay) queue: VecDeque<Job>,
    pub(super) queued_bytes: usize,
    pub(super) sending_bytes: usize,
    pub(super) workers: usize,
    pub(in crate::relay) breaker: Breaker,
    /// The opening of the breaker that is being probed, or will be.
    pub(in crate::relay) probing: Option<u64>,
    pub(in crate::relay) last_error: Option<SendError>,
    /// The current outage, for people.
    pub(in crate::relay) outage: Outage,
    /// The queue was too long for the other lanes to wait. New events are parked until it is short.
    pub(in crate::relay) congested: bool,
    /// The lane was congested, and its destination has not been fast since. The lane is expected to be congested again, so that
    /// other lanes need not wait to find out.
    pub(super) slow: bool,
    /// The duration of the last send.
    pub(super) took: Duration,
    /// The number of parked events that are unparked at once.
    pub(in crate::relay) ramp: usize,
    /// The value of `answered` at the last unpark.
    pub(super) answered_at_ramp: u64,
    /// The time of the last unpark.
    pub(in crate::relay) ramped_at: Option<Instant>,
}

impl State {
    pub(super) fn new(breaker: BreakerSettings) -> Self {
        Self {
            queue: VecDeque::new(),
            queued_bytes: 0,
            sending_bytes: 0,
            workers: 0,
            breaker: Breaker::new(breaker),
            probing: None,
            last_error: None,
            outage: Outage::default(),
            congested: false,
            slow: false,
            took: Duration::ZERO,
            ramp: FIRST_RAMP,
            answered_at_ramp: 0,
            ramped_at: None,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.queued_bytes + self.sending_bytes
    }

    pub(super) fn push(&mut self, job: Job) {
        self.queued_bytes += job.bytes();
        self.queue.push_back(job);
    }

    /// Removes all jobs after the first `keep` from the queue and returns them.
    pub(in crate::relay) fn split_off(&mut self, keep: usize) -> VecDeque<Job> {
        let taken = self.queue.split_off(keep);
        self.queued_bytes -= taken.iter().map(Job::bytes).sum::<usize>();
        taken
    }

    /// Takes up to `most` jobs from the front of the queue, as far as their bytes may be sent now. A run stays together.
    pub(super) fn take(&mut self, most: usize, share: usize) -> Vec<Job> {
        let mut taken = Vec::with_capacity(most.min(self.queue.len()));
        while let Some((length, bytes)) = self.run()
            && (taken.is_empty() || taken.len() + length <= most)
            && (self.sending_bytes == 0 || self.sending_bytes.saturating_add(bytes) <= share)
        {
            self.queued_bytes -= bytes;
            self.sending_bytes += bytes;
            taken.extend(self.queue.drain(..length));
        }
        taken
    }

    /// Returns the number of jobs of the run at the front of the queue, and their bytes.
    fn run(&self) -> Option<(usize, usize)> {
        let mut jobs = self.queue.iter();
        let first = jobs.next()?;
        let followers = jobs.take_while(|job| job.follows());
        Some(followers.fold((1, first.bytes()), |(length, bytes), job| (length + 1, bytes + job.bytes())))
    }

    /// Notes an outage that an event or a probe has met. The breaker has counted it.
    pub(in crate::relay) fn met_outage(&mut self, error: &SendError, now: Instant) {
        self.outage.note(&self.breaker, error, now, Utc::now());
        self.last_error = Some(error.clone());
    }

    /// Sets an open breaker ajar if its probe is due and no event probes, as after single passes. The next event is the probe.
    pub(super) fn watch_over_the_probe(&mut self) {
        let watched = self.probing == Some(self.breaker.openings());
        if !watched && self.breaker.probe_at().is_some_and(|at| at <= clock::now()) {
            self.breaker.ajar();
            // The events of the last unpark have been answered: that is why the breaker is open.
            self.ramped_at = None;
        }
    }

    /// Returns whether events were unparked as probes and have not been answered yet. They come first. Another relay may have
    /// claimed them, so the wait is limited.
    pub(super) fn awaits_an_answer(&self) -> bool {
        self.breaker.is_ajar() && self.ramped_at.is_some_and(|at| clock::since(at) < ANSWER)
    }
}
