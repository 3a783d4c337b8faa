//! Spills: whatever is not delivered at once goes into the table, once, and never comes back from the log.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::Order;
use pillarbox::{RelaySettings, SendError};
use pillarbox_testkit::wait_until;

use super::fixture::{Outbox, PATIENCE, Place, impatient};

#[tokio::test]
async fn a_failed_attempt_spills_and_is_retried_from_the_table() {
    let outbox = Outbox::new().await;
    let place = Place::that(|message| {
        let fails = message.payload.get().contains("2") && message.attempt() < 3;
        if fails { Err(SendError::retry("not now")) } else { Ok(()) }
    });
    let relay = outbox.relay(&place).await;
    let ids = outbox.emit(5).await;
    place.gets(&ids).await;
    outbox.is_drained().await;
    wait_until("its row is gone", PATIENCE, async || outbox.rows().await.is_empty()).await;
    let metrics = relay.stop().await;
    assert_eq!(metrics.delivered, 4);
    assert_eq!(metrics.spilled, 1);
    assert_eq!((place.got().len(), place.asked()), (5, 7), "two attempts failed, and nothing was sent twice");
}

#[tokio::test]
async fn a_rejected_event_is_a_dead_letter_with_its_attempt() {
    let outbox = Outbox::new().await;
    let place = Place::that(|_| Err(SendError::reject("never")));
    let relay = outbox.relay(&place).await;
    let ids = outbox.emit(1).await;
    wait_until("it is a dead letter", PATIENCE, async || outbox.rows().await.get("failed") == Some(&1)).await;
    relay.stop().await;
    let letter: (uuid::Uuid, String, i32) =
        sqlx::query_as("SELECT id, error_message, attempts FROM outbox_event").fetch_one(&outbox.pool).await.unwrap();
    assert_eq!(letter, (ids[0], "never".to_owned(), 1));
    let attempts: i64 = sqlx::query_scalar("SELECT count(*) FROM outbox_attempt WHERE event_id = $1 AND number = 1")
        .bind(ids[0])
        .fetch_one(&outbox.pool)
        .await
        .unwrap();
    assert_eq!(attempts, 1);
}

#[tokio::test]
async fn an_outage_parks_in_the_table_and_does_not_hold_the_log() {
    let outbox = Outbox::new().await;
    let place = Place::that(|_| Err(SendError::unavailable("nobody is there")));
    let relay = outbox.relay(&place).await;
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.extend(outbox.emit(50).await);
    }
    outbox.is_drained().await;
    assert_eq!(outbox.rows().await.get("pending"), Some(&1000), "all of them are in the table");
    place.now(|_| Ok(()));
    place.gets(&ids).await;
    wait_until("the table is empty", PATIENCE, async || outbox.rows().await.is_empty()).await;
    relay.stop().await;
    assert_eq!(place.got().len(), 1000, "each once");
}

#[tokio::test]
async fn a_slow_send_is_leased_in_the_table_and_delivered_once() {
    let outbox = Outbox::new().await;
    let place = Place::fine();
    place.takes(Duration::from_secs(3));
    let store = outbox.store().await;
    let destination = pillarbox::Destination::new("place", place.clone()).timeout(Duration::from_secs(10));
    let relay = pillarbox::Relay::builder(Arc::new(store.clone())).settings(impatient()).destination(destination);
    let relay = relay.route(pillarbox::Route::new("*", ["place"])).build().unwrap();
    let relay = super::fixture::Running::start(store, relay);
    outbox.gate_is(true).await;
    let ids = outbox.emit(3).await;
    // The timeout is longer than the leader's lease, so the events get leases in the table before they are sent.
    wait_until("they are leased", PATIENCE, async || outbox.rows().await.get("pending") == Some(&3)).await;
    let leased: i64 = sqlx::query_scalar("SELECT count(*) FROM outbox_event WHERE claimed_by IS NOT NULL")
        .fetch_one(&outbox.pool)
        .await
        .unwrap();
    assert_eq!(leased, 3);
    outbox.is_drained().await;
    place.gets(&ids).await;
    wait_until("the table is empty", PATIENCE, async || outbox.rows().await.is_empty()).await;
    relay.stop().await;
    assert_eq!(place.got().len(), 3, "each once");
}

