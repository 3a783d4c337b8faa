//! Parking: events that wait for a destination cost nothing until it is up again.

use pillarbox::Event;
use pillarbox::delivery::{UNROUTED, Verdict};
use pillarbox::event::Opaque;
use pillarbox::store::{Claim, EventKind, ParkedPlace, State};
use uuid::Uuid;

use super::Outbox;
use super::outbox::{event, park};

/// Claims all due events and parks them.
async fn park_all(outbox: &dyn Outbox, on: &str) {
    let claim = outbox.claim().await;
    assert!(!claim.is_empty());
    outbox.settle(claim.into_iter().map(|claimed| claimed.settle(Verdict::of(park(on), 0))).collect()).await;
}

fn ids(claim: &Claim) -> Vec<Uuid> {
    claim.iter().map(|claimed| claimed.event().id).collect()
}

/// A parked event is not read, not counted as due, and has no loss.
pub async fn what_is_parked_is_not_claimed(outbox: &dyn Outbox) {
    let emitted = outbox.emit_one().await;
    park_all(outbox, "runner").await;
    let event = outbox.get(emitted.id).await.event;
    assert_eq!(
        (event.state, event.parked_on.as_deref(), event.error_message.as_str()),
        (State::Parked, Some("runner"), "down")
    );
    assert!(outbox.claim().await.is_empty());
    assert_eq!(outbox.store().remaining().await.unwrap(), 0);
    assert_eq!(outbox.store().sweep().await.unwrap().len(), 0);
    assert_eq!(outbox.store().unpark("runner", None, 10).await.unwrap(), 1);
    let claimed = outbox.claim_one().await;
    assert_eq!((claimed.event().id, claimed.event().claims, claimed.event().attempts), (emitted.id, 0, 0));
}

/// The relay finds the parked events, also after a restart.
pub async fn what_is_parked_is_told_by_destination_and_kind(outbox: &dyn Outbox) {
    assert_eq!(outbox.store().parked_on().await.unwrap(), [""; 0]);
    outbox.emit(vec![event(1), event(2), Event::new("File", 1, "file.stored")]).await;
    park_all(outbox, UNROUTED).await;
    outbox.emit((3..6).map(event).collect()).await;
    park_all(outbox, "runner").await;
    let mut on = outbox.store().parked_on().await.unwrap();
    on.sort();
    assert_eq!(on, ["runner", UNROUTED]);
    let mut kinds = outbox.store().parked_kinds(UNROUTED).await.unwrap();
    kinds.sort_by(|one, other| one.event_type.cmp(&other.event_type));
    let kind = |event_type: &str, aggregate_type: &str| EventKind {
        event_type: event_type.to_owned(),
        aggregate_type: aggregate_type.to_owned(),
    };
    assert_eq!(kinds, [kind("file.stored", "File"), kind("order.placed", "Order")]);
    assert_eq!(outbox.store().parked_kinds("runner").await.unwrap(), [kind("order.placed", "Order")]);
    assert_eq!(outbox.store().parked_kinds("nobody").await.unwrap(), []);
}

/// A destination that is up again gets its events in growing batches, in order.
pub async fn unparking_makes_due_the_oldest_first_up_to_a_limit(outbox: &dyn Outbox) {
    let emitted = outbox.emit([30, 4, 200, 1, 77].map(event).into()).await;
    park_all(outbox, "runner").await;
    assert_eq!(outbox.store().unpark("other", None, 10).await.unwrap(), 0);
    assert_eq!(outbox.store().unpark("runner", None, 2).await.unwrap(), 2);
    let expected: Vec<Uuid> = emitted.iter().map(|emitted| emitted.id).collect();
    let first = outbox.claim().await;
    assert_eq!(ids(&first), expected[..2]);
    assert_eq!(outbox.store().unpark("runner", None, 10).await.unwrap(), 3);
    assert_eq!(ids(&outbox.claim().await), expected[2..]);
    assert_eq!(outbox.store().unpark("runner", None, 10).await.unwrap(), 0);
}

/// A route that now matches one kind unparks only that kind.
pub async fn unparking_a_kind_leaves_the_others(outbox: &dyn Outbox) {
    let emitted = outbox
        .emit(vec![
            Event::new("File", 1, "file.stored"),
            Event::new("Order", 1, "file.stored"),
            Event::new("File", 1, "order.placed"),
            Event::new("File", 2, "file.stored"),
            Event::new("File", 3, "file.stored"),
        ])
        .await;
    park_all(outbox, UNROUTED).await;
    let kind = EventKind { event_type: "file.stored".to_owned(), aggregate_type: "File".to_owned() };
    assert_eq!(outbox.store().unpark(UNROUTED, Some(&kind), 2).await.unwrap(), 2);
    assert_eq!(ids(&outbox.claim().await), [emitted[0].id, emitted[3].id]);
}

/// Where a route depends on payloads, they are read page by page, and only the events that fit are unparked.
pub async fn the_parked_events_of_a_kind_are_read_in_pages_and_unparked_by_id(outbox: &dyn Outbox) {
    let order = |number: usize| event(number).payload(serde_json::json!({ "total": number }));
    let mut events: Vec<Event> = (0..5).map(order).collect();
    events.push(Event::new("Image", 1, "order.placed").payload_bytes("image/png", b"\x89PNG"));
    events.push(Event::new("Order", 7, "order.paid").header("tenant", "acme"));
    let emitted = outbox.emit(events).await;
    park_all(outbox, UNROUTED).await;
    let kind = |event_type: &str, aggregate_type: &str| EventKind {
        event_type: event_type.to_owned(),
        aggregate_type: aggregate_type.to_owned(),
    };
    let (mut read, mut place) = (Vec::new(), ParkedPlace::default());
    loop {
        let page = outbox.store().parked_events(UNROUTED, &kind("order.placed", "Order"), &place, 2).await.unwrap();
        assert!(page.len() <= 2);
        let Some(last) = page.last() else { break };
        place = last.place.clone();
        read.extend(page);
    }
    let totals: Vec<i64> = read
        .iter()
        .map(|event| serde_json::from_str::<serde_json::Value>(event.payload.get()).unwrap()["total"].as_i64().unwrap())
        .collect();
    assert_eq!(totals, [0, 1, 2, 3, 4]);
    let first = ParkedPlace::default();
    let image = outbox.store().parked_events(UNROUTED, &kind("order.placed", "Image"), &first, 9).await.unwrap();
    let opaque = Opaque::of(&image[0].payload, &image[0].headers).unwrap().unwrap();
    assert_eq!((opaque.content_type, &*opaque.bytes), ("image/png", &b"\x89PNG"[..]));
    let elsewhere = outbox.store().parked_events("runner", &kind("order.placed", "Order"), &first, 9).await.unwrap();
    assert!(elsewhere.is_empty());

    let fitting = [emitted[1].id, emitted[3].id];
    assert_eq!(outbox.store().unpark_these("runner", &fitting).await.unwrap(), 0);
    assert_eq!(outbox.store().unpark_these(UNROUTED, &fitting).await.unwrap(), 2);
    assert_eq!(outbox.store().unpark_these(UNROUTED, &fitting).await.unwrap(), 0, "they are due");
    assert_eq!(outbox.store().unpark_these(UNROUTED, &[]).await.unwrap(), 0);
    assert_eq!(ids(&outbox.claim().await), fitting);
}
