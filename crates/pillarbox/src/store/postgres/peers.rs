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
pub(super) struct Peer {
    pub(super) id: Uuid,
    pub(super) heartbeat_at: Moment,
    /// The age of the heartbeat.
    pub(super) ago: Duration,
    /// The time since the relay started.
    pub(super) age: Duration,
}

/// The first heartbeat seen of each relay. A relay with a later heartbeat was alive when this relay started.
#[derive(Debug, Default)]
pub(super) struct Peers(HashMap<Uuid, Moment>);

impl Peers {
    /// Returns whether all relays with a recent row are alive.
    pub(super) fn all_live(&mut self, seen: &[Peer]) -> bool {
        self.0.retain(|id, _| seen.iter().any(|peer| peer.id == *id));
        let first = &mut self.0;
        let mut doubtful = Vec::new();
        for peer in seen {
            let since = *first.entry(peer.id).or_insert(peer.heartbeat_at);
            if peer.heartbeat_at <= since || peer.ago >= DEAD {
                doubtful.push(peer);
            }
        }
        matches!(doubtful[..], []) || matches!(doubtful[..], [only] if only.age < YOUNG)
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    fn peer(id: u128, beat: i64, ago: u64) -> Peer {
        let heartbeat_at = DateTime::from_timestamp(beat, 0).unwrap().into();
        Peer { id: Uuid::from_u128(id), heartbeat_at, ago: Duration::from_secs(ago), age: Duration::from_secs(60) }
    }

    #[test]
    fn nobody_is_calm() {
        assert!(Peers::default().all_live(&[]));
    }

    #[test]
    fn who_was_there_before_must_say_something_first() {
        let mut peers = Peers::default();
        assert!(!peers.all_live(&[peer(1, 100, 1), peer(2, 100, 1)]));
        assert!(!peers.all_live(&[peer(1, 105, 1), peer(2, 100, 6)]));
        assert!(peers.all_live(&[peer(1, 110, 1), peer(2, 110, 1)]));
    }

    #[test]
    fn two_may_start_at_once_and_three_may_not() {
        let young = |id| Peer { age: Duration::from_secs(1), ..peer(id, 100, 1) };
        assert!(Peers::default().all_live(&[young(1)]));
        assert!(!Peers::default().all_live(&[young(1), young(2)]));
        assert!(!Peers::default().all_live(&[young(1), peer(2, 100, 1)]));
    }

    #[test]
    fn a_death_is_mourned_until_nobody_tells_of_it() {
        let mut peers = Peers::default();
        peers.all_live(&[peer(1, 100, 1)]);
        assert!(peers.all_live(&[peer(1, 105, 1)]));
        assert!(!peers.all_live(&[peer(1, 105, 16)]));
        assert!(!peers.all_live(&[peer(1, 105, 74)]));
        assert!(peers.all_live(&[]));
    }
}
