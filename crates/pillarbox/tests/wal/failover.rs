//! Failover: a primary on PostgreSQL 18 and a standby that copies the slot. The standby is promoted under load, and the relay reads on.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pillarbox::store::Level;
use pillarbox::store::postgres::{LogStatus, PostgresStore};
use pillarbox::{Event, SendError, emit_all};
use pillarbox_testkit::{PrivatePostgres, wait_until};
use sqlx::postgres::PgPool;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::fixture::{LOGICAL, Outbox, PATIENCE, Place, Running, SLOT, set};

/// The physical slot of the standby.
const STANDBY: &str = "standby";
const WRITERS: usize = 4;

/// A primary whose log is enabled, and its standby. Commits wait for the standby, and the log is sent when the standby has it.
struct Pair {
    outbox: Outbox,
    standby: PrivatePostgres,
}

impl Pair {
    async fn new() -> Self {
        let outbox = Outbox::on(PrivatePostgres::start_version(18, &LOGICAL).await).await;
        let standby = outbox.server.start_standby_with_slots(STANDBY, None).await;
        Self { outbox, standby }
    }

    /// Returns a URL with both servers, the standby first: it is refused.
    fn url(&self) -> String {
        let (one, other) = (self.standby.port(), self.outbox.server.port());
        format!("postgres://postgres@127.0.0.1:{one},127.0.0.1:{other}/postgres?target_session_attrs=read-write")
    }

    async fn relay(&self, place: &Place) -> Running {
        Running::to(self.outbox.store_at(&self.url()).await, place)
    }

    async fn pool_of_the_standby(&self) -> PgPool {
        PgPool::connect(&self.standby.url()).await.unwrap()
    }

    /// Waits until the standby has a copy of the slot that survives a promotion.
    async fn is_copied(&self) {
        let there = self.pool_of_the_standby().await;
        let copied = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = $1 AND synced AND NOT temporary";
        wait_until("the slot is synchronised", PATIENCE, async || {
            // The standby needs to see what is in progress on the primary.
            sqlx::raw_sql("SELECT pg_log_standby_snapshot()").execute(&self.outbox.pool).await.unwrap();
            sqlx::query_scalar::<_, i64>(copied).bind(SLOT).fetch_one(&there).await.unwrap() == 1
        })
        .await;
    }
}

/// Applications that emit through the gate without a break.
struct Writers {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<(HashSet<Uuid>, HashSet<Uuid>)>>,
}

impl Writers {
    fn start(store: &PostgresStore) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let write = |_| tokio::spawn(write(store.clone(), Arc::clone(&stop)));
        Self { tasks: (0..WRITERS).map(write).collect(), stop }
    }

    /// Returns the events whose commit was confirmed, and all that may have been committed.
    async fn stop(self) -> (HashSet<Uuid>, HashSet<Uuid>) {
        self.stop.store(true, Ordering::Relaxed);
        let (mut committed, mut tried) = (HashSet::new(), HashSet::new());
        for task in self.tasks {
            let (some, all) = task.await.unwrap();
            committed.extend(some);
            tried.extend(all);
        }
        (committed, tried)
    }
}

