//! Operations of people: count, get, retry.

use std::time::Duration;

use pillarbox::delivery::{Answer, Change, UNROUTED};
use pillarbox::store::{Ask, Filter, Parked, Retried, Selection, State};
use pillarbox::{Emitted, Event, SendError, Status};
use uuid::Uuid;

use super::Outbox;
use super::outbox::{ASK, BY_ANN, event, fail, judged, park};

/// Emits one event in each state that a single event can have.
pub(super) async fn one_of_each(outbox: &dyn Outbox) -> [(State, Emitted); 6] {
    let delivered = outbox.emit_event(event(1)).await;
    outbox.claim_and_settle(Change::Deliver).await;
    let failed = outbox.emit_event(event(2)).await;
    outbox.claim_and_settle(fail()).await;
    let parked = outbox.emit_event(event(3)).await;
    outbox.claim_and_settle(park("runner")).await;
    let scheduled = outbox.emit_event(event(4).deliver_at(outbox.now().await + Duration::from_secs(3600))).await;
    let sending = outbox.emit_event(event(5)).await;
    std::mem::forget(outbox.claim_one().await);
    let due = outbox.emit_event(event(6)).await;
    [
        (State::Delivered, delivered),
        (State::Failed, failed),
        (State::Parked, parked),
        (State::Scheduled, scheduled),
        (State::Sending, sending),
        (State::Due, due),
    ]
}

/// The number of events per state.
pub async fn counts_tell_where_the_events_are(outbox: &dyn Outbox) {
    let counts = outbox.inspect().counts().await.unwrap();
    assert_eq!((counts.pending(), counts.oldest_due), (0, None));
    let [.., (_, due)] = one_of_each(outbox).await;
    outbox.age(due.id, Duration::from_secs(60)).await;
    let counts = outbox.inspect().counts().await.unwrap();
    assert_eq!(
        (counts.due, counts.scheduled, counts.sending, counts.delivered, counts.failed, counts.pending()),
        (1, 1, 1, 1, 1, 4)
    );
    assert_eq!(counts.parked, [Parked { on: "runner".to_owned(), count: 1 }]);
    let oldest = counts.oldest_due.expect("something is due");
    assert!(oldest >= Duration::from_secs(60) && oldest < Duration::from_secs(120), "{oldest:?}");
}

/// The waiting events of each destination, also of those that wait for one destination of several.
pub async fn waiting_tells_what_waits_for_whom(outbox: &dyn Outbox) {
    assert_eq!(outbox.inspect().waiting().await.unwrap(), []);
    let first = outbox.emit_one().await;
    let claimed = outbox.claim_one().await;
    let down = || Answer::Parked { error: Some(SendError::unavailable("down")), tried: None };
    let answers = vec![("audit", down()), ("mail", down()), ("runner", Answer::Sent)];
    let verdict = judged(&claimed, &["audit", "mail", "runner"], answers);
    outbox.settle(vec![claimed.settle(verdict)]).await;
    let second = outbox.emit_event(event(7)).await;
    outbox.claim_and_settle(park("mail")).await;
    outbox.emit_event(event(8)).await;
    outbox.claim_and_settle(park(UNROUTED)).await;
    outbox.emit_event(event(9)).await;
    let (minute, hour) = (Duration::from_secs(60), Duration::from_secs(3600));
    outbox.age(first.id, hour).await;
    outbox.age(second.id, minute).await;

    let mut waiting = outbox.inspect().waiting().await.unwrap();
    waiting.sort_by(|one, other| one.on.cmp(&other.on));
    let found: Vec<(&str, u64, bool)> = waiting.iter().map(|one| (one.on.as_str(), one.count, one.at_least)).collect();
    assert_eq!(found, [("audit", 1, false), ("mail", 2, false), (UNROUTED, 1, false)]);
    let ages: Vec<Duration> = waiting.iter().map(|one| one.oldest.expect("an age")).collect();
    let is_about = |age: Duration, wanted: Duration| age >= wanted && age < wanted + minute;
    assert!(is_about(ages[0], hour) && is_about(ages[1], hour) && is_about(ages[2], Duration::ZERO), "{ages:?}");
}

