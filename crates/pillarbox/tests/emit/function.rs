//! `outbox_emit(...)` on PostgreSQL: the defaults and checks of the crate, for any language.

use chrono::{DateTime, TimeZone, Utc};
use pillarbox::store::postgres::PostgresStore;
use pillarbox::store::{Replayed, State};
use pillarbox::{Claims, Fleet, Inspect};
use pillarbox_testkit::TestDatabase;
use pillarbox_testkit::conformance::outbox::{ASK, BY_ANN, deliver};
use pillarbox_testkit::conformance::{Outbox, PostgresOutbox};
use sqlx::postgres::{PgConnection, PgPool};
use sqlx::{AssertSqlSafe, Connection, Row};
use uuid::Uuid;

async fn call(pool: &PgPool, arguments: &str) -> Result<Uuid, sqlx::Error> {
    sqlx::query_scalar(AssertSqlSafe(format!("SELECT outbox_emit({arguments})"))).fetch_one(pool).await
}

/// The code and the message with which the call was refused.
async fn refusal(pool: &PgPool, arguments: &str) -> (String, String) {
    let error = call(pool, arguments).await.unwrap_err();
    let error = error.into_database_error().unwrap();
    (error.code().unwrap().into_owned(), error.message().to_owned())
}

#[tokio::test]
async fn it_has_the_defaults_of_the_crate() {
    let outbox = PostgresOutbox::create().await;
    let before = outbox.now().await;
    let id = call(outbox.pool(), "'Order', '42', 'order.placed'").await.unwrap();
    assert_eq!(id.get_version_num(), 7);
    assert_eq!(id.get_variant(), uuid::Variant::RFC4122);
    let (seconds, _) = id.get_timestamp().unwrap().to_unix();
    assert!(seconds.abs_diff(before.timestamp().unsigned_abs()) < 60, "its time is the database's");
    let outbox: &dyn Outbox = &outbox;
    let detail = outbox.get(id).await;
    assert_eq!((detail.event.state, detail.event.idempotency_key.as_str()), (State::Due, "Order:42"));
    assert_eq!((detail.payload.get(), detail.headers.len(), detail.event.max_attempts), ("{}", 0, None));
    assert!(detail.event.created_at >= before);
    assert_eq!(outbox.claim_one().await.event().id, id);
}

#[tokio::test]
async fn what_should_have_been_delivered_is_due_now() {
    let outbox = PostgresOutbox::create().await;
    let before = outbox.now().await;
    let id = call(outbox.pool(), "'Order', '42', 'order.placed', deliver_at => '2001-01-01T00:00:00Z'").await.unwrap();
    let outbox: &dyn Outbox = &outbox;
    let event = outbox.get(id).await.event;
    assert_eq!(event.state, State::Due);
    assert!(event.next_attempt_at.unwrap() >= before);
}

#[tokio::test]
async fn a_moment_that_nobody_lives_to_see_is_refused() {
    let outbox = PostgresOutbox::create().await;
    for moment in ["'infinity'", "'-infinity'", "'290000-01-01'", "clock_timestamp() + interval '101 years'"] {
        let (code, message) = refusal(outbox.pool(), &format!("'Order', '42', 't', deliver_at => {moment}")).await;
        assert_eq!(code, "22008", "{moment}: {message}");
        assert!(message.contains("the limit is 100 years from now"), "{message}");
    }
    call(outbox.pool(), "'Order', '42', 't', deliver_at => clock_timestamp() + interval '99 years'").await.unwrap();
    call(outbox.pool(), "'Order', '43', 't', deliver_at => '4713-01-01 BC'").await.unwrap();
}

#[tokio::test]
async fn the_type_of_recorded_tasks_is_refused() {
    let outbox = PostgresOutbox::create().await;
    let (code, message) = refusal(outbox.pool(), "'celery', 't1', 'orders.process', '{\"celery\": 1}'").await;
    assert_eq!(code, "22023");
    assert!(message.contains("reserved for recorded Celery tasks"), "{message}");
    call(outbox.pool(), "'Order', '1', 'order.placed', '{\"celery\": 1}'").await.unwrap();
}

