//! Search: exact matches, neighbours of an event, and groups of dead letters.

use std::time::Duration;

use pillarbox::delivery::{Answer, Change, Verdict};
use pillarbox::store::{EventView, Filter, Paging, State, fold_error};
use pillarbox::{Event, SendError};
use uuid::Uuid;

use super::Outbox;
use super::outbox::{event, fail, judged, park};

fn ids(events: &[EventView]) -> Vec<Uuid> {
    events.iter().map(|event| event.id).collect()
}

/// By id, key or aggregate id, in any state, and not by a part of them.
pub async fn find_takes_ids_keys_and_aggregates(outbox: &dyn Outbox) {
    let mut emitted = Vec::new();
    let orders = [("Order", "order.placed"), ("Order", "order.paid"), ("File", "file.stored"), ("Zone", "zone.made")];
    for (place, (aggregate, event_type)) in orders.into_iter().enumerate() {
        let key = if place < 3 { "the-key".to_owned() } else { "N-77".to_owned() };
        let number = if place == 3 { "Q-1" } else { "N-77" };
        emitted.push(outbox.emit_event(Event::new(aggregate, number, event_type).idempotency_key(key)).await.id);
        if place < 2 {
            outbox.claim_and_settle(if place == 0 { Change::Deliver } else { fail() }).await;
        }
    }
    outbox.emit_many(3).await;
    let find = async |text: &str| ids(&outbox.inspect().find(text).await.unwrap());
    assert_eq!(find(&emitted[0].to_string()).await, [emitted[0]]);
    assert_eq!(find(&emitted[0].simple().to_string().to_uppercase()).await, [emitted[0]]);
    assert_eq!(find("the-key").await, [emitted[2], emitted[1], emitted[0]]);
    assert_eq!(find("N-77").await, [emitted[3], emitted[2], emitted[1], emitted[0]]);
    assert_eq!(find("Order:0").await.len(), 1);
    for text in ["", "n-77", "N-7", "the", "N-7%", "no\0thing", &Uuid::new_v4().to_string()] {
        assert!(find(text).await.is_empty(), "{text}");
    }
}

/// Before and after the event, in order, of its own aggregate only.
pub async fn neighbours_are_of_the_same_aggregate(outbox: &dyn Outbox) {
    let mut emitted = Vec::new();
    for number in 0..30 {
        let key = Uuid::new_v4().to_string();
        let event = Event::new("Order", "7", "order.changed").idempotency_key(key);
        emitted.push(outbox.emit_event(event).await.id);
        outbox.emit_event(Event::new("File", "7", "file.stored").idempotency_key(number.to_string())).await;
        let change = match number % 3 {
            0 => Change::Deliver,
            1 => fail(),
            _ => park("runner"),
        };
        let settlements =
            outbox.claim().await.into_iter().map(|claimed| claimed.settle(Verdict::of(change.clone(), 0)));
        outbox.settle(settlements.collect()).await;
    }
    let neighbours = async |id: Uuid| ids(&outbox.inspect().neighbours(id).await.unwrap());
    let around = neighbours(emitted[15]).await;
    assert!(
        around.is_sorted_by_key(|id| emitted.iter().position(|emitted| emitted == id).expect("of the same aggregate"))
    );
    assert!(!around.contains(&emitted[15]) && around.len() >= 20 && around.len() <= 40, "{}", around.len());
    for near in (5..15).chain(16..26) {
        assert!(around.contains(&emitted[near]), "{near}");
    }
    assert_eq!(neighbours(emitted[0]).await[..10], emitted[1..11]);
    let alone = outbox.emit_one().await.id;
    assert!(neighbours(alone).await.is_empty());
    assert!(neighbours(Uuid::new_v4()).await.is_empty());
}

async fn reject(outbox: &dyn Outbox, event: Event, on: &str, error: &str) -> Uuid {
    let id = outbox.emit_event(event).await.id;
    let claimed = outbox.claim_one().await;
    let answer = Answer::Failed { error: SendError::reject(error), took: Duration::ZERO };
    let verdict = judged(&claimed, &[on], vec![(on, answer)]);
    outbox.settle(vec![claimed.settle(verdict)]).await;
    id
}

