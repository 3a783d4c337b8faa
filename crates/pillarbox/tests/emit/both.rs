//! What emit, emit_once and emit_all promise, on any database.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::check::{Check, Checked, Violation};
use pillarbox::event::InvalidEvent;
use pillarbox::{EmitError, Event, Status, emit, emit_all, emit_once};
use pillarbox_testkit::conformance::Outbox;

use crate::shop::Shop;

fn placed(order: i64) -> Event {
    Event::new("Order", order, "order.placed")
}

fn assert_duplicate(error: &EmitError, of_type: &str, of_key: &str) {
    let EmitError::Duplicate { event_type, idempotency_key } = error else { panic!("{error:?}") };
    assert_eq!((event_type.as_str(), idempotency_key.as_str()), (of_type, of_key));
    let text = error.to_string();
    assert!(text.contains(of_type) && text.contains(of_key) && text.contains("Event::repeatable()"), "{text}");
}

pub(crate) async fn the_answer_is_the_event_as_written<S: Shop>(shop: &S) {
    let before = shop.now().await - Duration::from_millis(1);
    let mut tx = shop.begin().await;
    let first = emit(&mut tx, placed(1)).await.unwrap();
    let second = emit(&mut tx, placed(2)).await.unwrap();
    S::commit(tx).await;
    assert_eq!(first.id.get_version_num(), 7);
    assert_eq!((first.event_type.as_str(), first.idempotency_key.as_str()), ("order.placed", "Order:1"));
    assert_eq!((first.status, first.is_new), (Status::Pending, true));
    assert!(second.seq > first.seq);
    assert!(before <= first.created_at && first.created_at <= second.created_at);
    assert!(second.created_at <= shop.now().await);
    let outbox: &dyn Outbox = shop;
    assert_eq!(Some(outbox.get(first.id).await.event.seq), first.seq);
}

pub(crate) async fn data_and_event_share_one_fate<S: Shop>(shop: &S) {
    for (order, commits) in [(1, true), (2, false), (3, true)] {
        let mut tx = shop.begin().await;
        S::place(&mut tx, order).await;
        emit(&mut tx, placed(order)).await.unwrap();
        emit_once(&mut tx, placed(order + 100)).await.unwrap();
        emit_all(&mut tx, [placed(order + 200)]).await.unwrap();
        if commits { S::commit(tx).await } else { S::roll_back(tx).await }
    }
    let mut dropped = shop.begin().await;
    emit(&mut dropped, placed(9)).await.unwrap();
    drop(dropped);
    assert_eq!((shop.orders().await, shop.events().await), (2, 6));
}

pub(crate) async fn a_duplicate_names_both_and_leaves_the_transaction_usable<S: Shop>(shop: &S) {
    let mut tx = shop.begin().await;
    emit(&mut tx, placed(1)).await.unwrap();
    S::commit(tx).await;

    let mut tx = shop.begin().await;
    S::place(&mut tx, 1).await;
    assert_duplicate(&emit(&mut tx, placed(1)).await.unwrap_err(), "order.placed", "Order:1");
    S::place(&mut tx, 2).await;
    emit(&mut tx, placed(2)).await.unwrap();
    assert_duplicate(&emit(&mut tx, placed(2)).await.unwrap_err(), "order.placed", "Order:2");
    S::commit(tx).await;
    assert_eq!((shop.orders().await, shop.events().await), (2, 2));
}

pub(crate) async fn another_type_or_key_is_no_duplicate<S: Shop>(shop: &S) {
    let mut tx = shop.begin().await;
    emit(&mut tx, placed(1)).await.unwrap();
    emit(&mut tx, Event::new("Order", 1, "order.paid")).await.unwrap();
    emit(&mut tx, placed(1).idempotency_key("again")).await.unwrap();
    let error = emit(&mut tx, Event::new("File", 7, "order.placed").idempotency_key("again")).await.unwrap_err();
    assert_duplicate(&error, "order.placed", "again");
    S::commit(tx).await;
    assert_eq!(shop.events().await, 3);
}

pub(crate) async fn repeatable_is_never_a_duplicate<S: Shop>(shop: &S) {
    let mut tx = shop.begin().await;
    for _ in 0..3 {
        let emitted = emit(&mut tx, placed(1).repeatable()).await.unwrap();
        assert_eq!(emitted.idempotency_key, emitted.id.to_string());
    }
    emit_all(&mut tx, (0..3).map(|_| placed(1).repeatable())).await.unwrap();
    S::commit(tx).await;
    assert_eq!(shop.events().await, 6);
}

pub(crate) async fn emit_once_answers_the_existing_event<S: Shop>(shop: &S) {
    let mut tx = shop.begin().await;
    let first = emit_once(&mut tx, placed(1)).await.unwrap();
    assert!(first.is_new);
    S::commit(tx).await;
    let outbox: &dyn Outbox = shop;
    outbox.claim_and_settle(pillarbox::delivery::Change::Deliver).await;

    let mut tx = shop.begin().await;
    S::place(&mut tx, 1).await;
    let again = emit_once(&mut tx, placed(1).payload("another")).await.unwrap();
    S::commit(tx).await;
    assert_eq!((again.id, again.seq, again.created_at), (first.id, first.seq, first.created_at));
    assert_eq!((again.is_new, again.status), (false, Status::Delivered));
    assert_eq!((shop.orders().await, shop.events().await), (1, 1));
}

