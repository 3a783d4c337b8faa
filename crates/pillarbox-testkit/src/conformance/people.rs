//! People's side: list, filter, search, count, look at one, try again.

use std::time::Duration;

use pillarbox::delivery::Change;
use pillarbox::store::{Ask, EventView, Filter, Parked, Retried, Selection, State};
use pillarbox::{Emitted, Event, Status};
use uuid::Uuid;

use super::Outbox;
use super::outbox::{ASK, event, fail, park};

async fn list(outbox: &dyn Outbox, filter: Filter) -> Vec<Uuid> {
    outbox.inspect().list(&filter).await.unwrap().iter().map(|view: &EventView| view.id).collect()
}

/// Pages by `seq`: what is emitted meanwhile moves nothing.
pub async fn the_list_is_newest_first_in_pages(outbox: &dyn Outbox) {
    let mut newest_first: Vec<Uuid> = outbox.emit_many(7).await.iter().map(|emitted| emitted.id).collect();
    newest_first.reverse();
    let mut pages = Vec::new();
    let mut before = None;
    loop {
        let page = outbox.inspect().list(&Filter { limit: 3, before, ..Filter::default() }).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some(last.seq);
        pages.push(page.iter().map(|view| view.id).collect::<Vec<_>>());
        outbox.emit_one().await;
    }
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 1]);
    assert_eq!(pages.concat(), newest_first);
    outbox.emit((100..160).map(event).collect()).await;
    assert_eq!(list(outbox, Filter::default()).await.len(), 50, "the page without a limit");
}

/// Each field for itself, and together.
pub async fn each_filter_narrows_the_list(outbox: &dyn Outbox) {
    let hour = Duration::from_secs(3600);
    let file = outbox.emit_event(Event::new("File", 1, "file.stored")).await;
    outbox.claim_and_settle(park("runner")).await;
    let old = outbox.emit_event(Event::new("Order", 1, "order.placed")).await;
    outbox.age(old.id, 2 * hour).await;
    let order = outbox.emit_event(Event::new("Order", 2, "order.paid")).await;
    let text = |text: &str| Some(text.to_owned());
    let an_hour_ago = Some(outbox.now().await - hour);
    let open = Filter::default;
    let cases = [
        ("type", Filter { event_type: text("order.paid"), ..open() }, vec![order.id]),
        ("pattern", Filter { event_type: text("order.*"), ..open() }, vec![order.id, old.id]),
        ("no pattern", Filter { event_type: text("order_p%"), ..open() }, vec![]),
        ("aggregate", Filter { aggregate_type: text("File"), ..open() }, vec![file.id]),
        ("aggregate's id", Filter { aggregate_id: text("1"), ..open() }, vec![old.id, file.id]),
        ("parked on", Filter { parked_on: text("runner"), ..open() }, vec![file.id]),
        ("parked on another", Filter { parked_on: text("run"), ..open() }, vec![]),
        ("since", Filter { since: an_hour_ago, ..open() }, vec![order.id, file.id]),
        ("until", Filter { until: an_hour_ago, ..open() }, vec![old.id]),
        ("since is inclusive", Filter { since: Some(order.created_at), ..open() }, vec![order.id]),
        ("until is exclusive", Filter { until: Some(file.created_at), ..open() }, vec![old.id]),
        ("before", Filter { before: Some(order.seq), ..open() }, vec![old.id, file.id]),
        ("state", Filter { state: Some(State::Parked), ..open() }, vec![file.id]),
        (
            "several",
            Filter { aggregate_id: text("1"), aggregate_type: text("Order"), search: text("placed"), ..open() },
            vec![old.id],
        ),
    ];
    for (name, filter, expected) in cases {
        assert_eq!(list(outbox, filter).await, expected, "{name}");
    }
}

