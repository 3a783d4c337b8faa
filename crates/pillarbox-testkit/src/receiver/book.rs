//! The receiver's records.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tokio::sync::watch;
use uuid::Uuid;

use super::{Answer, Received};

pub(super) type Script = dyn Fn(&Received) -> Answer + Send + Sync;

/// The number of requests and ids; a change wakes waiting tests.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seen {
    pub(super) requests: usize,
    pub(super) ids: usize,
}

/// The counts of one id.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    pub(super) requests: u32,
    pub(super) accepted: u32,
}

#[derive(Default)]
struct Pages {
    received: Vec<Received>,
    tallies: HashMap<Uuid, Tally>,
}

pub(super) struct Book {
    keeps: bool,
    pages: Mutex<Pages>,
    seen: watch::Sender<Seen>,
    script: RwLock<Arc<Script>>,
}

impl Book {
    pub(super) fn keeping() -> Self {
        Self {
            keeps: true,
            pages: Mutex::default(),
            seen: watch::Sender::default(),
            script: RwLock::new(Arc::new(|_| Answer::ok())),
        }
    }

    pub(super) fn counting() -> Self {
        Self { keeps: false, ..Self::keeping() }
    }

    pub(super) fn answer_with(&self, script: Arc<Script>) {
        *self.script.write().unwrap_or_else(PoisonError::into_inner) = script;
    }

    /// Records a request and returns the reaction to it. The record is complete before waiting tests are woken.
    pub(super) fn record(&self, received: Received) -> Answer {
        // A clone, because a script may be slow or panic, and must not block its replacement.
        let script = Arc::clone(&self.script.read().unwrap_or_else(PoisonError::into_inner));
        let answer = script(&received);

        let mut pages = self.pages();
        if let Some(id) = received.id {
            let tally = pages.tallies.entry(id).or_default();
            tally.requests += 1;
            tally.accepted += u32::from(answer.is_success());
        }
        if self.keeps {
            pages.received.push(received);
        }
        let ids = pages.tallies.len();
        self.seen.send_modify(|seen| *seen = Seen { requests: seen.requests + 1, ids });
        answer
    }

    pub(super) fn seen(&self) -> watch::Receiver<Seen> {
        self.seen.subscribe()
    }

    pub(super) fn received(&self) -> Vec<Received> {
        self.pages().received.clone()
    }

    /// Returns one count of every id's tally; zeros are left out.
    pub(super) fn by_id(&self, count: fn(&Tally) -> u32) -> HashMap<Uuid, u32> {
        let pages = self.pages();
        pages.tallies.iter().map(|(id, tally)| (*id, count(tally))).filter(|(_, count)| *count > 0).collect()
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Book {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Book").field("seen", &*self.seen.borrow()).finish_non_exhaustive()
    }
}
