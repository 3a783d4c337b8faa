//! Rows of an application's own outbox table, read from the log as Debezium reads them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillarbox::source::wal::{OutboxTable, WalSettings};
use pillarbox::store::postgres::{LogSettings, PostgresStore};
use pillarbox::store::{OnFailed, Order};
use pillarbox::{Message, RelaySettings, SendError};
use pillarbox_testkit::wait_until;
use sqlx::{AssertSqlSafe, Connection};
use uuid::Uuid;

use super::fixture::{Outbox, PATIENCE, Place, impatient};

/// Debezium's example, in a table without a key, whose rows can be deleted because only its inserts are published.
const CREATE: &str = "CREATE TABLE outboxevent (id uuid NOT NULL, aggregatetype varchar(255) NOT NULL, aggregateid varchar(255) NOT NULL, \
                      type varchar(255), payload jsonb)";

/// What a place has got: type, aggregate, payload and headers of each event.
type Got = Arc<Mutex<BTreeMap<Uuid, (String, String, String, BTreeMap<String, String>)>>>;

fn place() -> (Place, Got) {
    let got = Got::default();
    let into = Arc::clone(&got);
    let place = Place::that(move |message: &Message| {
        let aggregate = format!("{}:{}", message.aggregate_type, message.aggregate_id);
        let what = (message.event_type.clone(), aggregate, message.payload.get().to_owned(), message.headers.clone());
        into.lock().unwrap().insert(message.id, what);
        Ok(())
    });
    (place, got)
}

impl Outbox {
    async fn debezium() -> Self {
        Self::with_table(CREATE, OutboxTable::default()).await
    }

    async fn run(&self, statement: &str) {
        sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&self.pool).await.unwrap();
    }

    /// Commits rows of one aggregate; returns their ids.
    async fn insert(&self, aggregate: &str, count: usize) -> Vec<Uuid> {
        insert_in(&mut self.pool.acquire().await.unwrap(), aggregate, count).await
    }
}

async fn insert_in(connection: &mut sqlx::PgConnection, aggregate: &str, count: usize) -> Vec<Uuid> {
    let ids: Vec<Uuid> = (0..count).map(|_| Uuid::now_v7()).collect();
    let insert = "INSERT INTO outboxevent (id, aggregatetype, aggregateid, type, payload) SELECT id, 'Order', $2, 'order.placed', \
                  jsonb_build_object('n', place) FROM unnest($1::uuid[]) WITH ORDINALITY AS given (id, place)";
    sqlx::query(insert).bind(&ids).bind(aggregate).execute(connection).await.unwrap();
    ids
}

#[tokio::test]
async fn inserted_rows_are_delivered_also_when_they_are_deleted_at_once() {
    let outbox = Outbox::debezium().await;
    let (place, got) = place();
    let relay = outbox.relay(&place).await;
    let ids: Vec<Uuid> = (0..4).map(|_| Uuid::now_v7()).collect();
    let [plain, deleted, kept, null] = [ids[0], ids[1], ids[2], ids[3]];
    outbox
        .run(&format!("INSERT INTO outboxevent VALUES ('{plain}', 'Order', '42', 'order.placed', '{{\"total\": 3}}')"))
        .await;
    outbox
        .run(&format!(
            "BEGIN; INSERT INTO outboxevent VALUES ('{deleted}', 'Order', '43', 'order.paid', '[1]'); DELETE FROM outboxevent WHERE id = \
             '{deleted}'; COMMIT"
        ))
        .await;
    let mut tx = outbox.pool.begin().await.unwrap();
    insert_in(&mut tx, "lost", 3).await;
    tx.rollback().await.unwrap();
    let mut tx = outbox.pool.begin().await.unwrap();
    let insert = "INSERT INTO outboxevent VALUES ($1, 'Order', '44', 'order.placed', NULL)";
    sqlx::query(insert).bind(kept).execute(&mut *tx).await.unwrap();
    let mut savepoint = tx.begin().await.unwrap();
    insert_in(&mut savepoint, "lost", 3).await;
    savepoint.rollback().await.unwrap();
    // A message of emit between two rows of one transaction.
    let messages = outbox.emit_in(&mut tx, 1).await;
    sqlx::query(insert).bind(null).execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    outbox.run("UPDATE outboxevent SET payload = '{}'; DELETE FROM outboxevent; TRUNCATE outboxevent").await;
    let last = outbox.insert("1", 1).await;
    let all = [plain, deleted, kept, messages[0], null, last[0]];
    place.gets(&all).await;
    outbox.is_drained().await;
    assert_eq!(outbox.rows().await, BTreeMap::new());
    let metrics = relay.stop().await;
    assert_eq!((metrics.delivered, metrics.spilled, metrics.unreadable), (6, 0, 0));
    assert_eq!(place.got(), all, "each once, in the order of the commits, and nothing that was rolled back");
    let got = got.lock().unwrap();
    assert_eq!(
        got[&plain],
        ("order.placed".to_owned(), "Order:42".to_owned(), "{\"total\": 3}".to_owned(), BTreeMap::new())
    );
    assert_eq!((got[&deleted].2.as_str(), got[&null].2.as_str()), ("[1]", "{}"));
}

