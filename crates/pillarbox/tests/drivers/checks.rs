//! What must be true of emit through any driver.

use std::time::Duration;

use chrono::{DateTime, SubsecRound, Utc};
use pillarbox::celery::{Recorded, Task, group};
use pillarbox::{EmitError, Emitted, Event, Headers, Status};
use serde_json::value::RawValue;

use crate::fixture::{Answer, Driver, Fixture, Step};

/// Numbers that no float can hold, and everything that quoting could get wrong, as jsonb would write it.
const PAYLOAD: &str =
    r#"{"big": 12345678901234567890.12345678900, "text": "\"q\" \\ {a,b} NULL é '%", "total": 19.90}"#;

fn placed(order: u32) -> Event {
    Event::new("Order", order, "order.placed")
}

fn one(answer: &Answer) -> &Emitted {
    match answer.as_deref() {
        Ok([emitted]) => emitted,
        other => panic!("one event was to be emitted: {other:?}"),
    }
}

fn assert_duplicate(answer: &Answer, key: &str) {
    match answer {
        Err(EmitError::Duplicate { event_type, idempotency_key }) => {
            assert_eq!((event_type.as_str(), idempotency_key.as_str()), ("order.placed", key));
        }
        other => panic!("{key} is a duplicate: {other:?}"),
    }
}

pub(crate) async fn rollback_emits_nothing<D: Driver>(mut outbox: Fixture<D>) {
    let answers = outbox.roll_back(vec![Step::Emit(placed(1)), Step::All(vec![placed(2), placed(3)])]).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert!(outbox.claim().await.is_empty());
    // Its key was never taken.
    let again = outbox.commit(vec![Step::Emit(placed(1))]).await;
    assert!(one(&again[0]).is_new);
}

