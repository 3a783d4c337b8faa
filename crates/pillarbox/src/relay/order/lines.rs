//! The lines of aggregates. Pure: no engine, no clock. A line holds the items of one aggregate from their claim until the table
//! knows their result.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// With more lines than this, claims go behind them only if the lines have several items on average. Otherwise the events of
/// other aggregates fill a claim, and a list of all lines would only cost time.
const FEW: usize = 64;

/// The outcome of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The next event may follow.
    Next,
    /// The events behind it must not be sent now.
    Broken,
}

/// The next step of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<T> {
    /// It is the turn of these items. The caller calls [`Lines::started`] when they are in flight.
    Start(VecDeque<T>),
    GiveBack(VecDeque<T>),
    Nothing,
}

/// What became of an item that entered its line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entered<T> {
    /// It is the first one. The caller calls [`Lines::started`] when all items have entered.
    First,
    Waits,
    /// The item before it was not delivered while the claim was under way. It must be given back.
    TooLate(T),
}

/// The lines of all aggregates with an event that is not settled.
#[derive(Debug)]
pub(super) struct Lines<K, T> {
    lines: HashMap<K, Line<T>>,
    /// The number of claims under way that may take items behind lines.
    claims: usize,
}

#[derive(Debug)]
struct Line<T> {
    waiting: VecDeque<T>,
    /// The number of items whose turn has not ended.
    flying: usize,
    /// The items whose turn it is are being started. If all their turns end meanwhile, `started` returns the next step.
    starting: bool,
    /// An item was not delivered, or was taken out: the items behind it must not be sent now.
    broken: bool,
    /// The items that the table has as pending: they wait, are in flight, or have a result that is not written yet.
    unsettled: VecDeque<i64>,
    /// A claim under way may take items behind these.
    offered: bool,
}

impl<T> Line<T> {
    fn is_idle(&self) -> bool {
        self.flying == 0 && !self.starting && self.waiting.is_empty()
    }

    /// Returns whether nothing needs it any more. A line that was offered to a claim is kept until the items of the claim have
    /// entered, because it knows whether they may be sent.
    fn is_over(&self) -> bool {
        self.is_idle() && self.unsettled.is_empty() && !self.offered
    }
}

impl<K, T> Default for Lines<K, T> {
    fn default() -> Self {
        Self { lines: HashMap::new(), claims: 0 }
    }
}

impl<K: Hash + Eq, T> Lines<K, T> {
    /// Adds an item to its line.
    pub(super) fn enter(&mut self, key: K, seq: i64, item: T) -> Entered<T> {
        let line = match self.lines.entry(key) {
            Entry::Occupied(line) => line.into_mut(),
            Entry::Vacant(place) => place.insert(Line {
                waiting: VecDeque::new(),
                flying: 0,
                starting: false,
                broken: false,
                unsettled: VecDeque::new(),
                offered: false,
            }),
        };
        line.unsettled.push_back(seq);
        if line.broken && line.offered {
            return Entered::TooLate(item);
        }
        let is_first = line.is_idle();
        line.waiting.push_back(item);
        if !is_first {
            return Entered::Waits;
        }
        if line.broken {
            // The claim began after the line broke: the table has all that must be sent before this item. What is still
            // unsettled from before may be sent after it.
            line.broken = false;
            line.unsettled.clear();
            line.unsettled.push_back(seq);
        }
        line.starting = true;
        Entered::First
    }

    /// Notes that the items whose turn it is are in flight. `run` returns how many of the waiting items may go at once.
    pub(super) fn started(&mut self, key: &K, run: impl FnOnce(&VecDeque<T>) -> usize) -> Step<T> {
        let Some(line) = self.lines.get_mut(key) else { return Step::Nothing };
        line.starting = false;
        self.next(key, run)
    }

    /// Notes that the turn of one item ended.
    pub(super) fn ended(&mut self, key: &K, outcome: Outcome, run: impl FnOnce(&VecDeque<T>) -> usize) -> Step<T> {
        let Some(line) = self.lines.get_mut(key) else { return Step::Nothing };
        line.flying = line.flying.saturating_sub(1);
        line.broken |= outcome == Outcome::Broken;
        self.next(key, run)
    }

    /// Returns the next step of a line in which nothing is in flight.
    fn next(&mut self, key: &K, run: impl FnOnce(&VecDeque<T>) -> usize) -> Step<T> {
        let Some(line) = self.lines.get_mut(key) else { return Step::Nothing };
        if line.starting || line.flying > 0 {
            return Step::Nothing;
        }
        if line.waiting.is_empty() {
            self.forget(key);
            return Step::Nothing;
        }
        if line.broken {
            return Step::GiveBack(std::mem::take(&mut line.waiting));
        }
        let length = run(&line.waiting).clamp(1, line.waiting.len());
        let behind = line.waiting.split_off(length);
        line.flying = length;
        line.starting = true;
        Step::Start(std::mem::replace(&mut line.waiting, behind))
    }

    /// Notes that the table knows the result of an item.
    pub(super) fn settled(&mut self, key: &K, seq: i64) {
        if let Some(line) = self.lines.get_mut(key)
            && let Some(place) = line.unsettled.iter().position(|unsettled| *unsettled == seq)
        {
            line.unsettled.remove(place);
            self.forget(key);
        }
    }

    fn forget(&mut self, key: &K) {
        if self.lines.get(key).is_some_and(Line::is_over) {
            self.lines.remove(key);
        }
    }

    /// Begins a claim that may take items behind the lines whose waiting items all go with the next run. Returns their items
    /// that are not settled. The caller calls [`Lines::claimed`] when the items of the claim have entered.
    pub(super) fn offer(&mut self, run: impl Fn(&VecDeque<T>) -> usize) -> Vec<i64> {
        self.claims += 1;
        let unsettled: usize = self.lines.values().map(|line| line.unsettled.len()).sum();
        if self.lines.len() > FEW && unsettled < 2 * self.lines.len() {
            return Vec::new();
        }
        let mut offered = Vec::with_capacity(unsettled);
        let healthy = self.lines.values_mut().filter(|line| !line.broken);
        for line in healthy.filter(|line| line.waiting.is_empty() || line.waiting.len() <= run(&line.waiting)) {
            line.offered = true;
            offered.extend(&line.unsettled);
        }
        offered
    }

    /// Ends a claim.
    pub(super) fn claimed(&mut self) {
        self.claims = self.claims.saturating_sub(1);
        if self.claims == 0 {
            self.lines.values_mut().for_each(|line| line.offered = false);
            self.lines.retain(|_, line| !line.is_over());
        }
    }

    /// Takes all waiting items of this line.
    pub(super) fn take(&mut self, key: &K) -> VecDeque<T> {
        self.lines.get_mut(key).map(taken).unwrap_or_default()
    }

    /// Takes all waiting items of all lines.
    pub(super) fn take_all(&mut self) -> Vec<T> {
        self.lines.values_mut().flat_map(taken).collect()
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = &T> {
        self.lines.values().flat_map(|line| &line.waiting)
    }

    pub(super) fn waiting_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.lines.values_mut().flat_map(|line| &mut line.waiting)
    }
}

/// Takes the waiting items of a line. Nothing may follow them before they are in the table again.
fn taken<T>(line: &mut Line<T>) -> VecDeque<T> {
    line.broken |= !line.waiting.is_empty();
    std::mem::take(&mut line.waiting)
}

#[cfg(test)]
mod tests;
