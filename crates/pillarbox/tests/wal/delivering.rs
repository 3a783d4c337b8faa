//! Deliveries from the log: no row is written, nothing that was rolled back is sent, and nothing before other sessions see it.

use pillarbox::{Event, OnDelivered, RelaySettings, emit_all};
use pillarbox_testkit::wait_until;
use sqlx::Connection;

use super::fixture::{Outbox, PATIENCE, Place, impatient, set};

#[tokio::test]
async fn events_are_delivered_without_a_row_and_confirmed() {
    let outbox = Outbox::new().await;
    let place = Place::fine();
    let relay = outbox.relay(&place).await;
    let inserted = "SELECT coalesce(sum(n_tup_ins), 0)::bigint FROM pg_stat_user_tables WHERE relname = 'outbox_event'";
    let mut ids = outbox.emit(1).await;
    ids.extend(outbox.emit(10).await);
    for _ in 0..50 {
        ids.extend(outbox.emit(2).await);
    }
    place.gets(&ids).await;
    assert_eq!(place.got().len(), ids.len(), "each once");
    outbox.is_drained().await;
    let metrics = relay.stop().await;
    assert_eq!((metrics.delivered, metrics.spilled), (ids.len() as u64, 0));
    // The server's statistics come with a delay; the statistics of nothing stay 0.
    let rows: i64 = sqlx::query_scalar(inserted).fetch_one(&outbox.pool).await.unwrap();
    assert_eq!(rows, 0);
    let seq: Option<i64> = sqlx::query_scalar("SELECT pg_sequence_last_value('outbox_event_seq_seq')")
        .fetch_one(&outbox.pool)
        .await
        .unwrap();
    assert_eq!(seq, None, "no row was ever inserted");
    assert!(!outbox.is_open().await, "a relay that has stopped leaves the gate closed");
}

#[tokio::test]
async fn what_was_rolled_back_is_never_sent() {
    let outbox = Outbox::new().await;
    let place = Place::fine();
    let relay = outbox.relay(&place).await;
    let mut connection = outbox.pool.acquire().await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    outbox.emit_in(&mut tx, 3).await;
    tx.rollback().await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    let mut ids = outbox.emit_in(&mut tx, 1).await;
    let mut savepoint = tx.begin().await.unwrap();
    outbox.emit_in(&mut savepoint, 5).await;
    savepoint.rollback().await.unwrap();
    let mut savepoint = tx.begin().await.unwrap();
    ids.extend(outbox.emit_in(&mut savepoint, 1).await);
    savepoint.commit().await.unwrap();
    ids.extend(outbox.emit_in(&mut tx, 1).await);
    tx.commit().await.unwrap();
    place.gets(&ids).await;
    outbox.is_drained().await;
    relay.stop().await;
    assert_eq!(place.got(), ids, "in their order, and nothing else");
}

#[tokio::test]
async fn delivered_events_are_kept_where_that_is_wanted() {
    let outbox = Outbox::new().await;
    let place = Place::fine();
    let relay = outbox.start(&place, RelaySettings { on_delivered: OnDelivered::Keep, ..impatient() }).await;
    outbox.gate_is(true).await;
    let ids = outbox.emit(20).await;
    place.gets(&ids).await;
    outbox.is_drained().await;
    let metrics = relay.stop().await;
    assert_eq!((metrics.delivered, metrics.spilled), (20, 0));
    let kept = "SELECT count(*) FROM outbox_event WHERE status = 'delivered' AND delivered_at IS NOT NULL AND attempts = 0 \
                AND headers = '{\"tenant\": \"acme\"}' AND payload ? 'n' AND id = ANY ($1) AND idempotency_key = id::text";
    let kept: i64 = sqlx::query_scalar(kept).bind(&ids).fetch_one(&outbox.pool).await.unwrap();
    assert_eq!(kept, 20);
}

