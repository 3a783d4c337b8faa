//! Emit in several transactions at once on PostgreSQL: who waits for whom, and that nobody waits in a circle.

use std::time::Duration;

use pillarbox::{EmitError, Emitted, Event, emit, emit_all, emit_once};
use pillarbox_testkit::conformance::PostgresOutbox;
use pillarbox_testkit::{conformance::Outbox, wait_until};
use tokio::task::JoinHandle;

fn placed(order: usize) -> Event {
    Event::new("Order", order, "order.placed")
}

/// Waits until a statement of the test's database waits for another transaction.
async fn somebody_waits(outbox: &PostgresOutbox) {
    let waiting =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    wait_until("a statement waits", Duration::from_secs(10), async || {
        sqlx::query_scalar::<_, i64>(waiting).fetch_one(outbox.pool()).await.unwrap() == 1
    })
    .await;
}

/// Emits in a transaction of its own, which commits.
fn emit_elsewhere(outbox: &PostgresOutbox, once: bool) -> JoinHandle<Result<Emitted, EmitError>> {
    let pool = outbox.pool().clone();
    tokio::spawn(async move {
        let mut tx = pool.begin().await.unwrap();
        let emitted = if once { emit_once(&mut tx, placed(1)).await } else { emit(&mut tx, placed(1)).await };
        tx.commit().await.unwrap();
        emitted
    })
}

#[tokio::test]
async fn a_duplicate_waits_for_the_fate_of_the_first() {
    let outbox = PostgresOutbox::create().await;
    let mut first = outbox.pool().begin().await.unwrap();
    emit(&mut first, placed(1)).await.unwrap();
    let second = emit_elsewhere(&outbox, false);
    somebody_waits(&outbox).await;
    first.rollback().await.unwrap();
    assert!(second.await.unwrap().unwrap().is_new, "the first never existed");

    sqlx::query("DELETE FROM outbox_event").execute(outbox.pool()).await.unwrap();
    let mut first = outbox.pool().begin().await.unwrap();
    emit(&mut first, placed(1)).await.unwrap();
    let second = emit_elsewhere(&outbox, false);
    somebody_waits(&outbox).await;
    first.commit().await.unwrap();
    assert!(matches!(second.await.unwrap(), Err(EmitError::Duplicate { .. })));
    assert_eq!(outbox.rows("outbox_event").await, 1);
}

#[tokio::test]
async fn emit_once_answers_what_another_transaction_has_just_committed() {
    let outbox = PostgresOutbox::create().await;
    let mut first = outbox.pool().begin().await.unwrap();
    let emitted = emit(&mut first, placed(1)).await.unwrap();
    let second = emit_elsewhere(&outbox, true);
    somebody_waits(&outbox).await;
    first.commit().await.unwrap();
    let answer = second.await.unwrap().unwrap();
    assert_eq!((answer.id, answer.is_new), (emitted.id, false));
}

#[tokio::test]
async fn under_repeatable_read_a_key_committed_meanwhile_is_a_serialisation_failure() {
    let outbox = PostgresOutbox::create().await;
    let mut tx = outbox.pool().begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    sqlx::query("SELECT count(*) FROM outbox_event").execute(&mut *tx).await.unwrap();
    emit_elsewhere(&outbox, false).await.unwrap().unwrap();
    let EmitError::Driver(error) = emit_once(&mut tx, placed(1)).await.unwrap_err() else { panic!("not the driver") };
    let error = error.downcast::<sqlx::Error>().unwrap().into_database_error().unwrap();
    assert_eq!(error.code().as_deref(), Some("40001"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_keys_in_opposite_order_do_not_deadlock() {
    const KEYS: usize = 500;
    let outbox = PostgresOutbox::create().await;
    for round in 0..4 {
        let both = [false, true].map(|reversed| {
            let pool = outbox.pool().clone();
            tokio::spawn(async move {
                let mut events: Vec<Event> = (0..KEYS).map(|key| placed(round * KEYS + key)).collect();
                if reversed {
                    events.reverse();
                }
                let mut tx = pool.begin().await.unwrap();
                let emitted = emit_all(&mut tx, events).await;
                tx.commit().await.unwrap();
                emitted
            })
        });
        let mut won = 0;
        for one in both {
            match one.await.unwrap() {
                Ok(emitted) => won += emitted.len(),
                Err(EmitError::Duplicate { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(won, KEYS, "one of them");
    }
    assert_eq!(outbox.rows("outbox_event").await, 4 * KEYS as u64);
}

#[tokio::test]
async fn emit_all_is_one_statement() {
    let outbox = PostgresOutbox::create().await;
    outbox
        .execute(
            "CREATE TABLE statements (count int);
             CREATE FUNCTION count_statement() RETURNS trigger LANGUAGE plpgsql AS
                 'BEGIN INSERT INTO statements VALUES (1); RETURN NULL; END';
             CREATE TRIGGER count_statements AFTER INSERT ON outbox_event
                 FOR EACH STATEMENT EXECUTE FUNCTION count_statement()",
        )
        .await;
    let outbox: &dyn Outbox = &outbox;
    assert_eq!(outbox.emit_many(100).await.len(), 100);
    assert_eq!(outbox.rows("statements").await, 1);
}