pub(crate) async fn commit_is_claimed_as_it_was_emitted<D: Driver>(mut outbox: Fixture<D>) {
    let payload = RawValue::from_string(PAYLOAD.to_owned()).unwrap();
    let event = Event::new("Großauftrag, \"A\"", r"42\{}", "order.placed")
        .payload(payload)
        .header("tenant", r#"ac"me\,{}"#)
        .header("x-null", "NULL")
        .max_attempts(7)
        .idempotency_key("k,'\"\\");
    let answers = outbox.commit(vec![Step::Emit(event)]).await;
    let [event] = outbox.claim().await.try_into().expect("one event");
    assert_eq!(event.id, one(&answers[0]).id);
    assert_eq!(event.aggregate_type, "Großauftrag, \"A\"");
    assert_eq!(event.aggregate_id, r"42\{}");
    assert_eq!(event.event_type, "order.placed");
    assert_eq!(event.payload.get(), PAYLOAD);
    let headers = [("tenant", r#"ac"me\,{}"#), ("x-null", "NULL")];
    assert_eq!(event.headers, Headers::from(headers.map(|(name, value)| (name.to_owned(), value.to_owned()))));
    assert_eq!(event.idempotency_key, "k,'\"\\");
    assert_eq!((event.attempts, event.max_attempts), (0, Some(7)));
}

pub(crate) async fn answers_the_event_as_written<D: Driver>(mut outbox: Fixture<D>) {
    let answers = outbox.commit(vec![Step::Emit(placed(1))]).await;
    let emitted = one(&answers[0]);
    assert_eq!(emitted.id.get_version_num(), 7);
    assert_eq!((emitted.event_type.as_str(), emitted.idempotency_key.as_str()), ("order.placed", "Order:1"));
    assert_eq!((emitted.status, emitted.is_new), (Status::Pending, true));
    let stored = outbox.get(emitted.id).await;
    assert_eq!((Some(stored.event.seq), stored.event.created_at), (emitted.seq, emitted.created_at));
    assert_eq!((stored.payload.get(), stored.headers.len(), stored.event.max_attempts), ("{}", 0, None));
}

pub(crate) async fn delays_until_its_moment<D: Driver>(mut outbox: Fixture<D>) {
    let moment: DateTime<Utc> = (Utc::now() + Duration::from_secs(3600)).trunc_subsecs(3);
    let answers = outbox.commit(vec![Step::Emit(placed(1).deliver_at(moment)), Step::Emit(placed(2))]).await;
    let claimed = outbox.claim().await;
    assert_eq!(claimed.iter().map(|event| event.id).collect::<Vec<_>>(), [one(&answers[1]).id]);
    assert_eq!(outbox.get(one(&answers[0]).id).await.event.next_attempt_at, Some(moment));
}

pub(crate) async fn is_due_now_if_its_moment_is_over<D: Driver>(mut outbox: Fixture<D>) {
    let past = |order| placed(order).deliver_at(Utc::now() - Duration::from_secs(3600));
    let answers = outbox.commit(vec![Step::Emit(past(1)), Step::All(vec![past(2), past(3)])]).await;
    for emitted in answers.iter().flat_map(|answer| answer.as_ref().unwrap()) {
        assert_eq!(outbox.get(emitted.id).await.event.next_attempt_at, Some(emitted.created_at));
    }
}

pub(crate) async fn refuses_a_duplicate_and_goes_on<D: Driver>(mut outbox: Fixture<D>) {
    outbox.commit(vec![Step::Emit(placed(1))]).await;
    let before = Step::Emit(Event::new("Order", 1, "order.before"));
    let after = Step::Emit(Event::new("Order", 1, "order.after"));
    let answers = outbox.commit(vec![before, Step::Emit(placed(1)), after]).await;
    assert_duplicate(&answers[1], "Order:1");
    assert_eq!(outbox.claimed_types().await, ["order.placed", "order.before", "order.after"]);
}

pub(crate) async fn refuses_an_invalid_event_and_goes_on<D: Driver>(mut outbox: Fixture<D>) {
    let too_long = Event::new("Order", "x".repeat(101), "order.placed");
    let nul = placed(1).payload("\0");
    let answers = outbox.commit(vec![Step::Emit(too_long), Step::Once(nul), Step::Emit(placed(1))]).await;
    assert!(matches!(answers[0], Err(EmitError::Invalid(_))), "{answers:?}");
    assert!(matches!(answers[1], Err(EmitError::Invalid(_))), "{answers:?}");
    assert_eq!(outbox.claimed_types().await, ["order.placed"]);
}

pub(crate) async fn once_answers_the_existing<D: Driver>(mut outbox: Fixture<D>) {
    let first = outbox.commit(vec![Step::Once(placed(1))]).await;
    let first = one(&first[0]);
    assert!(first.is_new);
    let again = outbox.commit(vec![Step::Once(placed(1)), Step::Once(placed(2)), Step::Once(placed(2))]).await;
    let existing = one(&again[0]);
    assert_eq!((existing.id, existing.seq, existing.created_at), (first.id, first.seq, first.created_at));
    assert_eq!((existing.status, existing.is_new), (Status::Pending, false));
    // Also the one that this very transaction has emitted.
    assert_eq!((one(&again[1]).is_new, one(&again[2]).is_new), (true, false));
    assert_eq!(one(&again[1]).id, one(&again[2]).id);
    assert_eq!(outbox.claim().await.len(), 2);
}

pub(crate) async fn all_in_order<D: Driver>(mut outbox: Fixture<D>) {
    // Neither the order of their keys nor its reverse.
    let orders = [5, 1, 9, 3, 7];
    let full = |order| placed(order).header("n", order.to_string()).max_attempts(order);
    let mut events: Vec<Event> = orders.into_iter().map(full).collect();
    // Columns that some have and some have not.
    events.push(placed(4));
    let answers = outbox.commit(vec![Step::All(events)]).await;
    let written = answers[0].as_ref().unwrap();
    let keys: Vec<&str> = written.iter().map(|emitted| emitted.idempotency_key.as_str()).collect();
    assert_eq!(keys, ["Order:5", "Order:1", "Order:9", "Order:3", "Order:7", "Order:4"]);
    assert!(written.is_sorted_by(|a, b| a.seq < b.seq), "{written:?}");
    assert!(written.iter().all(|emitted| emitted.is_new && emitted.status == Status::Pending));
    for (emitted, order) in written.iter().zip(orders) {
        let stored = outbox.get(emitted.id).await;
        assert_eq!(stored.event.aggregate_id, order.to_string());
        assert_eq!((stored.headers["n"].clone(), stored.event.max_attempts), (order.to_string(), Some(order)));
    }
    let plain = outbox.get(written[5].id).await;
    assert_eq!((plain.headers.len(), plain.event.max_attempts), (0, None));
    let claimed = outbox.claim().await;
    assert_eq!(claimed.iter().map(|event| &*event.idempotency_key).collect::<Vec<_>>(), keys);
}

pub(crate) async fn all_or_none<D: Driver>(mut outbox: Fixture<D>) {
    outbox.commit(vec![Step::Emit(placed(2))]).await;
    let before = Step::Emit(Event::new("Order", 1, "order.before"));
    let exists = Step::All(vec![placed(1), placed(2), placed(3)]);
    let twice = Step::All(vec![placed(4), placed(4)]);
    let after = Step::All(vec![Event::new("Order", 1, "order.after")]);
    let answers = outbox.commit(vec![before, exists, twice, after]).await;
    assert_duplicate(&answers[1], "Order:2");
    assert_duplicate(&answers[2], "Order:4");
    assert_eq!(outbox.claimed_types().await, ["order.placed", "order.before", "order.after"]);
}

pub(crate) async fn none_is_nothing<D: Driver>(mut outbox: Fixture<D>) {
    let answers = outbox.commit(vec![Step::All(Vec::new())]).await;
    assert_eq!(answers[0].as_ref().unwrap().len(), 0);
    assert!(outbox.claim().await.is_empty());
}

pub(crate) async fn celery_tasks_are_claimed_as_they_were_sent<D: Driver>(mut outbox: Fixture<D>) {
    let payload = RawValue::from_string(PAYLOAD.to_owned()).unwrap();
    let task = Task::new("orders.process").arg(payload).arg("\0").task_id("t1");
    let pair = group([Task::new("orders.charge").task_id("t2"), Task::new("orders.ship").task_id("t3")]);
    let nameless = Step::Task(Box::new(Task::new("")));
    let answers = outbox.commit(vec![nameless, Step::Task(Box::new(task)), Step::Workflow(pair)]).await;
    assert!(matches!(answers[0], Err(EmitError::Invalid(_))), "{answers:?}");
    assert!(answers[1].is_ok() && answers[2].is_ok(), "{answers:?}");
    let claimed = outbox.claim().await;
    let messages: Vec<Recorded<'_>> =
        claimed.iter().map(|event| Recorded::read(&event.payload).unwrap().unwrap()).collect();
    let ids: Vec<_> = messages.iter().map(|message| message.headers.text("id").unwrap()).collect();
    assert_eq!(ids, ["t1", "t2", "t3"]);
    assert!(claimed.iter().zip(ids).all(|(event, id)| event.aggregate_id == id));
    // Not a character of it is what a database would have made of it.
    let body = std::str::from_utf8(messages[0].body.as_bytes()).unwrap();
    assert!(body.starts_with(&format!(r#"[[{PAYLOAD},"\u0000"], {{}}, "#)), "{body}");
    assert_eq!(messages[1].headers.text("group"), messages[2].headers.text("group"));
}
