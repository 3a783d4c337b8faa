//! Messages that are not events, and slots that do not have everything.

use std::time::Duration;

use pillarbox::source::wal::WalSettings;
use pillarbox::store::Level;
use pillarbox::store::postgres::{LogError, LogSettings};
use pillarbox::{Event, Inspect};
use pillarbox_testkit::{PrivatePostgres, wait_until};
use sqlx::postgres::PgPool;

use super::fixture::{LOGICAL, Outbox, PATIENCE, Place, Running, create_slot, set};

/// Waits until the leader says why the gate is closed.
async fn says(relay: &Running, text: &str) {
    wait_until("the relay says what is wrong", PATIENCE, async || {
        relay.metrics().closed.is_some_and(|reason| reason.contains(text))
    })
    .await;
}

/// Returns what `doctor` finds bad about the log.
async fn bad(relay: &Running) -> Vec<String> {
    let status = relay.store.table().log_status().await.unwrap().unwrap();
    let findings = status.findings().into_iter().filter(|finding| finding.level == Level::Bad);
    findings.map(|finding| format!("{}: {}", finding.found, finding.fix)).collect()
}

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
    says(&relay, "does not exist: events that were committed between").await;
    outbox.gate_is(false).await;
    let found = bad(&relay).await;
    assert!(
        found[0].starts_with("the replication slot pillarbox_log does not exist; events in the log behind"),
        "{found:?}"
    );
    // Committed while no slot keeps the log.
    outbox.emit(1).await;
    create_slot(&outbox.pool).await;
    says(&relay, "was created again or moved by another program: events that were committed between").await;
    assert!(!outbox.is_open().await);
    let found = bad(&relay).await;
    assert!(found[0].contains("was created again or moved by another program; events in the log between"), "{found:?}");
    let table = relay.store.table();
    let refused = table.log_disable(&mut |_| {}).await.unwrap_err().to_string();
    assert!(refused.contains("created again") && refused.contains("--force --yes"), "{refused}");
    assert!(!Inspect::log(table).await.unwrap().unwrap().is_whole);
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

#[tokio::test]
async fn the_gate_closes_before_the_limit_of_the_log_is_reached() {
    let settings = [&LOGICAL[..2], &[("max_slot_wal_keep_size", "64MB"), ("min_wal_size", "32MB")]].concat();
    let outbox = Outbox::on(PrivatePostgres::start_with(&settings).await).await;
    let place = Place::fine();
    let relay = outbox.relay(&place).await;
    // A transaction that is open: the server keeps the log from its first write.
    let mut open = outbox.pool.begin().await.unwrap();
    let ids = outbox.emit_in(&mut open, 1).await;
    let noise = "SELECT pg_logical_emit_message(false, 'noise', repeat('x', 1000000))";
    let left = "SELECT safe_wal_size FROM pg_replication_slots WHERE slot_name = 'pillarbox_log'";
    let left = async || sqlx::query_scalar::<_, i64>(left).fetch_one(&outbox.pool).await.unwrap();
    while left().await >= 16 << 20 {
        sqlx::raw_sql(noise).execute(&outbox.pool).await.unwrap();
    }
    says(&relay, "less than a quarter of max_slot_wal_keep_size is left").await;
    outbox.gate_is(false).await;
    open.commit().await.unwrap();
    place.gets(&ids).await;
    // The server forgets the log at checkpoints, and the slot moves with what is logged.
    wait_until("the gate is open again", PATIENCE, async || {
        sqlx::raw_sql("CHECKPOINT").execute(&outbox.pool).await.unwrap();
        outbox.is_open().await
    })
    .await;
    relay.stop().await;
    assert_eq!(place.got(), ids);
}

