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
use tokio_postgres::types::Type;
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
async fn a_repeatable_event_may_happen_again() {
    let outbox = PostgresOutbox::create().await;
    for arguments in ["'Order', '1', 't', repeatable => true", "'Order', 1, 't', '{}', NULL, NULL, NULL, NULL, true"] {
        let id = call(outbox.pool(), arguments).await.unwrap();
        let outbox: &dyn Outbox = &outbox;
        assert_eq!(outbox.get(id).await.event.idempotency_key, id.to_string(), "{arguments}");
    }
    call(outbox.pool(), "'Order', '1', 't', repeatable => NULL").await.unwrap();
    let (code, _) = refusal(outbox.pool(), "'Order', '1', 't', repeatable => false").await;
    assert_eq!(code, "23505", "without it the key is the aggregate's");
    let (code, message) = refusal(outbox.pool(), "'Order', '2', 't', idempotency_key => 'k', repeatable => true").await;
    assert_eq!(code, "22023");
    assert!(message.contains("it has an idempotency_key and is repeatable; choose one of them"), "{message}");
}

const UUID: &str = "018d8f60-0000-7000-8000-000000000001";

#[tokio::test]
async fn ids_and_payloads_have_the_types_of_the_application() {
    let outbox = PostgresOutbox::create().await;
    let payloads = ["", ", '{\"n\": 1.50}'", ", '{\"n\": 1.50}'::jsonb", ", '{\"n\": 1.50}'::json"];
    let ids = [
        ("'42'".to_owned(), "42"),
        ("42".to_owned(), "42"),
        ("42::smallint".to_owned(), "42"),
        ("-9223372036854775808".to_owned(), "-9223372036854775808"),
        ("'42'::text".to_owned(), "42"),
        ("'42'::varchar".to_owned(), "42"),
        ("'42'::char(5)".to_owned(), "42"),
        (format!("'{UUID}'::uuid"), UUID),
    ];
    for (id, text) in &ids {
        for payload in payloads {
            for kind in ["", "::text", "::varchar"] {
                let arguments = match payload {
                    "" => format!("'Order'{kind}, {id}, 't'{kind}, repeatable => true"),
                    _ => format!("'Order'{kind}, {id}, 't'{kind}{payload}, repeatable => true"),
                };
                let emitted =
                    call(outbox.pool(), &arguments).await.unwrap_or_else(|error| panic!("{arguments}: {error}"));
                let outbox: &dyn Outbox = &outbox;
                let detail = outbox.get(emitted).await;
                assert_eq!(detail.event.aggregate_id, *text, "{arguments}");
                let expected = if payload.is_empty() { "{}" } else { r#"{"n": 1.50}"# };
                assert_eq!(detail.payload.get(), expected, "{arguments}");
            }
        }
    }
    let named = format!(
        "event_type => 't', payload => '[1]'::json, aggregate_id => '{UUID}'::uuid, aggregate_type => 'Order', \
         headers => '{{\"tenant\": \"acme\"}}'::json, max_attempts => 3"
    );
    let id = call(outbox.pool(), &named).await.unwrap();
    let outbox: &dyn Outbox = &outbox;
    let detail = outbox.get(id).await;
    assert_eq!((detail.payload.get(), detail.headers["tenant"].as_str()), ("[1]", "acme"));
}

/// Drivers ask the server for the types of untyped parameters. Functions that take other types must not change the answer.
#[tokio::test]
async fn untyped_parameters_are_text_and_jsonb() {
    let outbox = PostgresOutbox::create().await;
    let url = outbox.url();
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    let serving = tokio::spawn(connection);
    let all = [
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::JSONB,
        Type::TEXT,
        Type::JSONB,
        Type::INT4,
        Type::TIMESTAMPTZ,
        Type::BOOL,
    ];
    let mut cases = vec![
        ("$1, $2, $3, $4, $5, $6, $7, $8, $9", vec![], all.to_vec()),
        ("$1, $2, $3, payload => $4, headers => $5", vec![], [&all[..4], &[Type::JSONB]].concat()),
        ("$1, $2, $3", vec![], all[..3].to_vec()),
    ];
    // Each of the first three typed or not: the payload stays jsonb.
    for typed in [Type::UNKNOWN, Type::TEXT, Type::VARCHAR] {
        for id in [Type::UNKNOWN, Type::TEXT, Type::VARCHAR, Type::INT2, Type::INT4, Type::INT8, Type::UUID] {
            let given = vec![typed.clone(), id.clone(), typed.clone()];
            let or_text = |kind: &Type| if *kind == Type::UNKNOWN { Type::TEXT } else { kind.clone() };
            let mut expected: Vec<Type> = given.iter().map(or_text).collect();
            expected.push(Type::JSONB);
            cases.push(("$1, $2, $3, $4", given, expected));
        }
    }
    for (arguments, given, expected) in cases {
        let statement = format!("SELECT outbox_emit({arguments})");
        let prepared = client.prepare_typed(&statement, &given).await.unwrap();
        assert_eq!(prepared.params(), expected, "{statement} with {given:?}");
    }
    drop(client);
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn sqlx_binds_numbers_and_uuids() {
    let outbox = PostgresOutbox::create().await;
    let emit = "SELECT outbox_emit($1, $2, $3, $4, repeatable => true)";
    let payload = serde_json::value::RawValue::from_string(r#"{"a": 1}"#.to_owned()).unwrap();
    // sqlx keeps a statement with the types of its first values.
    let with = || sqlx::query_scalar::<_, Uuid>(emit).persistent(false).bind("Order");
    let ids = [
        with().bind(42_i16).bind("t").bind(sqlx::types::Json(&payload)).fetch_one(outbox.pool()).await.unwrap(),
        with().bind(42_i64).bind("t").bind(sqlx::types::Json(&payload)).fetch_one(outbox.pool()).await.unwrap(),
        with().bind("42").bind("t").bind(sqlx::types::Json(&payload)).fetch_one(outbox.pool()).await.unwrap(),
    ];
    let uuid: Uuid = UUID.parse().unwrap();
    let other = with().bind(uuid).bind("t").bind(sqlx::types::Json(&payload)).fetch_one(outbox.pool()).await.unwrap();
    // Text for the payload needs the cast that the function's comment names.
    let text = "SELECT outbox_emit('Order', $1, 't', $2::jsonb)";
    sqlx::query(text).bind(43_i32).bind(r#"{"a": 1}"#).execute(outbox.pool()).await.unwrap();
    let comment: String = sqlx::query_scalar(
        "SELECT obj_description('outbox_emit(text, text, text, jsonb, text, jsonb, int, timestamptz, boolean)'::regprocedure)",
    )
    .fetch_one(outbox.pool())
    .await
    .unwrap();
    assert!(comment.contains("$4::jsonb") && comment.contains("repeatable => true"), "{comment}");
    let outbox: &dyn Outbox = &outbox;
    for id in ids {
        assert_eq!(outbox.get(id).await.event.aggregate_id, "42");
    }
    assert_eq!(outbox.get(other).await.event.aggregate_id, UUID);
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
    let replayed = outbox.inspect().replay(&[id], None, BY_ANN).await.unwrap();
    let [(_, Replayed::As { id: again })] = replayed[..] else { panic!("{replayed:?}") };
    let claimed = outbox.claim_one().await;
    assert_eq!((claimed.event().id, claimed.event().aggregate_type.as_str()), (again, "celery"));
    assert_eq!(claimed.event().payload.get(), payload.get());
}
