//! Actions of people on events, and their audit entries.

use std::time::Duration;

use pillarbox::delivery::{Answer, Change};
use pillarbox::store::{
    AuditView, Entry, LOSSES_BEFORE_FAILED, Marked, Paging, REPLAY_OF, REPLAY_TO, Replayed, Retried, Selection, State,
    ToDestination,
};
use pillarbox::{Condition, Event, RetryPolicy, Route, Routes, SendError, Status};
use uuid::Uuid;

use super::Outbox;
use super::outbox::{BY_ANN, deliver, fail, failed, judged, park};
use super::people::one_of_each;

async fn mark(outbox: &dyn Outbox, ids: &[Uuid]) -> Vec<(Uuid, Marked)> {
    outbox.inspect().fail(ids, "it is not wanted any more", BY_ANN).await.unwrap()
}

async fn replay(outbox: &dyn Outbox, id: Uuid) -> Uuid {
    match outbox.inspect().replay(&[id], None, BY_ANN).await.unwrap()[..] {
        [(old, Replayed::As { id: new })] if old == id => new,
        ref other => panic!("{other:?}"),
    }
}

/// Events that are being sent or are terminal are refused, and stay unchanged.
pub async fn fail_answers_for_each_event(outbox: &dyn Outbox) {
    let events = one_of_each(outbox).await;
    let mut ids: Vec<Uuid> = events.iter().map(|(_, emitted)| emitted.id).collect();
    ids.push(Uuid::new_v4());
    let answers: Vec<Marked> = mark(outbox, &ids).await.into_iter().map(|(_, answer)| answer).collect();
    use Marked::{Already, BeingSent, Delivered, Failed, Unknown};
    assert_eq!(answers, [Delivered, Already, Failed, Failed, BeingSent, Failed, Unknown]);
    for (state, emitted) in &events {
        let event = outbox.get(emitted.id).await.event;
        if matches!(state, State::Delivered | State::Sending) {
            assert_eq!(event.state, *state);
        } else {
            let error = if *state == State::Failed { "broken" } else { "it is not wanted any more" };
            assert_eq!((event.state, event.error_message.as_str(), event.parked_on), (State::Failed, error, None));
        }
    }
    assert!(mark(outbox, &[]).await.is_empty());
}

/// A fan-out fails where it was open, and a retry reopens only those deliveries.
pub async fn fail_and_retry_leave_a_destination_that_has_the_event_alone(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    let claimed = outbox.claim_one().await;
    let answers = vec![("audit", Answer::Sent), ("mail", failed("no"))];
    let verdict = judged(&claimed, &["audit", "mail"], answers);
    outbox.settle(vec![claimed.settle(verdict)]).await;
    assert_eq!(mark(outbox, &[emitted.id]).await, [(emitted.id, Marked::Failed)]);
    let detail = outbox.get(emitted.id).await;
    let statuses: Vec<Status> = detail.deliveries.iter().map(|delivery| delivery.status).collect();
    assert_eq!((statuses, detail.event.failed_on.as_deref()), (vec![Status::Delivered, Status::Failed], Some("mail")));
    outbox.inspect().retry(&Selection::Ids(vec![emitted.id]), BY_ANN).await.unwrap();
    let claimed = outbox.claim_one().await;
    let due = claimed.deliveries().iter().filter(|row| row.is_due()).map(|row| row.destination.as_str());
    assert_eq!(due.collect::<Vec<_>>(), ["mail"]);
}

/// An event with an expired lease is free, and the settle of its old holder is too late.
pub async fn what_lost_its_lease_can_be_failed(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    outbox.claim_and_die().await;
    assert_eq!(mark(outbox, &[emitted.id]).await, [(emitted.id, Marked::Failed)]);
    assert!(outbox.claim().await.is_empty());
    assert_eq!(outbox.get(emitted.id).await.event.claims, 0);
}

/// A replay is the same event with its own id and key, and a header with the original's id.
pub async fn a_replay_is_a_new_event_that_is_due(outbox: &dyn Outbox) {
    let asked = Event::new("Order", 42, "order.placed").payload([1, 2]).header("tenant", "acme").max_attempts(9);
    let first = outbox.emit_event(asked).await;
    outbox.claim_and_settle(Change::Deliver).await;
    let before = outbox.get(first.id).await;
    let id = replay(outbox, first.id).await;
    let claimed = outbox.claim_one().await;
    let event = claimed.event();
    assert_eq!((event.id, event.idempotency_key.as_str()), (id, "Order:42#replay-1"));
    assert_eq!((event.aggregate_type.as_str(), event.aggregate_id.as_str()), ("Order", "42"));
    assert_eq!((event.event_type.as_str(), event.max_attempts, event.attempts), ("order.placed", Some(9), 0));
    assert_eq!(serde_json::from_str::<Vec<u8>>(event.payload.get()).unwrap(), [1, 2]);
    assert_eq!((event.headers["tenant"].as_str(), event.headers[REPLAY_OF].clone()), ("acme", first.id.to_string()));
    assert!(Some(event.seq) > first.seq && event.created_at >= first.created_at);
    let after = outbox.get(first.id).await;
    assert_eq!((after.event.status, after.event.updated_at), (Status::Delivered, before.event.updated_at));
}

