//! The current OpenTelemetry context travels in the headers.

use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use pillarbox::{Event, emit};
use pillarbox_testkit::conformance::{Outbox, SqliteOutbox};

fn context(state: &[(&str, &str)]) -> Context {
    let span = SpanContext::new(
        TraceId::from_hex("0af7651916cd43dd8448eb211c80319c").unwrap(),
        SpanId::from_hex("b7ad6b7169203331").unwrap(),
        TraceFlags::SAMPLED,
        false,
        TraceState::from_key_value(state.iter().copied()).unwrap(),
    );
    Context::new().with_remote_span_context(span)
}

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[test]
fn the_current_span_is_in_the_headers() {
    let headers = |event: Event| event.prepare().unwrap().headers.unwrap_or_default();
    let _current = context(&[("vendor", "one")]).attach();
    assert_eq!(
        headers(Event::new("Order", 1, "order.placed").header("tenant", "acme")),
        format!(r#"{{"tenant":"acme","traceparent":"{PARENT}","tracestate":"vendor=one"}}"#)
    );
    let own = Event::new("Order", 1, "order.placed").header("traceparent", "mine");
    assert_eq!(headers(own), r#"{"traceparent":"mine"}"#, "a header of one's own stays");
}

#[test]
fn without_a_span_there_are_no_headers() {
    assert_eq!(Event::new("Order", 1, "order.placed").prepare().unwrap().headers, None);
}

#[tokio::test]
async fn the_span_comes_back_with_the_claim() {
    let outbox = SqliteOutbox::create().await;
    let event = {
        let _current = context(&[]).attach();
        let mut tx = outbox.pool().begin().await.unwrap();
        emit(&mut tx, Event::new("Order", 1, "order.placed")).await.unwrap();
        tx.commit().await.unwrap();
        let outbox: &dyn Outbox = &outbox;
        outbox.claim_one().await
    };
    assert_eq!(event.event().headers, [("traceparent".to_owned(), PARENT.to_owned())].into());
}
