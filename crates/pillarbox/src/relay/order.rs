//! Order: this relay sends its events of one aggregate one after another. The first event is sent, and the others wait
//! behind it. When it is delivered, the next one is sent. When it is not, the waiting events are given back. A sink that keeps
//! order itself gets a whole run of events at once: see [`Sink::keeps_order`](crate::Sink::keeps_order).
//!
//! [`Lines`] is the pure core: it knows no engine and no clock. The store guarantees that no other relay sends an event of
//! the aggregate meanwhile: see `claim_ordered.sql` and `walls.sql`. A claim may take events behind those of a line, so that
//! with few aggregates the relay does not wait for a settle before the next claim.

mod lines;

use std::collections::{HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use self::lines::{Entered, Lines, Outcome, Step};
use super::check::Refusal;
use super::lane::Lane;
use super::load::{Permit, lock};
use super::settler::Settling;
use super::{Engine, Phase};
use crate::delivery::{Change, Verdict};
use crate::event::StoredEvent;
use crate::store::{Claimed, LOSSES_BEFORE_ALONE, OnFailed, Order, Ticket};

/// The lines of waiting events, in a relay that keeps the order of aggregates.
pub(super) struct Sequence {
    on_failed: OnFailed,
    engine: Weak<Engine>,
    lines: Mutex<Lines<Aggregate, Waiting>>,
}

/// An event that waits behind another event of its aggregate.
struct Waiting {
    claimed: Claimed,
    permit: Permit,
    /// The position of its route. A route can depend on the payload, which is parsed once only.
    routed: Option<usize>,
    /// Set for an event that is not sent, because it violates the relay's check.
    refusal: Option<Refusal>,
}

/// The aggregate of an event, represented by one of its events.
#[derive(Debug, Clone)]
struct Aggregate(Arc<StoredEvent>);

impl PartialEq for Aggregate {
    fn eq(&self, other: &Self) -> bool {
        self.0.aggregate_id == other.0.aggregate_id && self.0.aggregate_type == other.0.aggregate_type
    }
}

impl Eq for Aggregate {}

impl Hash for Aggregate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.aggregate_id.hash(state);
        self.0.aggregate_type.hash(state);
    }
}

/// An event's turn in the line of its aggregate. The holder reports how the turn ended. A dropped turn is a broken one.
pub(super) struct Turn {
    engine: Weak<Engine>,
    aggregate: Option<Aggregate>,
}

impl Turn {
    pub(super) fn ended(mut self, change: &Change) {
        if let (Some(engine), Some(aggregate)) = (self.engine.upgrade(), self.aggregate.take()) {
            engine.turn_ended(&aggregate, Some(change));
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let (Some(engine), Some(aggregate)) = (self.engine.upgrade(), self.aggregate.take()) {
            engine.turn_ended(&aggregate, None);
        }
    }
}

/// An event's place in the line of its aggregate. It is dropped when the table knows the event's result.
pub(super) struct Place {
    engine: Weak<Engine>,
    event: Aggregate,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.upgrade()
            && let Some(sequence) = &engine.sequence
        {
            lock(&sequence.lines).settled(&self.event, self.event.0.seq);
        }
    }
}

/// The events behind which a claim may take others. It is dropped when the events of the claim have entered their lines.
#[derive(Default)]
pub(super) struct Offer {
    engine: Weak<Engine>,
    pub(super) behind: Vec<i64>,
}

impl Drop for Offer {
    fn drop(&mut self) {
        if let Some(engine) = self.engine.upgrade()
            && let Some(sequence) = &engine.sequence
        {
            lock(&sequence.lines).claimed();
        }
    }
}

impl Sequence {
    /// Returns `None` for a relay that keeps no order.
    pub(super) fn of(order: Order, engine: &Weak<Engine>) -> Option<Self> {
        match order {
            Order::None => None,
            Order::Aggregate(on_failed) => {
                Some(Self { on_failed, engine: Weak::clone(engine), lines: Mutex::default() })
            }
        }
    }

    fn turn(&self, aggregate: &Aggregate) -> Turn {
        Turn { engine: Weak::clone(&self.engine), aggregate: Some(aggregate.clone()) }
    }

    /// Returns whether the events behind this one may follow.
    fn outcome(&self, change: Option<&Change>) -> Outcome {
        match change {
            Some(Change::Deliver) => Outcome::Next,
            Some(Change::Fail { .. }) if self.on_failed == OnFailed::Skip => Outcome::Next,
            _ => Outcome::Broken,
        }
    }

    /// Returns the leases of waiting events that have less than `left` to run.
    pub(super) fn waning(&self, left: Duration) -> Vec<Ticket> {
        let lines = lock(&self.lines);
        lines
            .waiting()
            .filter(|waiting| waiting.claimed.left() < left)
            .map(|waiting| waiting.claimed.ticket())
            .collect()
    }

    /// Notes that the leases of these waiting events were renewed.
    pub(super) fn renewed(&self, tickets: &HashSet<Ticket>, until: Instant) {
        let mut lines = lock(&self.lines);
        let renewed = lines.waiting_mut().filter(|waiting| tickets.contains(&waiting.claimed.ticket()));
        renewed.for_each(|waiting| waiting.claimed.renewed(until));
    }
}

