//! Claim: due events, in order, within limits, and never twice.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::{Ask, Claim, Claimed};
use pillarbox::{Event, Store};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::Outbox;
use super::outbox::{ASK, LEASE, deliver, event};

fn ids(claim: &Claim) -> Vec<Uuid> {
    claim.iter().map(|claimed| claimed.event().id).collect()
}

/// An event that was rolled back never existed.
pub async fn rollback_emits_nothing(outbox: &dyn Outbox) {
    let emitted = outbox.emit_and_roll_back(vec![event(1), event(2)]).await;
    assert_eq!(emitted.len(), 2);
    assert!(outbox.claim().await.is_empty());
    assert_eq!(outbox.rows("outbox_event").await, 0);
}

/// A claim without due events is no error.
pub async fn nothing_due_is_an_empty_claim(outbox: &dyn Outbox) {
    let claim = outbox.claim().await;
    assert!(claim.is_empty());
    assert!(!claim.is_alone());
}

/// A delayed event waits for its time.
pub async fn an_event_for_later_is_not_claimed(outbox: &dyn Outbox) {
    let hour = Duration::from_secs(3600);
    let later = outbox.emit_event(event(1).deliver_at(outbox.now().await + hour)).await;
    let past = outbox.emit_event(event(2).deliver_at(outbox.now().await - hour)).await;
    let claim = outbox.claim().await;
    assert_eq!(ids(&claim), [past.id]);
    outbox.age(later.id, hour).await;
    assert_eq!(ids(&outbox.claim().await), [later.id]);
}

/// Four claimers on two handles claim small batches until all events are delivered: each event once.
pub async fn two_claimers_never_share_an_event(outbox: &dyn Outbox) {
    const EVENTS: usize = 400;
    outbox.emit_many(EVENTS).await;
    let mut claimers = JoinSet::new();
    for store in [outbox.store(), outbox.store(), outbox.another().await, outbox.another().await] {
        claimers.spawn(deliver_all(store));
    }
    let mut seen = HashSet::new();
    for id in claimers.join_all().await.into_iter().flatten() {
        assert!(seen.insert(id), "{id} was claimed twice");
    }
    assert_eq!(seen.len(), EVENTS);
}

async fn deliver_all(store: Arc<dyn Store>) -> Vec<Uuid> {
    let mut delivered = Vec::new();
    while store.remaining().await.expect("a count") > 0 {
        let claim = store.claim(Ask { limit: 7, ..ASK }).await.expect("a claim");
        let settlements: Vec<_> = claim.into_iter().map(deliver).collect();
        let lost = store.settle(&settlements, false).await.expect("a settle");
        assert_eq!(lost, [], "nobody else may have them");
        delivered.extend(settlements.iter().map(|settlement| settlement.ticket().id));
    }
    delivered
}

/// The limit of events.
pub async fn a_claim_takes_no_more_events_than_asked_for(outbox: &dyn Outbox) {
    outbox.emit_many(5).await;
    let first = outbox.claim_with(Ask { limit: 3, ..ASK }).await;
    let second = outbox.claim_with(Ask { limit: 3, ..ASK }).await;
    assert_eq!((first.len(), second.len()), (3, 2));
}

/// The limit of bytes ends a batch, but never prevents a large event from being sent.
pub async fn a_claim_takes_no_more_bytes_than_asked_for_but_always_one_event(outbox: &dyn Outbox) {
    // Random text does not compress, and each character is one byte.
    let bulk = || (0..40).map(|_| Uuid::new_v4().to_string()).collect::<String>();
    outbox.emit((0..6).map(|number| event(number).payload(bulk())).collect()).await;
    let claim = outbox.claim_with(Ask { bytes: 4000, ..ASK }).await;
    assert_eq!(claim.len(), 3, "the one that passes the limit is the last");
    let claim = outbox.claim_with(Ask { bytes: 1, ..ASK }).await;
    assert_eq!(claim.len(), 1, "always one");
    let claim = outbox.claim_with(Ask { bytes: usize::MAX, ..ASK }).await;
    assert_eq!(claim.len(), 2);
}

/// The relay's memory holds the JSON, not its compressed form.
pub async fn bytes_are_those_of_the_json_however_well_they_compress(outbox: &dyn Outbox) {
    let bulk = "x".repeat(100_000);
    outbox.emit((0..4).map(|number| event(number).payload(&bulk)).collect()).await;
    assert_eq!(outbox.claim_with(Ask { bytes: 150_000, ..ASK }).await.len(), 2);
}

/// The order is by due time, then by insertion, whatever the ids are.
pub async fn the_oldest_due_is_claimed_first(outbox: &dyn Outbox) {
    // Neither the keys nor the ids are in the order of insertion.
    let first = outbox.emit([30, 4, 200].map(event).into()).await;
    let older = outbox.emit([90, 5, 600].map(event).into()).await;
    for emitted in &older {
        outbox.age(emitted.id, Duration::from_secs(3600)).await;
    }
    let expected: Vec<Uuid> = older.iter().chain(&first).map(|emitted| emitted.id).collect();
    let half = outbox.claim_with(Ask { limit: 4, ..ASK }).await;
    assert_eq!(ids(&half), expected[..4]);
    assert_eq!(ids(&outbox.claim().await), expected[4..]);
}

/// A claim returns every field of the emitted event.
pub async fn a_claim_carries_the_event_as_it_was_emitted(outbox: &dyn Outbox) {
    let emitted = outbox
        .emit_event(
            Event::new("Bestellung", "ä-1", "order.placed")
                .payload(serde_json::json!({ "total": "19.90", "text": "a\"b\\c\n☃" }))
                .header("tenant", "acme")
                .idempotency_key("the key")
                .max_attempts(3),
        )
        .await;
    let claimed = outbox.claim_one().await;
    let event = claimed.event();
    assert_eq!(
        (
            event.id,
            Some(event.seq),
            event.aggregate_type.as_str(),
            event.aggregate_id.as_str(),
            event.event_type.as_str()
        ),
        (emitted.id, emitted.seq, "Bestellung", "ä-1", "order.placed")
    );
    let payload: serde_json::Value = event.payload_as().expect("JSON");
    assert_eq!(payload, serde_json::json!({ "total": "19.90", "text": "a\"b\\c\n☃" }));
    assert_eq!(event.headers, [("tenant".to_owned(), "acme".to_owned())].into());
    assert_eq!((event.idempotency_key.as_str(), event.max_attempts), ("the key", Some(3)));
    assert_eq!((event.attempts, event.claims, event.created_at), (0, 0, emitted.created_at));
    assert!(claimed.deliveries().is_empty());
    assert!(claimed.left() > LEASE / 2 && claimed.left() <= LEASE, "{:?} left", claimed.left());
    assert_eq!(Claimed::ticket(&claimed).id, emitted.id);
}