/// The number of waiting events, for metrics that are read all the time.
pub async fn depth_tells_what_waits(outbox: &dyn Outbox) {
    let depth = outbox.inspect().depth().await.unwrap();
    assert_eq!((depth.due, depth.parked, depth.failed, depth.oldest_due), (0, 0, 0, None));
    let [.., (_, due)] = one_of_each(outbox).await;
    outbox.age(due.id, Duration::from_secs(60)).await;
    let depth = outbox.inspect().depth().await.unwrap();
    assert_eq!((depth.due, depth.scheduled, depth.sending, depth.parked, depth.failed), (1, 1, 1, 1, 1));
    let oldest = depth.oldest_due.expect("something is due");
    assert!(oldest >= Duration::from_secs(60) && oldest < Duration::from_secs(120), "{oldest:?}");
}

/// Relays see a pause until it ends, and each change has one audit entry.
pub async fn pauses_are_told_and_written_down(outbox: &dyn Outbox) {
    let inspect = outbox.inspect();
    assert!(inspect.pause("runner", "ann").await.unwrap());
    assert!(!inspect.pause("runner", "bob").await.unwrap(), "it is paused already");
    assert_eq!(outbox.store().paused().await.unwrap(), ["runner"]);
    let pauses = inspect.pauses().await.unwrap();
    assert_eq!((pauses.len(), pauses[0].paused_by.as_str()), (1, "ann"));

    assert!(inspect.resume("runner", "bob").await.unwrap());
    assert!(!inspect.resume("runner", "ann").await.unwrap(), "it is not paused any more");
    assert!(outbox.store().paused().await.unwrap().is_empty());

    let all = inspect.audit(None, 10).await.unwrap();
    let told: Vec<_> = all.iter().map(|did| (did.who.as_str(), did.what.as_str(), did.target.as_str())).collect();
    assert_eq!(told, [("bob", "resume", "runner"), ("ann", "pause", "runner")]);
    assert_eq!(inspect.audit(Some(all[0].id), 10).await.unwrap(), all[1..]);
}

/// All details of one event.
pub async fn get_tells_everything(outbox: &dyn Outbox) {
    let asked = Event::new("Order", 42, "order.placed").payload([1, 2]).header("tenant", "acme").max_attempts(9);
    let emitted = outbox.emit_event(asked).await;
    let detail = outbox.get(emitted.id).await;
    let event = &detail.event;
    assert_eq!(
        (Some(event.seq), event.aggregate_type.as_str(), event.aggregate_id.as_str(), event.event_type.as_str()),
        (emitted.seq, "Order", "42", "order.placed")
    );
    assert_eq!((event.status, event.state, event.idempotency_key.as_str()), (Status::Pending, State::Due, "Order:42"));
    assert_eq!((event.attempts, event.max_attempts, event.claims), (0, Some(9), 0));
    assert_eq!((event.parked_on.as_deref(), event.delivered_at, event.error_message.as_str()), (None, None, ""));
    assert_eq!((event.created_at, event.updated_at), (emitted.created_at, emitted.created_at));
    assert_eq!(serde_json::from_str::<Vec<u8>>(detail.payload.get()).unwrap(), [1, 2]);
    assert_eq!(detail.headers["tenant"], "acme");
    assert!(detail.deliveries.is_empty() && detail.failed_attempts.is_empty());
    assert!(outbox.inspect().get(Uuid::new_v4()).await.unwrap().is_none());
}

async fn retry(outbox: &dyn Outbox, ids: &[Uuid]) -> Vec<(Uuid, Retried)> {
    outbox.inspect().retry(&Selection::Ids(ids.to_vec()), BY_ANN).await.unwrap()
}

