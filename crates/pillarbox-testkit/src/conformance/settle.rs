//! Settle: the rows that are written after an event was sent or was not.

use std::time::Duration;

use pillarbox::delivery::{Answer, Change, Verdict};
use pillarbox::store::{AttemptView, State};
use pillarbox::{SendError, Status};

use super::Outbox;
use super::outbox::{PLACE, deliver, failed, judged};

/// The number of failed attempts that are kept per event.
const KEPT: u32 = 20;

/// Delivered is terminal.
pub async fn delivered_is_terminal(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    outbox.claim_and_settle(Change::Deliver).await;
    let event = outbox.get(emitted.id).await.event;
    assert_eq!((event.status, event.next_attempt_at, event.error_message.as_str()), (Status::Delivered, None, ""));
    let age = outbox.now().await - event.delivered_at.expect("a moment of delivery");
    assert!(age.num_seconds().abs() < 60, "{age}");
    assert!(outbox.claim().await.is_empty());
}

/// An event that was delivered after failures shows how many there were.
pub async fn a_delivery_keeps_the_number_of_failures(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    fail_once(outbox, failed("busy")).await;
    outbox.age(emitted.id, Duration::from_secs(7200)).await;
    let claimed = outbox.claim_one().await;
    let verdict = judged(&claimed, &[PLACE], vec![(PLACE, Answer::Sent)]);
    outbox.settle(vec![claimed.settle(verdict)]).await;
    let detail = outbox.get(emitted.id).await;
    assert_eq!((detail.event.status, detail.event.attempts), (Status::Delivered, 1));
    assert_eq!((detail.event.error_message.as_str(), detail.failed_attempts.len()), ("", 1));
}

/// A released event is as if it had not been claimed.
pub async fn release_gives_back_at_once_and_keeps_the_counts(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    let retry = Change::Retry { after: Duration::ZERO, error: "no".to_owned() };
    outbox.settle(vec![outbox.claim_one().await.settle(Verdict::of(retry, 2))]).await;
    outbox.claim_and_die().await;
    let claimed = outbox.claim_one().await;
    outbox.settle(vec![claimed.settle(Verdict::of(Change::Release { after: Duration::ZERO }, 0))]).await;
    let event = outbox.get(emitted.id).await.event;
    assert_eq!(event.state, State::Due);
    assert_eq!((event.attempts, event.claims, event.error_message.as_str()), (2, 1, "no"));
    assert_eq!(outbox.claim_one().await.event().claims, 1, "given back is no loss");
}

/// People can see the attempts.
pub async fn attempts_are_kept_and_numbered(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    let error = SendError::retry("500 Internal Server Error").answered(500, "oh no");
    let first = Answer::Failed { error, took: Duration::from_millis(1234) };
    fail_once(outbox, first).await;
    outbox.age(emitted.id, Duration::from_secs(7200)).await;
    fail_once(outbox, failed("connection reset")).await;
    let attempts = outbox.get(emitted.id).await.failed_attempts;
    assert_eq!(attempts.iter().map(|attempt| attempt.number).collect::<Vec<_>>(), [1, 2]);
    let first = &attempts[0];
    assert_eq!(
        (first.destination.as_str(), first.took_ms, first.status_code, first.error.as_str(), first.answer.as_deref()),
        (PLACE, 1234, Some(500), "500 Internal Server Error", Some("oh no"))
    );
    assert_eq!((attempts[1].status_code, attempts[1].answer.as_deref()), (None, None));
    let age = outbox.now().await - attempts[1].attempted_at;
    assert!(age.num_seconds().abs() < 60, "{age}");
}

/// With their status and duration, numbered with the failed ones.
pub async fn successful_attempts_can_be_recorded(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    let places = [PLACE, "audit"];
    let recorded = |status, took| Answer::Recorded { status, took: Duration::from_millis(took) };
    let claimed = outbox.claim_one().await;
    let verdict = judged(&claimed, &places, vec![(PLACE, recorded(Some(204), 35)), ("audit", failed("no"))]);
    outbox.settle(vec![claimed.settle(verdict)]).await;
    outbox.age(emitted.id, Duration::from_secs(7200)).await;
    let claimed = outbox.claim_one().await;
    let verdict = judged(&claimed, &places, vec![("audit", recorded(None, 7))]);
    outbox.settle(vec![claimed.settle(verdict)]).await;
    let plain = outbox.emit_one().await;
    let claimed = outbox.claim_one().await;
    let verdict = judged(&claimed, &[PLACE], vec![(PLACE, recorded(Some(200), 3))]);
    outbox.settle(vec![claimed.settle(verdict)]).await;

    let seen = async |id| {
        let detail = outbox.get(id).await;
        assert_eq!(detail.event.status, Status::Delivered);
        assert!(detail.delivered_attempts.iter().all(|attempt| attempt.delivered && attempt.error.is_empty()));
        assert!(detail.failed_attempts.iter().all(|attempt| !attempt.delivered && attempt.error == "no"));
        let told = |attempt: &AttemptView| {
            (attempt.number, attempt.destination.clone(), attempt.delivered, attempt.status_code, attempt.took_ms)
        };
        detail.attempts().into_iter().map(told).collect::<Vec<_>>()
    };
    let told = seen(emitted.id).await;
    let failed_after = told[0].4;
    let row = |number, place: &str, delivered, code, took| (number, place.to_owned(), delivered, code, took);
    let all = [
        row(1, "audit", false, None, failed_after),
        row(2, PLACE, true, Some(204), 35),
        row(3, "audit", true, None, 7),
    ];
    assert_eq!(told, all);
    assert_eq!(seen(plain.id).await, [row(1, PLACE, true, Some(200), 3)]);
}

