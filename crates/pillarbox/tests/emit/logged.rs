//! Events in PostgreSQL's write-ahead log: which of them go there, and which into the table.

use chrono::{DateTime, TimeDelta, Utc};
use pillarbox::store::Role;
use pillarbox::store::postgres::PostgresStore;
use pillarbox::{Event, Inspect, emit, emit_all};
use pillarbox_testkit::{LoggedPostgres, TestDatabase};
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Executor};
use uuid::Uuid;

fn updated() -> Event {
    Event::new("Order", 42, "order.updated").repeatable()
}

async fn emit_in(pool: &PgPool, event: Event) -> Option<i64> {
    let mut tx = pool.begin().await.unwrap();
    let emitted = emit(&mut tx, event).await.unwrap();
    tx.commit().await.unwrap();
    emitted.seq
}

#[tokio::test]
async fn only_repeatable_small_events_that_are_due_go_into_the_log() {
    let logged = LoggedPostgres::start().await;
    let pool = logged.store().pool();
    logged.open_gate().await;
    let before = Utc::now() - TimeDelta::seconds(60);
    let large = "x".repeat(65_535);
    let cases = [
        (updated(), true),
        (Event::new("Order", 42, "order.placed"), false),
        (updated().idempotency_key("k"), false),
        (updated().deliver_at(Utc::now() + TimeDelta::hours(1)), false),
        (updated().deliver_at(before), true),
        (updated().payload(&large), false),
        (updated().payload(&large[..65_534]), true),
        (updated().payload(&large[..65_500]).header("h", "x".repeat(100)), false),
    ];
    for (event, expected) in cases {
        let told = format!("{event:.100?}");
        assert_eq!(emit_in(pool, event).await.is_none(), expected, "{told}");
        assert_eq!(logged.events().await.len(), usize::from(expected), "{told}");
    }
    // The same for many.
    let mut tx = pool.begin().await.unwrap();
    let many = [
        updated(),
        updated().deliver_at(Utc::now() + TimeDelta::hours(1)),
        updated().payload(&large),
        updated().deliver_at(before),
    ];
    let emitted = emit_all(&mut tx, many).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(emitted.iter().map(|emitted| emitted.seq.is_none()).collect::<Vec<_>>(), [true, false, false, true]);
    let events = logged.events().await;
    assert_eq!(events.len(), 2);
    let created_at: DateTime<Utc> = events[0]["created_at"].as_str().unwrap().parse().unwrap();
    assert!(created_at > before && created_at <= Utc::now() + TimeDelta::seconds(60), "{created_at}");
    assert!(events[0]["created_at"].as_str().unwrap().ends_with('Z'));
    assert!(events[0]["headers"].is_null() && events[0]["max_attempts"].is_null(), "{events:?}");
    // The store's own emit, of the program and the admin pages.
    assert_eq!(logged.store().emit(updated()).await.unwrap().seq, None);
}

#[tokio::test]
async fn the_function_goes_into_the_log_for_repeatable_events() {
    let logged = LoggedPostgres::start().await;
    let call = async |arguments: &str| {
        let statement = AssertSqlSafe(format!("SELECT outbox_emit({arguments})"));
        sqlx::query_scalar::<_, Uuid>(statement).fetch_one(logged.store().pool()).await.unwrap()
    };
    call("'Order', 1, 't', repeatable => true").await;
    assert_eq!((logged.rows().await, logged.events().await.len()), (1, 0), "no relay reads the log");
    logged.open_gate().await;
    let id = call(
        r#"'Order', 42, 't', '{"a": "\"ä"}'::json, headers => '{"h": "1"}', max_attempts => 0, repeatable => true"#,
    )
    .await;
    let [event] = logged.events().await.try_into().unwrap();
    assert_eq!((event["id"].as_str(), event["aggregate_id"].as_str()), (Some(id.to_string().as_str()), Some("42")));
    assert_eq!((&event["payload"]["a"], &event["headers"]["h"]), (&"\"ä".into(), &"1".into()));
    assert_eq!((&event["max_attempts"], logged.rows().await), (&0.into(), 1));
    for arguments in [
        "'Order', 1, 't'",
        "'Order', 1, 't', idempotency_key => 'k'",
        "'Order', 1, 't', deliver_at => clock_timestamp() + interval '1 hour', repeatable => true",
        "'Order', 1, 't', to_jsonb(repeat('x', 65535)), repeatable => true",
    ] {
        call(arguments).await;
        assert_eq!(logged.events().await.len(), 0, "{arguments}");
    }
    assert_eq!(logged.rows().await, 5);
    call("'Order', 1, 't', headers => 'null', deliver_at => '2001-01-01', repeatable => true").await;
    let [event] = logged.events().await.try_into().unwrap();
    assert!(event["headers"].is_null() && event["payload"] == serde_json::json!({}), "{event}");
    logged.shut_gate().await;
    call("'Order', 1, 't', repeatable => true").await;
    assert_eq!((logged.rows().await, logged.events().await.len()), (6, 0));
}

