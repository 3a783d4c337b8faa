//! The relay: claim, route, send and settle in a loop, with wake-ups and upkeep beside it. It names no concrete store and
//! no concrete sink.
//!
//! `run_once` is one pass, for tests and schedulers. `run` runs the same steps and claims ahead, until shutdown. Each step
//! has its own file beside this one.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use crate::check::Check;
use crate::clock;
use crate::delivery::{Change, UNROUTED, Verdict};
use crate::error::StoreError;
use crate::observe::{Observer, Observers};
use crate::route::{OfKind, Routes};
use crate::store::{Ask, Claim, Claimed, Store};
use crate::trace::Tracer;

mod breaker;
mod check;
mod flight;
mod gauge;
mod lane;
mod lease;
mod load;
mod log;
mod metrics;
mod monitor;
mod order;
mod probe;
mod rate;
mod reroute;
mod run;
mod send;
mod settings;
mod settler;
mod tally;
mod together;
mod upkeep;
pub mod wake;

pub use breaker::BreakerSettings;
pub use monitor::{Monitor, RelayStatus};
pub use settings::{Chance, Destination, OnDelivered, RecordAttempts, RelayBuilder, RelaySettings, Unrouted};

use flight::Flight;
use gauge::Gauge;
use lane::Lane;
use load::{Batch, Load, Permit, Weight, lock};
use order::{Offer, Sequence, Turn};
use reroute::Rerouted;
use settler::{Settler, Settling};
use wake::Waker;

/// Delivers committed events.
///
/// A service runs its relay in a task of its own until it shuts down. The [`Waker`] tells it of a commit in the same process, so
/// that it need not poll.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use pillarbox::store::postgres::PostgresStore;
/// use pillarbox::{Event, Outbox, Relay, SendError};
/// use tokio::sync::oneshot;
///
/// # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
/// let store = PostgresStore::connect("postgres://shop@127.0.0.1/shop", "public").await?;
/// let relay = Relay::builder(Arc::new(store.clone()))
///     .handler("order.placed", |message| async move {
///         println!("mail about order {}", message.aggregate_id);
///         Ok::<_, SendError>(())
///     })
///     .build()?;
/// let outbox = Outbox::waking(relay.waker());
///
/// let (stop, stopped) = oneshot::channel::<()>();
/// let running = tokio::spawn(async move { relay.run(async { drop(stopped.await) }).await });
///
/// let mut tx = store.pool().begin().await?;
/// outbox.emit(&mut tx, Event::new("Order", 42, "order.placed")).await?;
/// outbox.commit(tx).await?;
///
/// // The relay finishes what it sends, and gives the rest back.
/// let _ = stop.send(());
/// running.await??;
/// # Ok(())
/// # }
/// ```
pub struct Relay {
    engine: Arc<Engine>,
}

/// The result of one pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Pass {
    /// The number of events that were claimed and settled, with any verdict.
    pub processed: u64,
    /// The number of events that are still due.
    pub remaining: u64,
}

/// The most event types without a route that are logged by name.
const MOST_TOLD: usize = 1000;

/// The state that all parts of a relay share.
struct Engine {
    store: Arc<dyn Store>,
    settings: RelaySettings,
    routes: Routes,
    check: Option<Arc<dyn Check>>,
    lanes: BTreeMap<String, Arc<Lane>>,
    observers: Observers,
    tracer: Option<Arc<dyn Tracer>>,
    chance: Chance,
    settler: Settler,
    /// The waiting events of each aggregate, if order is kept.
    sequence: Option<Sequence>,
    load: Load,
    /// Events that probe destinations that are down. Nothing waits for them until the relay stops.
    probes: Load,
    waker: Waker,
    phase: Gauge<Phase>,
    /// While true, lanes start no new sends, because an event is sent alone.
    hush: Gauge<bool>,
    /// Notified when a destination is back, so that its events can be unparked.
    recovered: Notify,
    /// Event types without a route that were logged, at most [`MOST_TOLD`].
    unrouted_types: Mutex<HashSet<String>>,
    /// Whether this relay keeps running. Only then can it hold an event to probe a destination that is down.
    running: AtomicBool,
    /// The searches for events that were parked under other routes.
    rerouted: Mutex<Rerouted>,
}

