//! Hold: a claim by the locks of an open transaction, which also settles it. That is one write per event, and a dead relay's
//! events are free as soon as its connection is gone.
//!
//! Only events with fast responses are held this way. The others become leases in the transaction's settle or, without a
//! settle, a moment later. So no transaction is open for long, whatever a destination does. It knows no sinks.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::claim::Place;
use super::connect::Connections;
use super::error::Error;
use super::link::Tx;
use super::pinned::Pinned;
use super::settle::Fence;
use super::{PostgresStore, SQL};
use crate::event::StoredEvent;
use crate::store::{Ask, Settlement, Ticket};

/// The maximum time that a transaction stays open for responses.
const LONGEST: Duration = Duration::from_millis(250);
/// The minimum time after which an event without a response becomes a lease.
const SHORTEST: Duration = Duration::from_millis(20);
/// The additional time after which the store leases events that the relay has not settled.
const GRACE: Duration = Duration::from_millis(50);
/// The time of claims by lease after a hold in which most events were slow. It doubles each time.
const FIRST_PENALTY: Duration = Duration::from_secs(1);
const LONGEST_PENALTY: Duration = Duration::from_secs(30);
/// The maximum number of open transactions, which is also limited to a third of the pool's connections.
const MOST: usize = 4;
/// The minimum number of events that a claim asks for, however large the last payloads were.
const LEAST: usize = 16;
/// The number of broken holds that are remembered.
const REMEMBERED: usize = 64;

/// Begins a transaction that claims. Its statements are forced to use the index that exists for them: before the planner has
/// statistics of a backlog, it would read and sort the whole backlog.
macro_rules! begin {
    () => {
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL synchronous_commit = off; \
         SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; SET LOCAL jit = off"
    };
}
const BEGIN: &str = begin!();
/// Begins a transaction whose statements are kept. They have one plan, which is made once.
const BEGIN_KEPT: &str = concat!(begin!(), "; SET LOCAL plan_cache_mode = force_generic_plan");

/// The holds of a store.
#[derive(Debug)]
pub(super) struct Holds {
    pool: Pinned,
    kept: Pinned,
    open: Mutex<HashMap<Uuid, Arc<Hold>>>,
    /// Holds whose transactions broke. Their events are free, unless another claim has taken them since.
    broken: Mutex<VecDeque<Uuid>>,
    tempo: Mutex<Tempo>,
    /// Whether no payload of the last claim was larger than its share of a claim's bytes.
    pub(super) light: AtomicBool,
    /// The size of a typical payload of the last claim in bytes, where payloads are large.
    typical: AtomicUsize,
}

/// One claim that is held by locks.
#[derive(Debug)]
pub(super) struct Hold {
    token: Uuid,
    lease: Duration,
    began: Instant,
    /// The transaction; `None` if settled, leased or broken.
    held: tokio::sync::Mutex<Option<Held>>,
    /// Events that were given back unsettled.
    dropped: Mutex<HashSet<Uuid>>,
}

/// The transaction of a hold, and its events.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) tx: Tx,
    pub(super) ids: Vec<Uuid>,
    /// The place after which the events were read.
    pub(super) after: Option<Place>,
    /// The place after which events were locked but not claimed, because of their size.
    pub(super) cut: Option<Place>,
}

/// How fast holds get their responses, and whether holding pays off.
#[derive(Debug)]
struct Tempo {
    /// The smoothed duration of a hold in which every event got a response.
    typical: Duration,
    penalty: Duration,
    leases_until: Option<Instant>,
}

impl Tempo {
    /// Returns the time after which an event without a response is slow.
    fn patience(&self) -> Duration {
        (self.typical * 4).clamp(SHORTEST, LONGEST)
    }

    fn ended(&mut self, took: Duration, events: usize, slow: usize, now: Instant) {
        if slow * 2 > events {
            self.penalty = (self.penalty * 2).clamp(FIRST_PENALTY, LONGEST_PENALTY);
            self.leases_until = Some(now + self.penalty);
            // The penalty may have been bad luck, so the next hold gets the maximum time.
            self.typical = LONGEST;
        } else if slow == 0 {
            self.typical = (self.typical * 3 + took.min(LONGEST)) / 4;
            self.penalty = Duration::ZERO;
        }
    }
}

