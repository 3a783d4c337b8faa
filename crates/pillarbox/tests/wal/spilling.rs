//! Spills: whatever is not delivered at once goes into the table, once, and never comes back from the log.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::source::wal::{WalSettings, WalStore};
use pillarbox::store::postgres::PostgresStore;
use pillarbox::store::{Ask, Claimed, Claims, Order};
use pillarbox::{Destination, Relay, RelaySettings, SendError};
use pillarbox_testkit::proxy::Proxy;
use pillarbox_testkit::wait_until;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor};
use tokio::sync::Mutex;

use super::fixture::{Outbox, PATIENCE, Place, impatient};

/// A commit that stores a position together with new rows says how durable it is, and waits for the test.
const WATCH_SPILLS: &str = "
    CREATE TABLE spills (durable text);
    CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF EXISTS (SELECT FROM outbox_event WHERE xmin = pg_current_xact_id()::xid) THEN
            INSERT INTO spills VALUES (current_setting('synchronous_commit'));
            PERFORM pg_advisory_xact_lock_shared(7);
        END IF;
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER watch AFTER UPDATE ON outbox_log DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION watch();
";

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
    let destination = Destination::new("place", place.clone()).timeout(Duration::from_secs(10));
    let relay = Relay::builder(Arc::new(store.clone())).settings(impatient()).destination(destination);
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

/// The log is read again from a position before events that are delivered and kept. A destination that had them fails now.
#[tokio::test]
async fn a_kept_event_that_is_read_again_gets_no_open_delivery() {
    let outbox = Outbox::new().await;
    let copy = "SELECT pg_copy_logical_replication_slot('pillarbox_log', 'before')";
    outbox.pool.execute(copy).await.unwrap();
    let (one, other) = (Place::fine(), Place::fine());
    let start = async || {
        let store = outbox.store().await;
        let settings = RelaySettings { on_delivered: pillarbox::OnDelivered::Keep, ..impatient() };
        let relay = Relay::builder(Arc::new(store.clone())).settings(settings);
        let relay = relay.destination(Destination::new("one", one.clone()).timeout(Duration::from_secs(1)));
        let relay = relay.destination(Destination::new("other", other.clone()).timeout(Duration::from_secs(1)));
        super::fixture::Running::start(
            store,
            relay.route(pillarbox::Route::new("*", ["one", "other"])).build().unwrap(),
        )
    };
    let relay = start().await;
    outbox.gate_is(true).await;
    let ids = outbox.emit(5).await;
    other.gets(&ids).await;
    wait_until("they are kept", PATIENCE, async || outbox.rows().await.get("delivered") == Some(&5)).await;
    relay.stop().await;

    outbox.pool.execute("UPDATE outbox_log SET slot = 'before', confirmed = NULL").await.unwrap();
    other.now(|_| Err(SendError::unavailable("nobody is there")));
    let relay = start().await;
    wait_until("it is asked again", PATIENCE, async || other.asked() > 5).await;
    outbox.is_drained().await;
    relay.stop().await;
    assert_eq!(outbox.rows().await.get("delivered"), Some(&5));
    let open = "SELECT (SELECT count(*) FROM outbox_delivery), (SELECT count(*) FROM outbox_attempt)";
    let open: (i64, i64) = sqlx::query_as(open).fetch_one(&outbox.pool).await.unwrap();
    assert_eq!(open, (0, 0), "deliveries and attempts of events that are delivered");
}

