//! Check: an event that violates the relay's check becomes a dead letter, before its first send. An operator's retry begins with
//! the check again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::Engine;
use super::load::Permit;
use super::order::Turn;
use super::settler::Settling;
use crate::check::{Checked, Violation};
use crate::clock;
use crate::delivery::{Attempt, CHECK, Change, Verdict};
use crate::observe::panic_message;
use crate::sink::SendError;
use crate::store::Claimed;

/// The violation of an event, and the duration of the check.
pub(super) struct Refusal {
    violation: Violation,
    took: Duration,
}

impl Engine {
    /// Checks an event that was never sent. Returns `None` if it may be sent.
    pub(super) fn refusal(&self, claimed: &Claimed) -> Option<Refusal> {
        let check = self.check.as_ref()?;
        let event = claimed.event();
        // A failed attempt and a row in outbox_delivery prove a send. An outage proves none, so its events are checked again.
        if event.attempts > 0 || !claimed.deliveries().is_empty() {
            return None;
        }
        let began = clock::now();
        let parts = Checked::new(&event.aggregate_type, &event.aggregate_id, &event.event_type, event.payload.get())
            .opaque(event.is_opaque());
        let checked = catch_unwind(AssertUnwindSafe(|| check.check(&parts)));
        let checked = checked.unwrap_or_else(|panic| {
            Err(Violation::new(format_args!("the check of the event panicked: {}", panic_message(&*panic))))
        });
        checked.err().map(|violation| Refusal { violation, took: clock::since(began) })
    }

    /// Makes the event a dead letter, for all its destinations.
    pub(super) fn refuse(&self, claimed: Claimed, permit: Permit, turn: Option<Turn>, refusal: Refusal) {
        let Refusal { violation, took } = refusal;
        let error = SendError::reject(violation);
        let change = Change::Fail { error: error.message.clone() };
        self.observers.tell("failed", |observer| observer.failed(claimed.event(), CHECK, &error));
        let failures = vec![Attempt { destination: CHECK.to_owned(), took, error }];
        let verdict = Verdict { failures, ..Verdict::of(change.clone(), claimed.event().attempts.saturating_add(1)) };
        self.settler.settle(Settling::untried(claimed.settle(verdict), permit));
        if let Some(turn) = turn {
            turn.ended(&change);
        }
    }
}