#[tokio::test]
async fn a_large_transaction_is_spilled_whole() {
    let outbox = Outbox::new().await;
    let place = Place::fine();
    let relay = outbox.relay(&place).await;
    let mut ids = outbox.emit(3).await;
    ids.extend(outbox.emit(30_000).await);
    ids.extend(outbox.emit(3).await);
    place.gets(&ids).await;
    outbox.is_drained().await;
    wait_until("the table is empty", PATIENCE, async || outbox.rows().await.is_empty()).await;
    let metrics = relay.stop().await;
    assert!(metrics.spilled >= 30_000, "{metrics:?}");
    assert_eq!(place.got().len(), ids.len(), "each once");
}

#[tokio::test]
async fn a_spilled_event_that_was_deleted_does_not_come_again() {
    let mut outbox = Outbox::new().await;
    let place = Place::that(|message| if message.attempt() == 1 { Err(SendError::retry("no")) } else { Ok(()) });
    let relay = outbox.relay(&place).await;
    let ids = outbox.emit(200).await;
    place.gets(&ids).await;
    wait_until("the table is empty", PATIENCE, async || outbox.rows().await.is_empty()).await;
    // A commit that waits for the disk, so that the crash does not undo the deletes before it, which do not wait.
    sqlx::raw_sql("CREATE TABLE flushed ()").execute(&outbox.pool).await.unwrap();
    // The server forgets whatever it had not written of the slot, and the relay begins again.
    outbox.server.restart_immediate().await;
    outbox.connect_again().await;
    let more = outbox.emit(5).await;
    place.gets(&more).await;
    relay.stop().await;
    let relay = outbox.relay(&place).await;
    let last = outbox.emit(5).await;
    place.gets(&last).await;
    relay.stop().await;
    assert_eq!(place.got().len(), ids.len() + more.len() + last.len(), "each once");
}

#[tokio::test]
async fn while_spills_are_refused_reading_stops_and_that_is_visible() {
    let outbox = Outbox::new().await;
    let place = Place::that(|_| Err(SendError::reject("never")));
    let relay = outbox.relay(&place).await;
    sqlx::raw_sql("ALTER TABLE outbox_event ADD CONSTRAINT refused CHECK (false) NOT VALID")
        .execute(&outbox.pool)
        .await
        .unwrap();
    let ids = outbox.emit(5).await;
    wait_until("the relay says so", PATIENCE, async || {
        relay.metrics().closed.is_some_and(|reason| reason.contains("cannot be written into the table"))
    })
    .await;
    outbox.gate_is(false).await;
    let closed: String = sqlx::query_scalar("SELECT closed FROM outbox_log").fetch_one(&outbox.pool).await.unwrap();
    assert!(closed.contains("refused"), "{closed}");
    sqlx::raw_sql("ALTER TABLE outbox_event DROP CONSTRAINT refused").execute(&outbox.pool).await.unwrap();
    wait_until("they are dead letters", PATIENCE, async || outbox.rows().await.get("failed") == Some(&5)).await;
    outbox.gate_is(true).await;
    relay.stop().await;
    let failed: Vec<uuid::Uuid> =
        sqlx::query_scalar("SELECT id FROM outbox_event ORDER BY seq").fetch_all(&outbox.pool).await.unwrap();
    assert_eq!(failed, ids);
}

#[tokio::test]
async fn with_an_order_the_gate_stays_closed_and_the_log_is_spilled() {
    let outbox = Outbox::new().await;
    let place = Place::fine();
    // Written while another configuration was in force.
    let ids = outbox.emit(10).await;
    let settings = RelaySettings { order: Order::Aggregate(pillarbox::store::OnFailed::Block), ..impatient() };
    let relay = outbox.start(&place, settings).await;
    place.gets(&ids).await;
    assert!(!outbox.is_open().await);
    let metrics = relay.stop().await;
    assert_eq!((metrics.spilled, metrics.delivered), (10, 0));
}