#[tokio::test]
async fn it_takes_every_setting_by_name() {
    let outbox = PostgresOutbox::create().await;
    let id = call(
        outbox.pool(),
        r#"event_type => 'order.placed', aggregate_id => '42', aggregate_type => 'Order', payload => '{"total": 19.90}',
           idempotency_key => 'mine', headers => '{"tenant": "acme", "level": 3}', max_attempts => 0,
           deliver_at => '2099-01-01T00:00:00Z'"#,
    )
    .await
    .unwrap();
    let outbox: &dyn Outbox = &outbox;
    let detail = outbox.get(id).await;
    assert_eq!((detail.payload.get(), detail.event.idempotency_key.as_str()), (r#"{"total": 19.90}"#, "mine"));
    assert_eq!((detail.headers["tenant"].as_str(), detail.headers["level"].as_str()), ("acme", "3"));
    assert_eq!(detail.event.max_attempts, Some(0));
    let then: DateTime<Utc> = Utc.with_ymd_and_hms(2099, 1, 1, 0, 0, 0).unwrap();
    assert_eq!((detail.event.state, detail.event.next_attempt_at), (State::Scheduled, Some(then)));
}

#[tokio::test]
async fn nulls_mean_the_defaults() {
    let outbox = PostgresOutbox::create().await;
    let id = call(outbox.pool(), "'Order', '1', 'order.placed', NULL, NULL, NULL, NULL, NULL").await.unwrap();
    call(outbox.pool(), "'Order', '2', 'order.placed', headers => 'null'").await.unwrap();
    let outbox: &dyn Outbox = &outbox;
    let detail = outbox.get(id).await;
    assert_eq!((detail.payload.get(), detail.event.idempotency_key.as_str()), ("{}", "Order:1"));
}

#[tokio::test]
async fn it_refuses_what_the_crate_refuses() {
    let outbox = PostgresOutbox::create().await;
    let cases = [
        ("'', '1', 't'", "22023", "aggregate_type is empty; give it at least one character"),
        ("'Order', NULL, 't'", "22023", "aggregate_id is empty"),
        ("'Order', '1', NULL", "22023", "event_type is empty"),
        ("'Order', '1', 't', idempotency_key => ''", "22023", "idempotency_key is empty"),
        ("repeat('é', 101), '1', 't'", "22001", "aggregate_type has 101 characters, the limit is 100; shorten it"),
        ("'Order', repeat('1', 101), 't'", "22001", "aggregate_id has 101"),
        ("'Order', '1', repeat('t', 256)", "22001", "event_type has 256 characters, the limit is 255"),
        ("'Order', '1', 't', idempotency_key => repeat('k', 256)", "22001", "idempotency_key has 256"),
        ("'Order', '1', 't', to_jsonb(repeat('x', 1048576))", "54000", "1048578 bytes of JSON, the limit is 1048576"),
        ("'Order', '1', 't', headers => '[1]'", "22023", "headers is not a JSON object"),
        ("'Order', '1', 't', headers => '\"text\"'", "22023", "headers is not a JSON object"),
        ("'Order', '1', 't', max_attempts => -1", "22023", "max_attempts is -1; 0 means never give up"),
    ];
    for (arguments, code, message) in cases {
        let refusal = refusal(outbox.pool(), arguments).await;
        assert_eq!(refusal.0, code, "{arguments}: {}", refusal.1);
        assert!(refusal.1.starts_with("the event was not emitted: ") && refusal.1.contains(message), "{}", refusal.1);
    }
    assert_eq!(outbox.rows("outbox_event").await, 0);
    call(outbox.pool(), "repeat('é', 100), repeat('1', 100), repeat('t', 255)").await.unwrap();
    call(outbox.pool(), "'Order', '1', 't', to_jsonb(repeat('x', 1048574))").await.unwrap();
}

#[tokio::test]
async fn the_payloads_limit_is_a_setting() {
    let outbox = PostgresOutbox::create().await;
    let mut tx = outbox.pool().begin().await.unwrap();
    sqlx::query("SET LOCAL pillarbox.payload_limit = 10").execute(&mut *tx).await.unwrap();
    let error =
        sqlx::query("SELECT outbox_emit('Order', '1', 't', '\"123456789\"')").execute(&mut *tx).await.unwrap_err();
    assert!(error.to_string().contains("has 11 bytes of JSON, the limit is 10"), "{error}");
    tx.rollback().await.unwrap();

    // The connection that had the setting has an empty one now, which is none.
    call(outbox.pool(), "'Order', '1', 't', '\"123456789\"'").await.unwrap();

    let mut tx = outbox.pool().begin().await.unwrap();
    sqlx::query("SET LOCAL pillarbox.payload_limit = 2000000").execute(&mut *tx).await.unwrap();
    let large = "SELECT outbox_emit('Order', '2', 't', to_jsonb(repeat('x', 1900000)))";
    sqlx::query(large).execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(outbox.rows("outbox_event").await, 2);
}

#[tokio::test]
async fn a_duplicate_raises_unique_violation() {
    let outbox = PostgresOutbox::create().await;
    call(outbox.pool(), "'Order', '1', 'order.placed'").await.unwrap();
    let error = call(outbox.pool(), "'Order', '1', 'order.placed'").await.unwrap_err();
    let error = error.into_database_error().unwrap();
    assert!(error.is_unique_violation());
    assert_eq!((error.code().unwrap().as_ref(), error.constraint()), ("23505", Some("outbox_event_key")));
    call(outbox.pool(), "'Order', '1', 'order.paid'").await.unwrap();
    assert_eq!(outbox.rows("outbox_event").await, 2);
}

#[tokio::test]
async fn it_shares_the_transactions_fate() {
    let outbox = PostgresOutbox::create().await;
    let mut tx = outbox.pool().begin().await.unwrap();
    sqlx::query("SELECT outbox_emit('Order', '1', 'order.placed')").execute(&mut *tx).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(outbox.rows("outbox_event").await, 0);
}

#[tokio::test]
async fn it_works_in_another_schema_whatever_the_callers_search_path() {
    let database = TestDatabase::create().await;
    let store = PostgresStore::connect(&database.url(), "mail_Room").await.unwrap();
    store.migrate().await.unwrap();
    store.check().await.unwrap();

    let mut connection = PgConnection::connect(&database.url()).await.unwrap();
    sqlx::query("SET search_path TO ''").execute(&mut connection).await.unwrap();
    let id: Uuid = sqlx::query_scalar("SELECT \"mail_Room\".outbox_emit('Order', '1', 'order.placed')")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    let insert = "INSERT INTO \"mail_Room\".outbox_event (aggregate_type, aggregate_id, event_type, idempotency_key) \
                  VALUES ('Order', '2', 'order.placed', 'mine') RETURNING id";
    let inserted: Uuid = sqlx::query(insert).fetch_one(&mut connection).await.unwrap().get(0);
    assert_eq!(inserted.get_version_num(), 7);
    let emitted = store.emit(pillarbox::Event::new("Order", 3, "order.placed")).await.unwrap();

    let claim = store.claim(ASK).await.unwrap();
    let ids: Vec<Uuid> = claim.iter().map(|claimed| claimed.event().id).collect();
    assert_eq!(ids, [id, inserted, emitted.id]);
    connection.close().await.unwrap();
    store.pool().close().await;
    database.close().await;
}

/// People may replay what ordinary emits may not write.
#[tokio::test]
async fn a_recorded_task_can_be_replayed() {
    let outbox = PostgresOutbox::create().await;
    let mut tx = outbox.pool().begin().await.unwrap();
    pillarbox::celery::send_task(&mut tx, pillarbox::celery::Task::new("orders.process").arg(42)).await.unwrap();
    tx.commit().await.unwrap();
    let outbox: &dyn Outbox = &outbox;
    let claimed = outbox.claim_one().await;
    let (id, payload) = (claimed.event().id, claimed.event().payload.clone());
    outbox.settle(vec![deliver(claimed)]).await;
    let replayed = outbox.inspect().replay(&[id], BY_ANN).await.unwrap();
    let [(_, Replayed::As { id: again })] = replayed[..] else { panic!("{replayed:?}") };
    let claimed = outbox.claim_one().await;
    assert_eq!((claimed.event().id, claimed.event().aggregate_type.as_str()), (again, "celery"));
    assert_eq!(claimed.event().payload.get(), payload.get());
}
