//! Leases: how events come back, and what happens to events whose relays die.

use std::time::Duration;

use pillarbox::delivery::{Change, Verdict};
use pillarbox::store::{Ask, LOSSES_BEFORE_ALONE, LOSSES_BEFORE_APART, LOSSES_BEFORE_FAILED, State};
use pillarbox::{Emitted, Status};

use super::Outbox;
use super::outbox::{ASK, deliver, event};
use crate::wait_until;

const PATIENCE: Duration = Duration::from_secs(60);

/// No relay waits for a lease that is no longer held.
pub async fn a_dropped_claim_comes_back_at_once(outbox: &dyn Outbox) {
    let emitted = outbox.emit_many(3).await;
    drop(outbox.claim().await);
    wait_until("all three are due again", PATIENCE, async || outbox.store().remaining().await.unwrap() == 3).await;
    let claim = outbox.claim().await;
    assert_eq!(claim.len(), 3);
    assert!(claim.iter().all(|claimed| claimed.event().claims == 0), "a claim that is given back is no loss");
    let ids: Vec<_> = emitted.iter().map(|emitted| emitted.id).collect();
    assert!(claim.iter().all(|claimed| ids.contains(&claimed.event().id)));
}

/// A give-back keeps the attempts and losses.
pub async fn a_dropped_claim_keeps_its_attempts_and_losses(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    let retry = Change::Retry { after: Duration::ZERO, error: "no".to_owned() };
    outbox.settle(vec![outbox.claim_one().await.settle(Verdict::of(retry, 2))]).await;
    outbox.claim_and_die().await;
    drop(outbox.claim_one().await);
    wait_until("it is due again", PATIENCE, async || outbox.get(emitted.id).await.event.state == State::Due).await;
    let event = outbox.get(emitted.id).await.event;
    assert_eq!((event.attempts, event.claims, event.error_message.as_str()), (2, 1, "no"));
}

/// Promise 3: the events of a dead relay are free within the lease.
pub async fn an_expired_lease_is_claimed_again_and_counts_as_a_loss(outbox: &dyn Outbox) {
    outbox.emit_one().await;
    let dead = outbox.claim_and_die().await;
    let claimed = outbox.claim_one().await;
    assert_eq!(claimed.ticket().id, dead[0].id);
    assert_ne!(claimed.ticket().token, dead[0].token);
    assert_eq!(claimed.event().claims, 1);
}

/// While a lease lasts, no other handle can claim the event.
pub async fn a_live_lease_is_not_claimed(outbox: &dyn Outbox) {
    outbox.emit_one().await;
    let _claim = outbox.claim_one().await;
    assert!(outbox.claim().await.is_empty());
    assert!(outbox.another().await.claim(ASK).await.unwrap().is_empty());
}

/// After some losses each suspect is sent alone, so that only the killer is with its relay when the relay dies.
pub async fn a_suspect_is_claimed_alone(outbox: &dyn Outbox) {
    outbox.emit_many(3).await;
    for _ in 0..LOSSES_BEFORE_ALONE {
        assert_eq!(outbox.claim_and_die().await.len(), 3);
    }
    let nobody = outbox.claim_with(Ask { alone: false, ..ASK }).await;
    assert!(nobody.is_empty(), "a relay that is busy can leave them");
    for _ in 0..3 {
        let claim = outbox.claim().await;
        assert_eq!(claim.len(), 1);
        assert!(claim.is_alone());
        outbox.settle(claim.into_iter().map(deliver).collect()).await;
    }
}

/// Suspects are claimed together, fewer after each further loss, and never with other events.
pub async fn suspects_are_claimed_apart_from_others(outbox: &dyn Outbox) {
    let suspects = outbox.emit_many(100).await;
    for _ in 0..LOSSES_BEFORE_APART {
        assert_eq!(outbox.claim_and_die().await.len(), 100);
    }
    let others = outbox.emit((200..210).map(event).collect()).await;
    let mut sizes = Vec::new();
    for _ in 0..3 {
        let claim = outbox.claim().await;
        let all_are = |of: &[Emitted]| claim.iter().all(|one| of.iter().any(|other| other.id == one.event().id));
        assert!(all_are(&suspects) || all_are(&others));
        sizes.push(claim.len());
        outbox.settle(claim.into_iter().map(deliver).collect()).await;
    }
    assert_eq!(sizes, [64, 36, 10]);

    outbox.emit((300..320).map(event).collect()).await;
    for _ in 0..LOSSES_BEFORE_ALONE - 1 {
        outbox.claim_and_die().await;
    }
    assert_eq!(outbox.claim().await.len(), 8);
}

