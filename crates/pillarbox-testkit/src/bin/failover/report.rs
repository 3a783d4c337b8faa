//! The results: how long each failover took, and the lost events.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::Way;

pub(crate) struct Report {
    way: Way,
    /// The times from the kill to the promotion, and from there to the first new event that arrived.
    rounds: Vec<(Duration, Duration)>,
    /// The times from the promotion until events went into the log again.
    read_on: Vec<Duration>,
    confirmed: usize,
    stored: usize,
    arrived: usize,
    /// Events that were confirmed and are no longer in the database: the servers lost them.
    vanished: usize,
    /// Events in the database that never arrived.
    lost: usize,
    /// Events that arrived and are not in the database.
    from_nowhere: usize,
    duplicates: usize,
}

impl Report {
    pub(crate) fn new(way: Way) -> Self {
        Self {
            way,
            rounds: Vec::new(),
            read_on: Vec::new(),
            confirmed: 0,
            stored: 0,
            arrived: 0,
            vanished: 0,
            lost: 0,
            from_nowhere: 0,
            duplicates: 0,
        }
    }

    pub(crate) fn add(&mut self, promotion: Duration, first: Duration) {
        self.rounds.push((promotion, first));
    }

    pub(crate) fn read_on(&mut self, after: Duration) {
        self.read_on.push(after);
    }

    pub(crate) fn judge(
        &mut self,
        confirmed: &HashSet<Uuid>,
        stored: &HashSet<Uuid>,
        arrived: &HashMap<Uuid, Vec<Instant>>,
    ) {
        (self.confirmed, self.stored, self.arrived) = (confirmed.len(), stored.len(), arrived.len());
        self.vanished = confirmed.difference(stored).count();
        self.lost = stored.iter().filter(|id| !arrived.contains_key(id)).count();
        self.from_nowhere = arrived.keys().filter(|id| !stored.contains(id)).count();
        self.duplicates = arrived.values().map(|times| times.len() - 1).sum();
    }

    pub(crate) fn is_good(&self, within: Duration) -> bool {
        let nothing_wrong = self.vanished + self.lost + self.from_nowhere == 0;
        nothing_wrong && self.stored > 0 && self.rounds.iter().all(|(_, first)| *first <= within)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut firsts: Vec<Duration> = self.rounds.iter().map(|(_, first)| *first).collect();
        let each: Vec<String> = firsts.iter().map(|first| format!("{:.2}", first.as_secs_f64())).collect();
        firsts.sort();
        let (median, longest) = (firsts.get(firsts.len() / 2), firsts.last());
        let seconds = |time: Option<&Duration>| time.map_or(0.0, Duration::as_secs_f64);
        let promotion = self.rounds.iter().map(|(promotion, _)| *promotion).max();
        writeln!(f, "{:?}: {} rounds", self.way, self.rounds.len())?;
        writeln!(
            f,
            "  first new event after, in seconds: median {:.2}, longest {:.2} (kill to promotion: longest {:.2})",
            seconds(median),
            seconds(longest),
            seconds(promotion.as_ref())
        )?;
        writeln!(f, "  each: {}", each.join(" "))?;
        if let Some(longest) = self.read_on.iter().max() {
            let each: Vec<String> = self.read_on.iter().map(|after| format!("{:.2}", after.as_secs_f64())).collect();
            writeln!(
                f,
                "  events in the log again after: longest {:.2}, each: {}",
                longest.as_secs_f64(),
                each.join(" ")
            )?;
        }
        writeln!(f, "  confirmed {}, in the database {}, arrived {}", self.confirmed, self.stored, self.arrived)?;
        write!(
            f,
            "  lost {}, lost by the servers {}, invented {}, duplicates {}",
            self.lost, self.vanished, self.from_nowhere, self.duplicates
        )
    }
}
