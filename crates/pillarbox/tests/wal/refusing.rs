//! Messages that are not events, and slots that do not have everything.

use pillarbox_testkit::{PrivatePostgres, wait_until};
use sqlx::postgres::PgPool;

use super::fixture::{Outbox, PATIENCE, Place, create_slot, set};

#[tokio::test]
async fn forged_messages_are_ignored_and_unreadable_ones_are_dead_letters() {
    let outbox = Outbox::new().await;
    let place = Place::fine();
    let relay = outbox.relay(&place).await;
    let ours = format!("pillarbox:{}", outbox.secret);
    outbox.message("pillarbox:0123456789abcdef", "1{}").await;
    outbox.message("pillarbox:", "1{}").await;
    outbox.message("debezium", "heartbeat").await;
    sqlx::query("SELECT pg_logical_emit_message(false, $1, '1{}')").bind(&ours).execute(&outbox.pool).await.unwrap();
    outbox.message(&ours, "1{\"id\": 7}").await;
    outbox.message(&ours, "2{}").await;
    outbox.message(&ours, "").await;
    let ids = outbox.emit(2).await;
    place.gets(&ids).await;
    outbox.is_drained().await;
    let metrics = relay.stop().await;
    assert_eq!((metrics.forged, metrics.unreadable, metrics.delivered), (3, 3, 2));
    assert_eq!(place.got(), ids);
    let letters = "SELECT error_message, payload->>'content' FROM outbox_event WHERE status = 'failed' AND aggregate_type = \
                   'pillarbox' AND event_type = 'unreadable' ORDER BY seq";
    let letters: Vec<(String, String)> = sqlx::query_as(letters).fetch_all(&outbox.pool).await.unwrap();
    let contents: Vec<&str> = letters.iter().map(|(_, content)| content.as_str()).collect();
    assert_eq!(contents, ["1{\"id\": 7}", "2{}", ""]);
    assert!(letters[1].0.contains("its format is '2'"), "{letters:?}");
}

#[tokio::test]
async fn a_slot_that_is_gone_or_was_created_again_closes_the_gate_and_names_the_range() {
    let outbox = Outbox::new().await;
    let place = Place::fine();
    let relay = outbox.relay(&place).await;
    let ids = outbox.emit(1).await;
    place.gets(&ids).await;
    let drop_slot = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active_pid IS NOT NULL; \
                     SELECT pg_drop_replication_slot('pillarbox_log')";
    wait_until("the slot is dropped", PATIENCE, async || sqlx::raw_sql(drop_slot).execute(&outbox.pool).await.is_ok())
        .await;
    let says = async |text: &str| {
        wait_until("the relay says what is wrong", PATIENCE, async || {
            relay.metrics().closed.is_some_and(|reason| reason.contains(text))
        })
        .await;
    };
    says("does not exist: events that were committed between").await;
    outbox.gate_is(false).await;
    // Committed while no slot keeps the log.
    outbox.emit(1).await;
    create_slot(&outbox.pool).await;
    says("was created again or moved by another program: events that were committed between").await;
    assert!(!outbox.is_open().await);
    relay.stop().await;
}

#[tokio::test]
async fn a_relay_waits_until_the_log_is_enabled() {
    let outbox = Outbox::new().await;
    sqlx::raw_sql("CREATE TABLE kept AS SELECT * FROM outbox_log; DELETE FROM outbox_log")
        .execute(&outbox.pool)
        .await
        .unwrap();
    let place = Place::fine();
    let relay = outbox.start(&place, super::fixture::impatient()).await;
    let emit = "SELECT outbox_emit('Order', '1', 'order.placed')";
    let id: uuid::Uuid = sqlx::query_scalar(emit).fetch_one(&outbox.pool).await.unwrap();
    place.gets(&[id]).await;
    assert!(!relay.metrics().leads);
    sqlx::raw_sql("INSERT INTO outbox_log SELECT * FROM kept").execute(&outbox.pool).await.unwrap();
    relay.leads().await;
    outbox.gate_is(true).await;
    relay.stop().await;
}

/// The log is enabled only with a limit, but a limit can be removed.
#[tokio::test]
async fn without_a_limit_of_the_log_the_gate_stays_closed() {
    let server = PrivatePostgres::start_with(&[("fsync", "off"), ("wal_level", "logical")]).await;
    let pool = PgPool::connect(&server.url()).await.unwrap();
    set(&pool, "ALTER SYSTEM SET max_slot_wal_keep_size = '1GB'").await;
    wait_until("there is a limit", PATIENCE, async || {
        sqlx::query_scalar::<_, String>("SHOW max_slot_wal_keep_size").fetch_one(&pool).await.unwrap() == "1GB"
    })
    .await;
    let outbox = Outbox::on(server).await;
    set(&pool, "ALTER SYSTEM RESET max_slot_wal_keep_size").await;
    let place = Place::fine();
    let relay = outbox.start(&place, super::fixture::impatient()).await;
    wait_until("the relay says why", PATIENCE, async || {
        relay.metrics().closed.is_some_and(|reason| reason.contains("max_slot_wal_keep_size has no limit"))
    })
    .await;
    assert!(!outbox.is_open().await);
    relay.stop().await;
}