/// Every replay gets the next number, also replays of replays, and also when they are requested together.
pub async fn every_replay_has_a_key_of_its_own(outbox: &dyn Outbox) {
    let key = "k".repeat(255);
    let first = outbox.emit_event(Event::new("Order", 1, "order.placed").idempotency_key(&key)).await;
    outbox.claim_and_settle(fail()).await;
    let mut ids = vec![first.id];
    for number in 1..=3_usize {
        let id = replay(outbox, ids[number - 1]).await;
        assert_eq!(outbox.get(id).await.event.idempotency_key, format!("{}#replay-{number}", "k".repeat(237)));
        outbox.claim_and_settle(Change::Deliver).await;
        ids.push(id);
    }
    let again = outbox.inspect().replay(&ids, None, BY_ANN).await.unwrap();
    assert!(again.iter().all(|(_, replayed)| matches!(replayed, Replayed::As { .. })), "{again:?}");
    assert_eq!(outbox.claim().await.len(), 4);
    assert_eq!(outbox.rows("outbox_event").await, 8);
}

fn only(name: &str, routed_to: &[&str]) -> ToDestination {
    let routes = [Route::new("order.*", routed_to.iter().copied())];
    ToDestination { name: name.to_owned(), routes: Routes::new(routes.into()) }
}

/// A replay to one destination is sent there, and the event's other destinations do not receive it again.
pub async fn a_replay_to_one_destination_leaves_the_others_out(outbox: &dyn Outbox) {
    let first = outbox.emit_one().await;
    outbox.claim_and_settle(Change::Deliver).await;
    let to_mail = only("mail", &["audit", "mail", "runner"]);
    let answers = outbox.inspect().replay(&[first.id], Some(&to_mail), BY_ANN).await.unwrap();
    let [(_, Replayed::As { id })] = answers[..] else { panic!("{answers:?}") };
    let claimed = outbox.claim_one().await;
    assert_eq!((claimed.event().id, claimed.event().headers[REPLAY_TO].as_str()), (id, "mail"));
    let due = claimed.deliveries().iter().filter(|row| row.is_due()).map(|row| row.destination.as_str());
    assert_eq!((due.collect::<Vec<_>>(), claimed.deliveries().len()), (vec!["mail"], 3));

    // A failure of its destination is retried there alone.
    let verdict = judged(&claimed, &["audit", "mail", "runner"], vec![("mail", failed("busy"))]);
    outbox.settle(vec![claimed.settle(verdict)]).await;
    outbox.age(id, RetryPolicy::default().base).await;
    let claimed = outbox.claim_one().await;
    let due = claimed.deliveries().iter().filter(|row| row.is_due()).map(|row| row.destination.as_str());
    assert_eq!(due.collect::<Vec<_>>(), ["mail"]);
    let verdict = judged(&claimed, &["audit", "mail", "runner"], vec![("mail", Answer::Sent)]);
    outbox.settle(vec![claimed.settle(verdict)]).await;
    let detail = outbox.get(id).await;
    assert_eq!((detail.event.status, detail.event.attempts), (Status::Delivered, 1));

    // A replay of it goes to all again.
    let again = replay(outbox, id).await;
    let claimed = outbox.claim_one().await;
    assert_eq!((claimed.event().id, claimed.deliveries().len()), (again, 0));
    assert_eq!(claimed.event().headers.get(REPLAY_TO), None);
}

/// An event is replayed only to a destination that its route leads to, and one with a single destination needs no rows.
pub async fn a_replay_to_one_destination_follows_the_route(outbox: &dyn Outbox) {
    let first = outbox.emit_one().await;
    outbox.claim_and_settle(fail()).await;
    for to in [only("crm", &["audit", "mail"]), ToDestination { routes: Routes::default(), ..only("mail", &[]) }] {
        let answers = outbox.inspect().replay(&[first.id], Some(&to), BY_ANN).await.unwrap();
        assert_eq!(answers, [(first.id, Replayed::NotRouted)]);
    }
    assert_eq!(outbox.rows("outbox_event").await, 1);
    let answers = outbox.inspect().replay(&[first.id], Some(&only("mail", &["mail"])), BY_ANN).await.unwrap();
    assert!(matches!(answers[..], [(_, Replayed::As { .. })]), "{answers:?}");
    assert_eq!(outbox.rows("outbox_delivery").await, 0);
    assert!(outbox.claim_one().await.deliveries().is_empty());
}

