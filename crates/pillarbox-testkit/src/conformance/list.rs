//! Lists: their order, pages and filters.

use std::time::Duration;

use pillarbox::delivery::{Answer, Change};
use pillarbox::store::{Cursor, EventView, Filter, Paging, State, ToDestination};
use pillarbox::{Condition, Event, Route, SendError, StoreError};
use uuid::Uuid;

use super::Outbox;
use super::outbox::{deliver, event, fail, judged, park};
use super::people::one_of_each;

async fn list(outbox: &dyn Outbox, filter: Filter) -> Vec<Uuid> {
    ids(&outbox.inspect().list(&filter, &Paging::default()).await.unwrap().events)
}

fn ids(events: &[EventView]) -> Vec<Uuid> {
    events.iter().map(|event| event.id).collect()
}

fn in_state(state: State) -> Filter {
    Filter { state: Some(state), ..Filter::default() }
}

/// Returns the pages of a list, to its end.
async fn pages(outbox: &dyn Outbox, filter: &Filter, mut turn: Paging) -> Vec<Vec<Uuid>> {
    let mut pages = Vec::new();
    loop {
        let page = outbox.inspect().list(filter, &turn).await.unwrap();
        assert!(page.events.len() <= turn.limit);
        pages.push(ids(&page.events));
        match page.next {
            // Through text, as in a link.
            Some(next) => turn = turn.after(next.to_string().parse::<Cursor>().unwrap()),
            None => return pages,
        }
    }
}

/// Events that are emitted meanwhile do not move the pages.
pub async fn the_list_is_newest_first_in_pages(outbox: &dyn Outbox) {
    let mut newest_first: Vec<Uuid> = outbox.emit_many(7).await.iter().map(|emitted| emitted.id).collect();
    newest_first.reverse();
    let mut found = Vec::new();
    let mut turn = Paging::first(3);
    loop {
        let page = outbox.inspect().list(&Filter::default(), &turn).await.unwrap();
        assert_eq!(page.looked_at, page.events.len() as u64);
        assert_eq!(page.reached, page.events.last().map(|event| event.created_at));
        found.push(ids(&page.events));
        let Some(next) = page.next else { break };
        turn = turn.after(next);
        outbox.emit_one().await;
    }
    assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 1]);
    assert_eq!(found.concat(), newest_first);
    outbox.emit((100..160).map(event).collect()).await;
    assert_eq!(list(outbox, Filter::default()).await.len(), 50, "the page without a limit");
}

/// Each list in its own order, with many events of the same time: no event is repeated or missing.
pub async fn every_list_goes_on_where_its_page_ended(outbox: &dyn Outbox) {
    let settled: [(State, Change); 3] =
        [(State::Delivered, Change::Deliver), (State::Failed, fail()), (State::Parked, park("runner"))];
    let mut lists = Vec::new();
    for (number, (state, change)) in settled.into_iter().enumerate() {
        let emitted = outbox.emit((0..7).map(|place| event(10 * number + place)).collect()).await;
        // All in one settle, and therefore with the same time.
        let settlements = outbox
            .claim()
            .await
            .into_iter()
            .map(|claimed| claimed.settle(pillarbox::delivery::Verdict::of(change.clone(), 0)));
        outbox.settle(settlements.collect()).await;
        lists.push((state, emitted));
    }
    lists.push((State::Due, outbox.emit((100..107).map(event).collect()).await));
    let later = outbox.now().await + Duration::from_secs(3600);
    lists.push((State::Scheduled, outbox.emit((110..117).map(|place| event(place).deliver_at(later)).collect()).await));
    for (state, emitted) in lists {
        let mut expected: Vec<Uuid> = emitted.iter().map(|emitted| emitted.id).collect();
        if matches!(state, State::Delivered | State::Failed) {
            expected.reverse();
        }
        for limit in [1, 3, 7, 8] {
            let found = pages(outbox, &in_state(state), Paging::first(limit)).await;
            assert_eq!(found.concat(), expected, "{state:?} by {limit}");
            assert_eq!(found.len(), 7_usize.div_ceil(limit), "{state:?} by {limit}");
        }
    }
}

