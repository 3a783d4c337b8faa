//! Settle together: what was claimed at once and is best settled at once waits here for the rest of its claim, but not for
//! long. Pure; time is given to it.

use std::collections::HashMap;
use std::time::Instant;

use uuid::Uuid;

/// Claims whose settlements are being waited for.
pub(super) struct Together<T> {
    claims: HashMap<Uuid, Waiting<T>>,
}

struct Waiting<T> {
    known: Vec<T>,
    missing: usize,
    until: Instant,
}

impl<T> Together<T> {
    pub(super) fn new() -> Self {
        Self { claims: HashMap::new() }
    }

    /// A claim of so many events is to be settled at once, or at that moment as far as it is known.
    pub(super) fn expect(&mut self, token: Uuid, events: usize, until: Instant) {
        self.claims.insert(token, Waiting { known: Vec::with_capacity(events), missing: events, until });
    }

    /// What became of one event. Answers the whole claim when it is the last one, and the event itself when nobody waits
    /// for its claim.
    pub(super) fn add(&mut self, token: Uuid, settlement: T) -> Added<T> {
        let Some(waiting) = self.claims.get_mut(&token) else { return Added::Alone(settlement) };
        waiting.known.push(settlement);
        waiting.missing -= 1;
        if waiting.missing > 0 {
            return Added::Waits;
        }
        match self.claims.remove(&token) {
            Some(waiting) => Added::Whole(waiting.known),
            None => Added::Waits,
        }
    }

    /// When the first of them has waited long enough.
    pub(super) fn until(&self) -> Option<Instant> {
        self.claims.values().map(|waiting| waiting.until).min()
    }

    /// What is known of a claim that has waited long enough.
    pub(super) fn overdue(&mut self, now: Instant) -> Option<Vec<T>> {
        let late = self.claims.iter().filter(|(_, waiting)| waiting.until <= now);
        // The one that waits longest; a map has no order of its own.
        let token = *late.min_by_key(|(token, waiting)| (waiting.until, **token))?.0;
        self.claims.remove(&token).map(|waiting| waiting.known)
    }
}

pub(super) enum Added<T> {
    Waits,
    Whole(Vec<T>),
    Alone(T),
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const CLAIM: Uuid = Uuid::from_u128(1);

    #[test]
    fn a_claim_waits_for_its_last_event() {
        let mut together = Together::new();
        together.expect(CLAIM, 2, Instant::now());
        assert!(matches!(together.add(CLAIM, 'a'), Added::Waits));
        assert!(matches!(together.add(CLAIM, 'b'), Added::Whole(known) if known == ['a', 'b']));
        assert!(matches!(together.add(CLAIM, 'c'), Added::Alone('c')));
        assert_eq!(together.until(), None);
    }

    #[test]
    fn what_comes_too_late_is_alone() {
        let (mut together, now) = (Together::new(), Instant::now());
        let until = now + Duration::from_millis(250);
        together.expect(CLAIM, 3, until);
        assert!(matches!(together.add(CLAIM, 'a'), Added::Waits));
        assert_eq!(together.until(), Some(until));
        assert_eq!(together.overdue(now), None);
        assert_eq!(together.overdue(until), Some(vec!['a']));
        assert_eq!(together.overdue(until), None);
        assert!(matches!(together.add(CLAIM, 'b'), Added::Alone('b')));
    }
}
