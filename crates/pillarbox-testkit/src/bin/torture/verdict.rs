//! The verdict: compares committed events with arrived events.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Result;
use uuid::Uuid;

use crate::Kind;
use crate::chaos::{Chaos, Counts};
use crate::database::{Outbox, Place};
use crate::producers::Emitted;
use crate::receivers::{Arrival, Arrivals};

pub(crate) struct Verdict {
    kind: Kind,
    took: Duration,
    chaos: Counts,
    committed: usize,
    /// The number of committed events that were emitted into the log.
    logged: i64,
    /// The number of relays that have read the log, one after another, if that is the source.
    leaders: Option<i64>,
    /// Whether events may go into the log: with an order they stay in the table.
    may_log: bool,
    rolled_back: usize,
    poison: usize,
    wrongly_failed: Vec<Uuid>,
    wrongly_delivered: Vec<Uuid>,
    /// The number of deliveries whose event was deleted.
    orphans: i64,
    disturbed: Side,
    /// The bystander, with `--fan-out`.
    bystander: Option<Side>,
}

/// The events of one receiver.
struct Side {
    expected: usize,
    arrived: usize,
    lost: Vec<Uuid>,
    invented: Vec<Uuid>,
    duplicates: usize,
    unexplained: Vec<Uuid>,
    /// The events out of order, with `--order`.
    out_of_order: Option<Vec<Uuid>>,
}

/// The tolerance for a request that was in flight when its relay was killed: it is recorded a moment later.
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
        let places = outbox.committed().await?;
        let committed: HashSet<Uuid> = places.iter().map(|place| place.id).collect();
        let failed = outbox.failed().await?;
        let poison: HashSet<Uuid> = emitted.poison.intersection(&committed).copied().collect();
        let harmless: HashSet<Uuid> = committed.difference(&poison).copied().collect();
        let shared: HashSet<Uuid> = emitted.shared.intersection(&committed).copied().collect();
        let disturbances = chaos.disturbances();
        let elsewhere: Causes<'_> = Causes { kills: &disturbances.kills, others: disturbances.of_database.clone() };
        let mut here = elsewhere.clone();
        here.others.extend(&disturbances.of_receiver);
        let places = order.then_some(places.as_slice());
        Ok(Self {
            kind,
            took,
            chaos: chaos.counts(),
            committed: committed.len(),
            logged: outbox.logged().await?,
            leaders: outbox.leaders().await?,
            may_log: !order,
            rolled_back: emitted.all.difference(&committed).count(),
            wrongly_failed: failed.difference(&poison).copied().collect(),
            wrongly_delivered: poison.difference(&failed).copied().collect(),
            poison: poison.len(),
            orphans: outbox.orphans().await?,
            disturbed: Side::of(&harmless, &chaos.receivers().at_disturbed(), &here, places),
            // The bystander rejects nothing, so the poison must arrive there, too.
            bystander: chaos
                .receivers()
                .at_bystander()
                .map(|arrivals| Side::of(&shared, &arrivals, &elsewhere, places)),
        })
    }

    pub(crate) fn is_good(&self) -> bool {
        self.disturbed.is_good()
            && self.bystander.as_ref().is_none_or(Side::is_good)
            && self.wrongly_failed.is_empty()
            && self.wrongly_delivered.is_empty()
            && self.orphans == 0
            // A run on the log without events in it, or without another leader, has shown nothing.
            && self.leaders.is_none_or(|leaders| leaders > 1 && (self.logged > 0 || !self.may_log))
            // A run without a rollback has shown nothing.
            && self.rolled_back > 0
    }
}

impl Side {
    fn of(expected: &HashSet<Uuid>, arrivals: &Arrivals, causes: &Causes<'_>, order: Option<&[Place]>) -> Self {
        let repeated = arrivals.iter().filter(|(_, times)| times.len() > 1);
        let unexplained = repeated
            .clone()
            .filter(|(_, arrivals)| arrivals.windows(2).any(|pair| !causes.explain(pair[0], pair[1])))
            .map(|(id, _)| *id)
            .collect();
        Self {
            expected: expected.len(),
            arrived: arrivals.len(),
            lost: expected.iter().filter(|id| !arrivals.contains_key(id)).copied().collect(),
            invented: arrivals.keys().filter(|id| !expected.contains(id)).copied().collect(),
            duplicates: repeated.map(|(_, times)| times.len() - 1).sum(),
            unexplained,
            out_of_order: order.map(|places| overtakers(places, arrivals)),
        }
    }

