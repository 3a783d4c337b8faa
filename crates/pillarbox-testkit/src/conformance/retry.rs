//! Retry: when a failed delivery is retried, and when not.

use std::time::Duration;

use pillarbox::delivery::{Answer, Change, Verdict};
use pillarbox::store::State;
use pillarbox::{SendError, Status};

use super::Outbox;
use super::outbox::{PLACE, event, failed, judged};

/// Promise 5: the due time is the database's current time plus the delay, whatever the host's clock says.
pub async fn the_next_attempt_is_set_by_the_databases_clock(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    let after = Duration::from_millis(90_500);
    let claimed = outbox.claim_one().await;
    let before = outbox.now().await;
    let retry = Change::Retry { after, error: "no".to_owned() };
    outbox.settle(vec![claimed.settle(Verdict::of(retry, 1))]).await;
    let later = outbox.now().await;
    let event = outbox.get(emitted.id).await.event;
    let next = event.next_attempt_at.expect("a time");
    assert!(before + after <= next && next <= later + after, "{before} + {after:?} <= {next} <= {later} + {after:?}");
    assert_eq!((event.status, event.attempts, event.error_message.as_str()), (Status::Pending, 1, "no"));
}

/// A retry is claimed when it is due, and not before.
pub async fn a_retry_is_not_claimed_before_its_time(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    let after = Duration::from_secs(60);
    outbox.claim_and_settle(Change::Retry { after, error: "no".to_owned() }).await;
    assert_eq!(outbox.get(emitted.id).await.event.state, State::Scheduled);
    assert!(outbox.claim().await.is_empty());
    outbox.age(emitted.id, after).await;
    assert_eq!(outbox.claim_one().await.event().id, emitted.id);
}

/// `max_attempts` failures make a dead letter: the relay's setting, or the event's own.
pub async fn the_last_attempt_makes_it_failed(outbox: &dyn Outbox) {
    let by_policy = outbox.emit_event(event(1)).await;
    assert_eq!(fail_until_failed(outbox, by_policy.id).await, 5);
    let by_itself = outbox.emit_event(event(2).max_attempts(2)).await;
    assert_eq!(fail_until_failed(outbox, by_itself.id).await, 2);
    let event = outbox.get(by_itself.id).await.event;
    assert_eq!((event.status, event.attempts, event.next_attempt_at), (Status::Failed, 2, None));
    assert_eq!(event.error_message, "no");
    assert!(outbox.claim().await.is_empty());
}

async fn fail_until_failed(outbox: &dyn Outbox, id: uuid::Uuid) -> u32 {
    for attempts in 1..=10 {
        let claimed = outbox.claim_one().await;
        let verdict = judged(&claimed, &[PLACE], vec![(PLACE, failed("no"))]);
        outbox.settle(vec![claimed.settle(verdict)]).await;
        if outbox.get(id).await.event.status == Status::Failed {
            return attempts;
        }
        outbox.age(id, Duration::from_secs(7200)).await;
    }
    panic!("not failed after 10 attempts");
}

/// `max_attempts = 0` means no limit.
pub async fn an_event_without_a_limit_never_fails(outbox: &dyn Outbox) {
    let emitted = outbox.emit_event(event(1).max_attempts(0)).await;
    for attempt in 1..=12 {
        let claimed = outbox.claim_one().await;
        let verdict = judged(&claimed, &[PLACE], vec![(PLACE, failed("no"))]);
        outbox.settle(vec![claimed.settle(verdict)]).await;
        let event = outbox.get(emitted.id).await.event;
        assert_eq!((event.status, event.attempts), (Status::Pending, attempt));
        outbox.age(emitted.id, Duration::from_secs(7200)).await;
    }
}

/// A permanent error is not retried.
pub async fn a_rejected_event_is_failed_at_once(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    let claimed = outbox.claim_one().await;
    let answer = Answer::Failed { error: SendError::reject("410 Gone"), took: Duration::ZERO };
    let verdict = judged(&claimed, &[PLACE], vec![(PLACE, answer)]);
    outbox.settle(vec![claimed.settle(verdict)]).await;
    let event = outbox.get(emitted.id).await.event;
    assert_eq!((event.status, event.error_message.as_str()), (Status::Failed, "410 Gone"));
}
