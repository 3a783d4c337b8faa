//! A plain INSERT with the columns' defaults emits, from any language.

use std::io::Write;
use std::process::{Command, Stdio};

use pillarbox::store::State;
use pillarbox_testkit::conformance::{Outbox, PostgresOutbox, SqliteOutbox};
use sqlx::Row;
use uuid::{Uuid, Variant};

/// Runs a script in Python, whose `sqlite3` is another SQLite than ours.
fn python(script: &str, argument: &std::path::Path) {
    let mut child = Command::new("python3")
        .arg("-")
        .arg(argument)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python3 is installed: run scripts/setup");
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn python_emits_into_sqlite_and_the_store_claims_it() {
    let sqlite = SqliteOutbox::create().await;
    python(include_str!("insert.py"), &sqlite.path());

    let outbox: &dyn Outbox = &sqlite;
    let claim: Vec<_> = outbox.claim().await.into_iter().collect();
    assert_eq!(claim.len(), 2);
    let (first, second) = (claim[0].event(), claim[1].event());
    assert_eq!((first.aggregate_id.as_str(), first.idempotency_key.as_str()), ("42", "Order:42"));
    assert_eq!((first.payload.get(), first.headers.len(), first.max_attempts), ("{}", 0, None));
    assert_eq!((second.aggregate_id.as_str(), second.idempotency_key.as_str()), ("43", "mine"));
    assert_eq!((second.payload.get(), second.headers["tenant"].as_str()), (r#"{"total": 19.90}"#, "acme"));
    assert_eq!(second.max_attempts, Some(3));
    outbox.settle(claim.into_iter().map(pillarbox_testkit::conformance::outbox::deliver).collect()).await;

    let now = outbox.now().await;
    let rows = sqlx::query("SELECT id FROM outbox_event").fetch_all(sqlite.pool()).await.unwrap();
    assert_eq!(rows.len(), 203);
    for row in rows {
        let text: String = row.get(0);
        let id: Uuid = text.parse().unwrap();
        assert_eq!((id.get_version_num(), id.get_variant()), (7, Variant::RFC4122), "{text}");
        assert_eq!(id.to_string(), text, "as we write it ourselves");
        let (seconds, _) = id.get_timestamp().unwrap().to_unix();
        assert!(seconds.abs_diff(now.timestamp().unsigned_abs()) < 60, "{text}");
    }
}

#[tokio::test]
async fn an_insert_emits_on_postgres() {
    let postgres = PostgresOutbox::create().await;
    let insert = "INSERT INTO outbox_event (aggregate_type, aggregate_id, event_type, idempotency_key) \
                  VALUES ('Order', '42', 'order.placed', 'mine') RETURNING id";
    let id: Uuid = sqlx::query_scalar(insert).fetch_one(postgres.pool()).await.unwrap();
    assert_eq!((id.get_version_num(), id.get_variant()), (7, Variant::RFC4122));
    let outbox: &dyn Outbox = &postgres;
    let detail = outbox.get(id).await;
    assert_eq!((detail.event.state, detail.payload.get()), (State::Due, "{}"));
    assert_eq!((detail.event.attempts, detail.event.claims, detail.event.error_message.as_str()), (0, 0, ""));
    assert_eq!(outbox.claim_one().await.event().id, id);
}

#[tokio::test]
async fn postgres_refuses_an_insert_that_would_never_be_claimed() {
    let postgres = PostgresOutbox::create().await;
    for (columns, values, constraint) in [
        ("next_attempt_at", "NULL", "outbox_event_time"),
        ("status", "'sending'", "outbox_event_status"),
        ("max_attempts", "-1", "outbox_event_attempts"),
    ] {
        let insert = sqlx::AssertSqlSafe(format!(
            "INSERT INTO outbox_event (aggregate_type, aggregate_id, event_type, idempotency_key, {columns}) \
             VALUES ('Order', '1', 'order.placed', 'mine', {values})"
        ));
        let error = sqlx::query(insert).execute(postgres.pool()).await.unwrap_err().into_database_error().unwrap();
        assert_eq!(error.constraint(), Some(constraint));
    }
}

#[tokio::test]
async fn sqlite_refuses_an_id_that_the_relay_would_write_in_another_way() {
    let sqlite = SqliteOutbox::create().await;
    let id = Uuid::now_v7();
    let insert = "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type) VALUES (?, 'Order', ?1, 'a')";
    for given in [id.to_string().to_uppercase(), id.simple().to_string(), id.urn().to_string(), "mine".to_owned()] {
        let error = sqlx::query(insert).bind(&given).execute(sqlite.pool()).await.unwrap_err();
        assert!(error.to_string().contains("CHECK constraint failed"), "{given}: {error}");
    }
    sqlx::query(insert).bind(id.to_string()).execute(sqlite.pool()).await.unwrap();
    let outbox: &dyn Outbox = &sqlite;
    assert_eq!(outbox.claim_one().await.event().id, id);
}