/// The connection of a dead leader that had begun to insert a large transaction: its host hangs, and so the server keeps it.
#[tokio::test]
async fn a_large_transaction_of_a_leader_that_hangs_does_not_block_the_next_one() {
    let outbox = Outbox::new().await;
    outbox.relay(&Place::fine()).await.stop().await;
    let ids = outbox.emit(3000).await;
    let mut dead = PgConnection::connect(&outbox.server.url()).await.unwrap();
    let pour = include_str!("../../sql/postgres/log_pour.sql");
    dead.execute("BEGIN").await.unwrap();
    sqlx::query(pour).bind(super::fixture::SLOT).execute(&mut dead).await.unwrap();
    let insert = "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, idempotency_key) VALUES ($1, 'Order', '1', \
                  'order.placed', $1::text)";
    sqlx::query(insert).bind(ids[7]).execute(&mut dead).await.unwrap();
    let place = Place::fine();
    let relay = outbox.relay(&place).await;
    place.gets(&ids).await;
    assert!(dead.execute("SELECT 1").await.is_err(), "its connection was ended");
    relay.stop().await;
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

/// Waits until a session waits for a lock: of this type, and in a statement like this.
async fn waits(outbox: &Outbox, lock: &str, statement: &str) {
    let waiting = format!(
        "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = '{lock}' AND query LIKE '{statement}')"
    );
    wait_until("a session waits for a lock", PATIENCE, async || {
        sqlx::query_scalar(AssertSqlSafe(waiting.clone())).fetch_one(&outbox.pool).await.unwrap()
    })
    .await;
}

/// The server forgets the log behind a spill, so each spill waits for the disk, also one that settles events of an earlier spill whose
/// result was unknown. A settle alone need not wait.
#[tokio::test]
async fn a_spill_that_settles_events_of_an_earlier_one_waits_for_the_disk() {
    let outbox = Outbox::new().await;
    let proxy = Proxy::before_postgres(&outbox.server.url()).await;
    let table = PostgresStore::connect(&proxy.url(&outbox.server.url()), "public").await.unwrap();
    let store =
        WalStore::new(table, WalSettings { url: Some(outbox.server.url()), lease: PATIENCE, ..WalSettings::default() });
    // The relay does not run: the test claims.
    let idle = Relay::builder(Arc::new(store.clone())).destination(Destination::new("place", Place::fine()));
    let idle = idle.build().unwrap();
    store.wake(idle.waker()).await.unwrap();
    let [first, second] = [outbox.emit(1).await[0], outbox.emit(1).await[0]];
    let held: Mutex<Vec<Claimed>> = Mutex::default();
    wait_until("both are claimed", PATIENCE, async || {
        let claim = store.claim(Ask::new(2, 1 << 20, PATIENCE)).await.unwrap();
        held.lock().await.extend(claim);
        held.lock().await.len() == 2
    })
    .await;
    let held = held.into_inner();
    assert_eq!([held[0].ticket().id, held[1].ticket().id], [first, second]);

    sqlx::raw_sql(WATCH_SPILLS).execute(&outbox.pool).await.unwrap();
    let mut lock = PgConnection::connect(&outbox.server.url()).await.unwrap();
    lock.execute("SELECT pg_advisory_lock(7)").await.unwrap();
    let (ticket, renewing) = (held[0].ticket(), store.clone());
    let renewed = tokio::spawn(async move { renewing.renew(&[ticket], PATIENCE).await });
    waits(&outbox, "advisory", "%").await;
    drop(held);
    // The first spill is written, but the store does not hear of it.
    proxy.cut();
    waits(&outbox, "transactionid", "%FOR UPDATE OF outbox_log%").await;
    proxy.cut();
    assert!(renewed.await.unwrap().is_err());
    lock.execute("SELECT pg_advisory_unlock(7)").await.unwrap();
    wait_until("both are due in the table", PATIENCE, async || {
        let due = "SELECT count(*) = 2 FROM outbox_event WHERE status = 'pending' AND claimed_by IS NULL";
        sqlx::query_scalar(due).fetch_one(&outbox.pool).await.unwrap()
    })
    .await;
    let durable: Vec<String> = sqlx::query_scalar("SELECT durable FROM spills").fetch_all(&outbox.pool).await.unwrap();
    assert_eq!(durable, ["on", "on"]);
}
