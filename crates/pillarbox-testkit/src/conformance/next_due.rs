//! Next due: how long an idle relay may sleep, by the database's clock.

use std::time::Duration;

use pillarbox::delivery::Change;
use pillarbox::store::Ask;

use super::Outbox;
use super::outbox::{ASK, deliver, event, park};

const HOUR: Duration = Duration::from_secs(3600);

async fn next_due(outbox: &dyn Outbox) -> Option<Duration> {
    outbox.store().next_due().await.unwrap()
}

/// The check itself takes time, and SQLite's arithmetic is imprecise.
fn about(due: Option<Duration>, expected: Duration) -> bool {
    due.is_some_and(|due| due.abs_diff(expected) < Duration::from_secs(60))
}

/// Without events, or with terminal events only, nothing is ever due.
pub async fn nothing_pending_is_never_due(outbox: &dyn Outbox) {
    assert_eq!(next_due(outbox).await, None);
    outbox.emit_one().await;
    outbox.claim_and_settle(Change::Deliver).await;
    outbox.emit_one().await;
    outbox.claim_and_settle(Change::Fail { error: "broken".to_owned() }).await;
    assert_eq!(next_due(outbox).await, None);
}

/// An event that is due returns zero, however long it has been due.
pub async fn what_is_due_is_due_in_no_time(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    assert_eq!(next_due(outbox).await, Some(Duration::ZERO));
    outbox.age(emitted.id, HOUR).await;
    assert_eq!(next_due(outbox).await, Some(Duration::ZERO));
}

/// The nearest due time counts, of a delayed event or a retry.
pub async fn what_is_due_later_says_how_much_later(outbox: &dyn Outbox) {
    outbox.emit_event(event(1).deliver_at(outbox.now().await + 3 * HOUR)).await;
    assert!(about(next_due(outbox).await, 3 * HOUR));
    outbox.emit_event(event(2).deliver_at(outbox.now().await + 2 * HOUR)).await;
    assert!(about(next_due(outbox).await, 2 * HOUR));
    outbox.emit_event(event(3)).await;
    outbox.claim_and_settle(Change::Retry { after: HOUR, error: "no".to_owned() }).await;
    assert!(about(next_due(outbox).await, HOUR));
}

/// A parked event has no due time, because its destination's return is unknown.
pub async fn what_is_parked_is_not_waited_for(outbox: &dyn Outbox) {
    outbox.emit_one().await;
    outbox.claim_and_settle(park("runner")).await;
    assert_eq!(next_due(outbox).await, None);
    outbox.store().unpark("runner", None, 1).await.unwrap();
    assert_eq!(next_due(outbox).await, Some(Duration::ZERO));
}

/// If its relay dies, the event is due when the lease ends.
pub async fn what_is_leased_is_due_when_its_lease_ends(outbox: &dyn Outbox) {
    outbox.emit_one().await;
    let claim = outbox.claim_with(Ask { lease: HOUR, ..ASK }).await;
    assert!(about(next_due(outbox).await, HOUR));
    outbox.settle(claim.into_iter().map(deliver).collect()).await;
    assert_eq!(next_due(outbox).await, None);
    outbox.emit_one().await;
    outbox.claim_and_die().await;
    assert_eq!(next_due(outbox).await, Some(Duration::ZERO));
}