#[tokio::test]
async fn a_slot_that_the_server_has_given_up_closes_the_gate_until_a_person_begins_again() {
    let limits = [("max_slot_wal_keep_size", "16MB"), ("min_wal_size", "32MB"), ("max_wal_size", "32MB")];
    let settings = [&LOGICAL[..2], &limits].concat();
    let outbox = Outbox::on(PrivatePostgres::start_with(&settings).await).await;
    let place = Place::fine();
    let relay = outbox.relay(&place).await;
    let ids = outbox.emit(1).await;
    place.gets(&ids).await;
    relay.stop().await;
    // Nobody reads it, and the server keeps too much for the slot.
    outbox.emit(1).await;
    let more = "SELECT pg_logical_emit_message(false, 'noise', ''); SELECT pg_switch_wal(); CHECKPOINT";
    let lost = "SELECT wal_status = 'lost' FROM pg_replication_slots";
    wait_until("the slot is lost", PATIENCE, async || {
        sqlx::raw_sql(more).execute(&outbox.pool).await.unwrap();
        sqlx::query_scalar(lost).fetch_one(&outbox.pool).await.unwrap()
    })
    .await;
    let relay = outbox.start(&place, super::fixture::impatient()).await;
    says(&relay, "has lost its log: events that were committed between").await;
    assert!(!outbox.is_open().await);
    let found = bad(&relay).await;
    let text = "the replication slot pillarbox_log is lost: the server has removed log that it needs; events in the log behind";
    assert!(found[0].starts_with(text) && found[0].contains("pillarbox wal disable --force"), "{found:?}");
    let event = || Event::new("Order", 1, "order.placed").repeatable();
    let emitted = relay.store.table().emit(event()).await.unwrap();
    assert!(emitted.seq.is_some(), "it is in the table");
    place.gets(&[emitted.id]).await;

    let table = relay.store.table();
    let refused = table.log_enable(&LogSettings::default(), &mut |_| {}).await.unwrap_err();
    let LogError::Refused(why) = refused else { panic!("{refused:?}") };
    assert!(why.contains("its replication slot is lost"), "{why}");
    assert!(table.log_disable_now().await.unwrap());
    table.log_enable(&LogSettings::default(), &mut |_| {}).await.unwrap();
    outbox.gate_is(true).await;
    let emitted = table.emit(event()).await.unwrap();
    assert!(emitted.seq.is_none(), "it is in the log");
    place.gets(&[emitted.id]).await;
    relay.stop().await;
}

/// With a lower `wal_level` a message is written and nobody can read it.
#[tokio::test]
async fn a_server_whose_wal_level_was_lowered_does_not_start_until_the_slot_is_dropped_and_then_uses_the_table() {
    let mut outbox = Outbox::on(PrivatePostgres::start_with(&LOGICAL).await).await;
    let place = Place::fine();
    outbox.relay(&place).await.stop().await;
    outbox.server.stop().await;
    outbox.server.change("wal_level", "replica");
    let log = outbox.server.refuse_to_start().await;
    assert!(log.contains("logical replication slot \"pillarbox_log\" exists, but"), "{log}");
    outbox.server.change("wal_level", "logical");
    outbox.server.start_again().await;
    outbox.connect_again().await;
    sqlx::raw_sql("SELECT pg_drop_replication_slot('pillarbox_log')").execute(&outbox.pool).await.unwrap();
    outbox.server.stop().await;
    outbox.server.change("wal_level", "replica");
    outbox.server.start_again().await;
    outbox.connect_again().await;

    // A gate that was left open.
    sqlx::raw_sql("SELECT setval('outbox_log_until', 9999999999)").execute(&outbox.pool).await.unwrap();
    let store = outbox.store().await;
    let event = Event::new("Order", 1, "order.placed").repeatable();
    let emitted = store.table().emit(event).await.unwrap();
    assert!(emitted.seq.is_some(), "it is in the table");
    let relay = outbox.start(&place, super::fixture::impatient()).await;
    place.gets(&[emitted.id]).await;
    says(&relay, "wal_level is replica; set it to logical and restart the server").await;
    outbox.gate_is(false).await;
    let found = bad(&relay).await;
    assert!(found[0].contains("wal_level is replica: events in the log could not be read"), "{found:?}");
    assert!(found[1].contains("does not exist; events in the log behind"), "{found:?}");
    relay.stop().await;
}

/// Before version 17 a promoted standby has no slot, and so none of the events that are only in the log.
#[tokio::test]
async fn a_standby_that_does_not_copy_the_slot_closes_the_gate_unless_the_loss_is_accepted() {
    let outbox = Outbox::on(PrivatePostgres::start_version(14, &LOGICAL).await).await;
    let place = Place::fine();
    let relay = outbox.relay(&place).await;
    let _standby = outbox.server.start_standby().await;
    says(&relay, "source.accept_failover_loss = true").await;
    outbox.gate_is(false).await;
    relay.stop().await;
    let accepting = WalSettings { lease: Duration::from_secs(4), accept_failover_loss: true, ..WalSettings::default() };
    let relay = Running::to(outbox.store_with(accepting).await, &place);
    outbox.gate_is(true).await;
    let ids = outbox.emit(1).await;
    place.gets(&ids).await;
    assert_eq!(relay.stop().await.delivered, 1);
}