/// Also values whose text depends on settings of the role, large ones that are stored apart, and a table with partitions.
#[tokio::test]
async fn columns_are_read_by_name_and_type_while_the_table_changes() {
    let mut table = OutboxTable::named("shop.Events").unwrap();
    table.columns.event_type = "kind".to_owned();
    table.columns.created_at = Some("at".to_owned());
    table.columns.header_columns = vec![("tenant".to_owned(), "tenant".to_owned())];
    let create = "ALTER ROLE postgres SET datestyle = 'German'; ALTER ROLE postgres SET bytea_output = 'escape'; \
                  ALTER ROLE postgres SET timezone = 'Asia/Kolkata'; CREATE SCHEMA shop; \
                  CREATE TABLE shop.\"Events\" (id bigint NOT NULL, gone int, aggregatetype text, aggregateid text, kind text, \
                  payload bytea, at timestamptz, tenant text) PARTITION BY RANGE (id); \
                  CREATE TABLE shop.low PARTITION OF shop.\"Events\" FOR VALUES FROM (0) TO (3); \
                  CREATE TABLE shop.high (tenant text, kind text, aggregateid text, aggregatetype text, payload bytea, at timestamptz, \
                  gone int, id bigint NOT NULL); ALTER TABLE shop.\"Events\" ATTACH PARTITION shop.high FOR VALUES FROM (3) TO (100)";
    let outbox = Outbox::with_table(create, table).await;
    let (place, got) = place();
    let relay = outbox.relay(&place).await;
    let insert = "INSERT INTO shop.\"Events\" (id, aggregatetype, aggregateid, kind, payload, at, tenant) VALUES \
                  (1, 'Order', '42', 'a', '\\x00ff', '2026-02-03 04:05:06.5+00', 'acme'), (4, 'Order', '42', 'b', '\\x00ff', NULL, NULL)";
    outbox.run(insert).await;
    // Directly into a partition.
    outbox.run("INSERT INTO shop.high (id, aggregatetype, aggregateid, kind) VALUES (5, 'Order', '42', 'c')").await;
    let change = "ALTER TABLE shop.\"Events\" DROP COLUMN gone, DROP COLUMN payload; ALTER TABLE shop.\"Events\" ADD COLUMN extra int \
                  DEFAULT 7, ADD COLUMN payload text";
    outbox.run(change).await;
    let insert = "INSERT INTO shop.\"Events\" (id, aggregatetype, aggregateid, kind, payload) VALUES (6, 'Order', '42', 'd', 'not JSON'), \
                  (7, 'Order', '42', 'e', (SELECT json_agg(md5(n::text)) FROM generate_series(1, 20000) AS n)::text)";
    outbox.run(insert).await;
    wait_until("all have arrived", PATIENCE, async || got.lock().unwrap().len() == 5).await;
    outbox.is_drained().await;
    let metrics = relay.stop().await;
    assert_eq!((metrics.delivered, metrics.unreadable), (5, 0));
    let got = got.lock().unwrap();
    let by_type: BTreeMap<&str, _> = got.values().map(|what| (what.0.as_str(), what)).collect();
    let header = |kind: &str, name: &str| by_type[kind].3.get(name).cloned().unwrap_or_default();
    assert_eq!((by_type["a"].2.as_str(), by_type["c"].2.as_str()), ("\"AP8=\"", "{}"));
    assert_eq!((header("a", "tenant"), header("b", "tenant")), ("acme".to_owned(), String::new()));
    assert_eq!(header("a", "pillarbox-content-type"), "application/octet-stream");
    assert_eq!((header("a", "outbox-row-id"), header("e", "outbox-row-id")), ("1".to_owned(), "7".to_owned()));
    assert_eq!(by_type["d"].2, "\"not JSON\"");
    assert!(by_type["e"].2.len() > 20_000 * 34 && by_type["e"].2.starts_with("[\"c4ca4238a0b923820dcc509a6f75849b\""));
}

