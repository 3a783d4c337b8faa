//! Times that no emit writes, put into the tables by somebody else: one row must not blind everybody.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Datelike, Utc};
use pillarbox::store::{Cursor, Filter, Paging, State};
use pillarbox::{Claims, Event, Inspect, StoreError};
use pillarbox_testkit::conformance::outbox::{ASK, deliver};
use pillarbox_testkit::conformance::{Outbox, PostgresOutbox, SqliteOutbox};
use uuid::Uuid;

/// Twice each, so that pages of one end between equal moments.
const POSTGRES_TIMES: [&str; 6] = [
    "-infinity",
    "4713-01-01 00:00:00+00 BC",
    "0001-01-01 00:00:00+00 BC",
    "10000-01-01 00:00:00+00",
    "290000-01-01 00:00:00+00",
    "infinity",
];

/// Of the form that the table's checks want, which is not all there is to a moment.
const SQLITE_TIMES: [&str; 4] =
    ["    -  -  T  :  :  .   Z", "0000-00-00T00:00:00.000Z", "2999-99-99T99:99:99.999Z", "year-mo-daThh:mm:ss.milZ"];

const STATES: [State; 7] =
    [State::Pending, State::Due, State::Scheduled, State::Sending, State::Parked, State::Failed, State::Delivered];

/// An event of each state in each of these times, in every column that holds one.
fn rows(times: &[&str], id: impl Fn(usize) -> String) -> String {
    let states = [
        ("pending", "NULL", false, true),
        ("pending", "'runner'", false, true),
        ("failed", "NULL", false, false),
        ("delivered", "NULL", true, false),
    ];
    let mut statements = String::new();
    let mut number = 0;
    for time in times.iter().chain(times) {
        for (status, parked_on, delivered, waits) in states {
            number += 1;
            let id = id(number);
            let at = |there: bool| if there { format!("'{time}'") } else { "NULL".to_owned() };
            let (delivered, waits) = (at(delivered), at(waits));
            statements += &format!(
                "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, idempotency_key, status, parked_on, \
                   delivered_at, next_attempt_at, created_at, updated_at) \
                 VALUES ('{id}', 'Order', '{number}', 'order.placed', '{number}', '{status}', {parked_on}, {delivered}, \
                   {waits}, '{time}', '{time}'); \
                 INSERT INTO outbox_delivery (event_id, destination, next_attempt_at, delivered_at) \
                 VALUES ('{id}', 'runner', '{time}', '{time}'); \
                 INSERT INTO outbox_attempt (event_id, number, destination, attempted_at, took_ms, error) \
                 VALUES ('{id}', 1, 'runner', '{time}', 1, 'no');"
            );
        }
        statements += &format!(
            "INSERT INTO outbox_relay (id, host, started_at, heartbeat_at) VALUES ('{0}', 'a', '{time}', '{time}'); \
             INSERT INTO outbox_lane (relay_id, destination, paused, down, down_since, probe_at, recovered_at, queued, sending, last_error_at) \
             VALUES ('{0}', 'runner', false, false, '{time}', '{time}', '{time}', 0, 0, '{time}'); \
             INSERT INTO outbox_figure (minute, relay_id, destination, delivered, failed, given_up, latency) \
             VALUES ('{time}', '{0}', 'runner', 1, 1, 1, '[]'); \
             INSERT INTO outbox_paused (destination, paused_at, paused_by) VALUES ('{number}', '{time}', 'ann'); \
             INSERT INTO outbox_audit (done_at, who, what, target) VALUES ('{time}', 'ann', 'retry', 'all');",
            Uuid::from_u128(0x7000_8000_0000_0000_0000 + number as u128)
        );
    }
    statements
}

fn id(number: usize) -> String {
    Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000 + number as u128).to_string()
}

fn readable(moment: DateTime<Utc>) {
    assert!((1..=9999).contains(&moment.year()), "{moment}");
}

/// All that people look at, page by page, and each event once.
async fn people_see_everything(inspect: &dyn Inspect, events: usize) {
    for oldest_first in [true, false] {
        for state in STATES.map(Some).into_iter().chain([None]) {
            let filter = Filter { state, ..Filter::default() };
            let all = inspect.list(&filter, &Paging { limit: 1000, oldest_first, ..Paging::default() }).await.unwrap();
            assert!(all.next.is_none());
            let mut turn = Paging { limit: 1, oldest_first, ..Paging::default() };
            let mut paged = Vec::new();
            loop {
                let page = inspect.list(&filter, &turn).await.unwrap();
                for event in &page.events {
                    readable(event.created_at);
                    event.next_attempt_at.into_iter().for_each(readable);
                }
                paged.extend(page.events.iter().map(|event| event.id));
                assert!(paged.len() <= events, "{state:?} goes round in circles");
                turn.after = page.next;
                if turn.after.is_none() {
                    break;
                }
            }
            assert_eq!(paged, all.events.iter().map(|event| event.id).collect::<Vec<_>>(), "{state:?} {oldest_first}");
            if matches!(state, None | Some(State::Pending)) {
                assert_eq!(paged.len(), if state.is_none() { events } else { events / 2 }, "{state:?}");
            }
            for id in paged {
                let detail = inspect.get(id).await.unwrap().unwrap();
                detail.deliveries[0].next_attempt_at.into_iter().for_each(readable);
                readable(detail.failed_attempts[0].attempted_at);
                inspect.neighbours(id).await.unwrap();
            }
        }
    }
    assert_eq!(inspect.find("7").await.unwrap().events.len(), 1);
    let counts = inspect.counts().await.unwrap();
    assert_eq!(counts.delivered + counts.failed, events as u64 / 2);
    inspect.depth().await.unwrap();
    inspect.dead_letters(&Filter::default(), Utc::now() - Duration::from_secs(3600)).await.unwrap();
    inspect.dead_letters(&Filter::default(), DateTime::<Utc>::MIN_UTC).await.unwrap();
    let long_ago =
        Filter { since: Some(DateTime::<Utc>::MIN_UTC), until: Some(DateTime::<Utc>::MAX_UTC), ..Filter::default() };
    inspect.list(&long_ago, &Paging::default()).await.unwrap();
    inspect.minutes(DateTime::<Utc>::MIN_UTC).await.unwrap();
    assert_eq!(inspect.relays().await.unwrap().len(), events / 4);
    assert_eq!(inspect.pauses().await.unwrap().len(), events / 4);
    assert_eq!(inspect.audit(None, 1000).await.unwrap().len(), events / 4);
    let existing = Event::new("Order", 7, "order.placed").idempotency_key("7");
    assert!(!inspect.emit_once(existing).await.unwrap().is_new);
}