impl Engine {
    /// Sends each event of a claim at its turn. All events enter their lines before the first one starts: it may fail at once,
    /// and then the events behind it must not take its place.
    pub(super) fn enter(self: &Arc<Self>, sequence: &Sequence, claim: impl Iterator<Item = (Claimed, Permit)>) {
        let (mut begun, mut too_late) = (Vec::new(), Vec::new());
        // Before the lines are locked, because a check and a route that depends on the payload take time.
        let admit = |(claimed, permit): (Claimed, Permit)| {
            let (routed, refusal) = (self.routes.find(&**claimed.event()), self.refusal(&claimed));
            Waiting { claimed, permit, routed, refusal }
        };
        let claim: Vec<_> = claim.map(admit).collect();
        {
            let mut lines = lock(&sequence.lines);
            for mut waiting in claim {
                let event = Aggregate(Arc::clone(waiting.claimed.event()));
                waiting.permit.keep(Place { engine: Weak::clone(&sequence.engine), event: event.clone() });
                match lines.enter(event.clone(), event.0.seq, waiting) {
                    Entered::First => begun.push(event),
                    Entered::Waits => {}
                    Entered::TooLate(waiting) => too_late.push(waiting),
                }
            }
        }
        self.give_back_waiting(too_late);
        for aggregate in begun {
            let step = lock(&sequence.lines).started(&aggregate, |waiting| self.run_length(waiting));
            self.follow(sequence, &aggregate, step);
        }
    }

    /// Begins a claim: returns the events behind which it may take others.
    pub(super) fn offer(&self) -> Offer {
        let Some(sequence) = &self.sequence else { return Offer::default() };
        let behind = lock(&sequence.lines).offer(|waiting| self.run_length(waiting));
        Offer { engine: Weak::clone(&sequence.engine), behind }
    }

    fn turn_ended(self: &Arc<Self>, aggregate: &Aggregate, change: Option<&Change>) {
        let Some(sequence) = &self.sequence else { return };
        let stops = self.phase.get() >= Phase::Stopping;
        let outcome = if stops { Outcome::Broken } else { sequence.outcome(change) };
        let step = lock(&sequence.lines).ended(aggregate, outcome, |waiting| self.run_length(waiting));
        self.follow(sequence, aggregate, step);
    }

    /// Returns how many events at the front of a line are sent at once: those of a run that goes to one destination whose sink
    /// keeps order, as far as they fit into a batch. Otherwise one.
    fn run_length(&self, waiting: &VecDeque<Waiting>) -> usize {
        let Some(lane) = waiting.front().and_then(|first| self.lane_of_runs(first)) else { return 1 };
        let mut bytes = 0_usize;
        let fits = |waiting: &&Waiting| {
            bytes = bytes.saturating_add(waiting.claimed.event().payload.get().len());
            let same = self.lane_of_runs(waiting).is_some_and(|other| Arc::ptr_eq(lane, other));
            same && bytes <= lane.run_bytes()
        };
        waiting.iter().take(lane.run_limit()).take_while(fits).count().max(1)
    }

    /// Returns the lane of an event that can be part of a run. An event with several destinations, one that may have killed its
    /// relay, or one that is not sent, goes alone.
    fn lane_of_runs(&self, waiting: &Waiting) -> Option<&Arc<Lane>> {
        let Waiting { claimed, refusal, .. } = waiting;
        let event = claimed.event();
        if refusal.is_some() || !claimed.deliveries().is_empty() || event.claims >= LOSSES_BEFORE_ALONE {
            return None;
        }
        match self.routes.at(waiting.routed)? {
            [destination] => self.lanes.get(destination).filter(|lane| lane.keeps_order()),
            _ => None,
        }
    }

    /// Runs steps in a loop, without recursion: an event whose turn ends while it is being started does not start the next one.
    fn follow(self: &Arc<Self>, sequence: &Sequence, aggregate: &Aggregate, mut step: Step<Waiting>) {
        loop {
            step = match step {
                Step::Start(run) => {
                    let mut sent = VecDeque::with_capacity(run.len());
                    for Waiting { claimed, permit, routed, refusal } in run {
                        let turn = sequence.turn(aggregate);
                        match refusal {
                            None => sent.push_back((claimed, permit, routed, turn)),
                            Some(refusal) => self.refuse(claimed, permit, Some(turn), refusal),
                        }
                    }
                    self.start_run(sent);
                    lock(&sequence.lines).started(aggregate, |waiting| self.run_length(waiting))
                }
                Step::GiveBack(waiting) => return self.give_back_waiting(waiting),
                Step::Nothing => return,
            }
        }
    }

    fn give_back_waiting(&self, waiting: impl IntoIterator<Item = Waiting>) {
        for Waiting { claimed, permit, .. } in waiting {
            let verdict = Verdict::of(Change::Release { after: Duration::ZERO }, claimed.event().attempts);
            self.settler.settle(Settling::untried(claimed.settle(verdict), permit));
        }
    }

    /// Gives back all waiting events, because the relay stops or needs the room. Returns their number.
    pub(super) fn give_back_followers(&self) -> usize {
        let Some(sequence) = &self.sequence else { return 0 };
        let mut waiting = lock(&sequence.lines).take_all();
        // The order of a map is arbitrary.
        waiting.sort_by_key(|waiting| waiting.claimed.event().seq);
        let count = waiting.len();
        self.give_back_waiting(waiting);
        count
    }

    /// Gives back the events that wait behind this one, because it will be in flight for long.
    pub(super) fn give_back_followers_of(&self, event: &Arc<StoredEvent>) {
        if let Some(sequence) = &self.sequence {
            let waiting = lock(&sequence.lines).take(&Aggregate(Arc::clone(event)));
            self.give_back_waiting(waiting);
        }
    }
}