pub(crate) async fn emit_all_keeps_the_order<S: Shop>(shop: &S) {
    let orders = [30, 4, 200, 1, 77];
    let mut tx = shop.begin().await;
    let emitted = emit_all(&mut tx, orders.map(placed)).await.unwrap();
    S::commit(tx).await;
    let keys: Vec<&str> = emitted.iter().map(|emitted| emitted.idempotency_key.as_str()).collect();
    assert_eq!(keys, ["Order:30", "Order:4", "Order:200", "Order:1", "Order:77"]);
    assert!(emitted.is_sorted_by(|one, next| one.seq < next.seq));
    assert!(emitted.iter().all(|emitted| emitted.is_new && emitted.status == Status::Pending));
    let outbox: &dyn Outbox = shop;
    let claimed: Vec<_> = outbox.claim().await.iter().map(|claimed| Some(claimed.event().seq)).collect();
    assert_eq!(claimed, emitted.iter().map(|emitted| emitted.seq).collect::<Vec<_>>());
}

pub(crate) async fn emit_all_of_nothing_is_nothing<S: Shop>(shop: &S) {
    let mut tx = shop.begin().await;
    assert_eq!(emit_all(&mut tx, []).await.unwrap(), []);
    S::commit(tx).await;
}

pub(crate) async fn emit_all_with_an_existing_key_writes_none<S: Shop>(shop: &S) {
    let mut tx = shop.begin().await;
    emit(&mut tx, placed(2)).await.unwrap();
    S::commit(tx).await;

    let mut tx = shop.begin().await;
    S::place(&mut tx, 1).await;
    emit(&mut tx, placed(10)).await.unwrap();
    let error = emit_all(&mut tx, [1, 2, 3].map(placed)).await.unwrap_err();
    assert_duplicate(&error, "order.placed", "Order:2");
    S::place(&mut tx, 2).await;
    emit_all(&mut tx, [4, 5].map(placed)).await.unwrap();
    S::commit(tx).await;
    assert_eq!((shop.orders().await, shop.events().await), (2, 4));
}

pub(crate) async fn emit_all_with_a_repeated_key_writes_none<S: Shop>(shop: &S) {
    let mut tx = shop.begin().await;
    let error = emit_all(&mut tx, [1, 2, 1].map(placed)).await.unwrap_err();
    assert_duplicate(&error, "order.placed", "Order:1");
    S::place(&mut tx, 1).await;
    S::commit(tx).await;
    assert_eq!((shop.orders().await, shop.events().await), (1, 0));
}

pub(crate) async fn a_refused_event_leaves_the_transaction_usable<S: Shop>(shop: &S) {
    let mut tx = shop.begin().await;
    S::place(&mut tx, 1).await;
    let error = emit(&mut tx, placed(1).payload("a\0b")).await.unwrap_err();
    assert!(matches!(error, EmitError::Invalid(_)), "{error:?}");
    let error = emit_all(&mut tx, [placed(1), placed(2).payload("x".repeat(2_000_000))]).await.unwrap_err();
    assert!(error.to_string().contains("the limit is 1048576"), "{error}");
    emit(&mut tx, placed(1)).await.unwrap();
    S::commit(tx).await;
    assert_eq!((shop.orders().await, shop.events().await), (1, 1));
}

/// Refuses payloads without a total.
struct Total;

impl Check for Total {
    fn check(&self, event: &Checked<'_>) -> Result<(), Violation> {
        if event.payload.contains("total") { Ok(()) } else { Err(Violation::new("payload.total: it is missing")) }
    }
}

pub(crate) async fn an_event_that_violates_a_check_leaves_the_transaction_usable<S: Shop>(shop: &S) {
    let outbox = pillarbox::Outbox::new().checking(Arc::new(Total));
    let good = |number| placed(number).payload(serde_json::json!({ "total": 1 }));
    let mut tx = shop.begin().await;
    S::place(&mut tx, 1).await;
    let error = outbox.emit(&mut tx, placed(1).payload("nothing")).await.unwrap_err();
    assert!(matches!(error, EmitError::Invalid(InvalidEvent::Violation(_))), "{error:?}");
    assert_eq!(error.to_string(), "the event was not emitted: payload.total: it is missing");
    let error = outbox.emit_all(&mut tx, [good(2), placed(3).payload("nothing")]).await.unwrap_err();
    assert!(matches!(error, EmitError::Invalid(InvalidEvent::Violation(_))), "{error:?}");
    outbox.emit(&mut tx, good(1)).await.unwrap();
    S::commit(tx).await;
    assert_eq!((shop.orders().await, shop.events().await), (1, 1));
}