/// Where a condition on the payload decides, an event is replayed only to a destination that its payload leads to.
pub async fn a_replay_to_one_destination_follows_the_payload(outbox: &dyn Outbox) {
    let order = |total: i32| Event::new("Order", total, "order.placed").payload(serde_json::json!({ "total": total }));
    let emitted = outbox.emit(vec![order(5), order(500)]).await;
    outbox.settle(outbox.claim().await.into_iter().map(deliver).collect()).await;
    let large = Condition::new("total > 100", |payload| payload["total"].as_i64().is_some_and(|total| total > 100));
    let routes = vec![Route::new("order.*", ["audit", "mail"]).when(large), Route::new("order.*", ["mail"])];
    let to_audit = ToDestination { name: "audit".to_owned(), routes: Routes::new(routes) };
    let ids = [emitted[0].id, emitted[1].id];
    let answers = outbox.inspect().replay(&ids, Some(&to_audit), BY_ANN).await.unwrap();
    assert_eq!(answers[0], (ids[0], Replayed::NotRouted));
    assert!(matches!(answers[1].1, Replayed::As { .. }), "{answers:?}");
    let claimed = outbox.claim_one().await;
    let due = claimed.deliveries().iter().filter(|row| row.is_due()).map(|row| row.destination.as_str());
    assert_eq!((due.collect::<Vec<_>>(), claimed.deliveries().len()), (vec!["audit"], 2));
}

/// A pending event is not replayed.
pub async fn only_what_is_done_is_replayed(outbox: &dyn Outbox) {
    let events = one_of_each(outbox).await;
    let unknown = Uuid::new_v4();
    let ids: Vec<Uuid> = events.iter().map(|(_, emitted)| emitted.id).chain([unknown]).collect();
    let answers = outbox.inspect().replay(&ids, None, BY_ANN).await.unwrap();
    assert_eq!(answers.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ids);
    for ((state, _), (_, answer)) in events.iter().zip(&answers) {
        match state {
            State::Delivered | State::Failed => assert!(matches!(answer, Replayed::As { .. }), "{state:?}: {answer:?}"),
            _ => assert_eq!(*answer, Replayed::Pending, "{state:?}"),
        }
    }
    assert_eq!(answers[6].1, Replayed::Unknown);
    assert_eq!(outbox.rows("outbox_event").await, 8);
}

fn told(lines: &[AuditView]) -> Vec<(&str, &str, &str, Option<u64>)> {
    lines.iter().map(|line| (line.who.as_str(), line.what.as_str(), line.target.as_str(), line.events)).collect()
}

/// The audit has who, what, target and count. An action that changed nothing has no entry.
pub async fn what_people_do_is_written_down(outbox: &dyn Outbox) {
    let emitted: Vec<Uuid> = outbox.emit_many(3).await.iter().map(|emitted| emitted.id).collect();
    let inspect = outbox.inspect();
    let by = |who, target| Entry::Anew { who, target };
    inspect.fail(&emitted, "no", by("ann", "three orders")).await.unwrap();
    inspect.fail(&emitted, "no", by("ann", "three orders")).await.unwrap();
    inspect.retry(&Selection::Ids(emitted[..2].to_vec()), by("bob", "two of them")).await.unwrap();
    inspect.retry(&Selection::Ids(vec![Uuid::new_v4()]), by("bob", "nothing")).await.unwrap();
    inspect.replay(&emitted, None, by("cid", "the third")).await.unwrap();
    let event = || Event::new("Order", "told", "order.told");
    let told_once = inspect.emit_by("dee", event(), false).await.unwrap();
    assert!(inspect.emit_by("dee", event(), false).await.is_err());
    assert!(!inspect.emit_by("dee", event(), true).await.unwrap().is_new);
    let emit = format!("order.told {}", told_once.id);
    let lines = inspect.audit(None, 10).await.unwrap();
    let expected = [
        ("dee", "emit", emit.as_str(), Some(1)),
        ("cid", "replay", "the third", Some(1)),
        ("bob", "retry", "two of them", Some(2)),
        ("ann", "fail", "three orders", Some(3)),
    ];
    assert_eq!(told(&lines), expected);
    let now = outbox.now().await;
    assert!(lines.iter().all(|line| line.done_at <= now && line.done_at > now - Duration::from_secs(60)));
}