/// Suspects that must be sent alone do not block later events, and later events do not block them.
pub async fn a_suspect_holds_up_nobody_in_the_line(outbox: &dyn Outbox) {
    let suspect = outbox.emit_event(event(10)).await;
    for _ in 0..LOSSES_BEFORE_ALONE {
        outbox.claim_and_die().await;
    }
    let before = outbox.emit((0..2).map(event).collect()).await;
    for emitted in &before {
        outbox.age(emitted.id, Duration::from_secs(60)).await;
    }
    let behind = outbox.emit(vec![event(20), event(21)]).await;
    // A relay that has read nothing yet begins with the oldest events.
    let relay = outbox.another().await;
    let mut sizes = Vec::new();
    let mut order = Vec::new();
    for _ in 0..2 {
        let claim = relay.claim(ASK).await.unwrap();
        sizes.push((claim.len(), claim.is_alone()));
        order.extend(claim.iter().map(|claimed| claimed.event().id));
        outbox.settle(claim.into_iter().map(deliver).collect()).await;
    }
    assert_eq!(sizes, [(4, false), (1, true)]);
    let expected = [before[0].id, before[1].id, behind[0].id, behind[1].id, suspect.id];
    assert_eq!(order, expected);
}

/// A relay that settles has survived the event.
pub async fn settling_forgets_the_losses(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    for _ in 0..LOSSES_BEFORE_ALONE {
        outbox.claim_and_die().await;
    }
    let claimed = outbox.claim_one().await;
    assert_eq!(claimed.event().claims, LOSSES_BEFORE_ALONE);
    let retry = Change::Retry { after: Duration::ZERO, error: "no".to_owned() };
    outbox.settle(vec![claimed.settle(Verdict::of(retry, 1))]).await;
    assert_eq!(outbox.get(emitted.id).await.event.claims, 0);
    let claim = outbox.claim().await;
    assert!(!claim.is_alone());
}

/// A relay dies whenever it holds the killer; all other events are delivered.
pub async fn the_killer_ends_failed_and_its_neighbours_never(outbox: &dyn Outbox) {
    let emitted = outbox.emit_many(6).await;
    let killer = emitted[2].id;
    let mut deaths = 0;
    for _round in 0..40 {
        let swept = outbox.store().sweep().await.unwrap();
        assert!(swept.iter().all(|swept| swept.event.id == killer), "only the killer is given up");
        let claim = outbox.claim_with(Ask { lease: Duration::ZERO, ..ASK }).await;
        if claim.iter().any(|claimed| claimed.event().id == killer) {
            deaths += 1;
            for alone in claim.iter().filter(|_| claim.is_alone()) {
                outbox.store().blame(alone.ticket(), alone.event().claims).await.unwrap();
            }
            std::mem::forget(claim);
        } else {
            outbox.settle(claim.into_iter().map(deliver).collect()).await;
        }
    }
    assert_eq!(deaths, LOSSES_BEFORE_FAILED);
    for event in emitted {
        let expected = if event.id == killer { Status::Failed } else { Status::Delivered };
        assert_eq!(outbox.get(event.id).await.event.status, expected);
    }
}

/// A lone event may have been beside another event when its relay died. Such a loss does not count.
pub async fn a_lone_loss_counts_only_when_its_relay_has_said_so(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    for _ in 0..LOSSES_BEFORE_FAILED + 3 {
        assert_eq!(outbox.claim_and_die().await.len(), 1);
        assert_eq!(outbox.store().sweep().await.unwrap().len(), 0);
    }
    let claimed = outbox.claim_one().await;
    assert_eq!((claimed.event().id, claimed.event().claims), (emitted.id, LOSSES_BEFORE_ALONE));
}

/// An event that was given up has an error with the reason. Until the sweep has written it, the event is not claimed.
pub async fn giving_up_says_why(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    for losses in 0..LOSSES_BEFORE_FAILED {
        assert_eq!(outbox.store().sweep().await.unwrap().len(), 0, "not yet");
        let dead = outbox.claim_and_die().await;
        assert_eq!(dead.len(), 1);
        outbox.store().blame(dead[0], losses).await.unwrap();
    }
    assert!(outbox.claim().await.is_empty());
    let swept = outbox.store().sweep().await.unwrap();
    assert_eq!(swept.iter().map(|swept| swept.event.id).collect::<Vec<_>>(), [emitted.id]);
    let event = outbox.get(emitted.id).await.event;
    assert_eq!((event.status, event.claims, event.next_attempt_at), (Status::Failed, LOSSES_BEFORE_FAILED, None));
    let why = format!("given up: {LOSSES_BEFORE_FAILED} relays died or hung while they had this event");
    assert!(event.error_message.starts_with(&why), "{}", event.error_message);
    assert_eq!(swept[0].error, event.error_message);
    assert_eq!(outbox.store().sweep().await.unwrap().len(), 0, "once");
}
