//! Fan-out: several destinations, of which only the open ones are sent to again.

use std::time::Duration;

use pillarbox::Status;
use pillarbox::delivery::{Answer, Change};
use pillarbox::store::{Claimed, EventDetail, Retried, Selection};
use pillarbox::{RetryPolicy, SendError};

use super::Outbox;
use super::outbox::{BY_ANN, failed, judged};

const PLACES: [&str; 3] = ["audit", "mail", "runner"];

/// Runs one round: sends to due destinations, with these results.
async fn round(outbox: &dyn Outbox, answers: Vec<(&str, Answer)>) {
    let claimed = outbox.claim_one().await;
    let verdict = judged(&claimed, &PLACES, answers);
    outbox.settle(vec![claimed.settle(verdict)]).await;
}

fn statuses(detail: &EventDetail) -> Vec<(&str, Status, u32)> {
    detail.deliveries.iter().map(|row| (row.destination.as_str(), row.status, row.attempts)).collect()
}

/// After a partial success, the event has stored deliveries, and some of them are open.
pub async fn a_partial_success_keeps_what_is_open(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    let reject = Answer::Failed { error: SendError::reject("gone"), took: Duration::ZERO };
    round(outbox, vec![("audit", Answer::Sent), ("mail", failed("busy")), ("runner", reject)]).await;
    let detail = outbox.get(emitted.id).await;
    assert_eq!(
        statuses(&detail),
        [("audit", Status::Delivered, 0), ("mail", Status::Pending, 1), ("runner", Status::Failed, 1)]
    );
    let [audit, mail, runner] = &detail.deliveries[..] else { panic!("three rows") };
    assert!(audit.delivered_at.is_some() && audit.next_attempt_at.is_none());
    assert!(mail.delivered_at.is_none() && mail.next_attempt_at.is_some());
    assert!(runner.next_attempt_at.is_none());
    assert_eq!((audit.error.as_str(), mail.error.as_str(), runner.error.as_str()), ("", "busy", "gone"));
    assert_eq!(detail.event.error_message, "mail: busy; runner: gone");
    assert_eq!(detail.event.status, Status::Pending);

    outbox.age(emitted.id, RetryPolicy::default().base).await;
    let claimed = outbox.claim_one().await;
    let due: Vec<&str> =
        claimed.deliveries().iter().filter(|row| row.is_due()).map(|row| row.destination.as_str()).collect();
    assert_eq!(due, ["mail"]);
    assert_eq!(claimed.deliveries().len(), 3);
}

/// Otherwise a claim at the event's due time would find nothing to send.
pub async fn every_destination_is_due_when_its_event_is(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    round(outbox, PLACES.map(|place| (place, failed("busy"))).into()).await;
    let detail = outbox.get(emitted.id).await;
    for delivery in &detail.deliveries {
        assert_eq!(delivery.next_attempt_at, detail.event.next_attempt_at, "{}", delivery.destination);
    }
}

/// The event is due with the first destination; the others keep waiting.
pub async fn a_destination_waits_for_its_own_time(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    let patience = Duration::from_secs(600);
    let slow = Answer::Failed { error: SendError::retry("busy").after(Some(patience)), took: Duration::ZERO };
    round(outbox, vec![("audit", Answer::Sent), ("mail", failed("no")), ("runner", slow)]).await;
    outbox.age(emitted.id, RetryPolicy::default().base).await;
    let claimed = outbox.claim_one().await;
    let due_in = |place: &str| claimed.deliveries().iter().find(|row| row.destination == place).unwrap().due_in;
    assert_eq!(due_in("mail"), Duration::ZERO);
    assert!(due_in("runner") > patience - Duration::from_secs(120) && due_in("runner") < patience);

    let delivered_at = outbox.get(emitted.id).await.deliveries[0].delivered_at;
    let verdict = judged(&claimed, &PLACES, vec![("mail", Answer::Sent)]);
    outbox.settle(vec![claimed.settle(verdict)]).await;
    let detail = outbox.get(emitted.id).await;
    assert_eq!(
        statuses(&detail),
        [("audit", Status::Delivered, 0), ("mail", Status::Delivered, 1), ("runner", Status::Pending, 1)]
    );
    assert_eq!(detail.deliveries[0].delivered_at, delivered_at, "the moment of delivery stays");
    assert_eq!(detail.event.next_attempt_at, detail.deliveries[2].next_attempt_at);
}