#[tokio::test]
async fn a_row_that_is_no_event_is_a_dead_letter_that_names_it() {
    let outbox = Outbox::debezium().await;
    let place = Place::fine();
    let relay = outbox.relay(&place).await;
    let bad = outbox.insert("1", 1).await[0];
    place.gets(&[bad]).await;
    let typeless = Uuid::now_v7();
    outbox.run(&format!("INSERT INTO outboxevent VALUES ('{typeless}', 'Order', '1', NULL, '{{\"a\": 1}}')")).await;
    outbox.run("ALTER TABLE outboxevent RENAME COLUMN aggregateid TO aggregate").await;
    outbox.run(&format!("INSERT INTO outboxevent VALUES ('{typeless}', 'Order', '1', 'a', '{{}}')")).await;
    outbox.run("ALTER TABLE outboxevent RENAME COLUMN aggregate TO aggregateid").await;
    let good = outbox.insert("2", 1).await;
    place.gets(&good).await;
    outbox.is_drained().await;
    wait_until("both are dead letters", PATIENCE, async || outbox.rows().await.get("failed") == Some(&2)).await;
    let metrics = relay.stop().await;
    assert_eq!((metrics.delivered, metrics.unreadable), (2, 2));
    let letters = "SELECT error_message, payload #>> '{row,id}', payload ->> 'table' FROM outbox_event WHERE event_type = 'unreadable' ORDER \
                   BY seq";
    let letters: Vec<(String, String, String)> = sqlx::query_as(letters).fetch_all(&outbox.pool).await.unwrap();
    let reason = format!("the row of public.outboxevent with id \"{typeless}\" cannot be read: type is NULL");
    assert_eq!(letters[0], (reason, typeless.to_string(), "public.outboxevent".to_owned()));
    assert!(letters[1].0.contains("it has no column aggregateid"), "{letters:?}");
}

#[tokio::test]
async fn rows_that_fail_are_spilled_and_retried_and_another_leader_reads_on() {
    let outbox = Outbox::debezium().await;
    let (one, other) = (Place::fine(), Place::fine());
    one.now(|message| {
        let fails = message.payload.get().contains('2') && message.attempt() < 3;
        if fails { Err(SendError::retry("not now")) } else { Ok(()) }
    });
    let first = outbox.relay(&one).await;
    let ids = outbox.insert("1", 5).await;
    one.gets(&ids).await;
    outbox.is_drained().await;
    wait_until("the row is gone", PATIENCE, async || outbox.rows().await.is_empty()).await;
    let second = outbox.start(&other, impatient()).await;
    let metrics = first.stop().await;
    assert_eq!((metrics.delivered, metrics.spilled), (4, 1));
    assert_eq!((one.got().len(), one.asked()), (5, 7));
    // Nobody may be reading now.
    let more = outbox.insert("1", 5).await;
    second.leads().await;
    let last = outbox.insert("1", 1).await;
    other.gets(&[more.clone(), last].concat()).await;
    second.stop().await;
    assert_eq!(other.got().len(), 6, "nothing was sent twice");
    assert_eq!(outbox.rows().await, BTreeMap::new());
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM outboxevent").fetch_one(&outbox.pool).await.unwrap();
    assert_eq!(left, 11, "the application's table is never written");
}

