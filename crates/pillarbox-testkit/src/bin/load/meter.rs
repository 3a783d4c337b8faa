//! Counts the events that a relay settles, and when: an observer, as any application could have one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use pillarbox::delivery::{Change, Verdict};
use pillarbox::{Observed, Observer, SendError, StoredEvent};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// Counts deliveries up to a goal.
pub(crate) struct Meter {
    /// The event type that counts; `None` counts all.
    only: Option<&'static str>,
    started: Instant,
    first: OnceLock<Instant>,
    settled: AtomicU64,
    goal: AtomicU64,
    /// When the last event was settled, in nanoseconds since the start.
    last: AtomicU64,
    reached: Notify,
    failures: AtomicU64,
    failure: OnceLock<String>,
    timeline: Mutex<Vec<(f64, u64)>>,
}

impl Meter {
    /// Creates a meter and starts its clock.
    pub(crate) fn new(goal: u64) -> Self {
        Self {
            only: None,
            started: Instant::now(),
            first: OnceLock::new(),
            settled: AtomicU64::new(0),
            goal: AtomicU64::new(goal),
            last: AtomicU64::new(0),
            reached: Notify::new(),
            failures: AtomicU64::new(0),
            failure: OnceLock::new(),
            timeline: Mutex::default(),
        }
    }

    /// Counts only events of this type.
    pub(crate) fn only(mut self, event_type: &'static str) -> Self {
        self.only = Some(event_type);
        self
    }

    /// Sets the goal, once it is known.
    pub(crate) fn expect(&self, goal: u64) {
        self.goal.store(goal, Ordering::Release);
        self.reached.notify_waiters();
    }

    pub(crate) fn settled(&self) -> u64 {
        self.settled.load(Ordering::Acquire)
    }

    /// Waits until the goal is reached.
    pub(crate) async fn reached(&self) {
        loop {
            let reached = self.reached.notified();
            if self.settled() >= self.goal.load(Ordering::Acquire) {
                return;
            }
            reached.await;
        }
    }

    /// Waits until at least one event was settled, and none for this long.
    pub(crate) async fn quiet(&self, pause: Duration) {
        let mut last = 0;
        loop {
            tokio::time::sleep(pause).await;
            let now = self.settled();
            if now > 0 && now == last {
                return;
            }
            last = now;
        }
    }

    /// Records the number of settled events at intervals, forever.
    pub(crate) async fn watch(&self, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            let Some(first) = self.first.get() else { continue };
            let point = (first.elapsed().as_secs_f64(), self.settled());
            if let Ok(mut timeline) = self.timeline.lock() {
                timeline.push(point);
            }
        }
    }

    /// Returns counts and rates, with times in seconds since 1970, so that several processes can be combined.
    pub(crate) fn report(&self) -> Value {
        let first = self.first.get().copied().unwrap_or(self.started);
        let last = self.started + Duration::from_nanos(self.last.load(Ordering::Acquire));
        let settled = self.settled();
        let seconds = last.saturating_duration_since(first).as_secs_f64();
        let timeline = self.timeline.lock().map(|timeline| timeline.clone()).unwrap_or_default();
        json!({
            "settled": settled,
            "seconds": seconds,
            "rate": rate(settled, seconds),
            "rate_from_start": rate(settled, (last - self.started).as_secs_f64()),
            "started_at": since_1970(self.started),
            "first_at": since_1970(first),
            "last_at": since_1970(last),
            "failures": self.failures.load(Ordering::Relaxed),
            "failure": self.failure.get(),
            "timeline": timeline,
        })
    }

    fn counts(&self, event: &StoredEvent) -> bool {
        self.only.is_none_or(|only| event.event_type == only)
    }
}

impl Observer for Meter {
    fn sent(&self, event: &StoredEvent, _destination: &str, took: Duration) -> Observed {
        if self.first.get().is_none() && self.counts(event) {
            self.first.get_or_init(|| Instant::now() - took);
        }
        Ok(())
    }

    fn failed(&self, _event: &StoredEvent, _destination: &str, error: &SendError) -> Observed {
        self.failures.fetch_add(1, Ordering::Relaxed);
        self.failure.get_or_init(|| error.to_string());
        Ok(())
    }

    fn settled(&self, event: &StoredEvent, verdict: &Verdict) -> Observed {
        if matches!(verdict.change, Change::Deliver) && self.counts(event) {
            let settled = self.settled.fetch_add(1, Ordering::AcqRel) + 1;
            let now = self.started.elapsed().as_nanos();
            self.last.store(u64::try_from(now).unwrap_or(u64::MAX), Ordering::Release);
            if settled == self.goal.load(Ordering::Acquire) {
                self.reached.notify_waiters();
            }
        }
        Ok(())
    }
}

/// Returns the rate; zero for no time.
fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

fn since_1970(moment: Instant) -> f64 {
    let then = SystemTime::now() - moment.elapsed();
    then.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
