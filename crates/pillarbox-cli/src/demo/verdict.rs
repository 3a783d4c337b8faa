//! The result of the demo: whether every committed event arrived, and no rolled-back one did.

use std::time::Duration;

use pillarbox::store::Counts;
use serde::Serialize;

use super::tally::Facts;

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Verdict {
    pub(crate) ok: bool,
    pub(crate) seed: u64,
    pub(crate) committed: usize,
    pub(crate) rolled_back: usize,
    /// The number of committed events that the receiver took.
    pub(crate) arrived: usize,
    /// The number of rolled-back events that reached the receiver.
    pub(crate) arrived_though_rolled_back: usize,
    /// The number of committed events that the receiver never took.
    pub(crate) missing: usize,
    /// The number of events that failed at least once.
    pub(crate) retried: usize,
    /// The number of events that the receiver took more than once, and recognised by their id.
    pub(crate) duplicates: usize,
    pub(crate) requests: u64,
    pub(crate) answered_500: u64,
    pub(crate) answered_503: u64,
    pub(crate) seconds: f64,
    /// The problems, if there are any.
    pub(crate) problems: Vec<String>,
}

impl Verdict {
    /// Compares the receiver's requests with the shop's table and the outbox.
    pub(super) fn of(facts: &Facts, orders: u64, counts: &Counts, took: Duration) -> Self {
        let committed = facts.committed.len();
        let missing = facts.committed.iter().filter(|id| !facts.taken.contains_key(id)).count();
        let ghosts = facts.requested.difference(&facts.committed).count();
        let problems = [
            (missing > 0, format!("{missing} committed events did not arrive")),
            (ghosts > 0, format!("{ghosts} events arrived that were never committed")),
            (orders != committed as u64, format!("the shop has {orders} orders, but committed {committed}")),
            (counts.delivered != committed as u64, format!("the outbox counts {} as delivered", counts.delivered)),
            (counts.pending() > 0, format!("{} events are still waiting", counts.pending())),
            (counts.failed > 0, format!("{} events failed for good", counts.failed)),
        ];
        let problems: Vec<String> =
            problems.into_iter().filter_map(|(is_wrong, what)| is_wrong.then_some(what)).collect();
        Self {
            ok: problems.is_empty(),
            seed: facts.seed,
            committed,
            rolled_back: facts.rolled_back.len(),
            arrived: committed - missing,
            arrived_though_rolled_back: facts.requested.intersection(&facts.rolled_back).count(),
            missing,
            retried: facts.retried.len(),
            duplicates: facts.taken.values().filter(|times| **times > 1).count(),
            requests: facts.requests,
            answered_500: facts.refused,
            answered_503: facts.unavailable,
            seconds: took.as_secs_f64(),
            problems,
        }
    }
}
