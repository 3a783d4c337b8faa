//! What no database would store is refused before any statement is sent.

use chrono::{DateTime, TimeDelta, Utc};
use pillarbox::emit::{Emitted, Transaction};
use pillarbox::error::DriverError;
use pillarbox::{EmitError, Event, NewEvent, emit, emit_all, emit_once};

/// A transaction on which nothing may be sent.
struct Untouched;

impl Transaction for Untouched {
    async fn insert(&mut self, rows: &[NewEvent]) -> Result<Vec<Emitted>, DriverError> {
        panic!("{} rows were sent", rows.len());
    }

    async fn find(&mut self, event_type: &str, _key: &str) -> Result<Option<Emitted>, DriverError> {
        panic!("{event_type} was looked for");
    }

    async fn run(&mut self, statement: &'static str) -> Result<(), DriverError> {
        panic!("{statement} was sent");
    }
}

/// Every way of emitting refuses it, in the same words.
async fn refused(event: impl Fn() -> Event, expected: &str) {
    let errors = [
        emit(&mut Untouched, event()).await.unwrap_err(),
        emit_once(&mut Untouched, event()).await.unwrap_err(),
        emit_all(&mut Untouched, [Event::new("Order", 1, "fine"), event()]).await.unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, EmitError::Invalid(_)), "{error:?}");
        assert!(error.to_string().starts_with("the event was not emitted: "), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a_nul_character_is_refused_before_any_statement() {
    refused(|| Event::new("Order", 1, "t").payload("a\0b"), "payload contains a NUL character").await;
    refused(|| Event::new("Order", 1, "t").header("h", "\0"), "headers contains a NUL character").await;
    refused(|| Event::new("Order", "1\0", "t"), "aggregate_id contains a NUL character").await;
    refused(|| Event::new("Order", 1, "t").idempotency_key("\0"), "idempotency_key contains a NUL character").await;
}

#[tokio::test]
async fn what_is_too_long_or_empty_is_refused_before_any_statement() {
    refused(|| Event::new("O".repeat(101), 1, "t"), "aggregate_type has 101 characters, the limit is 100").await;
    refused(|| Event::new("Order", 1, ""), "event_type is empty").await;
    refused(|| Event::new("Order", 1, "t").payload("x".repeat(1024 * 1024)), "1048578 bytes of JSON").await;
    refused(|| Event::new("Order", 1, "t").max_attempts(u32::MAX), "max_attempts is 4294967295").await;
}

#[tokio::test]
async fn a_moment_that_is_too_far_ahead_is_refused_before_any_statement() {
    let event = |moment: DateTime<Utc>| Event::new("Order", 1, "t").deliver_at(moment);
    refused(|| event(DateTime::<Utc>::MAX_UTC), "the limit is 100 years from now").await;
    refused(|| event(Utc::now() + TimeDelta::days(36_600)), "the limit is 100 years from now").await;
}

#[tokio::test]
async fn the_type_of_recorded_tasks_is_refused_before_any_statement() {
    refused(|| Event::new("celery", 1, "orders.process"), "reserved for recorded Celery tasks").await;
}