/// One list follows the other, whatever the limit.
pub async fn pending_is_what_waits_and_then_what_is_parked(outbox: &dyn Outbox) {
    let mut expected = Vec::new();
    for (number, on) in ["mail", "runner", "runner"].into_iter().enumerate() {
        expected.push(outbox.emit_event(event(number)).await.id);
        outbox.claim_and_settle(park(on)).await;
    }
    let waiting = outbox.emit((10..13).map(event).collect()).await;
    expected.splice(0..0, waiting.iter().map(|emitted| emitted.id));
    for limit in 1..8 {
        let found = pages(outbox, &in_state(State::Pending), Paging::first(limit)).await;
        assert_eq!(found.concat(), expected, "by {limit}");
    }
    assert_eq!(pages(outbox, &in_state(State::Parked), Paging::first(2)).await.concat(), expected[3..]);
    let runner = Filter { parked_on: Some("runner".to_owned()), ..Filter::default() };
    assert_eq!(pages(outbox, &runner, Paging::first(1)).await.concat(), expected[4..]);
    assert!(list(outbox, Filter { state: Some(State::Due), ..runner }).await.is_empty());
}

/// By emit time, or by the time of delivery or failure.
pub async fn a_list_can_begin_with_the_oldest(outbox: &dyn Outbox) {
    let turn = || Paging { limit: 2, oldest_first: true, ..Paging::default() };
    let mut emitted = Vec::new();
    for number in 0..5 {
        emitted.push(outbox.emit_event(event(number)).await.id);
        outbox.claim_and_settle(if number < 3 { fail() } else { Change::Deliver }).await;
    }
    assert_eq!(pages(outbox, &Filter::default(), turn()).await.concat(), emitted);
    assert_eq!(pages(outbox, &in_state(State::Failed), turn()).await.concat(), emitted[..3]);
    assert_eq!(pages(outbox, &in_state(State::Delivered), turn()).await.concat(), emitted[3..]);
}

/// From the last page back to the first, each page is the one that was seen on the way there.
pub async fn every_list_can_be_turned_back(outbox: &dyn Outbox) {
    for (number, on) in ["mail", "mail", "runner", "runner", "runner"].into_iter().enumerate() {
        outbox.emit_event(event(number)).await;
        outbox.claim_and_settle(park(on)).await;
    }
    for number in 10..14 {
        outbox.emit_event(event(number)).await;
        outbox.claim_and_settle(if number % 2 == 0 { fail() } else { Change::Deliver }).await;
    }
    outbox.emit((20..24).map(event).collect()).await;
    let parked_on = Filter { parked_on: Some("runner".to_owned()), ..Filter::default() };
    let searched = Filter { search: Some("order".to_owned()), ..Filter::default() };
    let states = [State::Pending, State::Due, State::Parked, State::Failed, State::Delivered].map(in_state);
    for filter in states.into_iter().chain([Filter::default(), parked_on, searched]) {
        for (limit, oldest_first) in [(1, false), (2, false), (2, true), (3, false), (4, true)] {
            turn_back(outbox, &filter, Paging { limit, oldest_first, ..Paging::default() }).await;
        }
    }
}

async fn turn_back(outbox: &dyn Outbox, filter: &Filter, mut turn: Paging) {
    let mut there = pages(outbox, filter, turn.clone()).await;
    let mut page = outbox.inspect().list(filter, &turn).await.unwrap();
    assert!(page.previous.is_none() && !page.events.is_empty(), "{filter:?}");
    while let Some(next) = page.next {
        turn = turn.after(next);
        page = outbox.inspect().list(filter, &turn).await.unwrap();
    }
    assert_eq!(Some(ids(&page.events)), there.pop());
    while let Some(previous) = page.previous {
        turn = turn.before(previous.to_string().parse().unwrap());
        page = outbox.inspect().list(filter, &turn).await.unwrap();
        assert_eq!(Some(ids(&page.events)), there.pop(), "{filter:?} {turn:?}");
        // And forth again, from where it ended.
        let next = page.next.clone().unwrap();
        let following = outbox.inspect().list(filter, &turn.clone().after(next)).await.unwrap();
        assert!(following.events.iter().all(|event| !ids(&page.events).contains(&event.id)), "{filter:?} {turn:?}");
    }
    assert!(there.is_empty(), "{filter:?} {turn:?}: {there:?}");
}

