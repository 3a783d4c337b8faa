//! Told: the position that the server may be told, below which it forgets the log and moves the slot. Pure.
//!
//! It is stored in the database first. Where standbys copy the slot, they must have that commit, too: otherwise a promoted standby
//! could have the slot beyond events whose rows it does not have. The server sends the log only as far as those standbys have it. So
//! whatever was received was copied.

use crate::store::postgres::lsn::Lsn;

/// The positions of one lead.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// The last position that was stored. Nobody knows where that commit ends.
    stored: Lsn,
    /// A stored position, and the end of the log after its commit.
    next: Option<(Lsn, Lsn)>,
    told: Lsn,
}

impl Told {
    /// Notes that a position was stored, and where the log ended before that commit. With `waits`, standbys copy the slot.
    pub(super) fn store(&mut self, position: Lsn, end: Lsn, waits: bool) {
        if !waits {
            self.next = None;
            self.told = position;
        } else if self.next.is_none() && self.stored > self.told {
            // A later one must wait: it would be behind the reader for as long as that catches up.
            self.next = Some((self.stored, end));
        }
        self.stored = position;
    }

    /// Returns the position that the server may be told when the log was received up to `received`.
    pub(super) fn tell(&mut self, received: Lsn) -> Lsn {
        if let Some((position, end)) = self.next
            && received >= end
        {
            self.next = None;
            self.told = position;
        }
        self.told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_standbys_a_stored_position_is_told_at_once() {
        let mut told = Told::default();
        assert_eq!(told.tell(Lsn(50)), Lsn(0));
        told.store(Lsn(10), Lsn(90), false);
        assert_eq!(told.tell(Lsn(0)), Lsn(10));
    }

    #[test]
    fn with_standbys_it_is_told_when_its_commit_was_received() {
        let mut told = Told::default();
        told.store(Lsn(10), Lsn(20), true);
        assert_eq!(told.tell(Lsn(1000)), Lsn(0), "its commit is somewhere behind 20");
        told.store(Lsn(15), Lsn(40), true);
        assert_eq!(told.tell(Lsn(39)), Lsn(0));
        told.store(Lsn(30), Lsn(60), true);
        assert_eq!(told.tell(Lsn(40)), Lsn(10));
        assert_eq!(told.tell(Lsn(1000)), Lsn(10), "the others have not been followed by another heartbeat");
        told.store(Lsn(30), Lsn(70), true);
        assert_eq!(told.tell(Lsn(70)), Lsn(30));
        told.store(Lsn(30), Lsn(80), true);
        assert_eq!(told.tell(Lsn(80)), Lsn(30));
        told.store(Lsn(35), Lsn(90), false);
        assert_eq!(told.tell(Lsn(80)), Lsn(35), "the standbys were taken from the setting");
    }
}