impl Holds {
    pub(super) fn new(connections: &Arc<Connections>) -> Self {
        Self {
            kept: Pinned::beginning_with(Arc::clone(connections), BEGIN_KEPT),
            pool: Pinned::beginning_with(Arc::clone(connections), BEGIN),
            open: Mutex::default(),
            broken: Mutex::default(),
            tempo: Mutex::new(Tempo { typical: LONGEST, penalty: Duration::ZERO, leases_until: None }),
            light: AtomicBool::new(true),
            typical: AtomicUsize::new(0),
        }
    }

    /// Returns the connections for claims whose statements are planned each time.
    pub(super) fn pool(&self) -> &Pinned {
        &self.pool
    }

    /// Returns the connections for claims whose statements are kept.
    pub(super) fn kept(&self) -> &Pinned {
        &self.kept
    }

    /// Returns whether a claim made now can be held by locks.
    pub(super) fn has_room(&self) -> bool {
        let most = MOST.min(self.pool.connections().most() / 3);
        let slow = lock(&self.tempo).leases_until.is_some_and(|until| until > Instant::now());
        !slow && lock(&self.open).len() < most
    }

    /// Limits the request to the events that will fit. A claim decompresses each payload to learn its size, which takes a
    /// second for five hundred large payloads.
    pub(super) fn fitting<'a>(&self, ask: Ask<'a>) -> Ask<'a> {
        match self.typical.load(Ordering::Relaxed) {
            0 => ask,
            typical => {
                Ask { limit: (ask.bytes / typical).saturating_mul(2).clamp(LEAST.min(ask.limit), ask.limit), ..ask }
            }
        }
    }

    /// Records the size of payloads. `share` is the size up to which they are small.
    pub(super) fn weigh<'a>(&self, events: impl Iterator<Item = &'a StoredEvent>, share: usize) {
        let (count, bytes) =
            events.fold((0, 0), |(count, bytes), event| (count + 1, bytes + event.payload.get().len()));
        if let Some(mean) = bytes.checked_div(count) {
            self.typical.store(if mean > share { mean } else { 0 }, Ordering::Relaxed);
        }
    }

    pub(super) fn find(&self, token: Uuid) -> Option<Arc<Hold>> {
        lock(&self.open).get(&token).cloned()
    }

    /// Returns whether the claim was held by locks that are gone.
    pub(super) fn is_broken(&self, token: Uuid) -> bool {
        lock(&self.broken).contains(&token)
    }

    /// Records that an event was given back. Returns `false` if it is not held by locks.
    pub(super) fn drop_ticket(&self, ticket: Ticket) -> bool {
        // Under the lock: the end of a hold first removes the hold from `open`, and then reads `dropped`.
        match lock(&self.open).get(&ticket.token) {
            Some(hold) => lock(&hold.dropped).insert(ticket.id),
            None => false,
        }
    }

    fn broke(&self, token: Uuid) {
        let mut broken = lock(&self.broken);
        broken.push_back(token);
        if broken.len() > REMEMBERED {
            broken.pop_front();
        }
    }
}