/// A small transaction before a large one, which is inserted while it arrives: its rows must not overtake.
#[tokio::test]
async fn an_order_is_that_of_the_commits_also_around_a_large_transaction() {
    let outbox = Outbox::debezium().await;
    let place = Place::fine();
    let mut ids = outbox.insert("1", 3).await;
    ids.extend(outbox.insert("1", 2500).await);
    ids.extend(outbox.insert("1", 3).await);
    let settings = RelaySettings { order: Order::Aggregate(OnFailed::Block), ..impatient() };
    let relay = outbox.start(&place, settings).await;
    place.gets(&ids).await;
    ids.extend(outbox.insert("1", 3).await);
    place.gets(&ids).await;
    assert!(!outbox.is_open().await, "messages of emit stay in the table");
    let metrics = relay.stop().await;
    assert_eq!((metrics.spilled, metrics.delivered), (2509, 0));
    assert_eq!(place.got(), ids, "in order, each once");
}

/// Rows of a table that a relay's configuration does not name are left to another relay, not passed by.
#[tokio::test]
async fn a_relay_that_does_not_know_the_table_leaves_its_rows_to_another() {
    let outbox = Outbox::new().await;
    let store = PostgresStore::connect(&outbox.server.url(), "public").await.unwrap();
    let (place, unaware) = (Place::fine(), Place::fine());
    let old = outbox.relay(&unaware).await;
    outbox.run(CREATE).await;
    let before = outbox.insert("1", 1).await;
    // The table is added while a transaction has written into it, which is named.
    let mut writer = outbox.pool.begin().await.unwrap();
    let open = insert_in(&mut writer, "1", 1).await;
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let enabling = tokio::spawn({
        let (store, told) = (store.clone(), Arc::clone(&told));
        let settings = LogSettings { table: Some(OutboxTable::default()), ..LogSettings::default() };
        async move { store.log_enable(&settings, &mut |wait| told.lock().unwrap().push(format!("{wait:?}"))).await }
    });
    wait_until("the writer is named", PATIENCE, async || {
        told.lock().unwrap().iter().any(|told| told.contains("process"))
    })
    .await;
    writer.commit().await.unwrap();
    assert_eq!(enabling.await.unwrap().unwrap().tables, ["public.outboxevent"]);

    let ids = outbox.insert("1", 3).await;
    wait_until("the relay gives the lead up", PATIENCE, async || !old.metrics().leads).await;
    let findings = store.log_table_findings(None).await.unwrap();
    assert!(findings[0].found.contains("contains public.outboxevent, which [source] does not name"), "{findings:?}");
    let messages = outbox.emit(1).await;
    let settings =
        WalSettings { lease: Duration::from_secs(4), table: Some(OutboxTable::default()), ..WalSettings::default() };
    let aware = outbox.store_with(settings).await;
    let destination = pillarbox::Destination::new("place", place.clone()).timeout(Duration::from_secs(1));
    let relay = pillarbox::Relay::builder(Arc::new(aware.clone())).settings(impatient()).destination(destination);
    let relay = relay.route(pillarbox::Route::new("*", ["place"])).build().unwrap();
    let relay = super::fixture::Running::start(aware, relay);
    place.gets(&[ids.clone(), messages.clone()].concat()).await;
    assert_eq!(place.got(), [ids, messages].concat());
    assert!(unaware.got().is_empty());
    old.stop().await;

    // What was in the table before, sent again by inserting it again.
    let [before, open] = [before[0], open[0]];
    outbox
        .run(&format!(
            "WITH again AS (DELETE FROM outboxevent WHERE id IN ('{before}', '{open}') RETURNING *) INSERT INTO outboxevent SELECT * FROM again"
        ))
        .await;
    place.gets(&[before, open]).await;

    assert_eq!(relay.metrics().table_problem, None);
    outbox.run("ALTER PUBLICATION pillarbox_log DROP TABLE outboxevent").await;
    wait_until("the relay says that rows are missing", PATIENCE, async || {
        relay
            .metrics()
            .table_problem
            .is_some_and(|problem| problem.contains("does not contain the table public.outboxevent"))
    })
    .await;
    relay.stop().await;
}
