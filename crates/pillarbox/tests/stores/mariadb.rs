//! What only MariaDB and MySQL have: migrations that were cut off, a latin1 database, plain inserts, and other sessions.

use pillarbox::store::mysql::MysqlStore;
use pillarbox::store::{Claims, Fleet, Inspect, Level};
use pillarbox::{Event, Status, StoreError, emit, emit_once};
use pillarbox_testkit::conformance::outbox::ASK;
use pillarbox_testkit::conformance::{MysqlOutbox, Outbox};
use pillarbox_testkit::{PrivateMysql, TestMysql};
use sqlx::{AssertSqlSafe, Connection, Executor, Row};
use uuid::Uuid;

/// DDL commits by itself: a program that dies while it migrates leaves some of the tables, and no record.
#[tokio::test]
async fn a_migration_that_was_cut_off_is_completed() {
    let outbox = MysqlOutbox::create().await;
    outbox
        .execute("DROP TABLE outbox_paused, outbox_audit, outbox_job, outbox_session; DELETE FROM outbox_migration")
        .await;
    assert!(matches!(outbox.mysql().check().await, Err(StoreError::NotMigrated { .. })));
    assert_eq!(outbox.migrate().await.unwrap(), 2);
    outbox.mysql().check().await.unwrap();
    assert_eq!(outbox.rows("outbox_paused").await + outbox.rows("outbox_session").await, 0);
}

#[tokio::test]
async fn names_differ_by_case_and_by_blanks() {
    let outbox = MysqlOutbox::create().await;
    let keys = ["order", "Order", "order ", "örder", "o\u{308}rder"];
    let events = keys.map(|key| Event::new("Order", 1, "order.placed").idempotency_key(key));
    assert_eq!(outbox.emit(events.into()).await.len(), keys.len());
}

/// Other languages emit by a plain INSERT.
#[tokio::test]
async fn a_plain_insert_with_the_defaults_emits() {
    let outbox = MysqlOutbox::create().await;
    outbox
        .execute(
            "INSERT INTO outbox_event (aggregate_type, aggregate_id, event_type) VALUES ('Order', '7', 'order.placed')",
        )
        .await;
    let claim = outbox.store().claim(ASK).await.unwrap();
    let event = claim.iter().next().unwrap().event();
    assert_eq!((event.id.get_version_num(), event.idempotency_key.as_str()), (7, "Order:7"));
    let (seconds, _) = event.id.get_timestamp().unwrap().to_unix();
    assert!(outbox.now().await.timestamp().abs_diff(seconds.cast_signed()) < 60, "{}", event.id);
}

/// The server converts numbers and JSON to the procedure's text.
#[tokio::test]
async fn the_procedure_takes_numbers_uuids_and_json() {
    let outbox = MysqlOutbox::create().await;
    let payload = serde_json::json!({ "a": 1 });
    let id = Uuid::now_v7();
    let emit = "CALL outbox_emit('Order', ?, 't', ?, NULL, NULL, NULL, NULL)";
    sqlx::query(emit).bind(42_i64).bind(&payload).execute(outbox.pool()).await.unwrap();
    sqlx::query(emit).bind(i16::MIN).bind(payload.to_string()).execute(outbox.pool()).await.unwrap();
    sqlx::query(emit).bind(id.hyphenated().to_string()).bind(&payload).execute(outbox.pool()).await.unwrap();
    let literals = "CALL outbox_emit('Order', 43, 't', json_object('a', 1), uuid(), NULL, NULL, NULL)";
    sqlx::raw_sql(literals).execute(outbox.pool()).await.unwrap();
    let claim = outbox.store().claim(ASK).await.unwrap();
    let ids: Vec<&str> = claim.iter().map(|claimed| claimed.event().aggregate_id.as_str()).collect();
    assert_eq!(ids, ["42", "-32768", id.to_string().as_str(), "43"]);
    for claimed in claim.iter() {
        let payload: serde_json::Value = serde_json::from_str(claimed.event().payload.get()).unwrap();
        assert_eq!(payload, serde_json::json!({ "a": 1 }));
    }
}

