//! The verdict: what was committed against what arrived.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Result;
use uuid::Uuid;

use crate::Kind;
use crate::chaos::{Chaos, Counts};
use crate::database::{Outbox, Place};
use crate::producers::Emitted;

pub(crate) struct Verdict {
    kind: Kind,
    took: Duration,
    chaos: Counts,
    committed: usize,
    rolled_back: usize,
    arrived: usize,
    lost: Vec<Uuid>,
    never_committed: Vec<Uuid>,
    poison: usize,
    wrongly_failed: Vec<Uuid>,
    wrongly_delivered: Vec<Uuid>,
    duplicates: usize,
    unexplained: Vec<Uuid>,
    out_of_order: Option<Vec<Uuid>>,
}

/// A request that was under way when its relay was killed is written down a moment later.
const SLACK: Duration = Duration::from_secs(1);

impl Verdict {
    pub(crate) async fn of(
        kind: Kind,
        outbox: &Outbox,
        emitted: &Emitted,
        chaos: &Chaos,
        order: bool,
        took: Duration,
    ) -> Result<Self> {
        let committed = outbox.committed().await?;
        let failed = outbox.failed().await?;
        let accepted = chaos.accepted();
        let poison: HashSet<Uuid> = emitted.poison.intersection(&committed).copied().collect();
        let repeated = accepted.iter().filter(|(_, times)| times.len() > 1);
        let unexplained = repeated
            .clone()
            .filter(|(_, times)| times.windows(2).any(|pair| !has_cause(pair[0], pair[1], chaos.disturbances())))
            .map(|(id, _)| *id)
            .collect();
        Ok(Self {
            kind,
            took,
            chaos: chaos.counts(),
            committed: committed.len(),
            rolled_back: emitted.all.difference(&committed).count(),
            arrived: accepted.len(),
            lost: committed.iter().filter(|id| !accepted.contains_key(id) && !poison.contains(id)).copied().collect(),
            never_committed: accepted.keys().filter(|id| !committed.contains(id)).copied().collect(),
            wrongly_failed: failed.difference(&poison).copied().collect(),
            wrongly_delivered: poison.difference(&failed).copied().collect(),
            poison: poison.len(),
            duplicates: repeated.map(|(_, times)| times.len() - 1).sum(),
            unexplained,
            out_of_order: if order { Some(overtakers(&outbox.places().await?, &accepted)) } else { None },
        })
    }

    pub(crate) fn is_good(&self) -> bool {
        let wrong =
            [&self.lost, &self.never_committed, &self.wrongly_failed, &self.wrongly_delivered, &self.unexplained];
        // A run in which nothing was sent or nothing was rolled back has shown nothing.
        let in_order = self.out_of_order.as_ref().is_none_or(Vec::is_empty);
        in_order && wrong.iter().all(|ids| ids.is_empty()) && self.arrived > 0 && self.rolled_back > 0
    }
}

/// Events that arrived for the first time before an earlier one of their aggregate had. Those that never arrived were
/// rejected, and are skipped.
fn overtakers(places: &[Place], accepted: &HashMap<Uuid, Vec<Instant>>) -> Vec<Uuid> {
    let mut latest: HashMap<&str, Instant> = HashMap::new();
    let mut overtakers = Vec::new();
    for place in places {
        let Some(first) = accepted.get(&place.id).and_then(|times| times.iter().min()) else { continue };
        let latest = latest.entry(&place.aggregate_id).or_insert(*first);
        if first < latest {
            overtakers.push(place.id);
        }
        *latest = (*latest).max(*first);
    }
    overtakers
}

/// Whether something was disturbed between the first delivery and the repeated one.
fn has_cause(first: Instant, second: Instant, disturbances: &[Instant]) -> bool {
    disturbances.iter().any(|at| *at + SLACK >= first && *at <= second)
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}, {:.1?}:", self.kind, self.took)?;
        writeln!(
            f,
            "  relays killed {}, database crashes {}, receiver disturbed {}",
            self.chaos.kills, self.chaos.restarts, self.chaos.receiver
        )?;
        writeln!(
            f,
            "  events committed {}, rolled back {}, arrived {}",
            self.committed, self.rolled_back, self.arrived
        )?;
        writeln!(f, "  lost {} {}", self.lost.len(), some(&self.lost))?;
        writeln!(f, "  arrived but never committed {} {}", self.never_committed.len(), some(&self.never_committed))?;
        writeln!(
            f,
            "  rejected by the receiver and failed {}, wrongly failed {} {}, should have failed {} {}",
            self.poison,
            self.wrongly_failed.len(),
            some(&self.wrongly_failed),
            self.wrongly_delivered.len(),
            some(&self.wrongly_delivered)
        )?;
        if let Some(overtakers) = &self.out_of_order {
            writeln!(
                f,
                "  arrived before an earlier one of their aggregate {} {}",
                overtakers.len(),
                some(overtakers)
            )?;
        }
        write!(
            f,
            "  duplicates {}, of them without a cause {} {}",
            self.duplicates,
            self.unexplained.len(),
            some(&self.unexplained)
        )
    }
}

/// A few of them, to look for.
fn some(ids: &[Uuid]) -> String {
    ids.iter().take(5).map(Uuid::to_string).collect::<Vec<_>>().join(" ")
}