/// One event in each state a single event can be in.
async fn one_of_each(outbox: &dyn Outbox) -> [(State, Emitted); 6] {
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

/// Finer than the status, and the same in a list and in a look at one.
pub async fn every_state_can_be_asked_for(outbox: &dyn Outbox) {
    let events = one_of_each(outbox).await;
    for (state, emitted) in &events {
        assert_eq!(list(outbox, Filter { state: Some(*state), ..Filter::default() }).await, [emitted.id], "{state:?}");
        assert_eq!(outbox.get(emitted.id).await.event.state, *state);
    }
    let pending = list(outbox, Filter { state: Some(State::Pending), ..Filter::default() }).await;
    assert_eq!(pending.len(), 4, "parked, scheduled, sending, due");
}

/// Id, type, aggregate, key and error.
pub async fn search_finds_parts_whatever_the_case(outbox: &dyn Outbox) {
    let wanted =
        outbox.emit_event(Event::new("Invoice", "N-77", "billing.sent").idempotency_key("Key-Of-Its-Own")).await;
    outbox.claim_and_settle(Change::Fail { error: "Connection refused by peer".to_owned() }).await;
    outbox.emit_many(2).await;
    let id = wanted.id.to_string().to_uppercase();
    for part in ["invoice", "n-7", "BILLING", "of-its", "REFUSED by", &id[4..30]] {
        let found = list(outbox, Filter { search: Some(part.to_owned()), ..Filter::default() }).await;
        assert_eq!(found, [wanted.id], "{part}");
    }
    assert!(list(outbox, Filter { search: Some("nowhere".to_owned()), ..Filter::default() }).await.is_empty());
}

/// A search is no pattern.
pub async fn wildcards_in_a_search_mean_themselves(outbox: &dyn Outbox) {
    let percent = outbox.emit_event(Event::new("Order", "100%", "order.placed")).await;
    let line = outbox.emit_event(Event::new("Order", "a_b", "order.placed")).await;
    let backslash = outbox.emit_event(Event::new("Order", "a\\b", "order.placed")).await;
    let quote = outbox.emit_event(Event::new("Order", "o'neil", "order.placed")).await;
    outbox.emit_event(Event::new("Order", "axb", "order.placed")).await;
    for (part, expected) in [("%", percent), ("a_b", line), ("a\\b", backslash), ("'", quote)] {
        let found = list(outbox, Filter { search: Some(part.to_owned()), ..Filter::default() }).await;
        assert_eq!(found, [expected.id], "{part}");
    }
}

/// The outbox in numbers.
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

/// What waits, for figures that are looked at all the time.
pub async fn depth_tells_what_waits(outbox: &dyn Outbox) {
    let depth = outbox.inspect().depth().await.unwrap();
    assert_eq!((depth.due, depth.parked, depth.failed, depth.oldest_due), (0, 0, 0, None));
    let [.., (_, due)] = one_of_each(outbox).await;
    outbox.age(due.id, Duration::from_secs(60)).await;
    let depth = outbox.inspect().depth().await.unwrap();
    assert_eq!((depth.due, depth.parked, depth.failed), (1, 1, 1));
    let oldest = depth.oldest_due.expect("something is due");
    assert!(oldest >= Duration::from_secs(60) && oldest < Duration::from_secs(120), "{oldest:?}");
}

/// A pause is told to relays until it is ended, and both are written down once.
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

/// Everything there is to know of one event.
pub async fn get_tells_everything(outbox: &dyn Outbox) {
    let asked = Event::new("Order", 42, "order.placed").payload([1, 2]).header("tenant", "acme").max_attempts(9);
    let emitted = outbox.emit_event(asked).await;
    let detail = outbox.get(emitted.id).await;
    let event = &detail.event;
    assert_eq!(
        (event.seq, event.aggregate_type.as_str(), event.aggregate_id.as_str(), event.event_type.as_str()),
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
    outbox.inspect().retry(&Selection::Ids(ids.to_vec())).await.unwrap()
}

/// As if it had just been emitted.
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

/// One that is being sent is refused, a delivered one too, and nothing was changed for them.
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

/// It is tried even if its destination is still down; the relay finds out.
pub async fn retry_unparks(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    outbox.claim_and_settle(park("runner")).await;
    assert_eq!(retry(outbox, &[emitted.id]).await, [(emitted.id, Retried::Due)]);
    assert_eq!(outbox.store().parked_on().await.unwrap(), [""; 0]);
    assert_eq!(outbox.claim_one().await.event().id, emitted.id);
}

/// All dead letters that a filter finds.
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
        let filter = Filter { event_type: Some("order.*".to_owned()), limit, ..Filter::default() };
        Selection::Failed(filter)
    };
    let due = |ids: &[Uuid]| ids.iter().map(|id| (*id, Retried::Due)).collect::<Vec<_>>();
    assert_eq!(outbox.inspect().retry(&all(3)).await.unwrap(), due(&failed[..3]));
    assert_eq!(outbox.inspect().retry(&all(3)).await.unwrap(), due(&failed[3..]));
    assert_eq!(outbox.get(other).await.event.state, State::Failed);
    let claim = outbox.claim_with(Ask { limit: 10, ..ASK }).await;
    assert_eq!(claim.len(), 5);
}

/// For people at a terminal: a transaction of its own.
pub async fn emitting_for_people_commits(outbox: &dyn Outbox) {
    let emitted = outbox.inspect().emit(event(1)).await.unwrap();
    assert_eq!(outbox.claim_one().await.event().id, emitted.id);
    let error = outbox.inspect().emit(event(1)).await.unwrap_err();
    assert!(error.to_string().contains("exists already"), "{error}");
}

/// A second time answers the first, whatever became of it; and what it writes is committed too.
pub async fn emitting_once_for_people_answers_what_exists(outbox: &dyn Outbox) {
    let first = outbox.inspect().emit_once(event(1)).await.unwrap();
    assert!(first.is_new);
    outbox.claim_and_settle(Change::Deliver).await;
    let again = outbox.inspect().emit_once(event(1)).await.unwrap();
    assert_eq!((again.id, again.seq, again.is_new), (first.id, first.seq, false));
    assert_eq!(again.status, Status::Delivered);
    assert_eq!(outbox.rows("outbox_event").await, 1);
}