/// Other languages with the rights for it call the procedure, which checks what the crate checks.
#[tokio::test]
async fn the_procedure_emits_in_the_callers_transaction() {
    let outbox = MysqlOutbox::create().await;
    let emit = |values: &str| sqlx::raw_sql(AssertSqlSafe(format!("CALL outbox_emit({values})")));
    let mut tx = outbox.pool().begin().await.unwrap();
    let row = tx.fetch_one(emit("'Order', 'größe 😀', 'order.placed', NULL, NULL, NULL, NULL, NULL")).await.unwrap();
    let id: String = row.try_get(0).unwrap();
    let failures = [
        ("'Order', 'größe 😀', 'order.placed', NULL, NULL, NULL, NULL, NULL", "exists already"),
        ("'', '1', 'order.placed', NULL, NULL, NULL, NULL, NULL", "aggregate_type is empty"),
        ("'Order', '1', NULL, NULL, NULL, NULL, NULL, NULL", "event_type is empty"),
        ("'Order', repeat('x', 101), 't', NULL, NULL, NULL, NULL, NULL", "aggregate_id has 101 characters"),
        ("'Order', '1', 't', '{', NULL, NULL, NULL, NULL", "outbox_event_payload"),
        ("'Order', '1', 't', concat('\"', repeat('x', 1048576), '\"'), NULL, NULL, NULL, NULL", "the limit is 1048576"),
        ("'Order', '1', 't', NULL, NULL, '[]', NULL, NULL", "headers is not a JSON object"),
        ("'celery', '1', 't', NULL, NULL, NULL, NULL, NULL", "reserved for recorded Celery tasks"),
        ("'Order', '1', 't', NULL, NULL, NULL, -1, NULL", "0 means never give up"),
        ("'Order', '1', 't', NULL, NULL, NULL, NULL, '2999-01-01'", "100 years"),
    ];
    for (values, expected) in failures {
        let error = tx.execute(emit(values)).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    tx.execute(emit("'Order', '2', 'order.placed', '{\"a\": 1.50}', 'key', '{\"h\": \"1\"}', 3, '2020-01-01'"))
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let claim = outbox.store().claim(ASK).await.unwrap();
    let events: Vec<_> = claim.iter().map(pillarbox::store::Claimed::event).collect();
    assert_eq!((events[0].id.to_string(), events[0].idempotency_key.as_str()), (id, "Order:größe 😀"));
    assert_eq!((events[1].payload.get(), events[1].max_attempts), (r#"{"a": 1.50}"#, Some(3)));
    assert_eq!((events[1].headers.get("h").map(String::as_str), events.len()), (Some("1"), 2));
}

/// `json_valid` accepts texts that are not JSON. They must not keep the others from being claimed.
#[tokio::test]
async fn a_payload_that_is_not_json_is_a_dead_letter() {
    let outbox = MysqlOutbox::create().await;
    let bad = "INSERT INTO outbox_event (aggregate_type, aggregate_id, event_type, payload) VALUES ('Order', '7', 'order.placed', '1.')";
    outbox.execute(bad).await;
    let good = outbox.emit(vec![Event::new("Order", 8, "order.placed")]).await;
    let claim = outbox.store().claim(ASK).await.unwrap();
    assert_eq!(claim.iter().map(|claimed| claimed.event().id).collect::<Vec<_>>(), [good[0].id]);
    let id: Uuid =
        sqlx::query_scalar("SELECT id FROM outbox_event WHERE payload = '1.'").fetch_one(outbox.pool()).await.unwrap();
    let detail = outbox.mysql().get(id).await.unwrap().unwrap();
    assert_eq!((detail.event.status, detail.payload.get()), (Status::Failed, r#""1.""#));
    assert!(detail.event.error_message.contains("the payload is not JSON"), "{}", detail.event.error_message);
}

/// The servers' default isolation is REPEATABLE READ: a plain read would not see the event that is in the way.
#[tokio::test]
async fn emit_once_finds_what_was_committed_after_its_snapshot() {
    let outbox = MysqlOutbox::create().await;
    let placed = || Event::new("Order", 1, "order.placed");
    let mut tx = outbox.pool().begin().await.unwrap();
    sqlx::query("SELECT count(*) FROM outbox_event").execute(&mut *tx).await.unwrap();
    let first = outbox.emit(vec![placed()]).await;
    let again = emit_once(&mut tx, placed()).await.unwrap();
    assert_eq!((again.id, again.is_new, again.status), (first[0].id, false, Status::Pending));
    emit(&mut tx, Event::new("Order", 2, "order.placed")).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(outbox.rows("outbox_event").await, 2);
}

/// An event that another transaction has locked is skipped, and no other one is locked.
#[tokio::test]
async fn a_claim_waits_for_nobody() {
    let outbox = MysqlOutbox::create().await;
    let emitted = outbox.emit((0..10).map(|order| Event::new("Order", order, "order.placed")).collect()).await;
    let mut tx = outbox.pool().begin().await.unwrap();
    sqlx::query("SELECT seq FROM outbox_event WHERE id = ? FOR UPDATE")
        .bind(emitted[4].id)
        .execute(&mut *tx)
        .await
        .unwrap();
    let claim = outbox.mysql().claim(ASK).await.unwrap();
    assert_eq!(claim.len(), 9);
    // Nothing that the claim has read is still locked.
    let locked = "SELECT count(*) FROM outbox_event WHERE seq <> ? FOR UPDATE SKIP LOCKED";
    let free: i64 = sqlx::query_scalar(locked).bind(emitted[4].seq).fetch_one(outbox.pool()).await.unwrap();
    assert_eq!(free, 9);
    tx.rollback().await.unwrap();
    assert_eq!(outbox.mysql().claim(ASK).await.unwrap().len(), 1);
}

#[tokio::test]
async fn doctor_finds_a_missing_index() {
    let outbox = MysqlOutbox::create().await;
    let findings = outbox.mysql().examine().await.unwrap();
    assert!(
        findings.iter().filter(|finding| finding.about != "commits").all(|finding| finding.level != Level::Bad),
        "{findings:?}"
    );
    outbox.execute("DROP INDEX outbox_event_suspect ON outbox_event").await;
    let findings = outbox.mysql().examine().await.unwrap();
    let indexes = findings.iter().find(|finding| finding.about == "indexes").unwrap();
    assert!(indexes.level == Level::Bad && indexes.found.contains("outbox_event_suspect"), "{indexes:?}");
    // The fix is a statement that works.
    outbox.execute(indexes.fix.strip_prefix("create them: ").unwrap()).await;
    let findings = outbox.mysql().examine().await.unwrap();
    assert!(findings.iter().any(|finding| finding.about == "indexes" && finding.level == Level::Good), "{findings:?}");
}

#[tokio::test]
async fn doctor_finds_settings_of_the_server() {
    let server = PrivateMysql::start_with(&[("log_bin", "log"), ("binlog_format", "ROW")]).await;
    let database = TestMysql::create_on(&server.url()).await;
    let store = MysqlStore::connect(&database.url()).await.unwrap();
    store.migrate().await.unwrap();
    let levels = async || -> Vec<(&'static str, Level, String)> {
        let findings = store.examine().await.unwrap();
        findings.into_iter().map(|finding| (finding.about, finding.level, finding.fix)).collect()
    };
    // Only a relay is missing.
    assert!(levels().await.iter().all(|(about, level, _)| *level == Level::Good || *about == "relays"));
    let mut connection = sqlx::MySqlConnection::connect(&server.url()).await.unwrap();
    let settings =
        "SET GLOBAL binlog_format = 'STATEMENT'; SET GLOBAL sql_mode = ''; SET GLOBAL innodb_lock_wait_timeout = 600;
                    SET GLOBAL innodb_flush_log_at_trx_commit = 2; SET GLOBAL read_only = 1";
    connection.execute(sqlx::raw_sql(settings)).await.unwrap();
    let found = levels().await;
    for (about, level, fix) in [
        ("server", Level::Bad, "primary"),
        ("sql_mode", Level::Notice, "STRICT_TRANS_TABLES"),
        ("locks", Level::Notice, "innodb_lock_wait_timeout = 50"),
        ("binlog", Level::Bad, "binlog_format = ROW"),
        ("commits", Level::Notice, "innodb_flush_log_at_trx_commit = 1"),
        ("sessions", Level::Good, ""),
        ("history", Level::Good, ""),
    ] {
        let finding = found.iter().find(|finding| finding.0 == about).unwrap();
        assert!(finding.1 == level && finding.2.contains(fix), "{about}: {found:?}");
    }
}

#[tokio::test]
async fn a_wrong_password_is_not_shown() {
    let database = TestMysql::create().await;
    let url = database.url().replace("root@", "root:hunter2@");
    let error = MysqlStore::connect(&url).await.unwrap_err();
    assert!(matches!(error, StoreError::Connect { .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    let store = MysqlStore::connect(&database.url()).await.unwrap();
    assert!(!format!("{store:?}").contains("password"), "{store:?}");
}

/// Claims read the due index in its order: a sort would lock every due event.
#[tokio::test]
async fn a_claim_does_not_sort() {
    let outbox = MysqlOutbox::create().await;
    outbox.emit((0..2000).map(|order| Event::new("Order", order, "order.placed")).collect()).await;
    for file in [include_str!("../../sql/mysql/claim_due.sql"), include_str!("../../sql/mysql/claim_ordered.sql")] {
        let values = [("?1", "100"), ("?2", "7"), ("?3", "'2020-01-01'"), ("?4", "0")];
        let text: String =
            file.lines().filter(|line| !line.starts_with("--")).map(|line| format!("{line}\n")).collect();
        let text = values.iter().fold(text, |text, (place, value)| text.replace(place, value));
        let plan: serde_json::Value = {
            let text: String = sqlx::query_scalar(AssertSqlSafe(format!("EXPLAIN FORMAT=JSON {text}")))
                .fetch_one(outbox.pool())
                .await
                .unwrap();
            serde_json::from_str(&text).unwrap()
        };
        let plan = plan.to_string();
        assert!(plan.contains("\"access_type\":\"range\"") && plan.contains("\"key\":\"outbox_event_due\""), "{plan}");
        assert!(!plan.contains("filesort") && !plan.contains("temporary"), "{plan}");
    }
}
