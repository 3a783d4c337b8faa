//! Settle together: settlements of one claim that are best written at once wait here for the rest of the claim, but not for
//! long. Pure: callers pass in the time.

use std::collections::HashMap;
use std::time::Instant;

use uuid::Uuid;

/// Claims whose settlements are collected.
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

    /// Starts to collect a claim of this many events, until all are known or until the given time.
    pub(super) fn expect(&mut self, token: Uuid, events: usize, until: Instant) {
        self.claims.insert(token, Waiting { known: Vec::with_capacity(events), missing: events, until });
    }

    /// Adds the settlement of one event. Returns the whole claim if it was the last one, or the settlement itself if its
    /// claim is not collected.
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

    /// Returns the earliest end of a wait.
    pub(super) fn until(&self) -> Option<Instant> {
        self.claims.values().map(|waiting| waiting.until).min()
    }

    /// Returns the known settlements of a claim whose wait is over.
    pub(super) fn overdue(&mut self, now: Instant) -> Option<Vec<T>> {
        let late = self.claims.iter().filter(|(_, waiting)| waiting.until <= now);
        // The longest waiting one. The order of a map is arbitrary.
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
