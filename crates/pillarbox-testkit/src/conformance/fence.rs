//! The fence: a relay that lost a lease can no longer change the event.

use std::time::Duration;

use pillarbox::Status;
use pillarbox::delivery::{Change, Verdict};
use pillarbox::store::{Ask, Claimed, State};

use super::Outbox;
use super::outbox::{ASK, LEASE, PLACE, deliver, fail, failed, judged};
use crate::wait_until;

/// Claims the one event with a lease that has already expired.
async fn claim_late(outbox: &dyn Outbox) -> Claimed {
    let claim = outbox.claim_with(Ask { lease: Duration::ZERO, ..ASK }).await;
    claim.into_iter().next().expect("one event is due")
}

/// Promise 3: a late settle changes nothing that another relay holds.
pub async fn a_late_settle_changes_nothing_and_is_answered_as_lost(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    let late = claim_late(outbox).await;
    let ours = outbox.claim_one().await;
    let before = outbox.get(emitted.id).await;
    let ticket = late.ticket();
    assert_eq!(outbox.try_settle(vec![late.settle(Verdict::of(fail(), 1))]).await, [ticket]);
    let after = outbox.get(emitted.id).await;
    assert_eq!(serde_json::to_value(&after).unwrap(), serde_json::to_value(&before).unwrap());
    outbox.settle(vec![deliver(ours)]).await;
    assert_eq!(outbox.get(emitted.id).await.event.status, Status::Delivered);
}

/// The same when delivered events are deleted.
pub async fn a_late_settle_with_delete_deletes_nothing(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    let late = claim_late(outbox).await;
    let _ours = outbox.claim_one().await;
    let ticket = late.ticket();
    let lost = outbox.store().settle(&[deliver(late)], true).await.unwrap();
    assert_eq!(lost, [ticket]);
    assert_eq!(outbox.get(emitted.id).await.event.state, State::Sending);
}

/// A late settle adds no deliveries or attempts.
pub async fn a_late_settle_writes_no_details(outbox: &dyn Outbox) {
    outbox.emit_one().await;
    let late = claim_late(outbox).await;
    let _ours = outbox.claim_one().await;
    let verdict = judged(&late, &[PLACE, "audit"], vec![(PLACE, failed("no")), ("audit", failed("no"))]);
    assert_eq!((verdict.deliveries.len(), verdict.failures.len()), (2, 2));
    assert_eq!(outbox.try_settle(vec![late.settle(verdict)]).await.len(), 1);
    assert_eq!((outbox.rows("outbox_delivery").await, outbox.rows("outbox_attempt").await), (0, 0));
}

/// A claim that is dropped after its lease was lost does not give back the other claim's event.
pub async fn a_late_give_back_changes_nothing(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    let late = claim_late(outbox).await;
    let ours = outbox.claim_one().await;
    drop(late);
    // Give-backs of one store run in order: when this one is done, so is the late one.
    let other = outbox.emit_one().await;
    drop(outbox.claim_one().await);
    wait_until("the other event is given back", Duration::from_secs(10), async || {
        outbox.get(other.id).await.event.state == State::Due
    })
    .await;
    assert_eq!(outbox.get(emitted.id).await.event.state, State::Sending);
    outbox.settle(vec![deliver(ours)]).await;
}

/// A batch settles the events that are still held.
pub async fn one_lost_lease_does_not_keep_the_others_from_settling(outbox: &dyn Outbox) {
    let emitted = outbox.emit_many(3).await;
    let mut claim: Vec<Claimed> = outbox.claim().await.into_iter().collect();
    let lost = claim.remove(1);
    let ticket = lost.ticket();
    outbox.age(ticket.id, LEASE).await;
    let taken = outbox.claim_one().await;
    assert_eq!(taken.ticket().id, ticket.id);
    let settlements = claim.into_iter().chain([lost]).map(deliver).collect();
    assert_eq!(outbox.try_settle(settlements).await, [ticket]);
    let mut states = Vec::new();
    for event in &emitted {
        states.push(outbox.get(event.id).await.event.state);
    }
    assert_eq!(states, [State::Delivered, State::Sending, State::Delivered]);
}

/// A lease that another relay now holds is not renewed.
pub async fn renew_extends_only_what_is_ours(outbox: &dyn Outbox) {
    let emitted = outbox.emit_many(2).await;
    let mut claim = outbox.claim().await.into_iter();
    let (lost, ours) = (claim.next().unwrap(), claim.next().unwrap());
    outbox.age(lost.ticket().id, LEASE).await;
    let theirs = outbox.claim_one().await;
    let theirs_ends = outbox.get(theirs.ticket().id).await.event.next_attempt_at;
    let renewed = outbox.store().renew(&[lost.ticket(), ours.ticket()], 2 * LEASE).await.unwrap();
    assert_eq!(renewed, [ours.ticket()]);
    assert_eq!(outbox.get(theirs.ticket().id).await.event.next_attempt_at, theirs_ends);
    let ends = outbox.get(emitted[1].id).await.event.next_attempt_at.unwrap();
    assert!(ends > outbox.now().await + LEASE + LEASE / 2, "{ends}");
    let settled = ours.settle(Verdict::of(Change::Deliver, 0));
    outbox.settle(vec![settled]).await;
    assert_eq!(outbox.store().renew(&[], LEASE).await.unwrap(), []);
}