#[tokio::test]
async fn rows_of_any_time_are_read_on_postgres() {
    let outbox = PostgresOutbox::create().await;
    outbox.execute(&rows(&POSTGRES_TIMES, id)).await;
    people_see_everything(outbox.postgres(), POSTGRES_TIMES.len() * 8).await;
    let outbox: &dyn Outbox = &outbox;
    let claim = outbox.claim_with(ASK).await;
    assert_eq!(claim.len(), 6);
    outbox.settle(claim.into_iter().map(deliver).collect()).await;
    next_is_far(outbox).await;
}

#[tokio::test]
async fn rows_of_any_time_are_read_on_sqlite() {
    let outbox = SqliteOutbox::create().await;
    outbox.execute(&rows(&SQLITE_TIMES, id)).await;
    let outbox: &dyn Outbox = &outbox;
    people_see_everything(&*outbox.inspect(), SQLITE_TIMES.len() * 8).await;
    let claim = outbox.claim_with(ASK).await;
    assert_eq!(claim.len(), 4);
    outbox.settle(claim.into_iter().map(deliver).collect()).await;
    next_is_far(outbox).await;
}

/// What is left is due in more than a lifetime, and holds up nobody.
async fn next_is_far(outbox: &dyn Outbox) {
    let store = outbox.store();
    store.sweep().await.unwrap();
    let wait = store.next_due().await.unwrap().unwrap();
    assert!(wait > Duration::from_secs(600), "{wait:?}");
    outbox.emit_one().await;
    let claimed = outbox.claim_one().await;
    outbox.settle(vec![deliver(claimed)]).await;
    assert!(store.unpark("runner", None, 1000).await.unwrap() > 0);
    let claim = outbox.claim_with(ASK).await;
    assert!(!claim.is_empty());
    outbox.settle(claim.into_iter().map(deliver).collect()).await;
}

/// Infinity alone: the interval until then is infinite, too, where the server has such.
#[tokio::test]
async fn an_infinite_wait_is_a_long_one() {
    let outbox = PostgresOutbox::create().await;
    outbox
        .execute(
            "INSERT INTO outbox_event (aggregate_type, aggregate_id, event_type, idempotency_key, next_attempt_at) \
         VALUES ('Order', '1', 'order.placed', '1', 'infinity')",
        )
        .await;
    let wait = outbox.postgres().next_due().await.unwrap().unwrap();
    assert!(wait > Duration::from_secs(86_400) && std::time::Instant::now().checked_add(wait).is_some(), "{wait:?}");
}

/// A cursor is what people send: one whose moment no store has is refused, and never an error of the database.
#[tokio::test]
async fn a_cursor_of_any_moment_is_read_or_refused() {
    let (postgres, sqlite) = (PostgresOutbox::create().await, SqliteOutbox::create().await);
    postgres.execute(&rows(&POSTGRES_TIMES, id)).await;
    sqlite.execute(&rows(&SQLITE_TIMES, id)).await;
    let states = [("w", State::Pending), ("f", State::Failed), ("d", State::Delivered)];
    let marks = [
        "",
        "0",
        "x",
        "2026-02-25T12:34:56.789Z",
        "9223372036854775807",
        "9223372036854775806",
        "-9223372036854775808",
        "\u{10ffff}",
    ];
    for (kind, state) in states {
        for mark in marks {
            let text = serde_json::json!({ kind: [mark, 1] }).to_string();
            let cursor: Cursor = URL_SAFE_NO_PAD.encode(text).parse().unwrap();
            let filter = Filter { state: Some(state), ..Filter::default() };
            for inspect in [Outbox::inspect(&postgres), Outbox::inspect(&sqlite)] {
                let page = inspect.list(&filter, &Paging::default().after(cursor.clone())).await;
                assert!(matches!(page, Ok(_) | Err(StoreError::BadCursor(_))), "{state:?} {mark}: {page:?}");
            }
        }
    }
}