tokio::task_local! {
    /// The relay that is sending in this task, as the address of its engine.
    static SENDER: usize;
}

/// The progress of a shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Running,
    /// Nothing new is claimed or started.
    Stopping,
    /// The shutdown timeout is over for everything in flight.
    Aborting,
}

impl Relay {
    /// Returns a builder for a relay on this store. Add destinations and routes, or handlers.
    pub fn builder(store: Arc<dyn Store>) -> RelayBuilder {
        RelayBuilder::new(store)
    }

    fn new(engine: Engine) -> Self {
        let order = engine.settings.order;
        Self { engine: Arc::new_cyclic(|shared| Engine { sequence: Sequence::of(order, shared), ..engine }) }
    }

    /// Returns a handle that wakes this relay, for code that commits events in this process.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.engine.waker.clone()
    }

    /// Returns whether the caller runs inside a send of this relay. Waiting for the relay there would be
    /// waiting for itself.
    pub(crate) fn is_caller(&self) -> bool {
        SENDER.try_with(|sender| *sender == self.engine.address()).unwrap_or(false)
    }

    /// Runs one pass: claims a batch, sends it, settles it, and returns when that is done.
    ///
    /// # Errors
    /// Errors of the store. Claimed events are due again after their lease.
    pub async fn run_once(&self) -> Result<Pass, StoreError> {
        let engine = &self.engine;
        // A dropped run leaves another phase behind. A run that goes on sets its phase itself.
        if !engine.is_running() {
            engine.phase.set(Phase::Running);
        }
        engine.start_settling();
        engine.sweep().await?;
        engine.unpark().await?;
        let (claim, offer) = engine.claim(true).await?;
        let processed = claim.len() as u64;
        // A pass has nothing else in flight.
        if let Some((ticket, losses)) = claim.sent_alone() {
            engine.blame(ticket, losses).await;
        }
        engine.dispatch(claim);
        drop(offer);
        engine.load.at_most(Weight::default()).await;
        Ok(Pass { processed, remaining: engine.store.remaining().await? })
    }

    /// Runs passes until nothing is due. Events that are due later, and parked events, stay.
    ///
    /// # Errors
    /// As [`Relay::run_once`].
    pub async fn drain(&self) -> Result<Pass, StoreError> {
        let mut total = Pass::default();
        loop {
            let pass = self.run_once().await?;
            total.processed += pass.processed;
            total.remaining = pass.remaining;
            if pass.processed == 0 {
                return Ok(total);
            }
        }
    }
}

impl Engine {
    fn new(
        store: Arc<dyn Store>,
        settings: RelaySettings,
        routes: Routes,
        lanes: BTreeMap<String, Arc<Lane>>,
        observers: Observers,
        tracer: Option<Arc<dyn Tracer>>,
        chance: Chance,
    ) -> Self {
        Self {
            store,
            settings,
            routes,
            check: None,
            lanes,
            observers,
            tracer,
            chance,
            settler: Settler::new(),
            sequence: None,
            load: Load::new(),
            probes: Load::new(),
            waker: Waker::default(),
            phase: Gauge::new(Phase::Running),
            hush: Gauge::new(false),
            recovered: Notify::new(),
            unrouted_types: Mutex::default(),
            running: AtomicBool::new(false),
            rerouted: Mutex::default(),
        }
    }