/// Nothing but the table is left to a role or a server that must not write into the log, and nobody has to be told.
#[tokio::test]
async fn without_the_rights_or_on_another_timeline_events_go_into_the_table() {
    let logged = LoggedPostgres::start().await;
    logged.open_gate().await;
    logged.execute("CREATE ROLE shop LOGIN").await;
    logged.store().grant(Role::Emit, "shop").await.unwrap();
    let url = logged.url().replace("postgres@", "shop@");
    let pool = PgPoolOptions::new().max_connections(1).connect(&url).await.unwrap();
    let function = "SELECT outbox_emit('Order', '42', 'order.updated', repeatable => true)";
    let emit_all_ways = async |expected: usize, why: &str| {
        emit_in(&pool, updated()).await;
        let mut tx = pool.begin().await.unwrap();
        emit_all(&mut tx, [updated(), updated()]).await.unwrap();
        emit_all(&mut tx, [updated(), updated().idempotency_key(Uuid::now_v7())]).await.unwrap();
        tx.execute(function).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(logged.events().await.len(), expected, "{why}");
    };
    emit_all_ways(5, "with the grants of a role that emits").await;
    let error = pool.execute("SELECT * FROM outbox_log").await.unwrap_err();
    assert!(error.to_string().contains("permission denied"), "{error}");
    let error = pool.execute("SELECT setval('outbox_log_until', 1)").await.unwrap_err();
    assert!(error.to_string().contains("permission denied"), "{error}");

    logged.execute("REVOKE SELECT ON outbox_log_key FROM shop").await;
    emit_all_ways(0, "without the key").await;
    logged.store().grant(Role::Emit, "shop").await.unwrap();
    logged.execute("UPDATE outbox_log_key SET timeline = '00000007'").await;
    emit_all_ways(0, "on another timeline").await;
    logged.execute("UPDATE outbox_log_key SET timeline = outbox_log_timeline(); DELETE FROM outbox_log_key").await;
    emit_all_ways(0, "without a log").await;
}

/// The server takes the message then, and nobody could read it.
#[tokio::test]
async fn with_a_lower_wal_level_events_go_into_the_table() {
    let database = TestDatabase::create().await;
    let store = PostgresStore::connect(&database.url(), "public").await.unwrap();
    store.migrate().await.unwrap();
    let level: String = sqlx::query_scalar("SHOW wal_level").fetch_one(store.pool()).await.unwrap();
    assert_ne!(level, "logical", "the shared server has PostgreSQL's default");
    let open = "INSERT INTO outbox_log_key (timeline) VALUES (outbox_log_timeline()); SELECT setval('outbox_log_until', 9999999999)";
    store.pool().execute(sqlx::raw_sql(open)).await.unwrap();
    assert!(emit_in(store.pool(), updated()).await.is_some());
    let mut tx = store.pool().begin().await.unwrap();
    assert!(emit_all(&mut tx, [updated(), updated()]).await.unwrap().iter().all(|emitted| emitted.seq.is_some()));
    tx.execute("SELECT outbox_emit('Order', '42', 'order.updated', repeatable => true)").await.unwrap();
    tx.commit().await.unwrap();
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM outbox_event").fetch_one(store.pool()).await.unwrap();
    assert_eq!(rows, 4);
    store.pool().close().await;
    database.close().await;
}