/// The event is as if it had just been emitted.
pub async fn retry_makes_a_failed_event_due_with_all_its_attempts(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    outbox.claim_and_die().await;
    let claimed = outbox.claim_one().await;
    outbox.settle(vec![claimed.settle(pillarbox::delivery::Verdict::of(fail(), 5))]).await;
    assert_eq!(retry(outbox, &[emitted.id]).await, [(emitted.id, Retried::Due)]);
    let event = outbox.get(emitted.id).await.event;
    assert_eq!((event.state, event.attempts, event.claims, event.error_message.as_str()), (State::Due, 0, 0, ""));
    assert_eq!(outbox.claim_one().await.event().id, emitted.id);
}

/// An event that is being sent or was delivered is refused and stays unchanged.
pub async fn retry_answers_for_each_event(outbox: &dyn Outbox) {
    let events = one_of_each(outbox).await;
    let unknown = Uuid::new_v4();
    let mut ids: Vec<Uuid> = events.iter().map(|(_, emitted)| emitted.id).collect();
    ids.push(unknown);
    let answers: Vec<Retried> = retry(outbox, &ids).await.into_iter().map(|(_, answer)| answer).collect();
    use Retried::{BeingSent, Delivered, Due, Unknown};
    assert_eq!(answers, [Delivered, Due, Due, Due, BeingSent, Due, Unknown]);
    for (state, emitted) in &events {
        let expected = if matches!(state, State::Delivered | State::Sending) { *state } else { State::Due };
        assert_eq!(outbox.get(emitted.id).await.event.state, expected, "{state:?} before");
    }
    assert_eq!(retry(outbox, &[]).await, []);
}

/// The event is sent even if its destination is still down; the relay finds out.
pub async fn retry_unparks(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    outbox.claim_and_settle(park("runner")).await;
    assert_eq!(retry(outbox, &[emitted.id]).await, [(emitted.id, Retried::Due)]);
    assert_eq!(outbox.store().parked_on().await.unwrap(), [""; 0]);
    assert_eq!(outbox.claim_one().await.event().id, emitted.id);
}

/// All dead letters that a filter matches.
pub async fn retry_of_all_failed_takes_the_oldest_up_to_the_limit(outbox: &dyn Outbox) {
    let mut failed = Vec::new();
    for number in 0..4 {
        failed.push(outbox.emit_event(event(number)).await.id);
        outbox.claim_and_settle(fail()).await;
    }
    let other = outbox.emit_event(Event::new("File", 1, "file.stored")).await.id;
    outbox.claim_and_settle(fail()).await;
    outbox.emit_event(event(50)).await;
    let all = |limit| {
        let filter = Filter { event_type: Some("order.*".to_owned()), ..Filter::default() };
        Selection::Failed(filter, limit)
    };
    let due = |ids: &[Uuid]| ids.iter().map(|id| (*id, Retried::Due)).collect::<Vec<_>>();
    assert_eq!(outbox.inspect().retry(&all(3), BY_ANN).await.unwrap(), due(&failed[..3]));
    assert_eq!(outbox.inspect().retry(&all(3), BY_ANN).await.unwrap(), due(&failed[3..]));
    assert_eq!(outbox.get(other).await.event.state, State::Failed);
    let claim = outbox.claim_with(Ask { limit: 10, ..ASK }).await;
    assert_eq!(claim.len(), 5);
}

/// For people at a terminal: emits in a transaction of its own.
pub async fn emitting_for_people_commits(outbox: &dyn Outbox) {
    let emitted = outbox.inspect().emit(event(1)).await.unwrap();
    assert_eq!(outbox.claim_one().await.event().id, emitted.id);
    let error = outbox.inspect().emit(event(1)).await.unwrap_err();
    assert!(error.to_string().contains("exists already"), "{error}");
}

/// A second emit returns the first event, in any state, and its writes are committed, too.
pub async fn emitting_once_for_people_answers_what_exists(outbox: &dyn Outbox) {
    let first = outbox.inspect().emit_once(event(1)).await.unwrap();
    assert!(first.is_new);
    outbox.claim_and_settle(Change::Deliver).await;
    let again = outbox.inspect().emit_once(event(1)).await.unwrap();
    assert_eq!((again.id, again.seq, again.is_new), (first.id, first.seq, false));
    assert_eq!(again.status, Status::Delivered);
    assert_eq!(outbox.rows("outbox_event").await, 1);
}