/// By destination and error, without the parts that differ each time.
pub async fn dead_letters_are_told_by_what_they_have_in_common(outbox: &dyn Outbox) {
    let hour = Duration::from_secs(3600);
    let oldest = outbox.now().await - 24 * hour;
    let dead_letters = async |filter: Filter| outbox.inspect().dead_letters(&filter, oldest).await.unwrap();
    let none = dead_letters(Filter::default()).await;
    assert_eq!((none.groups.len(), none.looked_at, none.complete, none.reached), (0, 0, true, Some(oldest)));

    let first = reject(outbox, event(1), "mail", "order 1 is locked").await;
    outbox.age(first, 23 * hour).await;
    let out_of_sight = reject(outbox, event(2), "mail", "order 2 is locked").await;
    outbox.age(out_of_sight, 25 * hour).await;
    reject(outbox, Event::new("File", 3, "file.stored"), "mail", "order 3 is locked").await;
    reject(outbox, event(4), "audit", "order 4 is locked").await;
    reject(outbox, event(5), "mail", "gone").await;
    outbox.emit_one().await;
    outbox.claim_and_settle(Change::Deliver).await;

    let told = dead_letters(Filter::default()).await;
    assert_eq!((told.looked_at, told.complete, told.reached, told.left_out), (4, true, Some(oldest), 0));
    let group = told.groups.iter().find(|group| group.count == 2).unwrap();
    let folded = told.groups.iter().map(|group| (group.destination.as_deref(), group.error.as_str(), group.count));
    assert_eq!(
        folded.collect::<Vec<_>>(),
        [(Some("mail"), "order # is locked", 2), (Some("mail"), "gone", 1), (Some("audit"), "order # is locked", 1)]
    );
    assert_eq!(
        (group.sample.as_str(), &group.event_types[..]),
        ("order 3 is locked", &["file.stored".to_owned(), "order.placed".to_owned()][..])
    );
    assert_eq!(group.over_time.iter().sum::<u64>(), 2);
    assert_eq!((group.over_time[0] + group.over_time[1], group.over_time[23]), (1, 1), "{:?}", group.over_time);
    assert!(group.last_at - group.first_at > chrono::TimeDelta::hours(22));

    let files = Filter { event_type: Some("file.*".to_owned()), state: Some(State::Due), ..Filter::default() };
    let told = dead_letters(files).await;
    assert_eq!((told.groups.len(), told.groups[0].count, told.looked_at), (1, 1, 4));
    let page =
        outbox.inspect().list(&Filter { state: Some(State::Failed), ..Filter::default() }, &Paging::default()).await;
    let same = page.unwrap().events.into_iter().filter(|event| {
        event.failed_on.as_deref() == Some("mail") && fold_error(&event.error_message) == "order # is locked"
    });
    assert_eq!(same.count(), 3, "a list finds what a group has, of all times");
    for state in [None, Some(State::Failed)] {
        let within = Filter { state, failed_since: Some(oldest), ..Filter::default() };
        for oldest_first in [false, true] {
            let turn = Paging { oldest_first, ..Paging::default() };
            let page = outbox.inspect().list(&within, &turn).await.unwrap();
            assert_eq!(page.events.len(), 4, "a list of the window finds what the groups have");
            assert!(page.events.iter().all(|event| event.id != out_of_sight));
        }
    }
    let none = Filter { state: Some(State::Delivered), failed_since: Some(oldest), ..Filter::default() };
    assert!(outbox.inspect().list(&none, &Paging::default()).await.unwrap().events.is_empty());
}

/// The number of examined dead letters is limited, and the result says so.
pub async fn many_dead_letters_are_looked_at_as_far_as_it_goes(outbox: &dyn Outbox) {
    outbox.emit((0..10_100).map(event).collect()).await;
    let ids = outbox.inspect().list(&Filter::default(), &Paging::first(10_050)).await.unwrap().events;
    let ids: Vec<Uuid> = ids.iter().map(|event| event.id).collect();
    for batch in ids.chunks(5_000) {
        outbox.inspect().fail(batch, "no", super::outbox::BY_ANN).await.unwrap();
    }
    let oldest = outbox.now().await - Duration::from_secs(3600);
    let told = outbox.inspect().dead_letters(&Filter::default(), oldest).await.unwrap();
    assert_eq!((told.looked_at, told.complete, told.groups[0].count), (10_000, false, 10_000));
    assert!(told.reached.is_some_and(|reached| reached > oldest));
}
