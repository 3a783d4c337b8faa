//! Payloads, headers and settings come back as they were given.

use std::time::Duration;

use chrono::{DateTime, TimeZone, Utc};
use pillarbox::emit::Emitted;
use pillarbox::{Event, emit, emit_all};
use pillarbox_testkit::conformance::Outbox;
use rust_decimal::Decimal;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::shop::Shop;

/// Emits with this payload, and answers it as a handler sees it.
async fn round_trip<S: Shop, T: DeserializeOwned>(shop: &S, payload: impl Serialize) -> T {
    let outbox: &dyn Outbox = shop;
    outbox.emit_event(Event::new("Order", Uuid::new_v4(), "order.placed").payload(payload)).await;
    let claimed = outbox.claim_one().await;
    let payload = claimed.event().payload_as().unwrap();
    outbox
        .settle(vec![claimed.settle(pillarbox::delivery::Verdict::of(pillarbox::delivery::Change::Deliver, 0))])
        .await;
    payload
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Order {
    id: Uuid,
    at: DateTime<Utc>,
    total: Decimal,
    discount: Option<Decimal>,
}

pub(crate) async fn ids_moments_and_decimals_come_back<S: Shop>(shop: &S) {
    let order = Order {
        id: Uuid::now_v7(),
        at: Utc.with_ymd_and_hms(2024, 2, 29, 23, 59, 59).unwrap() + Duration::from_nanos(123_456_789),
        total: "19.90".parse().unwrap(),
        discount: Some("-0.00000000000000000000000001".parse().unwrap()),
    };
    let back: Order = round_trip(shop, &order).await;
    assert_eq!(back, order);
    assert_eq!(back.total.to_string(), "19.90", "the scale stays");
    let largest = Order { total: Decimal::MAX, discount: None, ..order };
    assert_eq!(round_trip::<_, Order>(shop, &largest).await, largest);
}

pub(crate) async fn numbers_keep_their_digits<S: Shop>(shop: &S) {
    let numbers = [
        "12345678901234567890123456789012345678901234567890.000000000000000000000000000001",
        "19.90",
        "-0.1000",
        "18446744073709551616",
        "9007199254740993",
    ];
    for number in numbers {
        let raw = RawValue::from_string(number.to_owned()).unwrap();
        let back: Box<RawValue> = round_trip(shop, raw).await;
        assert_eq!(back.get(), number);
    }
}

pub(crate) async fn text_comes_back<S: Shop>(shop: &S) {
    let texts =
        ["", "\"", "\\", "\\u0000", "\u{1}\n\t\u{7f}", "☃ é 😀 \u{10ffff}", "'; DROP TABLE outbox_event; --", "$1 ?1"];
    for text in texts {
        assert_eq!(round_trip::<_, String>(shop, text).await, text);
    }
}

pub(crate) async fn a_payload_may_be_any_json<S: Shop>(shop: &S) {
    for payload in [json!(null), json!(true), json!([1, [2], {}]), json!({ "a": { "b": null }, "": [] })] {
        assert_eq!(round_trip::<_, serde_json::Value>(shop, &payload).await, payload);
    }
}

pub(crate) async fn without_a_payload_it_is_an_empty_object<S: Shop>(shop: &S) {
    let outbox: &dyn Outbox = shop;
    outbox.emit_one().await;
    let claimed = outbox.claim_one().await;
    assert_eq!(claimed.event().payload.get(), "{}");
    assert!(claimed.event().headers.is_empty());
    assert_eq!(claimed.event().max_attempts, None);
}

pub(crate) async fn headers_and_limits_come_back<S: Shop>(shop: &S) {
    let outbox: &dyn Outbox = shop;
    let value = "quotes \" and ☃ and \\";
    outbox
        .emit_event(Event::new("Order", 1, "order.placed").header("x-one", value).header("two", "").max_attempts(0))
        .await;
    let claimed = outbox.claim_one().await;
    let event = claimed.event();
    assert_eq!(event.headers, [("two".to_owned(), String::new()), ("x-one".to_owned(), value.to_owned())].into());
    assert_eq!(event.max_attempts, Some(0));
    outbox.emit_event(Event::new("Order", 2, "order.placed").max_attempts(i32::MAX.cast_unsigned())).await;
    assert_eq!(outbox.claim_one().await.event().max_attempts, Some(i32::MAX.cast_unsigned()));
}

pub(crate) async fn deliver_at_is_kept_to_the_millisecond<S: Shop>(shop: &S) {
    let outbox: &dyn Outbox = shop;
    let moment = Utc.with_ymd_and_hms(2099, 12, 31, 23, 59, 59).unwrap() + Duration::from_millis(987);
    let mut tx = shop.begin().await;
    let emitted = emit(&mut tx, Event::new("Order", 1, "order.placed").deliver_at(moment)).await.unwrap();
    S::commit(tx).await;
    assert_eq!(outbox.get(emitted.id).await.event.next_attempt_at, Some(moment));
    assert!(outbox.claim().await.is_empty());
}

/// Nothing becomes due at a moment that claims have passed already.
pub(crate) async fn what_should_have_been_delivered_is_due_now<S: Shop>(shop: &S) {
    let outbox: &dyn Outbox = shop;
    let past = |order| Event::new("Order", order, "order.placed").deliver_at(Utc::now() - Duration::from_secs(3600));
    let mut tx = shop.begin().await;
    let mut emitted = emit_all(&mut tx, [past(1), past(2)]).await.unwrap();
    emitted.push(emit(&mut tx, past(3)).await.unwrap());
    S::commit(tx).await;
    for Emitted { id, created_at, .. } in &emitted {
        assert_eq!(outbox.get(*id).await.event.next_attempt_at, Some(*created_at));
    }
    assert_eq!(outbox.claim().await.len(), 3);
}

/// The limits that are checked before a statement is sent are those of the databases: up to them all is stored.
pub(crate) async fn the_largest_numbers_and_the_deepest_lists_come_back<S: Shop>(shop: &S) {
    let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for text in ["9".repeat(131_072), format!("0.{}1", "0".repeat(16_382)), nested(1000)] {
        let raw = RawValue::from_string(text.clone()).unwrap();
        let emitted = Outbox::emit(shop, vec![Event::new("Order", text.len(), "order.placed").payload(raw)]).await;
        let outbox: &dyn Outbox = shop;
        assert_eq!(outbox.get(emitted[0].id).await.payload.get(), text);
    }
    for text in ["9".repeat(131_073), "1e-16384".to_owned(), nested(1001)] {
        let raw = RawValue::from_string(text).unwrap();
        let mut tx = shop.begin().await;
        let error = emit(&mut tx, Event::new("Order", 1, "order.placed").payload(raw)).await.unwrap_err();
        assert!(error.to_string().contains("which the database cannot store"), "{error}");
        emit(&mut tx, Event::new("Order", 1, "order.placed").repeatable()).await.unwrap();
        S::commit(tx).await;
    }
}