async fn write(store: PostgresStore, stop: Arc<AtomicBool>) -> (HashSet<Uuid>, HashSet<Uuid>) {
    let (mut committed, mut tried) = (HashSet::new(), HashSet::new());
    for round in 0_usize.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let ids = async {
            let mut tx = store.pool().begin().await.ok()?;
            let events = (0..=round % 3).map(|place| Event::new("Order", place, "order.placed").repeatable());
            let ids: Vec<Uuid> = emit_all(&mut tx, events).await.ok()?.into_iter().map(|event| event.id).collect();
            tried.extend(ids.iter().copied());
            tx.commit().await.ok().map(|()| ids)
        };
        match ids.await {
            Some(ids) => committed.extend(ids),
            // No primary at the moment.
            None => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
    (committed, tried)
}

async fn status(store: &PostgresStore) -> LogStatus {
    store.log_status().await.unwrap().unwrap()
}

/// Returns the text of the worst finding about the log, if it is bad.
async fn bad(store: &PostgresStore) -> Option<String> {
    let findings = status(store).await.findings();
    findings.into_iter().find(|finding| finding.level == Level::Bad).map(|finding| finding.found)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_standby_with_the_slot_is_read_on_and_nothing_is_lost() {
    let mut pair = Pair::new().await;
    let primary = pair.outbox.pool.clone();
    set(&primary, "ALTER SYSTEM SET synchronized_standby_slots = 'standby'").await;
    set(&primary, "ALTER SYSTEM SET synchronous_standby_names = 'walreceiver'").await;
    let there = pair.pool_of_the_standby().await;
    // As if it were inherited: after the promotion, no such slot exists.
    set(&there, "ALTER SYSTEM SET synchronized_standby_slots = 'standby'").await;
    let place = Place::fine();
    let relay = pair.relay(&place).await;
    pair.outbox.gate_is(true).await;
    let table = relay.store.table().clone();
    let writers = Writers::start(&table);
    pair.is_copied().await;
    let copy = PostgresStore::connect(&pair.standby.url(), "public").await.unwrap();
    let findings = status(&copy).await.findings();
    assert!(findings[0].level == Level::Good && findings[0].found.contains("synchronised up to"), "{findings:?}");
    wait_until("events went through the log", PATIENCE, async || relay.metrics().delivered > 200).await;
    let findings = status(&table).await.findings();
    assert!(findings.iter().all(|finding| finding.level != Level::Bad), "{findings:?}");

    pair.outbox.server.kill().await;
    pair.standby.promote().await;
    wait_until("the relay says what the server waits for", PATIENCE, async || {
        relay.metrics().closed.is_some_and(|reason| reason.contains("synchronized_standby_slots names standby"))
    })
    .await;
    let found = bad(&table).await.unwrap();
    assert!(found.contains("synchronized_standby_slots names standby, which does not exist"), "{found}");
    let arrived = place.got_once().len();
    wait_until("events go through the table meanwhile", PATIENCE, async || place.got_once().len() > arrived + 50).await;
    set(&there, "ALTER SYSTEM RESET synchronized_standby_slots").await;
    let before = relay.metrics().delivered;
    let reads_on = async || relay.metrics().delivered > before + 200;
    wait_until("events go through the log of the promoted server", PATIENCE, reads_on).await;

    let (committed, tried) = writers.stop().await;
    let committed: Vec<Uuid> = committed.into_iter().collect();
    place.gets(&committed).await;
    let invented: Vec<Uuid> = place.got_once().into_iter().filter(|id| !tried.contains(id)).collect();
    assert!(invented.is_empty(), "{invented:?}");
    let now = status(&table).await;
    assert_eq!((now.is_here, now.is_synced), (true, Some(true)), "{now:?}");
    relay.stop().await;

    // As if the promoted server had not got the last writes of the relay.
    sqlx::raw_sql("UPDATE outbox_log SET confirmed = '0/1'").execute(&there).await.unwrap();
    let relay = pair.relay(&place).await;
    wait_until("the relay says what is at risk", PATIENCE, async || {
        relay.metrics().closed.is_some_and(|reason| {
            reason.contains("a promoted standby, before the last writes of the relay")
                && reason.contains("events that were committed between 0/1 and ")
        })
    })
    .await;
    relay.stop().await;
}

/// The standby has the events, but not the rows of the table into which they were spilled afterwards, and not the later position.
#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_standby_without_the_last_spill_sends_its_events_again() {
    let mut pair = Pair::new().await;
    let primary = pair.outbox.pool.clone();
    let there = pair.pool_of_the_standby().await;
    let place = Place::fine();
    let relay = pair.relay(&place).await;
    pair.outbox.gate_is(true).await;
    pair.is_copied().await;
    sqlx::raw_sql("ALTER TABLE outbox_event ADD CONSTRAINT refused CHECK (false) NOT VALID")
        .execute(&primary)
        .await
        .unwrap();
    place.now(|_| Err(SendError::retry("not now")));
    let ids = pair.outbox.emit(5).await;
    wait_until("they were tried", PATIENCE, async || place.asked() >= 5).await;
    let end: String = sqlx::query_scalar("SELECT pg_current_wal_insert_lsn()::text").fetch_one(&primary).await.unwrap();
    let replayed = "SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn";
    wait_until("the standby has them", PATIENCE, async || {
        sqlx::query_scalar(replayed).bind(&end).fetch_one(&there).await.unwrap()
    })
    .await;
    set(&there, "ALTER SYSTEM SET primary_conninfo = ''").await;
    wait_until("the standby is cut off", PATIENCE, async || {
        let receivers = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM pg_stat_wal_receiver");
        receivers.fetch_one(&there).await.unwrap() == 0
    })
    .await;
    sqlx::raw_sql("ALTER TABLE outbox_event DROP CONSTRAINT refused").execute(&primary).await.unwrap();
    wait_until("they are in the table of the primary", PATIENCE, async || {
        pair.outbox.rows().await.get("pending") == Some(&5)
    })
    .await;
    pair.outbox.is_drained().await;

    pair.outbox.server.kill().await;
    pair.standby.promote().await;
    sqlx::raw_sql("ALTER TABLE outbox_event DROP CONSTRAINT refused").execute(&there).await.unwrap();
    place.now(|_| Ok(()));
    place.gets(&ids).await;
    relay.stop().await;
}

/// `*` would make the relay a synchronous standby: commits would wait for it, and it waits until they are visible.
#[tokio::test]
async fn no_commit_waits_for_the_relay() {
    let mut outbox = Outbox::new().await;
    // There is no standby that the relay's own commits could wait for.
    set(&outbox.pool, "ALTER SYSTEM SET synchronous_commit = 'local'").await;
    outbox.server.restart_immediate().await;
    outbox.connect_again().await;
    let place = Place::fine();
    let relay = outbox.relay(&place).await;
    set(&outbox.pool, "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'").await;
    wait_until("the relay says why it does not read", PATIENCE, async || {
        relay.metrics().closed.is_some_and(|reason| reason.contains("synchronous_standby_names matches the relay"))
    })
    .await;
    outbox.gate_is(false).await;
    let streams = "SELECT count(*) FROM pg_stat_replication";
    wait_until("it is not connected", PATIENCE, async || {
        sqlx::query_scalar::<_, i64>(streams).fetch_one(&outbox.pool).await.unwrap() == 0
    })
    .await;
    let found = bad(relay.store.table()).await.unwrap();
    assert!(found.contains("commits would wait for it"), "{found}");
    set(&outbox.pool, "ALTER SYSTEM SET synchronous_standby_names = ''").await;
    outbox.gate_is(true).await;
    let ids = outbox.emit(3).await;
    place.gets(&ids).await;
    relay.stop().await;
}