/// Delivered events with failed attempts, too.
pub async fn events_with_failures_can_be_asked_for(outbox: &dyn Outbox) {
    outbox.emit_event(event(1)).await;
    outbox.claim_and_settle(Change::Deliver).await;
    let emitted = outbox.emit_event(event(2)).await;
    let claimed = outbox.claim_one().await;
    let verdict = judged(&claimed, &["runner"], vec![("runner", super::outbox::failed("busy"))]);
    outbox.settle(vec![claimed.settle(verdict)]).await;
    let had_failures = || Filter { had_failures: true, ..Filter::default() };
    assert_eq!(list(outbox, had_failures()).await, [emitted.id]);
    outbox.age(emitted.id, pillarbox::RetryPolicy::default().base).await;
    let claimed = outbox.claim_one().await;
    let verdict = judged(&claimed, &["runner"], vec![("runner", Answer::Sent)]);
    outbox.settle(vec![claimed.settle(verdict)]).await;
    assert_eq!(list(outbox, had_failures()).await, [emitted.id]);
    let delivered = Filter { state: Some(State::Delivered), ..had_failures() };
    assert_eq!(list(outbox, delivered).await, [emitted.id]);
}

/// Each field alone, and several together.
pub async fn each_filter_narrows_the_list(outbox: &dyn Outbox) {
    let hour = Duration::from_secs(3600);
    let file = outbox.emit_event(Event::new("File", 1, "file.stored")).await;
    outbox.claim_and_settle(park("runner")).await;
    let old = outbox.emit_event(Event::new("Order", 1, "order.placed")).await;
    let old_id = outbox.backdate(old.id, 2 * hour).await;
    let order = outbox.emit_event(Event::new("Order", 2, "order.paid")).await;
    let text = |text: &str| Some(text.to_owned());
    let an_hour_ago = Some(outbox.now().await - hour);
    let open = Filter::default;
    let cases = [
        ("type", Filter { event_type: text("order.paid"), ..open() }, vec![order.id]),
        ("pattern", Filter { event_type: text("order.*"), ..open() }, vec![order.id, old_id]),
        ("case", Filter { event_type: text("Order.*"), ..open() }, vec![]),
        ("no pattern", Filter { event_type: text("order_p%"), ..open() }, vec![]),
        ("aggregate", Filter { aggregate_type: text("File"), ..open() }, vec![file.id]),
        ("aggregate's id", Filter { aggregate_id: text("1"), ..open() }, vec![file.id, old_id]),
        ("parked on", Filter { parked_on: text("runner"), ..open() }, vec![file.id]),
        ("parked on another", Filter { parked_on: text("run"), ..open() }, vec![]),
        ("since", Filter { since: an_hour_ago, ..open() }, vec![order.id, file.id]),
        ("until", Filter { until: an_hour_ago, ..open() }, vec![old_id]),
        ("since is inclusive", Filter { since: Some(order.created_at), ..open() }, vec![order.id]),
        ("until is exclusive", Filter { until: Some(file.created_at), ..open() }, vec![old_id]),
        ("state", Filter { state: Some(State::Parked), ..open() }, vec![file.id]),
        ("what no text can hold", Filter { search: text("a\0b"), ..open() }, vec![]),
        (
            "several",
            Filter { aggregate_id: text("1"), aggregate_type: text("Order"), search: text("placed"), ..open() },
            vec![old_id],
        ),
    ];
    for (name, filter, expected) in cases {
        assert_eq!(list(outbox, filter).await, expected, "{name}");
    }
}

/// The state is finer than the status, and the same in a list and in a single event.
pub async fn every_state_can_be_asked_for(outbox: &dyn Outbox) {
    let events = one_of_each(outbox).await;
    for (state, emitted) in &events {
        assert_eq!(list(outbox, Filter { state: Some(*state), ..Filter::default() }).await, [emitted.id], "{state:?}");
        assert_eq!(outbox.get(emitted.id).await.event.state, *state);
    }
    let pending = list(outbox, Filter { state: Some(State::Pending), ..Filter::default() }).await;
    assert_eq!(pending.len(), 4, "parked, scheduled, sending, due");
}

/// The search covers id, type, aggregate, key and error.
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

/// A search is not a pattern.
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

