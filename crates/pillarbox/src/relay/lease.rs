//! Leases: a send starts only if its lease lasts longer than the send may take. Long sends renew their leases.

use std::time::Duration;

use super::flight::Job;
use super::order::Sequence;
use super::{Engine, Phase};
use crate::clock;
use crate::delivery::Answer;
use crate::sink::SendError;
use crate::store::Ticket;

impl Engine {
    /// Returns the jobs that may be sent now. Their leases last for the timeout, and are renewed where necessary. A job whose
    /// lease is too short is given back. If the lease was lost, another relay has the event, and the settle changes nothing.
    pub(super) async fn keep_leased(&self, batch: Vec<Job>, timeout: Option<Duration>) -> Vec<Job> {
        let lease = self.settings.lease;
        if batch.iter().all(|job| job.lasts(timeout, lease)) {
            return batch;
        }
        self.renew(&batch).await;
        // Behind a job that is given back, the rest of its run is given back too.
        let mut is_short = false;
        let (short, held): (Vec<Job>, Vec<Job>) = batch.into_iter().partition(|job| {
            is_short = (is_short && job.follows()) || !job.lasts(timeout, lease);
            is_short
        });
        // An answer, so that the answers of the event's other destinations are settled with it.
        short.into_iter().for_each(|job| job.answer(self, Answer::Released));
        held
    }

    /// Renews the leases of a batch. A lease that cannot be renewed runs out.
    pub(super) async fn renew(&self, batch: &[Job]) {
        let tickets: Vec<Ticket> = batch.iter().filter_map(Job::ticket).collect();
        let until = clock::now() + self.settings.lease;
        match self.store.renew(&tickets, self.settings.lease).await {
            Ok(renewed) => {
                let ours = batch.iter().filter(|job| job.ticket().is_some_and(|ticket| renewed.contains(&ticket)));
                ours.for_each(|job| job.renewed(until));
            }
            Err(error) => tracing::warn!(%error, "lease renewal failed"),
        }
    }

    /// Renews the leases of queued events until the relay stops. A lease that ran out in a queue would count as a loss.
    pub(super) async fn keep_leases(&self) {
        let lease = self.settings.lease;
        while !self.rest_unless(Phase::Stopping, lease / 8).await {
            if let Some(sequence) = &self.sequence {
                self.keep_leases_of(sequence).await;
            }
            for lane in self.lanes.values() {
                let waning = lane.waning(lease);
                if waning.is_empty() {
                    continue;
                }
                let until = clock::now() + lease;
                match self.store.renew(&waning, lease).await {
                    Ok(renewed) => lane.renewed(&renewed.into_iter().collect(), until),
                    Err(error) => tracing::warn!(%error, "lease renewal failed"),
                }
            }
        }
    }

    /// Renews the leases of events that wait behind others of their aggregates.
    async fn keep_leases_of(&self, sequence: &Sequence) {
        let lease = self.settings.lease;
        let waning = sequence.waning(lease / 2);
        if waning.is_empty() {
            return;
        }
        let until = clock::now() + lease;
        match self.store.renew(&waning, lease).await {
            Ok(renewed) => sequence.renewed(&renewed.into_iter().collect(), until),
            Err(error) => tracing::warn!(%error, "lease renewal failed"),
        }
    }

    /// Returns the time until the first lease of a batch is half over. It has a minimum, so that renewals do not follow
    /// without a pause.
    pub(super) fn until_renewal(&self, batch: &[Job]) -> Duration {
        let half = self.settings.lease / 2;
        let left = batch.iter().map(Job::left).min().unwrap_or(half);
        left.saturating_sub(half).max(half / 8)
    }

    /// Renews the leases of a batch when necessary. Never returns.
    pub(super) async fn keep_renewing(&self, batch: &[Job]) {
        loop {
            tokio::time::sleep(self.until_renewal(batch)).await;
            self.renew(batch).await;
        }
    }

    /// Rests while holding a job, and renews its lease. Returns whether the relay stops.
    pub(super) async fn rest_renewing(&self, job: &Job, pause: Duration) -> bool {
        let end = clock::now() + pause;
        loop {
            let left = end.saturating_duration_since(clock::now());
            let renewal = self.until_renewal(std::slice::from_ref(job));
            if self.rest_unless(Phase::Stopping, left.min(renewal)).await {
                return true;
            }
            if left <= renewal {
                return false;
            }
            self.renew(std::slice::from_ref(job)).await;
        }
    }

    /// Parks a delivery whose destination was removed from the configuration. It stays parked under that name.
    pub(super) fn park_unknown(&self, job: Job) {
        let error = SendError::unavailable(format!(
            "the destination {:?} was removed from the configuration",
            job.destination()
        ));
        job.answer(self, Answer::Parked { error: Some(error), tried: None });
    }
}
