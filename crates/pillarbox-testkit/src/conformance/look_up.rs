//! Search: exact matches, neighbours of an event, and groups of dead letters.

use std::time::Duration;

use pillarbox::delivery::{Answer, Change, Verdict};
use pillarbox::store::{Claimed, EventView, Filter, Paging, SEARCH_LIMIT, State, fold_error};
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
    let find = async |text: &str| ids(&outbox.inspect().find(text).await.unwrap().events);
    assert_eq!(find(&emitted[0].to_string()).await, [emitted[0]]);
    assert_eq!(find(&emitted[0].simple().to_string().to_uppercase()).await, [emitted[0]]);
    assert_eq!(find("the-key").await, [emitted[2], emitted[1], emitted[0]]);
    assert_eq!(find("N-77").await, [emitted[3], emitted[2], emitted[1], emitted[0]]);
    assert_eq!(find("Order:0").await.len(), 1);
    for text in ["Order N-77", "Order:N-77", " order  N-77 ", "Order #N-77"] {
        assert_eq!(find(text).await, [emitted[1], emitted[0]], "{text}");
    }
    assert_eq!(find("File/N-77").await, [emitted[2]]);
    for text in
        ["", "n-77", "N-7", "the", "N-7%", "no\0thing", "Order n-77", "Orders N-77", &Uuid::new_v4().to_string()]
    {
        assert!(find(text).await.is_empty(), "{text}");
    }
}

/// Every event of an aggregate, whatever its state and however many newer events of others there are; the newest ones if there are
/// more than a search returns.
pub async fn find_returns_the_history_of_an_aggregate(outbox: &dyn Outbox) {
    let of = |number: usize| {
        let key = format!("{number}");
        Event::new("shop.Order", "eu:4 2", "order.changed").idempotency_key(key)
    };
    let emitted = outbox.emit((0..SEARCH_LIMIT + 5).map(of).collect()).await;
    let mut emitted: Vec<Uuid> = emitted.into_iter().map(|emitted| emitted.id).collect();
    let settle = |(number, claimed): (usize, Claimed)| {
        let change = match number % 50 {
            3 => fail(),
            4 => park("runner"),
            _ => Change::Deliver,
        };
        claimed.settle(Verdict::of(change, 0))
    };
    outbox.settle(outbox.claim().await.into_iter().enumerate().map(settle).collect()).await;
    let named = Uuid::new_v4();
    let by_uuid = outbox.emit_event(Event::new("Order", named, "order.placed")).await.id;
    outbox.claim_and_settle(Change::Deliver).await;
    outbox.emit_many(100).await;
    let deliver = |claimed: Claimed| claimed.settle(Verdict::of(Change::Deliver, 0));
    outbox.settle(outbox.claim().await.into_iter().map(deliver).collect()).await;
    emitted.reverse();
    let find = async |text: &str| ids(&outbox.inspect().find(text).await.unwrap().events);
    for text in ["shop.Order eu:4 2", "shop.Order:eu:4 2", "eu:4 2", "SHOP.order/eu:4 2"] {
        assert_eq!(find(text).await, emitted[..SEARCH_LIMIT], "{text}");
    }
    for text in [named.to_string(), format!("Order {named}"), format!("Order:{named}")] {
        assert_eq!(find(&text).await, [by_uuid], "{text}");
    }
    assert_eq!(find("Order 42").await.len(), 1);
    assert!(outbox.inspect().find("eu:4 2").await.unwrap().unseen.is_none(), "so few events are all searched");
}

/// In a large outbox, a search finds the delivered events without a key of their own, or says that it did not search the others.
pub async fn find_tells_what_it_has_not_searched(outbox: &dyn Outbox) {
    let keyed = outbox.emit_event(Event::new("Order", "A-1", "order.changed").idempotency_key("k-1")).await.id;
    let plain = outbox.emit_event(Event::new("Order", "A-1", "order.placed")).await.id;
    let other = outbox.emit_event(Event::new("Invoice", "A-1", "invoice.sent")).await.id;
    let deliver = |claimed: Claimed| claimed.settle(Verdict::of(Change::Deliver, 0));
    outbox.settle(outbox.claim().await.into_iter().map(deliver).collect()).await;
    let open = outbox.emit_event(Event::new("Order", "A-1", "order.paid")).await.id;
    for part in 0..11 {
        outbox.emit((0..1000).map(|number| event(part * 1000 + number)).collect()).await;
    }
    outbox.emit_event(Event::new("Invoice", "Z", "invoice.sent")).await;
    let find = async |text: &str| outbox.inspect().find(text).await.unwrap();
    let found = find("Order A-1").await;
    match found.unseen {
        Some(unseen) => {
            assert_eq!(ids(&found.events), [open, plain]);
            let age = outbox.now().await - unseen.delivered_before;
            assert!(age.num_seconds() < 600, "{age}");
        }
        // An index has them all.
        None => assert_eq!(ids(&found.events), [open, plain, keyed]),
    }
    let found = find("A-1").await;
    let known = if found.unseen.is_some() { vec![open, other, plain] } else { vec![open, other, plain, keyed] };
    assert_eq!(ids(&found.events), known);
    for text in [keyed.to_string(), "k-1".to_owned()] {
        assert_eq!(ids(&find(&text).await.events), [keyed]);
    }
    assert_eq!(find(&keyed.to_string()).await.unseen, None, "an id needs no further search");
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
