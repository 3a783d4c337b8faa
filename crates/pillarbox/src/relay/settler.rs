//! Settle: writes the verdicts of events, in batches as they come. A settle that fails is kept and retried. Meanwhile nothing
//! new is claimed, so that sent events are not sent again at full speed.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, Weak};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::sync::mpsc;
use uuid::Uuid;

use super::gauge::Gauge;
use super::load::{Permit, lock};
use super::settings::OnDelivered;
use super::together::{Added, Together};
use super::{Engine, Phase};
use crate::clock;
use crate::delivery::{Change, Verdict};
use crate::event::StoredEvent;
use crate::observe::panic_message;
use crate::store::{Claim, Settlement, Ticket};
use crate::trace::{Settled, SpanContext, Tracer};

/// A settlement, with its event's permit, which is held until the settlement is written.
pub(super) struct Settling {
    pub(super) settlement: Settlement,
    pub(super) permit: Option<Permit>,
    /// The spans of the event's attempts.
    pub(super) sends: Vec<SpanContext>,
}

impl Settling {
    /// Returns the settling of an event that was not sent.
    pub(super) fn untried(settlement: Settlement, permit: Permit) -> Self {
        Self { settlement, permit: Some(permit), sends: Vec::new() }
    }
}

/// A message to the settler.
enum News {
    /// A claim with this token has this many events. They are best settled at once, if that is possible before `until`.
    Claimed {
        token: Uuid,
        events: usize,
        until: Instant,
    },
    Settled(Settling),
}

pub(super) struct Settler {
    queue: mpsc::UnboundedSender<News>,
    /// The receiver, until the settling task takes it.
    waiting: Mutex<Option<mpsc::UnboundedReceiver<News>>>,
    /// The number of batches whose last settle failed.
    failing: Gauge<usize>,
}

/// The most messages that are received at once.
const BATCH: usize = 1000;
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// From this pause on, settles are tried one by one, in case the database refuses a single event.
const ONE_BY_ONE: Duration = Duration::from_millis(400);

impl Settler {
    pub(super) fn new() -> Self {
        let (queue, waiting) = mpsc::unbounded_channel();
        Self { queue, waiting: Mutex::new(Some(waiting)), failing: Gauge::new(0) }
    }

    pub(super) fn settle(&self, settling: Settling) {
        // The receiver lives as long as the relay. Without one, the lease runs out and the event is sent again.
        let _ = self.queue.send(News::Settled(settling));
    }

    /// Asks for the events of this claim to be settled at once, if the store wants that.
    pub(super) fn expect(&self, claim: &Claim) {
        if let (Some(patience), Some(first)) = (claim.together(), claim.iter().next()) {
            let token = first.ticket().token;
            let _ = self.queue.send(News::Claimed { token, events: claim.len(), until: clock::now() + patience });
        }
    }

    /// Returns whether no batch is failing.
    pub(super) fn is_working(&self) -> bool {
        self.failing.get() == 0
    }

    /// Waits until no batch is failing.
    pub(super) async fn working(&self) {
        self.failing.wait_for(|failing| failing == 0).await;
    }
}

/// Counts a batch as failing, until it is settled or given up.
struct Failing<'a> {
    failing: &'a Gauge<usize>,
    counted: bool,
}

impl Failing<'_> {
    fn now(&mut self) {
        if !std::mem::replace(&mut self.counted, true) {
            self.failing.change(|failing| *failing += 1);
        }
    }
}

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        if self.counted {
            self.failing.change(|failing| *failing -= 1);
        }
    }
}

