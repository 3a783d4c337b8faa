//! Runs every example, so that none of them rots: on a database of its own, with a look at what it says and leaves.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::Ask;
use pillarbox::store::postgres::PostgresStore;
use pillarbox::store::sqlite::SqliteStore;
use pillarbox::{Claims, Store, StoredEvent};
use pillarbox_testkit::TestDatabase;

/// What it printed.
fn run(mut command: Command) -> Vec<String> {
    let output = command.output().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?} failed: {errors}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// What a relay would get now, in its order.
async fn claimed(store: &dyn Store) -> Vec<Arc<StoredEvent>> {
    let ask = Ask::new(100, 1 << 20, Duration::from_secs(300));
    store.claim(ask).await.unwrap().iter().map(|claimed| Arc::clone(claimed.event())).collect()
}

async fn claimed_types(store: &dyn Store) -> Vec<String> {
    claimed(store).await.iter().map(|event| event.event_type.clone()).collect()
}

/// An example on PostgreSQL: what it printed, and the types of the events that it left.
async fn run_on_postgres(program: &str) -> (Vec<String>, Vec<String>) {
    let database = TestDatabase::create().await;
    let mut command = Command::new(program);
    command.env("DATABASE_URL", database.url());
    let printed = run(command);
    let store = PostgresStore::connect(&database.url(), "public").await.unwrap();
    let left = claimed_types(&store).await;
    (printed, left)
}

#[tokio::test]
async fn sqlx_postgres() {
    let (printed, left) = run_on_postgres(env!("CARGO_BIN_EXE_sqlx_postgres")).await;
    let expected = [
        "order.placed of Order:1 is pending",
        "order.placed of Order:1 is a duplicate",
        "it exists: true",
        "3 updates emitted",
        "order.placed of Order:2 never existed",
    ];
    assert_eq!(printed, expected);
    assert_eq!(left, ["order.placed", "order.updated", "order.updated", "order.updated"]);
}

#[tokio::test]
async fn handlers_postgres() {
    let (printed, left) = run_on_postgres(env!("CARGO_BIN_EXE_handlers_postgres")).await;
    let expected =
        [r#"order.placed of Order:1 arrived: {"cents": 1990}"#, r#"order.placed of Order:2 arrived: {"cents": 750}"#];
    assert_eq!(printed, expected);
    assert_eq!(left, Vec::<String>::new());
}

#[tokio::test]
async fn tokio_postgres() {
    let (printed, left) = run_on_postgres(env!("CARGO_BIN_EXE_tokio_postgres")).await;
    assert_eq!(printed, ["order.placed of Order:1 is pending", "order.placed of Order:2 never existed"]);
    assert_eq!(left, ["order.placed"]);
}

#[tokio::test]
async fn diesel() {
    let (printed, left) = run_on_postgres(env!("CARGO_BIN_EXE_diesel")).await;
    let expected = [
        r#"rolled back: Err("the card was refused")"#,
        "emit was called outside a transaction; begin one, and write your data and the event in it",
        "order.placed of Order:1 is pending",
        "order.placed of Order:2 never existed",
    ];
    assert_eq!(printed, expected);
    assert_eq!(left, ["order.placed"]);
}

#[tokio::test]
async fn diesel_async() {
    let (printed, left) = run_on_postgres(env!("CARGO_BIN_EXE_diesel_async")).await;
    let expected = [
        "order.placed of Order:1 is pending",
        r#"rolled back: Err("the card was refused")"#,
        "order.placed of Order:2 never existed",
        "emit was called outside a transaction; begin one, and write your data and the event in it",
    ];
    assert_eq!(printed, expected);
    assert_eq!(left, ["order.placed"]);
}

#[tokio::test]
async fn sea_orm() {
    let (printed, left) = run_on_postgres(env!("CARGO_BIN_EXE_sea_orm")).await;
    assert_eq!(printed, ["order.placed of Order:1 is pending", "order.placed of Order:2 never existed"]);
    assert_eq!(left, ["order.placed"]);
}

#[tokio::test]
async fn celery_tasks() {
    let (printed, left) = run_on_postgres(env!("CARGO_BIN_EXE_celery_tasks")).await;
    let expected = [
        "orders.remind has an id of 36 characters",
        "a chain of 3 tasks, its result is the last one's: true",
        "a chord of 4 tasks",
        "the event was not emitted: the Celery task \"\" cannot be sent: its name is empty; set the name that the \
         worker has registered",
    ];
    assert_eq!(printed, expected);
    assert_eq!(left, ["orders.charge", "stock.weigh"], "the reminder is due later, the last order never existed");
}

#[test]
fn sqlx_sqlite() {
    let mut printed = run(Command::new(env!("CARGO_BIN_EXE_sqlx_sqlite")));
    // The two are handled at the same time.
    printed[..2].sort();
    // The guide's quick start shows this output.
    let guide = include_str!("../../docs/start/rust.md");
    let shown = guide.split_once("```text\n").unwrap().1.split_once("```").unwrap().0;
    assert_eq!(shown.lines().count(), 3);
    assert_eq!(printed, shown.lines().collect::<Vec<_>>());
}

#[test]
fn in_process_handlers() {
    let printed = run(Command::new(env!("CARGO_BIN_EXE_in_process_handlers")));
    let expected = [
        "created order.placed",
        "  mailed ann@example.com",
        "sent order.placed to handler order.placed",
        "created order.placed",
        r#"dead letter order.placed: "nobody" is not an address"#,
        "created order.paid",
        "  audited order.paid",
        "sent order.paid to handler order.*",
    ];
    assert_eq!(printed, expected);
}

#[test]
fn http_relay() {
    let printed = run(Command::new(env!("CARGO_BIN_EXE_http_relay")));
    let [placed, paid, pass] = printed.try_into().unwrap();
    assert!(placed.starts_with(r#"received {"cents":1990}, id "#), "{placed}");
    assert!(placed.ends_with(", tenant none, signature v1"), "{placed}");
    assert!(paid.starts_with("received {}, id ") && paid.ends_with(", tenant acme, signature v1"), "{paid}");
    assert_eq!(pass, "2 processed, 0 remaining");
}

#[tokio::test]
async fn emit_sql() {
    let database = TestDatabase::create().await;
    let store = PostgresStore::connect(&database.url(), "public").await.unwrap();
    store.migrate().await.unwrap();
    sqlx::raw_sql(include_str!("../emit.sql")).execute(store.pool()).await.unwrap();
    assert_eq!(store.remaining().await.unwrap(), 1);
    assert_eq!(claimed_types(&store).await, ["order.placed"]);
    let all: i64 = sqlx::query_scalar("SELECT count(*) FROM outbox_event").fetch_one(store.pool()).await.unwrap();
    assert_eq!(all, 2, "the reminder is due later, the lost one never existed");
}

#[tokio::test]
async fn emit_py() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shop.db");
    let store = SqliteStore::open(&path).await.unwrap();
    store.migrate().await.unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("emit.py");
    let mut command = Command::new("python3");
    command.arg(script).arg(&path);
    let [placed, twice, refused] = run(command).try_into().unwrap();
    assert!(placed.starts_with("order 1 is placed, event ") && placed.ends_with(" is in the outbox"), "{placed}");
    assert!(twice.starts_with("the duplicate is refused: UNIQUE constraint failed"), "{twice}");
    assert_eq!(refused, "order 2 is not placed: the card was refused; its events: 0");
    let [event] = claimed(&store).await.try_into().expect("one event");
    assert_eq!((&*event.idempotency_key, event.payload.get()), ("Order:1", r#"{"cents": 1990}"#));
}
