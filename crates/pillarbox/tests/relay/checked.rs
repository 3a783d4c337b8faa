//! The relay's check: an event that violates it is a dead letter before its first send, in any order and for all destinations.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pillarbox::check::Checked;
use pillarbox::schema::Schemas;
use pillarbox::store::{Entry, Retried, Selection};
use pillarbox::{Check, Event, Inspect, OnFailed, RelaySettings, Route, SendError, Status, Violation};
use serde_json::json;
use uuid::Uuid;

use crate::fixture::{Outbox, Place, all_to, impatient, sorted};
use crate::order::ordered;

/// Refuses what a test says, and counts what it was asked.
#[derive(Clone, Default)]
struct Rule {
    refused: Arc<Mutex<Option<&'static str>>>,
    asked: Arc<AtomicUsize>,
}

impl Rule {
    fn refusing(event_type: &'static str) -> Self {
        Self { refused: Arc::new(Mutex::new(Some(event_type))), ..Self::default() }
    }
}

impl Check for Rule {
    fn check(&self, event: &Checked<'_>) -> Result<(), Violation> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if event.event_type == "panics" {
            panic!("it is broken");
        }
        match *self.refused.lock().unwrap() {
            Some(refused) if refused == event.event_type => Err(Violation::new("payload.total: it is refused")),
            _ => Ok(()),
        }
    }
}

async fn retry(outbox: &Outbox, id: Uuid) {
    let retried =
        outbox.store.retry(&Selection::Ids(vec![id]), Entry::Anew { who: "ann", target: "it" }).await.unwrap();
    assert_eq!(retried, [(id, Retried::Due)]);
}

#[tokio::test]
async fn an_event_that_violates_its_schema_is_a_dead_letter_that_names_the_path() {
    let outbox = Outbox::new().await;
    let good = Event::new("Order", 1, "order.placed").payload(json!({ "items": [{ "price": 1.5 }] }));
    let bad = Event::new("Order", 2, "order.placed").payload(json!({ "items": [{ "price": 1 }, { "price": "1.50" }] }));
    let other = Event::new("Order", 2, "order.lost").payload("no schema is about it");
    let ids = outbox.emit_events([good, bad, other]).await;
    let item = json!({ "type": "object", "properties": { "price": { "type": "number" } } });
    let order = json!({ "properties": { "items": { "items": item } } });
    let schemas = Schemas::new().with("order.placed", "schemas/order.json", &order).unwrap();
    let (one, another) = (Place::fine(), Place::fine());
    let relay = |schemas: Schemas| {
        let builder = outbox.relay().check(Arc::new(schemas));
        let builder = builder.destination(one.as_destination("a")).destination(another.as_destination("b"));
        builder.route(Route::new("*", ["a", "b"])).build().unwrap()
    };
    relay(schemas).drain().await.unwrap();

    let failed = outbox.get(ids[1]).await;
    let error = r#"schema schemas/order.json: payload.items[1].price: value is not of type "number""#;
    assert_eq!((failed.event.status, failed.event.attempts), (Status::Failed, 1));
    assert_eq!(failed.event.error_message, error);
    let attempts: Vec<_> = failed.failed_attempts.iter().map(|one| (&*one.destination, &*one.error)).collect();
    assert_eq!(attempts, [("schema check", error)]);
    assert!(failed.deliveries.is_empty(), "it was sent to none of its destinations");
    for place in [&one, &another] {
        assert_eq!(sorted(place.got()), sorted(vec![ids[0], ids[2]]));
    }

    // A retry begins with the check: it fails under the same schema, and is sent when people have mended it.
    retry(&outbox, ids[1]).await;
    relay(Schemas::new().with("*", "same.json", &order).unwrap()).drain().await.unwrap();
    assert_eq!(outbox.get(ids[1]).await.event.status, Status::Failed);
    retry(&outbox, ids[1]).await;
    relay(Schemas::new().with("*", "mended.json", &json!(true)).unwrap()).drain().await.unwrap();
    assert_eq!(outbox.get(ids[1]).await.event.status, Status::Delivered);
}

#[tokio::test]
async fn an_event_is_checked_before_its_first_send_and_before_its_route() {
    let outbox = Outbox::new().await;
    let sent = outbox.emit("order.placed", 1).await[0];
    let place = Place::that(|message| if message.attempt() < 3 { Err(SendError::retry("no")) } else { Ok(()) });
    let rule = Rule::refusing("order.unrouted");
    let relay = || {
        let builder = outbox.relay().check(Arc::new(rule.clone())).destination(place.as_destination("a"));
        builder.route(Route::new("order.placed", ["a"])).build().unwrap()
    };
    relay().drain().await.unwrap();
    assert_eq!(outbox.get(sent).await.event.status, Status::Delivered);
    assert_eq!((place.asked(), rule.asked.load(Ordering::SeqCst)), (3, 1));

    let unrouted = outbox.emit("order.unrouted", 1).await[0];
    relay().drain().await.unwrap();
    assert_eq!(outbox.get(unrouted).await.event.status, Status::Failed);
}

#[tokio::test]
async fn a_check_that_panics_fails_its_event_and_not_the_relay() {
    let outbox = Outbox::new().await;
    let (broken, fine) = (outbox.emit("panics", 1).await[0], outbox.emit("order.placed", 1).await[0]);
    let place = Place::fine();
    let builder = outbox.relay().check(Arc::new(Rule::default())).destination(place.as_destination("a"));
    builder.route(all_to("a")).build().unwrap().drain().await.unwrap();
    assert_eq!(place.got(), [fine]);
    let failed = outbox.get(broken).await.event;
    assert_eq!(failed.error_message, "the check of the event panicked: it is broken");
}

#[tokio::test]
async fn where_order_is_kept_a_refused_event_blocks_its_aggregate_or_is_skipped() {
    for (on_failed, delivered) in [(OnFailed::Block, 3), (OnFailed::Skip, 5)] {
        let outbox = Outbox::new().await;
        let event = |aggregate, event_type| Event::new("Order", aggregate, event_type).repeatable();
        let events = ["a", "bad", "b", "c"].map(|event_type| event(1, event_type));
        let events = events.into_iter().chain([event(2, "a"), event(2, "b"), event(3, "bad")]);
        let ids = outbox.emit_events(events).await;
        let place = Place::fine();
        let settings = RelaySettings { order: ordered(on_failed).order, ..impatient() };
        let builder = outbox.relay().settings(settings).check(Arc::new(Rule::refusing("bad")));
        let relay = builder.destination(place.as_destination("a")).route(all_to("a")).build().unwrap();
        relay.drain().await.unwrap();
        let counts = outbox.counts().await;
        assert_eq!((counts.delivered, counts.failed), (delivered, 2), "{counts:?}");
        let first: Vec<_> = place.got().into_iter().filter(|id| ids[..4].contains(id)).collect();
        let expected = if on_failed == OnFailed::Block { vec![ids[0]] } else { vec![ids[0], ids[2], ids[3]] };
        assert_eq!(first, expected);
    }
}