/// Settles what it receives until the relay is gone.
async fn keep_settling(engine: Weak<Engine>, mut waiting: mpsc::UnboundedReceiver<News>) {
    let mut together = Together::new();
    let mut news = Vec::new();
    let mut alone = Vec::new();
    loop {
        let overdue = async {
            match together.until() {
                Some(until) => tokio::time::sleep_until(until.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            heard = waiting.recv_many(&mut news, BATCH) => if heard == 0 { return },
            () = overdue => {}
        }
        let Some(engine) = engine.upgrade() else { return };
        for one in news.drain(..) {
            match one {
                News::Claimed { token, events, until } => together.expect(token, events, until),
                News::Settled(settling) => match together.add(settling.settlement.ticket().token, settling) {
                    Added::Waits => {}
                    Added::Alone(settling) => alone.push(settling),
                    Added::Whole(claim) if engine.settles_beside() => {
                        let engine = std::sync::Arc::clone(&engine);
                        tokio::spawn(async move { engine.settle_batch(claim).await });
                    }
                    Added::Whole(claim) => engine.settle_batch(claim).await,
                },
            }
        }
        while let Some(known) = together.overdue(clock::now()) {
            engine.settle_batch(known).await;
        }
        engine.settle_batch(std::mem::take(&mut alone)).await;
    }
}

impl Engine {
    /// Starts the settling task, once.
    pub(super) fn start_settling(self: &std::sync::Arc<Self>) {
        if let Some(waiting) = lock(&self.settler.waiting).take() {
            tokio::spawn(keep_settling(std::sync::Arc::downgrade(self), waiting));
        }
    }

    /// Returns whether whole claims are settled concurrently, each in its own transaction. Not where order is kept: events that
    /// were sent first are settled first.
    fn settles_beside(&self) -> bool {
        self.sequence.is_none()
    }

    fn deletes(&self) -> bool {
        self.settings.on_delivered == OnDelivered::Delete
    }

    /// Settles one event at a time. If some succeed, the database works. The refused events are left to their leases, and after
    /// a few rounds the sweep fails them visibly. Returns the lost leases, or `None` if every settle failed.
    async fn settle_one_by_one(&self, settlements: &[Settlement]) -> Option<Vec<Ticket>> {
        let mut lost = Vec::new();
        let mut refused = Vec::new();
        for settlement in settlements {
            match self.store.settle(std::slice::from_ref(settlement), self.deletes()).await {
                Ok(gone) => lost.extend(gone),
                Err(_) => refused.push(settlement),
            }
        }
        if refused.len() == settlements.len() {
            return None;
        }
        // Try again: the database may have come back meanwhile.
        for settlement in refused {
            match self.store.settle(std::slice::from_ref(settlement), self.deletes()).await {
                Ok(gone) => lost.extend(gone),
                Err(error) => {
                    let id = settlement.event().id;
                    tracing::error!(%id, %error, "settle failed for an event; it may be sent again");
                    lost.push(settlement.ticket());
                }
            }
        }
        Some(lost)
    }

    /// Settles a batch. If the store panics, the batch is left to its leases, and the settler continues.
    async fn settle_batch(&self, batch: Vec<Settling>) {
        if batch.is_empty() {
            return;
        }
        let events = batch.len();
        if let Err(panic) = AssertUnwindSafe(self.try_settle_batch(batch)).catch_unwind().await {
            let panic = panic_message(&*panic);
            tracing::error!(events, panic, "settle panicked; sent events may be sent again");
        }
    }

    async fn try_settle_batch(&self, batch: Vec<Settling>) {
        let began = clock::now();
        let followed = self.tracer.as_deref().map(|tracer| Followed::new(tracer, &batch));
        let (settlements, permits): (Vec<Settlement>, Vec<Option<Permit>>) =
            batch.into_iter().map(|settling| (settling.settlement, settling.permit)).unzip();
        let lost = self.keep_trying(&settlements).await;
        if let Some(followed) = followed {
            followed.settled(&settlements, lost.as_ref().map(Vec::len), clock::since(began));
        }
        let Some(lost) = lost else { return };
        if !lost.is_empty() {
            tracing::warn!(events = lost.len(), "lease lost before the settle; sent events may be sent again");
        }
        let lost: HashSet<Ticket> = lost.into_iter().collect();
        for (settlement, permit) in settlements.iter().zip(&permits) {
            if !lost.contains(&settlement.ticket()) {
                self.tell_settled(settlement.event(), settlement.verdict());
                permit.iter().for_each(|permit| permit.settled(&settlement.verdict().change));
            }
        }
        self.load.release(permits.into_iter().flatten());
        if self.sequence.is_some() {
            // Events that had to wait for these may be due.
            self.waker.wake();
        }
    }

    /// Retries until the settlements are written or the leases are over. Returns the lost leases, or `None` if the relay ends
    /// first.
    async fn keep_trying(&self, settlements: &[Settlement]) -> Option<Vec<Ticket>> {
        let mut pause = PAUSE;
        let mut failing = Failing { failing: &self.settler.failing, counted: false };
        let began = clock::now();
        loop {
            // By then the leases have run out, and a settle would change nothing.
            if clock::since(began) > self.settings.lease {
                return Some(settlements.iter().map(Settlement::ticket).collect());
            }
            let error = match self.store.settle(settlements, self.deletes()).await {
                Ok(lost) => return Some(lost),
                Err(error) => error,
            };
            failing.now();
            tracing::warn!(%error, events = settlements.len(), "settle failed; no claims until it succeeds");
            if self.rest_unless(Phase::Aborting, pause).await {
                let events = settlements.len();
                tracing::error!(events, "stopped before the settle succeeded; sent events may be sent again");
                return None;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
            if pause >= ONE_BY_ONE
                && let Some(lost) = self.settle_one_by_one(settlements).await
            {
                return Some(lost);
            }
        }
    }

    /// Tells the observers the written verdict, and logs dead letters.
    pub(super) fn tell_settled(&self, event: &StoredEvent, verdict: &Verdict) {
        if let Change::Fail { error } = &verdict.change {
            tracing::error!(
                event = %self.named("max_retries_exceeded"),
                id = %event.id,
                event_type = event.event_type,
                destination = verdict.failures.first().map(|attempt| attempt.destination.as_str()),
                attempts = verdict.attempts,
                error,
                "event failed for good; it is a dead letter"
            );
            self.count_given_up(verdict);
            self.observers.tell("dead_lettered", |observer| observer.dead_lettered(event, error));
        }
        self.observers.tell("settled", |observer| observer.settled(event, verdict));
    }
}

/// Where the settled events were claimed from, and the spans of their sends.
struct Followed<'a> {
    tracer: &'a dyn Tracer,
    claim: Option<SpanContext>,
    sends: Vec<SpanContext>,
}

impl<'a> Followed<'a> {
    fn new(tracer: &'a dyn Tracer, batch: &[Settling]) -> Self {
        let claims = || batch.iter().map(|settling| settling.permit.as_ref().and_then(Permit::claim_span));
        let first = claims().next().flatten();
        let claim = first.filter(|_| claims().all(|claim| claim == first));
        Self { tracer, claim, sends: batch.iter().flat_map(|settling| settling.sends.iter().copied()).collect() }
    }

    fn settled(&self, settlements: &[Settlement], lost: Option<usize>, took: Duration) {
        self.tracer.settled(&Settled { settlements, lost, claim: self.claim, sends: &self.sends, took });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settling_works_when_nothing_fails_any_more() {
        let settler = Settler::new();
        let failing = || Failing { failing: &settler.failing, counted: false };
        let (mut one, mut other, fine) = (failing(), failing(), failing());
        one.now();
        one.now();
        other.now();
        drop((one, fine));
        assert!(!settler.is_working());
        drop(other);
        assert!(settler.is_working());
    }
}
