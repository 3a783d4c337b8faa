//! Visible first: decides from a snapshot whether other sessions see a transaction. A stream can bring a commit before it is visible,
//! long before with synchronous replication; a receiver that asks the database must find what the event is about. Pure.

/// The transactions that a statement sees: all below `xmax` that are not in progress. The default is that of no statement: it sees
/// nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Snapshot {
    xmin: u64,
    xmax: u64,
    in_progress: Vec<u64>,
}

impl Snapshot {
    /// Reads PostgreSQL's text of a snapshot: `10:20:10,14`.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ':');
        let (xmin, xmax) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let listed = parts.next()?.split(',').filter(|xid| !xid.is_empty());
        let in_progress = listed.map(|xid| xid.parse().ok()).collect::<Option<_>>()?;
        Some(Self { xmin, xmax, in_progress })
    }

    /// Returns whether a committed transaction is visible. The stream has only the lower half of its number: the upper half is
    /// the one that brings it nearest to the newest transaction.
    pub(super) fn sees(&self, xid: u32) -> bool {
        if self.xmax == 0 {
            return false;
        }
        let distance = xid.wrapping_sub(self.xmax as u32).cast_signed();
        let Some(full) = self.xmax.checked_add_signed(i64::from(distance)) else { return true };
        full < self.xmin || (full < self.xmax && !self.in_progress.contains(&full))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(text: &str) -> Snapshot {
        Snapshot::read(text).unwrap()
    }

    #[test]
    fn transactions_in_progress_and_later_ones_are_not_seen() {
        let snapshot = snapshot("10:20:10,14");
        let seen: Vec<u32> = (8..24).filter(|xid| snapshot.sees(*xid)).collect();
        assert_eq!(seen, [8, 9, 11, 12, 13, 15, 16, 17, 18, 19]);
    }

    #[test]
    fn numbers_wrap_around() {
        let wrapped = 5_u64 << 32;
        let snapshot = snapshot(&format!("{}:{}:{}", wrapped - 3, wrapped + 2, wrapped - 3));
        assert!(snapshot.sees(u32::MAX - 3) && !snapshot.sees(u32::MAX - 2));
        assert!(snapshot.sees(u32::MAX) && snapshot.sees(0) && snapshot.sees(1) && !snapshot.sees(2));
    }

    #[test]
    fn before_the_first_snapshot_nothing_is_seen() {
        assert!([3, 1 << 31, u32::MAX].iter().all(|xid| !Snapshot::default().sees(*xid)));
    }

    #[test]
    fn what_is_not_a_snapshot_is_refused() {
        assert_eq!(snapshot("3:3:"), Snapshot { xmin: 3, xmax: 3, in_progress: vec![] });
        for text in ["", "3", "3:4", "a:4:", "3:4:x"] {
            assert_eq!(Snapshot::read(text), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_can_be_read(text in "[0-9:,]{0,24}", xid: u32) {
            if let Some(snapshot) = Snapshot::read(&text) {
                let _ = snapshot.sees(xid);
            }
        }
    }
}