    /// Runs a send so that code inside it can detect that it is called by this relay.
    async fn sending<T>(&self, send: impl Future<Output = T>) -> T {
        SENDER.scope(self.address(), send).await
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Returns a random number in `[0, 1)`, for jitter.
    fn chance(&self) -> f64 {
        (self.chance.0)()
    }

    fn is_running(&self) -> bool {
        self.running.load(Ordering::Relaxed)
    }

    /// Claim: takes a batch. With `alone`, the batch may be one event that must be sent alone. The caller drops the offer when the
    /// batch is dispatched.
    async fn claim(&self, alone: bool) -> Result<(Claim, Offer), StoreError> {
        let offer = self.offer();
        let ask = Ask {
            limit: self.settings.batch_size,
            bytes: self.settings.bytes_in_flight / 2,
            lease: self.settings.lease,
            order: self.settings.order,
            behind: &offer.behind,
            whole: !self.is_running(),
            claim_by: self.settings.claim_by,
            alone,
        };
        let began = clock::now();
        let mut claim = self.store.claim(ask).await?;
        if let Some(tracer) = self.tracer.as_ref().filter(|_| !claim.is_empty()) {
            claim.set_trace(tracer.claimed(&claim, clock::since(began)));
        }
        self.observers.tell("turned", Observer::turned);
        Ok((claim, offer))
    }

    /// Send: starts all events at once, or each one at its turn if order is kept.
    fn dispatch(self: &Arc<Self>, claim: Claim) {
        if claim.is_empty() {
            return;
        }
        self.settler.expect(&claim);
        let batch = Batch::new(&self.observers, claim.len(), claim.trace(), self.named("batch_processed"));
        let permits = self.load.admit_all(claim.iter().map(|claimed| claimed.event().payload.get().len()), &batch);
        drop(batch);
        let admitted = claim.into_iter().zip(permits);
        match &self.sequence {
            None => admitted.for_each(|(claimed, permit)| match self.refusal(&claimed) {
                None => {
                    let routed = self.routes.find(&**claimed.event());
                    self.start(claimed, permit, routed, None);
                }
                Some(refusal) => self.refuse(claimed, permit, None, refusal),
            }),
            Some(sequence) => self.enter(sequence, admitted),
        }
    }

    /// Starts the events of an aggregate whose turn it is: one event, or a run for one destination. Each has its route.
    fn start_run(self: &Arc<Self>, mut run: VecDeque<(Claimed, Permit, Option<usize>, Turn)>) {
        if run.len() == 1
            && let Some((claimed, permit, routed, turn)) = run.pop_front()
        {
            return self.start(claimed, permit, routed, Some(turn));
        }
        // Each event of a run goes to one destination, the same for all.
        let mut jobs = Vec::with_capacity(run.len());
        for (claimed, permit, routed, turn) in run {
            let destinations = self.routes.at(routed).unwrap_or_default();
            for job in Flight::start(self, claimed, destinations, permit, Some(turn)) {
                jobs.push(if jobs.is_empty() { job } else { job.following() });
            }
        }
        if let Some(lane) = jobs.first().and_then(|job| self.lanes.get(job.destination())) {
            lane.accept(self, jobs);
        }
    }

    /// Route and send: hands an event to the lanes of its destinations. `routed` is the position of its route.
    fn start(self: &Arc<Self>, claimed: Claimed, permit: Permit, routed: Option<usize>, turn: Option<Turn>) {
        let destinations = match self.routes.at(routed) {
            Some(destinations) => destinations,
            None if claimed.deliveries().is_empty() => {
                let verdict = self.unrouted(&claimed);
                let change = verdict.change.clone();
                self.settler.settle(Settling::untried(claimed.settle(verdict), permit));
                if let Some(turn) = turn {
                    turn.ended(&change);
                }
                return;
            }
            None => &[],
        };
        for job in Flight::start(self, claimed, destinations, permit, turn) {
            match self.lanes.get(job.destination()) {
                Some(lane) => lane.accept(self, [job]),
                None => self.park_unknown(job),
            }
        }
    }

    fn unrouted(&self, claimed: &Claimed) -> Verdict {
        let event = claimed.event();
        let change = match self.settings.unrouted {
            Unrouted::Discard => Change::Deliver,
            Unrouted::Park => {
                let mut told = lock(&self.unrouted_types);
                if told.len() < MOST_TOLD && told.insert(event.event_type.clone()) {
                    tracing::warn!(
                        event_type = event.event_type,
                        "no route matches; these events are parked until one does"
                    );
                }
                let by_payload = self.routes.of_kind(&event.event_type, &event.aggregate_type) == OfKind::ByPayload;
                let with = if by_payload { " with this payload" } else { "" };
                let error = format!("no route matches {:?} of {:?}{with}", event.event_type, event.aggregate_type);
                Change::Park { on: UNROUTED.to_owned(), error }
            }
        };
        Verdict::of(change, event.attempts)
    }

    /// Waits until this phase is reached.
    async fn phase_reached(&self, phase: Phase) {
        self.phase.wait_for(|now| now >= phase).await;
    }

    /// Rests, and returns whether the phase was reached first.
    async fn rest_unless(&self, phase: Phase, pause: Duration) -> bool {
        tokio::time::timeout(pause, self.phase_reached(phase)).await.is_ok()
    }
}