/// A minute's difference of the writers' clocks does not matter; the emit time decides.
pub async fn time_narrows_every_list(outbox: &dyn Outbox) {
    let hour = Duration::from_secs(3600);
    let mut expected = Vec::new();
    for (number, change) in [Change::Deliver, fail(), park("runner")].into_iter().enumerate() {
        let mut both = Vec::new();
        for age in [hour * 5, hour * 3, hour] {
            let emitted = outbox.emit_event(event(both.len() * 10 + number)).await.id;
            outbox.claim_and_settle(change.clone()).await;
            both.push(outbox.backdate(emitted, age).await);
        }
        expected.push(both);
    }
    let now = outbox.now().await;
    let between = Filter { since: Some(now - 4 * hour), until: Some(now - 2 * hour), ..Filter::default() };
    for (state, both) in [State::Delivered, State::Failed, State::Parked].into_iter().zip(&expected) {
        let found = list(outbox, Filter { state: Some(state), ..between.clone() }).await;
        assert_eq!(found, [both[1]], "{state:?}");
    }
    let mut all: Vec<Uuid> = expected.iter().map(|both| both[1]).collect();
    all.sort();
    all.reverse();
    assert_eq!(list(outbox, between).await, all);

    let late = outbox.emit_event(event(99)).await;
    let ahead = outbox.backdate(late.id, Duration::ZERO).await;
    outbox.age(ahead, Duration::from_secs(50)).await;
    let created_at = outbox.get(ahead).await.event.created_at;
    let then =
        Filter { until: Some(created_at + Duration::from_millis(1)), since: Some(created_at), ..Filter::default() };
    assert_eq!(list(outbox, then).await, [ahead], "its writer's clock was ahead");
}

/// By the first route that matches, by parking, and by stored deliveries and attempts.
pub async fn events_belong_to_where_they_are_routed_and_to_where_they_failed(outbox: &dyn Outbox) {
    let routed = outbox.emit_event(Event::new("Order", 1, "order.placed")).await.id;
    outbox.claim_and_settle(Change::Deliver).await;
    let earlier = outbox.emit_event(Event::new("Order", 2, "order.secret")).await.id;
    outbox.claim_and_settle(Change::Deliver).await;
    let parked = outbox.emit_event(Event::new("File", 3, "file.stored")).await.id;
    outbox.claim_and_settle(park("mail")).await;
    let rejected = outbox.emit_event(Event::new("File", 4, "file.stored")).await.id;
    let claimed = outbox.claim_one().await;
    let reject = Answer::Failed { error: SendError::reject("gone"), took: Duration::ZERO };
    let verdict = judged(&claimed, &["mail"], vec![("mail", reject.clone())]);
    outbox.settle(vec![claimed.settle(verdict)]).await;
    let fan_out = outbox.emit_event(Event::new("File", 5, "file.stored")).await.id;
    let claimed = outbox.claim_one().await;
    let verdict = judged(&claimed, &["audit", "mail"], vec![("audit", reject), ("mail", Answer::Sent)]);
    outbox.settle(vec![claimed.settle(verdict)]).await;
    outbox.emit_event(Event::new("File", 6, "file.stored")).await;
    let claim = outbox.claim().await;
    outbox.settle(claim.into_iter().map(deliver).collect()).await;

    let mut files = Route::new("*", ["mail"]);
    files.aggregates = "fil*".into();
    let routes = vec![Route::new("order.secret", ["audit"]), files, Route::new("order.*", ["mail", "audit"])];
    let routes = pillarbox::Routes::new(routes);
    let to = |name: &str| {
        let destination = ToDestination { name: name.to_owned(), routes: routes.clone() };
        Filter { destination: Some(destination), ..Filter::default() }
    };
    assert_eq!(list(outbox, to("mail")).await, [fan_out, rejected, parked, routed]);
    assert_eq!(list(outbox, to("audit")).await, [fan_out, earlier, routed]);
    assert!(list(outbox, to("nobody")).await.is_empty());
    let failed = Filter { state: Some(State::Failed), ..to("mail") };
    assert_eq!(list(outbox, failed).await, [fan_out, rejected]);
    for (id, expected) in [(rejected, Some("mail")), (fan_out, Some("audit")), (parked, None), (routed, None)] {
        assert_eq!(outbox.get(id).await.event.failed_on.as_deref(), expected);
    }
    let page = outbox.inspect().list(&in_state(State::Failed), &Paging::default()).await.unwrap();
    let failed_on: Vec<_> = page.events.iter().map(|event| event.failed_on.as_deref()).collect();
    assert_eq!(failed_on, [Some("audit"), Some("mail")]);
}