/// A destination that is up again gets its event, although the others are down or wait for their next attempt.
pub async fn a_destination_is_unparked_whatever_the_others_wait_for(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    let down = || Answer::Parked { error: Some(SendError::unavailable("down")), tried: None };
    round(outbox, vec![("audit", down()), ("mail", failed("busy")), ("runner", down())]).await;
    assert_eq!(outbox.get(emitted.id).await.event.parked_on, None, "it is due when mail is");
    assert_eq!(outbox.store().parked_on().await.unwrap(), ["audit", "runner"]);
    let due = |claimed: &Claimed| -> Vec<String> {
        claimed.deliveries().iter().filter(|row| row.is_due()).map(|row| row.destination.clone()).collect()
    };
    assert_eq!(outbox.store().unpark("runner", None, 10).await.unwrap(), 1);
    let claimed = outbox.claim_one().await;
    assert_eq!(due(&claimed), ["runner"]);
    assert_eq!(outbox.store().unpark("audit", None, 10).await.unwrap(), 0, "a relay has it");
    let verdict = judged(&claimed, &PLACES, vec![("runner", Answer::Sent)]);
    outbox.settle(vec![claimed.settle(verdict)]).await;

    outbox.age(emitted.id, RetryPolicy::default().base).await;
    round(outbox, vec![("mail", down())]).await;
    assert_eq!(outbox.get(emitted.id).await.event.parked_on.as_deref(), Some("mail"), "all that is open waits");
    assert_eq!(outbox.store().unpark("audit", None, 10).await.unwrap(), 1);
    let claimed = outbox.claim_one().await;
    assert_eq!(due(&claimed), ["audit"]);
    let verdict = judged(&claimed, &PLACES, vec![("audit", Answer::Sent)]);
    outbox.settle(vec![claimed.settle(verdict)]).await;
    assert_eq!(outbox.store().parked_on().await.unwrap(), ["mail"]);
    assert_eq!(outbox.store().unpark("mail", None, 10).await.unwrap(), 1);
    round(outbox, vec![("mail", Answer::Sent)]).await;
    assert_eq!(outbox.get(emitted.id).await.event.status, Status::Delivered);
}

/// A destination that has received an event does not receive it again.
pub async fn the_operators_retry_opens_only_what_was_not_delivered(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    let reject = || Answer::Failed { error: SendError::reject("gone"), took: Duration::ZERO };
    round(outbox, vec![("audit", Answer::Sent), ("mail", reject()), ("runner", reject())]).await;
    assert_eq!(outbox.get(emitted.id).await.event.status, Status::Failed);
    let answers = outbox.inspect().retry(&Selection::Ids(vec![emitted.id]), BY_ANN).await.unwrap();
    assert_eq!(answers, [(emitted.id, Retried::Due)]);
    let detail = outbox.get(emitted.id).await;
    assert_eq!(
        statuses(&detail),
        [("audit", Status::Delivered, 0), ("mail", Status::Pending, 0), ("runner", Status::Pending, 0)]
    );
    let claimed = outbox.claim_one().await;
    let due: Vec<&str> =
        claimed.deliveries().iter().filter(|row| row.is_due()).map(|row| row.destination.as_str()).collect();
    assert_eq!(due, ["mail", "runner"]);
}

/// The last open delivery ends the event.
pub async fn all_delivered_ends_the_event(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    round(outbox, vec![("audit", Answer::Sent), ("mail", failed("no")), ("runner", Answer::Sent)]).await;
    outbox.age(emitted.id, RetryPolicy::default().base).await;
    round(outbox, vec![("mail", Answer::Sent)]).await;
    let detail = outbox.get(emitted.id).await;
    assert_eq!((detail.event.status, detail.event.error_message.as_str()), (Status::Delivered, ""));
    assert!(detail.deliveries.iter().all(|row| row.status == Status::Delivered && row.delivered_at.is_some()));
}

/// The common case costs no extra write.
pub async fn a_fan_out_that_succeeds_at_once_writes_no_rows(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    let claimed = outbox.claim_one().await;
    let verdict = judged(&claimed, &PLACES, PLACES.map(|place| (place, Answer::Sent)).into());
    assert_eq!(verdict.change, Change::Deliver);
    outbox.settle(vec![claimed.settle(verdict)]).await;
    assert_eq!(outbox.get(emitted.id).await.event.status, Status::Delivered);
    assert_eq!(outbox.rows("outbox_delivery").await, 0);
}
