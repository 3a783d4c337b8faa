//! The results of a lane since they were last read. Every event is counted, so counting a success takes no lock.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use chrono::{DateTime, Utc};

use super::load::lock;
use crate::sink::SendError;
use crate::store::{Latency, Minute};

pub(super) struct Tally {
    delivered: AtomicU64,
    failed: AtomicU64,
    given_up: AtomicU64,
    latency: Box<[AtomicU64]>,
    /// The last error. Reading does not reset it.
    last_error: Mutex<Option<(DateTime<Utc>, String)>>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            delivered: AtomicU64::default(),
            failed: AtomicU64::default(),
            given_up: AtomicU64::default(),
            latency: std::iter::repeat_with(AtomicU64::default).take(Latency::BUCKETS).collect(),
            last_error: Mutex::default(),
        }
    }
}

impl Tally {
    /// Counts an event that the destination accepted. The latency is by the host's clock, which decides nothing.
    pub(super) fn sent(&self, emitted_at: DateTime<Utc>) {
        let latency = Utc::now().signed_duration_since(emitted_at).to_std().unwrap_or_default();
        self.latency[Latency::bucket(latency)].fetch_add(1, Ordering::Relaxed);
        self.delivered.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn failed(&self, error: &SendError) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        *lock(&self.last_error) = Some((Utc::now(), error.message.clone()));
    }

    pub(super) fn gave_up(&self) {
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn last_error(&self) -> Option<(DateTime<Utc>, String)> {
        lock(&self.last_error).clone()
    }

    /// Returns the counts since the last call, for this minute.
    pub(super) fn take(&self, at: DateTime<Utc>, destination: &str) -> Minute {
        let taken = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
        Minute {
            delivered: taken(&self.delivered),
            failed: taken(&self.failed),
            given_up: taken(&self.given_up),
            latency: Latency::of_counts(self.latency.iter().map(taken).collect()),
            ..Minute::new(at, destination)
        }
    }
}
