//! Order when the database's clock was set back: what was emitted before that is due in the future, and was still first.

use pillarbox::store::{Ask, Claim};
use pillarbox::{Event, OnFailed, Order};
use pillarbox_testkit::conformance::outbox::ASK;
use pillarbox_testkit::conformance::{Outbox, PostgresOutbox, SqliteOutbox};
use uuid::Uuid;

const ORDERED: Ask<'static> = Ask { order: Order::Aggregate(OnFailed::Block), ..ASK };

const POSTGRES_STEP: &str = "UPDATE outbox_event SET created_at = created_at + interval '1 hour', \
     updated_at = updated_at + interval '1 hour', next_attempt_at = next_attempt_at + interval '1 hour'";
const SQLITE_STEP: &str = "UPDATE outbox_event SET created_at = strftime('%Y-%m-%dT%H:%M:%fZ', created_at, '+1 hour'), \
     updated_at = strftime('%Y-%m-%dT%H:%M:%fZ', updated_at, '+1 hour'), \
     next_attempt_at = strftime('%Y-%m-%dT%H:%M:%fZ', next_attempt_at, '+1 hour')";

fn of(aggregate: &str) -> Event {
    Event::new("Account", aggregate, "account.changed").repeatable()
}

fn ids(claim: &Claim) -> Vec<Uuid> {
    claim.iter().map(|claimed| claimed.event().id).collect()
}

/// Events of three aggregates before the clock is set back, and one of each after that.
async fn before(outbox: &dyn Outbox) {
    outbox.emit_event(of("given back")).await;
    drop(outbox.claim_with(ORDERED).await);
    // The claim is given back by a task of the store's.
    pillarbox_testkit::wait_until("it is given back", std::time::Duration::from_secs(30), async || {
        outbox.store().remaining().await.unwrap() == 1
    })
    .await;
    outbox.emit_event(of("untouched")).await;
    outbox.emit_event(of("delayed").deliver_at(outbox.now().await + std::time::Duration::from_secs(60))).await;
}

async fn after(outbox: &dyn Outbox) {
    let mut free = Vec::new();
    for aggregate in ["given back", "untouched", "delayed"] {
        let emitted = outbox.emit_event(of(aggregate)).await;
        if aggregate == "delayed" {
            free.push(emitted.id);
        }
    }
    assert_eq!(ids(&outbox.claim_with(ORDERED).await), free, "what was emitted first waits for the clock");
}

#[tokio::test]
async fn what_was_emitted_before_the_clock_was_set_back_is_sent_first_on_postgres() {
    let outbox = PostgresOutbox::create().await;
    before(&outbox).await;
    outbox.execute(POSTGRES_STEP).await;
    after(&outbox).await;
}

#[tokio::test]
async fn what_was_emitted_before_the_clock_was_set_back_is_sent_first_where_claims_are_held_by_locks() {
    let outbox = PostgresOutbox::create().await;
    before(&outbox).await;
    outbox.execute(POSTGRES_STEP).await;
    outbox.postgres().hold_from_now_on();
    after(&outbox).await;
}

#[tokio::test]
async fn what_was_emitted_before_the_clock_was_set_back_is_sent_first_on_sqlite() {
    let outbox = SqliteOutbox::create().await;
    before(&outbox).await;
    outbox.execute(SQLITE_STEP).await;
    after(&outbox).await;
}

/// A plain INSERT asks the clock for each of its columns.
#[tokio::test]
async fn what_a_plain_insert_delays_holds_up_nobody() {
    let outbox = PostgresOutbox::create().await;
    outbox
        .execute(
            "INSERT INTO outbox_event (aggregate_type, aggregate_id, event_type, idempotency_key, next_attempt_at) \
             VALUES ('Account', 'a', 'account.changed', '1', clock_timestamp() + interval '1 hour')",
        )
        .await;
    let outbox: &dyn Outbox = &outbox;
    let emitted = outbox.emit_event(of("a")).await;
    assert_eq!(ids(&outbox.claim_with(ORDERED).await), [emitted.id]);
}
