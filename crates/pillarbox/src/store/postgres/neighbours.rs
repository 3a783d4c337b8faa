//! Decides whether a relay died recently. An event that kills its relay while it is held by a lock leaves no trace in its row.
//! So after a death, all events are claimed by lease for a while; then the loss is counted, and the event ends as a suspect
//! does. Pure.

use std::collections::HashMap;
use std::time::Duration;

use uuid::Uuid;

use super::moment::Moment;

/// The heartbeat age at which a relay is dead.
const DEAD: Duration = Duration::from_secs(15);
/// The age up to which a relay need not have written a second heartbeat, because two relays may start at once. A second such
/// relay is no coincidence.
const YOUNG: Duration = Duration::from_secs(3);
/// How long a death is remembered.
pub(super) const MOURNING: Duration = Duration::from_secs(75);

/// The last heartbeat of another relay.
#[derive(Debug, Clone, Copy)]
pub(super) struct Neighbour {
    pub(super) id: Uuid,
    pub(super) heartbeat_at: Moment,
    /// The age of the heartbeat.
    pub(super) ago: Duration,
    /// The time since the relay started.
    pub(super) age: Duration,
}

/// The first heartbeat seen of each relay. A relay with a later heartbeat was alive when this relay started.
#[derive(Debug, Default)]
pub(super) struct Neighbours(HashMap<Uuid, Moment>);

impl Neighbours {
    /// Returns whether all relays with a recent row are alive.
    pub(super) fn all_live(&mut self, seen: &[Neighbour]) -> bool {
        self.0.retain(|id, _| seen.iter().any(|neighbour| neighbour.id == *id));
        let first = &mut self.0;
        let mut doubtful = Vec::new();
        for neighbour in seen {
            let since = *first.entry(neighbour.id).or_insert(neighbour.heartbeat_at);
            if neighbour.heartbeat_at <= since || neighbour.ago >= DEAD {
                doubtful.push(neighbour);
            }
        }
        matches!(doubtful[..], []) || matches!(doubtful[..], [only] if only.age < YOUNG)
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    fn neighbour(id: u128, beat: i64, ago: u64) -> Neighbour {
        let heartbeat_at = DateTime::from_timestamp(beat, 0).unwrap().into();
        Neighbour { id: Uuid::from_u128(id), heartbeat_at, ago: Duration::from_secs(ago), age: Duration::from_secs(60) }
    }

    #[test]
    fn nobody_is_calm() {
        assert!(Neighbours::default().all_live(&[]));
    }

    #[test]
    fn who_was_there_before_must_say_something_first() {
        let mut neighbours = Neighbours::default();
        assert!(!neighbours.all_live(&[neighbour(1, 100, 1), neighbour(2, 100, 1)]));
        assert!(!neighbours.all_live(&[neighbour(1, 105, 1), neighbour(2, 100, 6)]));
        assert!(neighbours.all_live(&[neighbour(1, 110, 1), neighbour(2, 110, 1)]));
    }

    #[test]
    fn two_may_start_at_once_and_three_may_not() {
        let young = |id| Neighbour { age: Duration::from_secs(1), ..neighbour(id, 100, 1) };
        assert!(Neighbours::default().all_live(&[young(1)]));
        assert!(!Neighbours::default().all_live(&[young(1), young(2)]));
        assert!(!Neighbours::default().all_live(&[young(1), neighbour(2, 100, 1)]));
    }

    #[test]
    fn a_death_is_mourned_until_nobody_tells_of_it() {
        let mut neighbours = Neighbours::default();
        neighbours.all_live(&[neighbour(1, 100, 1)]);
        assert!(neighbours.all_live(&[neighbour(1, 105, 1)]));
        assert!(!neighbours.all_live(&[neighbour(1, 105, 16)]));
        assert!(!neighbours.all_live(&[neighbour(1, 105, 74)]));
        assert!(neighbours.all_live(&[]));
    }
}