#[tokio::test]
async fn events_of_the_table_are_delivered_beside_those_of_the_log() {
    let outbox = Outbox::new().await;
    let place = Place::fine();
    let relay = outbox.relay(&place).await;
    let mut ids = Vec::new();
    for place in 0..20 {
        let emitted =
            sqlx::query_scalar("SELECT outbox_emit('Order', $1, 'order.kept', deliver_at => clock_timestamp())");
        ids.push(emitted.bind(place.to_string()).fetch_one(&outbox.pool).await.unwrap());
        ids.extend(outbox.emit(5).await);
    }
    place.gets(&ids).await;
    relay.stop().await;
}

/// With a synchronous standby that does not confirm, a commit is in the log long before other sessions see it.
#[tokio::test]
async fn nothing_is_sent_before_other_sessions_see_it() {
    let outbox = Outbox::new().await;
    let place = Place::fine();
    let relay = outbox.relay(&place).await;
    set(&outbox.pool, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'").await;
    wait_until("commits wait for the standby", PATIENCE, async || {
        let names: String = sqlx::query_scalar("SHOW synchronous_standby_names").fetch_one(&outbox.pool).await.unwrap();
        names == "nobody"
    })
    .await;
    // Commits wait only after the checkpointer has read the setting, too, which it does before it begins a checkpoint.
    for _ in 0..2 {
        sqlx::query("CHECKPOINT").execute(&outbox.pool).await.unwrap();
    }
    let mut tx = outbox.pool.begin().await.unwrap();
    let ids = outbox.emit_in(&mut tx, 3).await;
    let committing = tokio::spawn(async move {
        tx.commit().await.unwrap();
    });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    wait_until("the commit waits", PATIENCE, async || {
        sqlx::query_scalar::<_, i64>(waits).fetch_one(&outbox.pool).await.unwrap() > 0
    })
    .await;
    let end: String =
        sqlx::query_scalar("SELECT pg_current_wal_flush_lsn()::text").fetch_one(&outbox.pool).await.unwrap();
    let read = "SELECT coalesce(max(write_lsn) >= $1::pg_lsn, false) FROM pg_stat_replication";
    wait_until("the relay has read the commit", PATIENCE, async || {
        sqlx::query_scalar(read).bind(&end).fetch_one(&outbox.pool).await.unwrap()
    })
    .await;
    assert!(!committing.is_finished());
    assert!(place.got().is_empty(), "the commit is not visible");
    set(&outbox.pool, "ALTER SYSTEM RESET synchronous_standby_names").await;
    place.gets(&ids).await;
    committing.await.unwrap();
    assert_eq!(place.got(), ids);
    relay.stop().await;
}

/// The way of an application: emit, and nothing in the table. Afterwards the log is disabled while the relay runs.
#[tokio::test]
async fn emits_of_an_application_go_through_the_log_until_it_is_disabled() {
    let outbox = Outbox::new().await;
    let place = Place::fine();
    let relay = outbox.relay(&place).await;
    let emit = async |count: usize| {
        let mut tx = outbox.pool.begin().await.unwrap();
        let events =
            (0..count).map(|n| Event::new("Order", n, "order.placed").payload([n]).header("a", "é").repeatable());
        let emitted = emit_all(&mut tx, events).await.unwrap();
        tx.commit().await.unwrap();
        emitted.into_iter().map(|emitted| emitted.id).collect::<Vec<_>>()
    };
    let mut ids = Vec::new();
    for count in [1, 2, 30] {
        ids.extend(emit(count).await);
    }
    place.gets(&ids).await;
    assert_eq!(place.got(), ids);
    assert_eq!(relay.metrics().delivered, 33, "none of them had a row");
    assert!(relay.store.table().log_disable(&mut |_| {}).await.unwrap());
    let more = emit(2).await;
    place.gets(&more).await;
    let metrics = relay.stop().await;
    assert_eq!((metrics.delivered, metrics.spilled, metrics.leads), (33, 0, false), "the others were in the table");
    let slots: i64 =
        sqlx::query_scalar("SELECT count(*) FROM pg_replication_slots").fetch_one(&outbox.pool).await.unwrap();
    assert_eq!(slots, 0);
}