    fn is_good(&self) -> bool {
        let wrong = [&self.lost, &self.invented, &self.unexplained];
        let in_order = self.out_of_order.as_ref().is_none_or(Vec::is_empty);
        // A run without a send has shown nothing.
        in_order && wrong.iter().all(|ids| ids.is_empty()) && self.arrived > 0
    }
}

/// Returns the events that first arrived before an earlier event of their aggregate. An event that never arrived was rejected
/// or went elsewhere, and is skipped.
fn overtakers(places: &[Place], arrivals: &Arrivals) -> Vec<Uuid> {
    let mut latest: HashMap<&str, Instant> = HashMap::new();
    let mut overtakers = Vec::new();
    for place in places {
        let Some(first) = arrivals.get(&place.id).and_then(|arrivals| arrivals.iter().map(|arrival| arrival.at).min())
        else {
            continue;
        };
        let latest = latest.entry(&place.aggregate_id).or_insert(first);
        if first < *latest {
            overtakers.push(place.id);
        }
        *latest = (*latest).max(first);
    }
    overtakers
}

/// The possible causes for sending an event again that a receiver has accepted.
#[derive(Clone)]
struct Causes<'a> {
    /// When each relay was killed.
    kills: &'a HashMap<u32, Instant>,
    /// Crashes of the database, which lose settles, and of the receiver, which lose its responses.
    others: Vec<Instant>,
}

impl Causes<'_> {
    /// Returns whether the relay of the first arrival died, or something else broke, before the second arrival.
    fn explain(&self, first: Arrival, second: Arrival) -> bool {
        let between = |at: &Instant| *at + SLACK >= first.at && *at <= second.at;
        self.kills.get(&first.from).is_some_and(between) || self.others.iter().any(between)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}, {:.1?}:", self.kind, self.took)?;
        writeln!(
            f,
            "  killed: relays {}, database {}, receiver {}; receiver misbehaved {}{}",
            self.chaos.kills,
            self.chaos.crashes,
            self.chaos.outages,
            self.chaos.moods,
            match self.chaos.refusals {
                0 => String::new(),
                refusals => format!("; spills refused {refusals}"),
            }
        )?;
        let logged = if self.logged > 0 { format!(" ({} into the log)", self.logged) } else { String::new() };
        let leaders = self.leaders.map_or_else(String::new, |leaders| format!("; {leaders} leaders read it"));
        writeln!(f, "  events committed {}{logged}, rolled back {}{leaders}", self.committed, self.rolled_back)?;
        write!(
            f,
            "  rejected by the receiver and failed {}, wrongly failed {} {}, should have failed {} {}",
            self.poison,
            self.wrongly_failed.len(),
            some(&self.wrongly_failed),
            self.wrongly_delivered.len(),
            some(&self.wrongly_delivered)
        )?;
        write!(f, "\n  receiver: {}", self.disturbed)?;
        if let Some(bystander) = &self.bystander {
            write!(f, "\n  bystander: {bystander}")?;
            write!(
                f,
                "\n  deliveries parked in outages, in sum {}, left without their event {}",
                self.chaos.parked, self.orphans
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {}, arrived {}", self.expected, self.arrived)?;
        write!(f, ", lost {} {}", self.lost.len(), some(&self.lost))?;
        write!(f, ", invented {} {}", self.invented.len(), some(&self.invented))?;
        if let Some(overtakers) = &self.out_of_order {
            write!(f, ", out of order {} {}", overtakers.len(), some(overtakers))?;
        }
        write!(
            f,
            ", duplicates {}, of them without a cause {} {}",
            self.duplicates,
            self.unexplained.len(),
            some(&self.unexplained)
        )
    }
}

/// Returns a few of the ids, to search for.
fn some(ids: &[Uuid]) -> String {
    ids.iter().take(5).map(Uuid::to_string).collect::<Vec<_>>().join(" ")
}