impl PostgresStore {
    /// Keeps the transaction, and later leases events that are not settled. Returns how long the relay should wait.
    pub(super) fn keep(&self, token: Uuid, lease: Duration, held: Held) -> Duration {
        let hold = Arc::new(Hold {
            token,
            lease,
            began: Instant::now(),
            held: tokio::sync::Mutex::new(Some(held)),
            dropped: Mutex::default(),
        });
        lock(&self.holds.open).insert(token, Arc::clone(&hold));
        let patience = lock(&self.holds.tempo).patience();
        let store = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(patience + GRACE).await;
            if let Err(error) = store.settle_held(&hold, &[], false).await {
                tracing::warn!(%error, "lease failed for claimed events; they are due again");
            }
        });
        patience
    }

    /// Settles within the transaction that holds these events, and leases the other events of that claim. Returns `None` if the
    /// transaction is no longer open. After an error the events are leased, or the transaction broke.
    pub(super) async fn settle_held(
        &self,
        hold: &Hold,
        settlements: &[&Settlement],
        delete: bool,
    ) -> Result<Option<HashSet<Uuid>>, Error> {
        let mut held = hold.held.lock().await;
        let Some(mut taken) = held.take() else { return Ok(None) };
        let (mut ending, events) =
            (Ending { store: self, hold, after: taken.after, cut: taken.cut, breaks: true }, taken.ids.len());
        // In the common case one statement settles all, and the commit is sent with it.
        let done = if settlements.len() == events && settlements.iter().all(|settlement| settlement.is_plain_delivery())
        {
            taken.tx.last(self.plain_deliveries(&taken.ids, delete)).await?;
            Done { settled: taken.ids.into_iter().collect(), leased: 0, refused: None }
        } else {
            let done = self.settle_or_lease(hold, &mut taken, settlements, delete).await?;
            taken.tx.commit().await?;
            done
        };
        ending.breaks = false;
        drop(ending);
        let now = Instant::now();
        lock(&self.holds.tempo).ended(now - hold.began, events, done.leased, now);
        match done.refused {
            Some(error) => Err(error),
            None => Ok(Some(done.settled)),
        }
    }

    /// Settles, or leases all events if the database refuses the settle, so that the locks are not lost.
    async fn settle_or_lease(
        &self,
        hold: &Hold,
        held: &mut Held,
        settlements: &[&Settlement],
        delete: bool,
    ) -> Result<Done, Error> {
        // Plain deliveries and parks are written by their ids alone, so the database cannot refuse them. After a savepoint,
        // each row that is locked and then written would also need a multixact.
        if settlements.iter().all(|settlement| settlement.is_plain_delivery() || settlement.plain_park().is_some()) {
            return self.settle_and_lease(hold, held, settlements, delete).await;
        }
        held.tx.run("SAVEPOINT settle").await?;
        match self.settle_and_lease(hold, held, settlements, delete).await {
            Err(Error::Server(refused)) => {
                held.tx.run("ROLLBACK TO SAVEPOINT settle").await?;
                let leased = self.settle_and_lease(hold, held, &[], delete).await?;
                Ok(Done { refused: Some(Error::Server(refused)), ..leased })
            }
            done => done,
        }
    }

    async fn settle_and_lease(
        &self,
        hold: &Hold,
        held: &mut Held,
        settlements: &[&Settlement],
        delete: bool,
    ) -> Result<Done, Error> {
        let settled = self.settle_in(&mut held.tx, settlements, Fence::Lock, delete).await?;
        if settled.len() == held.ids.len() {
            return Ok(Done { settled, leased: 0, refused: None });
        }
        // Dropped events are due at their old place as soon as the transaction ends.
        let dropped = lock(&hold.dropped).clone();
        let rest = held.ids.iter().filter(|id| !settled.contains(*id) && !dropped.contains(*id));
        let rest: Vec<Uuid> = rest.copied().collect();
        let leased = rest.len();
        if !rest.is_empty() {
            self.kept_query(SQL.hold_lease)
                .bind(rest)
                .bind(hold.token)
                .bind(hold.lease.as_secs_f64())
                .execute(&mut *held.tx)
                .await?;
        }
        Ok(Done { settled, leased, refused: None })
    }
}

/// The result of a settle.
struct Done {
    settled: HashSet<Uuid>,
    /// The number of events without a response.
    leased: usize,
    /// The database's error if it refused the settle.
    refused: Option<Error>,
}

/// Ends a hold when it is dropped, even if the settle is cancelled half-way.
struct Ending<'a> {
    store: &'a PostgresStore,
    hold: &'a Hold,
    after: Option<Place>,
    cut: Option<Place>,
    /// Whether the transaction was not committed, so that its events are free.
    breaks: bool,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let (holds, hold) = (&self.store.holds, self.hold);
        // Before the removal: a caller that does not find the hold takes it for a lease.
        if self.breaks {
            holds.broke(hold.token);
        }
        lock(&holds.open).remove(&hold.token);
        let dropped = std::mem::take(&mut *lock(&hold.dropped));
        if self.breaks || !dropped.is_empty() {
            // The events are due at their old places.
            self.store.walk.lock().back_to(self.after, Instant::now());
        } else if self.cut.is_some() {
            self.store.walk.lock().back_to(self.cut, Instant::now());
        }
        // Some may have been dropped after the others were leased. For the rest this changes nothing.
        for id in dropped {
            let _ = self.store.give_back.send(Ticket { id, token: hold.token });
        }
    }
}

/// Locks a mutex. Its content is still valid after a panic in another task.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
