//! Enabling and disabling the write-ahead log as the outbox.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::store::postgres::{LogError, LogSettings, LogStatus, LogWait, OutboxTable, PostgresStore};
use pillarbox::store::{Inspect, Level, Role};
use pillarbox_testkit::{PrivatePostgres, TestDatabase, wait_until};
use sqlx::postgres::{PgConnection, PgPool};
use sqlx::{AssertSqlSafe, Connection, Executor};

const PATIENCE: Duration = Duration::from_secs(60);

async fn outbox(url: &str) -> PostgresStore {
    let store = PostgresStore::connect(url, "public").await.unwrap();
    store.migrate().await.unwrap();
    store
}

async fn enable(store: &PostgresStore) -> Result<LogStatus, LogError> {
    store.log_enable(&LogSettings::default(), &mut |_| {}).await
}

fn refusal(refused: Result<impl Sized, LogError>) -> String {
    match refused.err() {
        Some(LogError::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

async fn execute(pool: &PgPool, statement: &str) {
    pool.execute(sqlx::raw_sql(AssertSqlSafe(statement.to_owned()))).await.unwrap();
}

async fn count(pool: &PgPool, from: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(format!("SELECT count(*) FROM {from}"))).fetch_one(pool).await.unwrap()
}

/// What a relay says when it has delivered everything that is in the log now.
async fn confirm(pool: &PgPool) {
    let lead = "UPDATE outbox_log SET leader = gen_random_uuid(), leader_until = clock_timestamp() + interval '10 s', \
                confirmed = pg_current_wal_insert_lsn()";
    execute(pool, lead).await;
}

#[tokio::test]
async fn it_is_enabled_and_disabled() {
    let server = PrivatePostgres::start_logical().await;
    let store = outbox(&server.url()).await;
    assert!(store.log_status().await.unwrap().is_none());
    assert!(!store.log_disable(&mut |_| {}).await.unwrap(), "it was not enabled");

    let status = enable(&store).await.unwrap();
    assert_eq!((status.slot.as_str(), status.has_slot, status.is_open), ("pillarbox_public_postgres", true, false));
    assert_eq!((status.is_led, status.is_here, status.leaving, status.epoch), (false, true, false, 0));
    assert!(status.confirmed.is_some() && status.keep_bytes == Some(256 << 20), "{status:?}");
    let shown = serde_json::to_string(&status).unwrap();
    let secret: String = sqlx::query_scalar("SELECT secret FROM outbox_log_key").fetch_one(store.pool()).await.unwrap();
    assert!(secret.len() == 32 && !shown.contains(&secret) && !format!("{status:?}").contains(&secret));
    assert_eq!(count(store.pool(), "pg_publication WHERE pubname = 'pillarbox_public_postgres'").await, 1);
    assert_eq!(enable(&store).await.unwrap().enabled_at, status.enabled_at, "nothing is done twice");
    let findings = store.examine().await.unwrap();
    let log = findings.iter().find(|finding| finding.about == "log").unwrap();
    assert!(log.level == Level::Bad && log.found.contains("no relay reads the log"), "{log:?}");

    // A relay that delivers, until the log is taken from it.
    let pool = store.pool().clone();
    let relay = tokio::spawn(async move {
        loop {
            confirm(&pool).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    execute(store.pool(), "SELECT setval('outbox_log_until', 9999999999)").await;
    assert!(store.log_disable(&mut |_| {}).await.unwrap());
    relay.abort();
    assert!(store.log_status().await.unwrap().is_none());
    for empty in ["outbox_log", "outbox_log_key", "pg_replication_slots", "pg_publication"] {
        assert_eq!(count(store.pool(), empty).await, 0, "{empty}");
    }
    let gate: i64 =
        sqlx::query_scalar("SELECT last_value FROM outbox_log_until").fetch_one(store.pool()).await.unwrap();
    assert_eq!(gate, 0);
    let settings = LogSettings { slot: Some("again".to_owned()), size_limit: 100, ..LogSettings::default() };
    let status = store.log_enable(&settings, &mut |_| {}).await.unwrap();
    assert_eq!((status.slot.as_str(), status.size_limit), ("again", Some(100)));
}

#[tokio::test]
async fn a_server_that_would_lose_events_or_its_disk_is_refused() {
    let database = TestDatabase::create().await;
    let store = outbox(&database.url()).await;
    let why = refusal(enable(&store).await);
    assert!(why.starts_with("wal_level is replica") && why.contains("ALTER SYSTEM SET wal_level = 'logical'"), "{why}");
    store.pool().close().await;
    database.close().await;

    let server = PrivatePostgres::start_with(&[("fsync", "off"), ("wal_level", "logical")]).await;
    let store = outbox(&server.url()).await;
    let why = refusal(enable(&store).await);
    assert!(why.contains("ALTER SYSTEM SET max_slot_wal_keep_size"), "{why}");
    execute(store.pool(), "ALTER SYSTEM SET max_slot_wal_keep_size = '1GB'").await;
    execute(store.pool(), "SELECT pg_reload_conf()").await;
    wait_until("the server has the limit", PATIENCE, async || {
        sqlx::query_scalar::<_, String>("SHOW max_slot_wal_keep_size").fetch_one(store.pool()).await.unwrap() == "1GB"
    })
    .await;

    // Each refusal leaves nothing behind.
    execute(store.pool(), "SELECT pg_create_physical_replication_slot('pillarbox_public_postgres')").await;
    let why = refusal(enable(&store).await);
    assert!(why.contains("exists already") && why.contains("--slot"), "{why}");
    assert_eq!(count(store.pool(), "pg_publication").await, 0);
    execute(store.pool(), "CREATE ROLE owner LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO owner").await;
    store.grant(Role::Relay, "owner").await.unwrap();
    let as_owner = server.url().replace("postgres@", "owner@");
    let owner = PostgresStore::connect(&as_owner, "public").await.unwrap();
    let why = refusal(enable(&owner).await);
    assert!(why.contains("ALTER ROLE \"owner\" REPLICATION"), "{why}");
    execute(store.pool(), "ALTER ROLE owner REPLICATION").await;
    let why = refusal(enable(&owner).await);
    assert!(why.contains("GRANT CREATE ON DATABASE \"postgres\" TO \"owner\""), "{why}");
    execute(store.pool(), "GRANT CREATE ON DATABASE postgres TO owner").await;
    let settings = LogSettings { slot: Some("mine".to_owned()), ..LogSettings::default() };
    owner.log_enable(&settings, &mut |_| {}).await.unwrap();
}

#[tokio::test]
async fn open_transactions_are_named_while_it_waits() {
    let server = PrivatePostgres::start_logical().await;
    let store = outbox(&server.url()).await;
    let mut session = PgConnection::connect(&server.url()).await.unwrap();
    session.execute("SET application_name = 'slowpoke'; BEGIN; SELECT txid_current()").await.unwrap();
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let note = |told: &Arc<Mutex<Vec<String>>>| {
        let told = Arc::clone(told);
        move |wait: LogWait| {
            if let LogWait::Transactions(open) = wait {
                told.lock().unwrap().extend(open);
            }
        }
    };
    let named = async |told: &Arc<Mutex<Vec<String>>>| {
        wait_until("the transaction is named", PATIENCE, async || {
            told.lock().unwrap().iter().any(|name| name.contains("slowpoke"))
        })
        .await;
    };
    let (enabling, mut tell) = (store.clone(), note(&told));
    let enabled = tokio::spawn(async move { enabling.log_enable(&LogSettings::default(), &mut tell).await });
    named(&told).await;
    assert_eq!(count(store.pool(), "outbox_log").await, 0);
    session.execute("COMMIT").await.unwrap();
    enabled.await.unwrap().unwrap();

    // Also one that has written nothing yet: it may have seen the gate open.
    session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
    confirm(store.pool()).await;
    execute(store.pool(), "UPDATE outbox_log SET leader_until = 'infinity', confirmed = 'FFFFFFFF/FFFFFFFF'").await;
    told.lock().unwrap().clear();
    let (disabling, mut tell) = (store.clone(), note(&told));
    let disabled = tokio::spawn(async move { disabling.log_disable(&mut tell).await });
    named(&told).await;
    assert_eq!(count(store.pool(), "pg_replication_slots").await, 1, "it waits");
    session.execute("COMMIT").await.unwrap();
    assert!(disabled.await.unwrap().unwrap());
    assert_eq!(count(store.pool(), "pg_replication_slots").await, 0);
}

#[tokio::test]
async fn a_transaction_that_is_prepared_while_it_waits_is_waited_for() {
    let logical = [("wal_level", "logical"), ("max_slot_wal_keep_size", "256MB"), ("max_prepared_transactions", "2")];
    let server = PrivatePostgres::start_with(&[("fsync", "off")].into_iter().chain(logical).collect::<Vec<_>>()).await;
    let store = outbox(&server.url()).await;
    enable(&store).await.unwrap();
    let mut session = PgConnection::connect(&server.url()).await.unwrap();
    session.execute("BEGIN; SELECT txid_current()").await.unwrap();
    execute(store.pool(), "UPDATE outbox_log SET leader_until = 'infinity', confirmed = 'FFFFFFFF/FFFFFFFF'").await;
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let (disabling, telling) = (store.clone(), Arc::clone(&told));
    let disabled = tokio::spawn(async move {
        let mut tell = |wait: LogWait| {
            if let LogWait::Transactions(open) = wait {
                *telling.lock().unwrap() = open;
            }
        };
        disabling.log_disable(&mut tell).await
    });
    wait_until("it waits", PATIENCE, async || !told.lock().unwrap().is_empty()).await;
    session.execute("PREPARE TRANSACTION 'late'").await.unwrap();
    wait_until("it waits for the prepared one", PATIENCE, async || {
        assert!(!disabled.is_finished(), "it did not wait");
        told.lock().unwrap().iter().any(|name| name.contains("the prepared transaction late"))
    })
    .await;
    assert_eq!(count(store.pool(), "pg_replication_slots").await, 1);
    session.execute("COMMIT PREPARED 'late'").await.unwrap();
    assert!(disabled.await.unwrap().unwrap());
}

#[tokio::test]
async fn it_waits_for_the_relay_and_can_be_forced() {
    let server = PrivatePostgres::start_logical().await;
    let store = outbox(&server.url()).await;
    enable(&store).await.unwrap();
    // A relay that lives and has not delivered everything.
    confirm(store.pool()).await;
    execute(store.pool(), "UPDATE outbox_log SET leader_until = 'infinity'").await;
    let told: Arc<Mutex<Vec<i64>>> = Arc::default();
    let (disabling, telling) = (store.clone(), Arc::clone(&told));
    let disabled = tokio::spawn(async move {
        let mut tell = |wait| {
            if let LogWait::Relay(bytes) = wait {
                telling.lock().unwrap().push(bytes);
            }
        };
        disabling.log_disable(&mut tell).await
    });
    wait_until("the rest is told", PATIENCE, async || told.lock().unwrap().iter().any(|bytes| *bytes > 0)).await;
    let status = store.log_status().await.unwrap().unwrap();
    assert!(status.leaving && !status.is_open && status.has_slot, "{status:?}");
    // A late heartbeat of the relay opens the gate once more; emit takes the table all the same.
    execute(store.pool(), "SELECT setval('outbox_log_until', 9999999999)").await;
    let event = || pillarbox::Event::new("Order", 1, "order.updated").repeatable();
    assert!(store.emit(event()).await.unwrap().seq.is_some());
    let mut tx = store.pool().begin().await.unwrap();
    assert!(
        pillarbox::emit_all(&mut tx, [event(), event()]).await.unwrap().iter().all(|emitted| emitted.seq.is_some())
    );
    tx.execute("SELECT outbox_emit('Order', 1, 'order.updated', repeatable => true)").await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(count(store.pool(), "outbox_event").await, 4);
    let why = refusal(enable(&store).await);
    assert!(why.contains("being disabled"), "{why}");
    confirm(store.pool()).await;
    assert!(disabled.await.unwrap().unwrap());

    // Without its slot it must be forced.
    enable(&store).await.unwrap();
    execute(store.pool(), "SELECT pg_drop_replication_slot('pillarbox_public_postgres')").await;
    let why = refusal(store.log_disable(&mut |_| {}).await);
    assert!(why.contains("is gone") && why.contains("--force"), "{why}");
    let findings = store.log_status().await.unwrap().unwrap().findings();
    assert!(findings[0].level == Level::Bad && findings[0].found.contains("may be lost"), "{findings:?}");
    let why = refusal(enable(&store).await);
    assert!(why.contains("its replication slot is gone"), "{why}");
    assert!(store.log_disable_now().await.unwrap());
    assert!(store.log_status().await.unwrap().is_none());
    assert!(!store.log_disable_now().await.unwrap());
}

#[tokio::test]
async fn an_outbox_table_is_checked_before_it_is_added() {
    let server = PrivatePostgres::start_logical().await;
    let store = outbox(&server.url()).await;
    let settings =
        |name: &str| LogSettings { table: Some(OutboxTable::named(name).unwrap()), ..LogSettings::default() };
    let columns = "aggregatetype text, aggregateid text, type text, payload jsonb";
    let create = format!(
        "CREATE SCHEMA shop; CREATE TABLE shop.good (id uuid, {columns}); CREATE UNLOGGED TABLE shop.unlogged (id uuid, {columns}); \
         CREATE VIEW shop.view AS SELECT * FROM shop.good; CREATE TABLE shop.short (id uuid, aggregatetype text); \
         CREATE TABLE shop.generated (id uuid, aggregatetype text, aggregateid text, raw text, type text GENERATED ALWAYS AS (raw) STORED, \
         payload jsonb); CREATE TABLE shop.other (id uuid, {columns})"
    );
    execute(store.pool(), &create).await;
    for (name, why) in [
        ("shop.missing", "does not exist; spell it as the catalogs do"),
        ("shop.unlogged", "ALTER TABLE shop.unlogged SET LOGGED"),
        ("shop.view", "is no table"),
        ("shop.short", "no column aggregateid, type, payload"),
        ("shop.generated", "no column type, or a generated one"),
        ("public.outbox_event", "one of Pillarbox's own tables"),
    ] {
        let refused = refusal(store.log_enable(&settings(name), &mut |_| {}).await);
        assert!(refused.contains(why), "{refused}");
    }
    assert_eq!(count(store.pool(), "pg_publication").await, 0, "nothing is left behind");
    let grants = "CREATE ROLE owner LOGIN REPLICATION; GRANT ALL ON ALL TABLES IN SCHEMA public TO owner; GRANT CREATE ON DATABASE postgres TO \
                  owner; GRANT USAGE ON SCHEMA shop TO owner";
    execute(store.pool(), grants).await;
    store.grant(Role::Relay, "owner").await.unwrap();
    let owner = PostgresStore::connect(&server.url().replace("postgres@", "owner@"), "public").await.unwrap();
    let why = refusal(owner.log_enable(&settings("shop.good"), &mut |_| {}).await);
    assert!(why.contains("the role owner does not own shop.good"), "{why}");

    // Without a table first, and then with it.
    assert!(enable(&store).await.unwrap().tables.is_empty());
    let findings = store.log_table_findings(settings("shop.good").table.as_ref()).await.unwrap();
    assert!(
        findings[0].level == Level::Bad && findings[0].found.contains("wal enable --table shop.good"),
        "{findings:?}"
    );
    for _ in 0..2 {
        let status = store.log_enable(&settings("shop.good"), &mut |_| {}).await.unwrap();
        assert_eq!(status.tables, ["shop.good"]);
    }
    assert_eq!(store.log_table_findings(settings("shop.good").table.as_ref()).await.unwrap()[0].level, Level::Good);
    // Without a replica identity these would fail if more than inserts were published.
    execute(
        store.pool(),
        "INSERT INTO shop.good DEFAULT VALUES; UPDATE shop.good SET type = 'a'; DELETE FROM shop.good",
    )
    .await;
    let why = refusal(store.log_enable(&settings("shop.other"), &mut |_| {}).await);
    assert!(why.contains("ALTER PUBLICATION pillarbox_public_postgres DROP TABLE shop.good"), "{why}");
    execute(store.pool(), "ALTER PUBLICATION pillarbox_public_postgres SET (publish = 'delete')").await;
    let findings = store.log_table_findings(settings("shop.good").table.as_ref()).await.unwrap();
    assert!(findings[0].found.contains("SET (publish = 'insert'"), "{findings:?}");
    assert_eq!(store.log_enable(&settings("shop.good"), &mut |_| {}).await.unwrap().tables, ["shop.good"]);
    assert!(store.log_disable_now().await.unwrap());
    assert_eq!(count(store.pool(), "pg_publication").await, 0);
}
