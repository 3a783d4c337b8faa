//! Upkeep, beside the path of events: heartbeat, sweep, unparking, cleanup.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use uuid::Uuid;

use super::metrics::Metrics;
use super::{Engine, Phase};
use crate::clock;
use crate::delivery::{Change, Verdict};
use crate::error::StoreError;
use crate::observe::panic_message;
use crate::store::{Heartbeat, Swept};

/// The interval of heartbeats. Emitters trust a heartbeat for three times as long.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// The pause between two batches of unparked events.
const RAMP: Duration = Duration::from_millis(100);
/// The pause between two searches for parked events. A search is one index step per destination that has some.
const LOOK: Duration = Duration::from_secs(1);
/// The least pause after a batch of cleanup. The pause is a quarter of the batch's duration if that is longer, so that cleanup
/// does not take all of the database.
const BREATH: Duration = Duration::from_millis(10);
/// The pause after a cleanup that failed. It doubles with each failure.
const CLEAN_AGAIN: Duration = Duration::from_secs(60);

/// The state that this run of the relay reports about itself.
pub(super) struct Pulse {
    pub(super) id: Uuid,
    idle: AtomicBool,
    pub(super) metrics: tokio::sync::Mutex<Metrics>,
}

impl Pulse {
    pub(super) fn new(id: Uuid) -> Self {
        Self { id, idle: AtomicBool::new(false), metrics: tokio::sync::Mutex::default() }
    }

    pub(super) fn set_idle(&self, idle: bool) {
        self.idle.store(idle, Ordering::Relaxed);
    }
}

impl Engine {
    /// Runs all parts of the upkeep until the relay stops.
    pub(super) async fn upkeep(self: Arc<Self>, pulse: Arc<Pulse>) {
        tokio::join!(
            self.supervise("heartbeat", || self.keep_beating(&pulse)),
            self.supervise("leases", || self.keep_leases()),
            self.supervise("unparking", || self.keep_unparking()),
            self.supervise("cleanup", || self.keep_cleaning()),
        );
    }

    /// Runs a part of the upkeep, and restarts it when it panics.
    async fn supervise<F: Future<Output = ()>>(&self, part: &'static str, start: impl Fn() -> F) {
        while let Err(panic) = AssertUnwindSafe(start()).catch_unwind().await {
            tracing::error!(part, panic = panic_message(&*panic), "upkeep task panicked; restarting it");
            if self.rest_unless(Phase::Stopping, LOOK).await {
                return;
            }
        }
    }

    pub(super) async fn beat(&self, pulse: &Pulse) {
        let heartbeat = Heartbeat {
            id: pulse.id,
            host: self.settings.host.clone(),
            in_flight: self.load.now().events,
            idle: pulse.idle.load(Ordering::Relaxed),
            configuration: self.settings.configuration.clone(),
        };
        if let Err(error) = self.store.heartbeat(&heartbeat).await {
            tracing::warn!(%error, "heartbeat failed");
        }
    }

    async fn keep_beating(&self, pulse: &Pulse) {
        while !self.rest_unless(Phase::Stopping, HEARTBEAT).await {
            self.beat(pulse).await;
            self.tell_metrics(pulse.id, &pulse.metrics).await;
            if let Err(error) = self.sweep().await {
                tracing::warn!(%error, "sweep failed");
            }
        }
    }

    /// Sweep: fails events that killed too many relays.
    pub(super) async fn sweep(&self) -> Result<(), StoreError> {
        for Swept { event, error } in self.store.sweep().await? {
            self.tell_settled(&event, &Verdict::of(Change::Fail { error }, event.attempts));
        }
        Ok(())
    }

    async fn keep_unparking(&self) {
        loop {
            let pause = match self.unpark().await {
                Ok(true) => RAMP,
                Ok(false) => LOOK,
                Err(error) => {
                    tracing::warn!(%error, "unparking events failed");
                    LOOK
                }
            };
            tokio::select! {
                biased;
                stops = self.rest_unless(Phase::Stopping, pause) => if stops { return },
                () = self.recovered.notified() => {}
            }
        }
    }

    /// Unpark: makes events of available destinations due, in growing batches. Returns whether there may be more of them.
    pub(super) async fn unpark(&self) -> Result<bool, StoreError> {
        let heeded = self.heed_pauses().await;
        let parked_on = self.store.parked_on().await?;
        let rerouted = if self.reroutes_now() { self.unpark_rerouted(&parked_on).await } else { Ok(()) };
        // A failure for one destination does not delay the others.
        let mut failed = heeded.and(rerouted).err();
        let mut more = false;
        for name in &parked_on {
            let most = self.settings.batch_size * 2;
            let Some(ramp) = self.lanes.get(name).and_then(|lane| lane.ramp(most)) else { continue };
            more = true;
            match self.unpark_on(name, ramp).await {
                Ok(()) => {}
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(more), Err)
    }

    async fn unpark_on(&self, name: &str, most: usize) -> Result<(), StoreError> {
        if most > 0 && self.store.unpark(name, None, most).await? > 0 {
            self.waker.wake();
        }
        Ok(())
    }

    /// Pauses and resumes lanes as people asked.
    pub(super) async fn heed_pauses(&self) -> Result<(), StoreError> {
        let paused = self.store.paused().await?;
        self.lanes.values().for_each(|lane| lane.heed(self, paused.contains(&lane.name)));
        Ok(())
    }

    /// Runs cleanup at its interval. A failed cleanup is retried sooner.
    async fn keep_cleaning(&self) {
        let Some(every) = self.settings.cleanup_every else { return };
        let mut failures = 0;
        loop {
            let pause = match self.clean().await {
                Ok(()) => {
                    failures = 0;
                    every
                }
                Err(error) => {
                    let pause = clean_again(failures, every);
                    failures += 1;
                    tracing::warn!(%error, again_in = ?pause, "cleanup failed");
                    pause
                }
            };
            if self.rest_unless(Phase::Stopping, pause).await {
                return;
            }
        }
    }

    /// Cleanup: deletes old events, batch after batch. Only one relay at a time does this.
    async fn clean(&self) -> Result<(), StoreError> {
        let began = clock::now();
        let mut deleted = 0;
        let result = loop {
            let batch = clock::now();
            match self.store.cleanup(&self.settings.retention).await {
                Ok(cleaned) => {
                    deleted += cleaned.deleted;
                    if cleaned.elsewhere || !cleaned.more {
                        break Ok(());
                    }
                }
                Err(error) => break Err(error),
            }
            if self.rest_unless(Phase::Stopping, BREATH.max(clock::since(batch) / 4)).await {
                break Ok(());
            }
        };
        if deleted > 0 {
            tracing::info!(event = %self.named("dead_letter_purged"), deleted, took = ?clock::since(began), "old events deleted");
        }
        result
    }
}

/// Returns the pause after a failed cleanup, given the number of failures before it.
fn clean_again(failures: u32, every: Duration) -> Duration {
    CLEAN_AGAIN.saturating_mul(2_u32.saturating_pow(failures)).min(every)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cleanup_that_failed_is_made_again_soon_and_then_less_often() {
        let every = Duration::from_secs(6 * 3600);
        let pauses = [0, 1, 2, 8, 9, 40].map(|failures| clean_again(failures, every).as_secs() / 60);
        assert_eq!(pauses, [1, 2, 4, 256, 360, 360]);
        assert_eq!(clean_again(0, Duration::from_millis(20)), Duration::from_millis(20));
    }
}