/// With a condition on the payload, a destination's list has the events that fit, and those that were tried there. Its pages go on,
/// however few of their events fit.
pub async fn where_the_payload_decides_each_event_is_asked_for_it(outbox: &dyn Outbox) {
    let order = |total: usize| event(total).payload(serde_json::json!({ "total": total }));
    let emitted: Vec<Uuid> = outbox.emit((0..20).map(order).collect()).await.iter().map(|one| one.id).collect();
    let opaque = Event::new("Order", 99, "order.placed").payload_bytes("a/b", b"total");
    outbox.emit_event(opaque).await;
    let large = Condition::new("total >= 17", |payload| payload["total"].as_i64().is_some_and(|total| total >= 17));
    let routes = vec![Route::new("order.*", ["audit", "mail"]).when(large), Route::new("order.*", ["mail"])];
    let routes = pillarbox::Routes::new(routes);
    let to = |name: &str| {
        let destination = ToDestination { name: name.to_owned(), routes: routes.clone() };
        Filter { destination: Some(destination), ..Filter::default() }
    };
    let newest_first = [emitted[19], emitted[18], emitted[17]];
    assert_eq!(list(outbox, to("audit")).await, newest_first);
    assert_eq!(list(outbox, to("mail")).await.len(), 21);
    let found = pages(outbox, &to("audit"), Paging::first(2)).await;
    assert_eq!(found.concat(), newest_first, "{found:?}");
    let oldest_first = Paging { oldest_first: true, ..Paging::first(2) };
    let found = pages(outbox, &to("audit"), oldest_first).await;
    assert_eq!(found.concat(), [emitted[17], emitted[18], emitted[19]], "{found:?}");

    // A small order was tried there, perhaps under other routes. All of them fail at once.
    let claim = outbox.claim().await;
    let reject = Answer::Failed { error: SendError::reject("gone"), took: Duration::ZERO };
    let settlements = claim.into_iter().map(|claimed| {
        let place = if claimed.event().id == emitted[3] { "audit" } else { "mail" };
        let verdict = judged(&claimed, &[place], vec![(place, reject.clone())]);
        claimed.settle(verdict)
    });
    outbox.settle(settlements.collect()).await;
    let failed = Filter { state: Some(State::Failed), ..to("audit") };
    let mut found = pages(outbox, &failed, Paging::first(2)).await.concat();
    found.sort();
    assert_eq!(found, [emitted[3], emitted[17], emitted[18], emitted[19]]);
    let told =
        outbox.inspect().dead_letters(&to("audit"), outbox.now().await - Duration::from_secs(3600)).await.unwrap();
    assert_eq!(told.groups.iter().map(|group| group.count).sum::<u64>(), 4);
}

/// A filter without matches costs no more than one with many.
pub async fn a_page_looks_at_so_many_and_says_how_far_it_came(outbox: &dyn Outbox) {
    let first = outbox.emit_event(Event::new("File", 1, "file.stored")).await;
    outbox.emit((0..10_100).map(event).collect()).await;
    let files = Filter { event_type: Some("file.*".to_owned()), ..Filter::default() };
    let page = outbox.inspect().list(&files, &Paging::default()).await.unwrap();
    assert_eq!((page.events.len(), page.looked_at), (0, 10_000));
    assert!(page.reached.is_some_and(|reached| reached >= first.created_at));
    let page = outbox.inspect().list(&files, &Paging::default().after(page.next.unwrap())).await.unwrap();
    assert_eq!((ids(&page.events), page.looked_at, page.next), (vec![first.id], 101, None));
    assert_eq!(page.reached, Some(first.created_at));
}

/// Otherwise the page would begin at an arbitrary place.
pub async fn a_cursor_of_another_list_is_refused(outbox: &dyn Outbox) {
    outbox.emit_many(2).await;
    let page = outbox.inspect().list(&Filter::default(), &Paging::first(1)).await.unwrap();
    let turn = Paging::first(1).after(page.next.unwrap());
    let refused = outbox.inspect().list(&in_state(State::Failed), &turn).await;
    assert!(matches!(refused, Err(StoreError::BadCursor(_))), "{refused:?}");
}