async fn fail_once(outbox: &dyn Outbox, answer: Answer) {
    let claimed = outbox.claim_one().await;
    let verdict = judged(&claimed, &[PLACE], vec![(PLACE, answer)]);
    outbox.settle(vec![claimed.settle(verdict)]).await;
}

/// An event that fails forever does not fill the table, neither slowly nor in one round.
pub async fn attempts_are_bounded_to_the_latest(outbox: &dyn Outbox) {
    let emitted = outbox.emit_event(super::outbox::event(1).max_attempts(0)).await;
    for _ in 0..KEPT + 3 {
        fail_once(outbox, failed("no")).await;
        outbox.age(emitted.id, Duration::from_secs(7200)).await;
    }
    let numbers = async || -> Vec<u32> {
        outbox.get(emitted.id).await.failed_attempts.iter().map(|attempt| attempt.number).collect()
    };
    assert_eq!(numbers().await, (4..=KEPT + 3).collect::<Vec<_>>());

    let names: Vec<String> = (0..KEPT + 5).map(|number| format!("place-{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let claimed = outbox.claim_one().await;
    let verdict = judged(&claimed, &names, names.iter().map(|name| (*name, failed("no"))).collect());
    outbox.settle(vec![claimed.settle(verdict)]).await;
    let last = KEPT + 3 + KEPT + 5;
    assert_eq!(numbers().await, (last - KEPT + 1..=last).collect::<Vec<_>>());
}

/// An endpoint can neither fill the table nor break the settle.
pub async fn what_is_kept_of_an_answer_is_bounded_and_storable(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    let error = SendError::retry("é\0".repeat(5000)).answered(500, "x\0".repeat(5000));
    fail_once(outbox, Answer::Failed { error, took: Duration::ZERO }).await;
    let detail = outbox.get(emitted.id).await;
    assert!(detail.event.error_message.starts_with('é') && detail.event.error_message.len() < 5000);
    let answer = detail.failed_attempts[0].answer.as_deref().expect("an answer");
    assert!(answer.starts_with('x') && answer.len() < 5000);
}

/// `on_delivered = "delete"`: the event is deleted with its deliveries and attempts.
pub async fn delivered_and_deleted_leaves_nothing(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    let places = [PLACE, "audit"];
    let claimed = outbox.claim_one().await;
    let verdict = judged(&claimed, &places, vec![(PLACE, Answer::Sent), ("audit", failed("no"))]);
    outbox.settle(vec![claimed.settle(verdict)]).await;
    assert_eq!((outbox.rows("outbox_delivery").await, outbox.rows("outbox_attempt").await), (2, 1));

    outbox.age(emitted.id, Duration::from_secs(7200)).await;
    let claimed = outbox.claim_one().await;
    let verdict = judged(&claimed, &places, vec![("audit", Answer::Sent)]);
    assert_eq!(verdict.change, Change::Deliver);
    let lost = outbox.store().settle(&[claimed.settle(verdict)], true).await.unwrap();
    assert_eq!(lost, []);
    for table in ["outbox_event", "outbox_delivery", "outbox_attempt"] {
        assert_eq!(outbox.rows(table).await, 0, "{table}");
    }
}

/// Only delivered events are deleted; the rest of the batch is settled as usual.
pub async fn delete_keeps_what_was_not_delivered(outbox: &dyn Outbox) {
    let emitted = outbox.emit_many(3).await;
    let mut claim = outbox.claim().await.into_iter();
    let (first, second, third) = (claim.next().unwrap(), claim.next().unwrap(), claim.next().unwrap());
    let retry = judged(&second, &[PLACE], vec![(PLACE, failed("no"))]);
    let reject = Answer::Failed { error: SendError::reject("gone"), took: Duration::ZERO };
    let reject = judged(&third, &[PLACE], vec![(PLACE, reject)]);
    let settlements = [deliver(first), second.settle(retry), third.settle(reject)];
    assert_eq!(outbox.store().settle(&settlements, true).await.unwrap(), []);
    assert!(outbox.inspect().get(emitted[0].id).await.unwrap().is_none());
    assert_eq!(outbox.get(emitted[1].id).await.event.state, State::Scheduled);
    assert_eq!(outbox.get(emitted[2].id).await.event.state, State::Failed);
    assert_eq!(outbox.rows("outbox_attempt").await, 2);
}

/// A settle without events is no error.
pub async fn an_empty_settle_is_fine(outbox: &dyn Outbox) {
    assert_eq!(outbox.store().settle(&[], false).await.unwrap(), []);
    assert_eq!(outbox.store().settle(&[], true).await.unwrap(), []);
}
