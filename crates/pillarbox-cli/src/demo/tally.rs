//! Facts so far, as the shop, the receiver and the relay report them. The board shows them, and the verdict is based on
//! them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pillarbox::store::Counts;
use pillarbox::{Observed, Observer, SendError, SendErrorKind, StoredEvent};
use tokio::sync::Notify;
use uuid::Uuid;

use super::Play;
use super::verdict::Verdict;

/// The number of the latest happenings that are kept.
pub(super) const LATEST: usize = 6;

/// The receiver's response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Taken,
    /// 500.
    Refused,
    /// 500, but the event was taken. The relay cannot know that.
    TakenAndRefused,
    /// 503.
    Unavailable,
}

/// Something that the board shows in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Happening {
    Committed,
    RolledBack,
    Delivered { attempt: u32 },
    Refused,
    Unavailable,
    Down,
    Up,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    pub(super) orders: u64,
    pub(super) seed: u64,
    pub(super) committed: HashSet<Uuid>,
    pub(super) rolled_back: HashSet<Uuid>,
    /// Events that the relay requested, with any response.
    pub(super) requested: HashSet<Uuid>,
    /// How many times the receiver took each event.
    pub(super) taken: HashMap<Uuid, u32>,
    /// Events whose delivery was confirmed to the relay.
    pub(super) delivered: HashSet<Uuid>,
    /// Events that failed at least once.
    pub(super) retried: HashSet<Uuid>,
    pub(super) requests: u64,
    pub(super) refused: u64,
    pub(super) unavailable: u64,
    pub(super) is_down: bool,
    pub(super) latest: VecDeque<(Option<u32>, Happening)>,
}

impl Facts {
    fn happened(&mut self, order: impl Into<Option<u32>>, what: Happening) {
        if self.latest.len() == LATEST {
            self.latest.pop_front();
        }
        self.latest.push_back((order.into(), what));
    }

    /// Returns the number of events that are committed and not yet delivered.
    pub(super) fn waiting(&self) -> usize {
        self.committed.difference(&self.delivered).count()
    }
}

pub(super) struct Tally {
    facts: Mutex<Facts>,
    delivery: Notify,
}

impl Tally {
    pub(super) fn new(play: Play) -> Self {
        let facts = Facts { orders: play.orders.into(), seed: play.seed, ..Facts::default() };
        Self { facts: Mutex::new(facts), delivery: Notify::new() }
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a copy of the current facts.
    pub(super) fn now(&self) -> Facts {
        self.facts().clone()
    }

    pub(super) fn committed(&self, order: u32, id: Uuid) {
        let mut facts = self.facts();
        facts.committed.insert(id);
        facts.happened(order, Happening::Committed);
    }

    pub(super) fn rolled_back(&self, order: u32, id: Uuid) {
        let mut facts = self.facts();
        facts.rolled_back.insert(id);
        facts.happened(order, Happening::RolledBack);
    }

    pub(super) fn receiver_is_down(&self, is_down: bool) {
        let mut facts = self.facts();
        facts.is_down = is_down;
        facts.happened(None, if is_down { Happening::Down } else { Happening::Up });
    }

    pub(super) fn requested(&self, id: Uuid, answer: Answer) {
        let mut facts = self.facts();
        facts.requests += 1;
        facts.requested.insert(id);
        if matches!(answer, Answer::Taken | Answer::TakenAndRefused) {
            *facts.taken.entry(id).or_default() += 1;
        }
        match answer {
            Answer::Taken => {}
            Answer::Refused | Answer::TakenAndRefused => facts.refused += 1,
            Answer::Unavailable => facts.unavailable += 1,
        }
    }

    /// Waits until every committed event is delivered. Call it after the last commit.
    pub(super) async fn all_delivered(&self) {
        loop {
            let delivery = self.delivery.notified();
            if self.facts().waiting() == 0 {
                return;
            }
            delivery.await;
        }
    }

    pub(super) fn verdict(&self, orders: u64, counts: &Counts, took: Duration) -> Verdict {
        Verdict::of(&self.facts(), orders, counts, took)
    }
}

impl Observer for Tally {
    fn sent(&self, event: &StoredEvent, _destination: &str, _took: Duration) -> Observed {
        let mut facts = self.facts();
        facts.delivered.insert(event.id);
        facts.happened(order(event), Happening::Delivered { attempt: event.attempts + 1 });
        drop(facts);
        self.delivery.notify_one();
        Ok(())
    }

    fn failed(&self, event: &StoredEvent, _destination: &str, error: &SendError) -> Observed {
        let mut facts = self.facts();
        facts.retried.insert(event.id);
        let outage = error.kind == SendErrorKind::Unavailable;
        facts.happened(order(event), if outage { Happening::Unavailable } else { Happening::Refused });
        Ok(())
    }
}

fn order(event: &StoredEvent) -> Option<u32> {
    event.aggregate_id.parse().ok()
}
