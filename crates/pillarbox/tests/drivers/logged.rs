//! Emit into the write-ahead log, through any driver of PostgreSQL.

use pillarbox::celery::Task;
use pillarbox::{EmitError, Event};
use pillarbox_testkit::LoggedPostgres;

use crate::fixture::{Driver, End, Step};

fn again(order: u32) -> Event {
    Event::new("Order \"ä\"", order, "order.updated")
        .payload([order])
        .header("tenant", "a\\cme")
        .max_attempts(3)
        .repeatable()
}

fn once(order: u32) -> Event {
    Event::new("Order", order, "order.placed")
}

pub(crate) async fn repeatable_events_go_into_the_log<D: Driver>() {
    let logged = LoggedPostgres::start().await;
    let mut driver = D::connect(&logged.url()).await;

    let shut = driver.transaction(vec![Step::Emit(again(1)), Step::All(vec![again(2), again(3)])], End::Commit).await;
    assert!(shut.iter().flatten().flatten().all(|emitted| emitted.seq.is_some()), "{shut:?}");
    assert_eq!((logged.rows().await, logged.events().await.len()), (3, 0), "no relay reads the log");

    logged.open_gate().await;
    let steps = || {
        vec![
            Step::Emit(again(4)),
            Step::Once(again(5)),
            Step::All(vec![again(6), again(7)]),
            Step::All(vec![again(8), once(9), again(10)]),
            Step::Task(Box::new(Task::new("orders.process").arg(42))),
        ]
    };
    let undone = driver.transaction(steps(), End::Rollback).await;
    assert!(undone.iter().all(Result::is_ok), "{undone:?}");
    assert_eq!((logged.rows().await, logged.events().await.len()), (3, 0), "they are rolled back");

    let answers = driver.transaction(steps(), End::Commit).await;
    let emitted: Vec<_> = answers.iter().flatten().flatten().collect();
    let without_seq: Vec<bool> = emitted.iter().map(|emitted| emitted.seq.is_none()).collect();
    assert_eq!(without_seq, [true, true, true, true, true, false, true], "{emitted:?}");
    assert!(emitted.iter().all(|emitted| emitted.is_new));
    let events = logged.events().await;
    let ids: Vec<&str> = events.iter().map(|event| event["id"].as_str().unwrap()).collect();
    let expected: Vec<String> =
        emitted.iter().filter(|emitted| emitted.seq.is_none()).map(|emitted| emitted.id.to_string()).collect();
    assert_eq!(ids, expected, "in their order");
    assert_eq!(events[0]["aggregate_type"], "Order \"ä\"");
    assert_eq!(events[0]["headers"]["tenant"], "a\\cme");
    assert_eq!((&events[0]["payload"][0], &events[0]["max_attempts"]), (&4.into(), &3.into()));
    assert_eq!(logged.rows().await, 5, "one with a key, and a task");

    // All or none: what is in the log is rolled back with a duplicate.
    let answers =
        driver.transaction(vec![Step::All(vec![again(11), once(9)]), Step::Emit(again(12))], End::Commit).await;
    assert!(matches!(answers[0], Err(EmitError::Duplicate { .. })), "{answers:?}");
    let events = logged.events().await;
    assert_eq!((events.len(), &events[0]["payload"][0]), (1, &12.into()));
}
