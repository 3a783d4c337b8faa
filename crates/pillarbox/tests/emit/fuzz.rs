//! Whatever `outbox_emit` accepts, the program can read: it is listed, shown, claimed and settled, and never an error.

use pillarbox::store::{Filter, Paging, State};
use pillarbox::{Event, Inspect};
use pillarbox_testkit::conformance::outbox::{ASK, deliver};
use pillarbox_testkit::conformance::{Outbox, PostgresOutbox};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::value::RawValue;

/// Each takes a few milliseconds of a real database.
const CASES: u32 = 150;

/// The arguments of a call.
#[derive(Debug, Clone)]
struct Call {
    aggregate_type: Option<String>,
    aggregate_id: Option<String>,
    event_type: Option<String>,
    payload: Option<String>,
    key: Option<String>,
    headers: Option<String>,
    max_attempts: Option<i32>,
    deliver_at: Option<String>,
}

fn name() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        6 => "[^\0]{1,12}".prop_map(Some),
        2 => "[a-zé😀.]{90,110}".prop_map(Some),
        1 => "[a-z]{250,260}".prop_map(Some),
        1 => Just(Some("celery".to_owned())),
        1 => Just(Some(String::new())),
        1 => Just(None),
    ]
}

/// JSON text, some of which is none that a database holds.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        any::<f64>().prop_map(|number| serde_json::json!(number).to_string()),
        "-?(0|[1-9][0-9]{0,40})([.][0-9]{1,40})?([eE][+-]?[0-9]{1,6})?",
        "\\PC{0,16}".prop_map(|text| serde_json::json!(text).to_string()),
        r#""(\\u[0-9a-f]{4}|\\u00e9|[a-z]|\\n){0,6}""#,
        Just("null".to_owned()),
        Just(r#"{"celery": 1, "body": "", "headers": {}}"#.to_owned()),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(", "))),
            proptest::collection::vec(("\\PC{0,6}", inner), 0..4).prop_map(|members| {
                let member = |(name, value): (String, String)| format!("{}: {value}", serde_json::json!(name));
                format!("{{{}}}", members.into_iter().map(member).collect::<Vec<_>>().join(", "))
            }),
        ]
    })
}

fn headers() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        Just(None),
        Just(Some(r#"{"tenant": "acme", "level": 3, "deep": {"a": [null]}}"#.to_owned())),
        json().prop_map(Some),
    ]
}

fn moment() -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        3 => Just(None),
        3 => "(19|20)[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]) [01][0-9]:[0-5][0-9]:[0-5][0-9][.][0-9]{1,6}Z".prop_map(Some),
        1 => proptest::sample::select(vec!["infinity", "-infinity", "290000-01-01", "4713-01-01 BC", "2200-01-01"])
            .prop_map(|moment| Some(moment.to_owned())),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    let names = (name(), name(), name(), prop_oneof![Just(None), name()]);
    let rest = (proptest::option::of(json()), headers(), proptest::option::of(-3..1000_i32), moment());
    (names, rest).prop_map(
        |((aggregate_type, aggregate_id, event_type, key), (payload, headers, max_attempts, deliver_at))| Call {
            aggregate_type,
            aggregate_id,
            event_type,
            payload,
            key,
            headers,
            max_attempts,
            deliver_at,
        },
    )
}

impl Call {
    /// Whether it was emitted; a refusal is one of the database's own.
    async fn make(&self, outbox: &PostgresOutbox) -> bool {
        let call = sqlx::query(
            "SELECT outbox_emit($1, $2, $3, $4::text::jsonb, $5, $6::text::jsonb, $7, $8::text::timestamptz)",
        )
        .bind(&self.aggregate_type)
        .bind(&self.aggregate_id)
        .bind(&self.event_type)
        .bind(&self.payload)
        .bind(&self.key)
        .bind(&self.headers)
        .bind(self.max_attempts)
        .bind(&self.deliver_at);
        match call.execute(outbox.pool()).await {
            Ok(_) => true,
            Err(sqlx::Error::Database(_)) => false,
            Err(error) => panic!("{error}"),
        }
    }
}

/// What was accepted is seen by everybody who looks, and ends.
async fn is_read(outbox: &PostgresOutbox) {
    let inspect = outbox.postgres();
    for state in [None, Some(State::Pending), Some(State::Due), Some(State::Scheduled)] {
        inspect.list(&Filter { state, ..Filter::default() }, &Paging::default()).await.unwrap();
    }
    let all = inspect.list(&Filter::default(), &Paging::default()).await.unwrap();
    let event = &all.events[0];
    let detail = inspect.get(event.id).await.unwrap().unwrap();
    serde_json::to_string(&detail).unwrap();
    inspect.find(&event.idempotency_key).await.unwrap();
    inspect.neighbours(event.id).await.unwrap();
    inspect.depth().await.unwrap();
    let outbox: &dyn Outbox = outbox;
    outbox.store().next_due().await.unwrap();
    let claim = outbox.claim_with(ASK).await;
    assert_eq!(claim.len(), usize::from(event.state == State::Due), "{event:?}");
    outbox.settle(claim.into_iter().map(deliver).collect()).await;
}

#[test]
fn what_outbox_emit_accepts_can_be_read() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let outbox = runtime.block_on(PostgresOutbox::create());
    let accepted = std::cell::Cell::new(0);
    let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
    let result = runner.run(&call(), |call| {
        runtime.block_on(async {
            if call.make(&outbox).await {
                accepted.set(accepted.get() + 1);
                is_read(&outbox).await;
            }
            outbox.execute("TRUNCATE outbox_event").await;
        });
        Ok(())
    });
    result.unwrap();
    assert!(accepted.get() > CASES / 10, "only {} calls were accepted", accepted.get());
}

/// What the crate lets pass, the database takes.
#[test]
fn what_the_crate_accepts_the_database_takes() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let outbox = runtime.block_on(PostgresOutbox::create());
    let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
    let event = |payload: &str| {
        let payload = RawValue::from_string(payload.to_owned()).ok()?;
        Some(Event::new("Order", 1, "order.placed").repeatable().payload(payload))
    };
    let result = runner.run(&json(), |payload| {
        if event(&payload).is_some_and(|event| event.prepare().is_ok()) {
            let emitted = runtime.block_on(outbox.postgres().emit(event(&payload).unwrap()));
            let emitted = emitted.map_err(|error| TestCaseError::fail(error.to_string()))?;
            runtime
                .block_on(outbox.postgres().get(emitted.id))
                .map_err(|error| TestCaseError::fail(error.to_string()))?;
        }
        Ok(())
    });
    result.unwrap();
}