/// Batches add to the count of one entry.
pub async fn work_in_batches_is_one_line_of_the_audit(outbox: &dyn Outbox) {
    outbox.emit_many(5).await;
    let settlements = outbox
        .claim()
        .await
        .into_iter()
        .map(|claimed| claimed.settle(pillarbox::delivery::Verdict::of(park("runner"), 0)));
    outbox.settle(settlements.collect()).await;
    let inspect = outbox.inspect();
    let line = inspect.open_entry("ann", "fail", "all that is parked").await.unwrap();
    assert_eq!(told(&inspect.audit(None, 10).await.unwrap()), [("ann", "fail", "all that is parked", Some(0))]);
    let filter = pillarbox::store::Filter { state: Some(State::Parked), ..Default::default() };
    loop {
        let page = inspect.list(&filter, &Paging::first(2)).await.unwrap();
        let ids: Vec<Uuid> = page.events.iter().map(|event| event.id).collect();
        if ids.is_empty() {
            break;
        }
        inspect.fail(&ids, "no", Entry::Adding { line, unchanged_since: None }).await.unwrap();
    }
    assert_eq!(told(&inspect.audit(None, 10).await.unwrap()), [("ann", "fail", "all that is parked", Some(5))]);
}

/// An event that changed after its selection is skipped, and an event that is named twice counts once.
pub async fn what_has_changed_since_it_was_chosen_is_left_alone(outbox: &dyn Outbox) {
    let event = outbox.emit_one().await;
    let inspect = outbox.inspect();
    let ann = Entry::Anew { who: "ann", target: "one" };
    assert_eq!(inspect.fail(&[event.id, event.id], "no", ann).await.unwrap(), [(event.id, Marked::Failed)]);
    outbox.age(event.id, Duration::from_secs(60)).await;
    let line = inspect.open_entry("ann", "retry", "all").await.unwrap();
    let chosen = Entry::Adding { line, unchanged_since: Some(outbox.now().await) };
    let retry = async || inspect.retry(&Selection::Ids(vec![event.id]), chosen).await.unwrap()[0].1;
    assert_eq!(retry().await, Retried::Due);
    assert_ne!(retry().await, Retried::Due, "it has changed since");
    let mark = inspect.fail(&[event.id], "no", chosen).await.unwrap();
    assert_ne!(mark[0].1, Marked::Failed, "it was to be failed as it was then");
    let replay = inspect.replay(&[event.id], None, chosen).await.unwrap();
    assert!(!matches!(replay[0].1, Replayed::As { .. }));
    let counted = [("ann", "retry", "all", Some(1)), ("ann", "fail", "one", Some(1))];
    assert_eq!(told(&inspect.audit(None, 10).await.unwrap()), counted);
}

/// Emits an event whose `audit` is parked, while `mail` is due again and `runner` is delivered.
async fn half_parked(outbox: &dyn Outbox) -> Uuid {
    let emitted = outbox.emit_one().await;
    let claimed = outbox.claim_one().await;
    let down = Answer::Parked { error: Some(SendError::unavailable("down")), tried: None };
    let answers = vec![("audit", down), ("mail", failed("busy")), ("runner", Answer::Sent)];
    let verdict = judged(&claimed, &["audit", "mail", "runner"], answers);
    outbox.settle(vec![claimed.settle(verdict)]).await;
    assert_eq!(outbox.store().parked_on().await.unwrap(), ["audit"]);
    outbox.age(emitted.id, RetryPolicy::default().base).await;
    emitted.id
}

async fn is_parked_nowhere(outbox: &dyn Outbox, event: Uuid) {
    let open: Vec<Status> = outbox.get(event).await.deliveries.iter().map(|row| row.status).collect();
    assert_eq!(open, [Status::Failed, Status::Failed, Status::Delivered]);
    assert_eq!(outbox.store().parked_on().await.unwrap(), [""; 0], "relays need not look for it again");
    assert_eq!(outbox.store().unpark("audit", None, 10).await.unwrap(), 0);
}

/// A parked delivery of a failed event would be found by every unpark, and would block others.
pub async fn a_given_up_event_is_parked_nowhere(outbox: &dyn Outbox) {
    let event = half_parked(outbox).await;
    outbox.inspect().fail(&[event], "it is not wanted any more", BY_ANN).await.unwrap();
    is_parked_nowhere(outbox, event).await;
}

/// The same after a sweep.
pub async fn a_swept_event_is_parked_nowhere(outbox: &dyn Outbox) {
    let event = half_parked(outbox).await;
    for losses in 0..LOSSES_BEFORE_FAILED {
        let dead = outbox.claim_and_die().await;
        outbox.store().blame(dead[0], losses).await.unwrap();
    }
    assert_eq!(outbox.store().sweep().await.unwrap().len(), 1);
    is_parked_nowhere(outbox, event).await;
}
