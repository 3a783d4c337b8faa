//! Order: this relay sends its events of one aggregate one after another. The first event is sent, and the others wait
//! behind it. When it is delivered, the next one is sent. When it is not, the waiting events are given back. A sink that keeps
//! order itself gets a whole run of events at once: see [`Sink::keeps_order`](crate::Sink::keeps_order).
//!
//! [`Lines`] is the pure core: it knows no engine and no clock. The store guarantees that no other relay sends an event of
//! the aggregate meanwhile: see `claim_ordered.sql` and `walls.sql`.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

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
        let mut begun = Vec::new();
        {
            let mut lines = lock(&sequence.lines);
            for (claimed, permit) in claim {
                let aggregate = Aggregate(Arc::clone(claimed.event()));
                if lines.enter(aggregate.clone(), Waiting { claimed, permit }) {
                    begun.push(aggregate);
                }
            }
        }
        for aggregate in begun {
            let step = lock(&sequence.lines).started(&aggregate, |waiting| self.run_length(waiting));
            self.follow(sequence, &aggregate, step);
        }
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
        let Some(lane) = waiting.front().and_then(|first| self.lane_of_runs(&first.claimed)) else { return 1 };
        let mut bytes = 0_usize;
        let fits = |waiting: &&Waiting| {
            bytes = bytes.saturating_add(waiting.claimed.event().payload.get().len());
            let same = self.lane_of_runs(&waiting.claimed).is_some_and(|other| Arc::ptr_eq(lane, other));
            same && bytes <= lane.run_bytes()
        };
        waiting.iter().take(lane.run_limit()).take_while(fits).count().max(1)
    }

    /// Returns the lane of an event that can be part of a run. An event with several destinations, or one that may have killed its
    /// relay, goes alone.
    fn lane_of_runs(&self, claimed: &Claimed) -> Option<&Arc<Lane>> {
        let event = claimed.event();
        if !claimed.deliveries().is_empty() || event.claims >= LOSSES_BEFORE_ALONE {
            return None;
        }
        match self.routes.route(&event.event_type, &event.aggregate_type)? {
            [destination] => self.lanes.get(destination).filter(|lane| lane.keeps_order()),
            _ => None,
        }
    }

    /// Runs steps in a loop, without recursion: an event whose turn ends while it is being started does not start the next one.
    fn follow(self: &Arc<Self>, sequence: &Sequence, aggregate: &Aggregate, mut step: Step<Waiting>) {
        loop {
            step = match step {
                Step::Start(run) => {
                    let turns =
                        run.into_iter().map(|Waiting { claimed, permit }| (claimed, permit, sequence.turn(aggregate)));
                    self.start_run(turns.collect());
                    lock(&sequence.lines).started(aggregate, |waiting| self.run_length(waiting))
                }
                Step::GiveBack(waiting) => return self.give_back_waiting(waiting),
                Step::Nothing => return,
            }
        }
    }

    fn give_back_waiting(&self, waiting: impl IntoIterator<Item = Waiting>) {
        for Waiting { claimed, permit } in waiting {
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

/// The outcome of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// The next event may follow.
    Next,
    /// The events behind it must not be sent now.
    Broken,
}

/// The next step of a line.
#[derive(Debug, PartialEq, Eq)]
enum Step<T> {
    /// It is the turn of these items. The caller calls [`Lines::started`] when they are in flight.
    Start(VecDeque<T>),
    GiveBack(VecDeque<T>),
    Nothing,
}

/// The lines of all aggregates that have an event in flight.
#[derive(Debug)]
struct Lines<K, T>(HashMap<K, Line<T>>);

#[derive(Debug)]
struct Line<T> {
    waiting: VecDeque<T>,
    /// The number of items whose turn has not ended.
    flying: usize,
    /// The items whose turn it is are being started. If all their turns end meanwhile, `started` returns the next step.
    starting: bool,
    /// A turn ended without a delivery: the items behind it must not be sent now.
    broken: bool,
}

impl<K, T> Default for Lines<K, T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Hash + Eq, T> Lines<K, T> {
    /// Adds an item to its line. Returns whether the line is new; the caller then calls [`Lines::started`] when all items have
    /// entered.
    fn enter(&mut self, key: K, item: T) -> bool {
        match self.0.entry(key) {
            Entry::Occupied(line) => {
                line.into_mut().waiting.push_back(item);
                false
            }
            Entry::Vacant(place) => {
                place.insert(Line { waiting: [item].into(), flying: 0, starting: true, broken: false });
                true
            }
        }
    }

    /// Notes that the items whose turn it is are in flight. `run` returns how many of the waiting items may go at once.
    fn started(&mut self, key: &K, run: impl FnOnce(&VecDeque<T>) -> usize) -> Step<T> {
        let Some(line) = self.0.get_mut(key) else { return Step::Nothing };
        line.starting = false;
        self.next(key, run)
    }

    /// Notes that the turn of one item ended.
    fn ended(&mut self, key: &K, outcome: Outcome, run: impl FnOnce(&VecDeque<T>) -> usize) -> Step<T> {
        let Some(line) = self.0.get_mut(key) else { return Step::Nothing };
        line.flying = line.flying.saturating_sub(1);
        line.broken |= outcome == Outcome::Broken;
        self.next(key, run)
    }

    /// Returns the next step of a line in which nothing is in flight.
    fn next(&mut self, key: &K, run: impl FnOnce(&VecDeque<T>) -> usize) -> Step<T> {
        let Some(line) = self.0.get_mut(key) else { return Step::Nothing };
        if line.starting || line.flying > 0 {
            return Step::Nothing;
        }
        if !line.broken && !line.waiting.is_empty() {
            let length = run(&line.waiting).clamp(1, line.waiting.len());
            let behind = line.waiting.split_off(length);
            line.flying = length;
            line.starting = true;
            return Step::Start(std::mem::replace(&mut line.waiting, behind));
        }
        match self.0.remove(key) {
            Some(line) if !line.waiting.is_empty() => Step::GiveBack(line.waiting),
            _ => Step::Nothing,
        }
    }

    /// Takes all waiting items of this line.
    fn take(&mut self, key: &K) -> VecDeque<T> {
        self.0.get_mut(key).map(|line| std::mem::take(&mut line.waiting)).unwrap_or_default()
    }

    /// Takes all waiting items of all lines.
    fn take_all(&mut self) -> Vec<T> {
        self.0.values_mut().flat_map(|line| std::mem::take(&mut line.waiting)).collect()
    }

    fn waiting(&self) -> impl Iterator<Item = &T> {
        self.0.values().flat_map(|line| &line.waiting)
    }

    fn waiting_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.values_mut().flat_map(|line| &mut line.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone<T>(_: &VecDeque<T>) -> usize {
        1
    }

    fn start<T>(items: impl Into<VecDeque<T>>) -> Step<T> {
        Step::Start(items.into())
    }

    /// Returns a line of one aggregate, in which the first item is in flight and `waiting` more wait.
    fn line(waiting: u32) -> Lines<&'static str, u32> {
        let mut lines = Lines::default();
        assert!(lines.enter("a", 0));
        for item in 1..=waiting {
            assert!(!lines.enter("a", item));
        }
        assert_eq!(lines.started(&"a", alone), start([0]));
        assert_eq!(lines.started(&"a", alone), Step::Nothing);
        lines
    }

    #[test]
    fn each_goes_when_the_one_before_it_is_delivered() {
        let mut lines = line(2);
        for item in 1..=2 {
            assert_eq!(lines.ended(&"a", Outcome::Next, alone), start([item]));
            assert_eq!(lines.started(&"a", alone), Step::Nothing);
        }
        assert_eq!(lines.ended(&"a", Outcome::Next, alone), Step::Nothing);
        assert!(lines.0.is_empty(), "nothing is kept of an aggregate that has nothing under way");
    }

    #[test]
    fn all_behind_one_that_is_not_delivered_are_given_back() {
        let mut lines = line(3);
        assert_eq!(lines.ended(&"a", Outcome::Next, alone), start([1]));
        assert_eq!(lines.started(&"a", alone), Step::Nothing);
        assert_eq!(lines.ended(&"a", Outcome::Broken, alone), Step::GiveBack([2, 3].into()));
        assert!(lines.enter("a", 4), "the next claim begins anew");
    }

    #[test]
    fn a_run_goes_at_once_and_the_next_one_after_all_of_it() {
        let mut lines = line(5);
        assert_eq!(lines.ended(&"a", Outcome::Next, |_| 3), start([1, 2, 3]));
        assert_eq!(lines.started(&"a", alone), Step::Nothing);
        assert_eq!(lines.ended(&"a", Outcome::Next, |_| 3), Step::Nothing);
        assert_eq!(lines.ended(&"a", Outcome::Next, |_| 3), Step::Nothing);
        assert_eq!(lines.ended(&"a", Outcome::Next, |_| 3), start([4, 5]), "no more than wait");
    }

    #[test]
    fn a_run_that_breaks_in_the_middle_gives_back_what_is_behind_it() {
        let mut lines = line(4);
        assert_eq!(lines.ended(&"a", Outcome::Next, |_| 3), start([1, 2, 3]));
        assert_eq!(lines.started(&"a", alone), Step::Nothing);
        assert_eq!(lines.ended(&"a", Outcome::Next, alone), Step::Nothing);
        assert_eq!(lines.ended(&"a", Outcome::Broken, alone), Step::Nothing, "the third is still in flight");
        assert_eq!(lines.ended(&"a", Outcome::Next, alone), Step::GiveBack([4].into()));
    }

    #[test]
    fn aggregates_do_not_wait_for_each_other() {
        let mut lines = line(1);
        assert!(lines.enter("b", 7));
        assert_eq!(lines.started(&"b", alone), start([7]));
        assert_eq!(lines.started(&"b", alone), Step::Nothing);
        assert_eq!(lines.ended(&"b", Outcome::Broken, alone), Step::Nothing);
        assert_eq!(lines.ended(&"a", Outcome::Next, alone), start([1]));
    }

    #[test]
    fn what_ends_while_it_is_started_is_followed_by_whoever_starts_it() {
        let mut lines = line(2);
        assert_eq!(lines.ended(&"a", Outcome::Next, alone), start([1]));
        assert_eq!(lines.ended(&"a", Outcome::Next, alone), Step::Nothing);
        assert_eq!(lines.started(&"a", alone), start([2]));
        assert_eq!(lines.ended(&"a", Outcome::Broken, alone), Step::Nothing);
        assert_eq!(lines.started(&"a", alone), Step::Nothing);
        assert!(lines.0.is_empty());
    }

    #[test]
    fn those_that_wait_can_be_taken_while_the_first_is_under_way() {
        let mut lines = line(2);
        assert_eq!(lines.take(&"a"), [1, 2]);
        assert!(!lines.enter("a", 3), "the first is still under way");
        assert_eq!(lines.take_all(), [3]);
        assert_eq!(lines.ended(&"a", Outcome::Next, alone), Step::Nothing);
    }
}
