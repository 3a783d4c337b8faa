//! Large changes in small statements: each is a transaction of its own, so that none holds locks for long, and what is done
//! stays done when a later one fails. Pure.

/// So many events in one statement.
const BATCH: usize = 5_000;
/// So many statements in one call: relays that disagree may park again what is unparked, for ever.
const STATEMENTS: usize = 1_000;

/// The limits of the statements that change a number of events between them.
#[derive(Debug)]
pub(crate) struct Batches {
    left: usize,
    statements: usize,
    changed: u64,
}

impl Batches {
    /// At most so many events.
    pub(crate) fn of(most: usize) -> Self {
        Self { left: most, statements: STATEMENTS, changed: 0 }
    }

    /// The limit of the next statement; `None` when there is nothing left to change.
    pub(crate) fn limit(&self) -> Option<usize> {
        (self.left > 0 && self.statements > 0).then_some(self.left.min(BATCH))
    }

    /// A statement has changed so many. Less than its limit is the end.
    pub(crate) fn done(&mut self, changed: u64) {
        self.changed += changed;
        self.statements -= 1;
        let full = changed >= BATCH as u64;
        self.left = if full { self.left.saturating_sub(BATCH) } else { 0 };
    }

    /// How many were changed in all.
    pub(crate) fn changed(&self) -> u64 {
        self.changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many are changed, and with which limits.
    fn limits(most: usize, mut of: usize) -> (u64, Vec<usize>) {
        let (mut batches, mut limits) = (Batches::of(most), Vec::new());
        while let Some(limit) = batches.limit() {
            limits.push(limit);
            let changed = limit.min(of);
            of -= changed;
            batches.done(changed as u64);
        }
        (batches.changed(), limits)
    }

    #[test]
    fn many_are_changed_in_batches_and_few_at_once() {
        assert_eq!(limits(0, 100), (0, vec![]));
        assert_eq!(limits(7, 100), (7, vec![7]));
        assert_eq!(limits(BATCH, 2 * BATCH), (BATCH as u64, vec![BATCH]));
        assert_eq!(limits(usize::MAX, BATCH + 1), (BATCH as u64 + 1, vec![BATCH; 2]));
        assert_eq!(limits(BATCH + 2, usize::MAX), (BATCH as u64 + 2, vec![BATCH, 2]));
    }

    #[test]
    fn it_ends_though_there_is_always_more() {
        assert_eq!(limits(usize::MAX, usize::MAX).1.len(), STATEMENTS);
    }
}
