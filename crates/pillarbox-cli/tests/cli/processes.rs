//! Relays as processes beside others: a busy file, another relay, a stop and a death.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use pillarbox::store::sqlite::SqliteStore;
use pillarbox::store::{EventView, Filter, Paging, State};
use pillarbox::{Event, Inspect, emit_all};
use pillarbox_testkit::process::Program;
use pillarbox_testkit::receiver::{Answer, Receiver};
use pillarbox_testkit::wait_until;

use crate::delivering::{PATIENCE, to_receiver};
use crate::home::Home;

async fn outbox(home: &Home) -> SqliteStore {
    let store = SqliteStore::open(home.path("pillarbox.db")).await.unwrap();
    store.migrate().await.unwrap();
    store
}

/// In one transaction.
async fn emit_orders(store: &SqliteStore, orders: std::ops::Range<usize>) {
    let mut tx = store.pool().begin_with("BEGIN IMMEDIATE").await.unwrap();
    emit_all(&mut tx, orders.map(|order| Event::new("Order", order, "order.placed"))).await.unwrap();
    tx.commit().await.unwrap();
}

async fn events(store: &SqliteStore) -> Vec<EventView> {
    store.list(&Filter::default(), &Paging::first(1000)).await.unwrap().events
}

async fn delivered(store: &SqliteStore, count: u64) {
    wait_until("all are delivered", PATIENCE, async || store.counts().await.unwrap().delivered == count).await;
}

async fn start(home: &Home) -> Program {
    let relay = Program::start(home.command(&["relay"]));
    relay.wait_for_line("relay started", PATIENCE).await.unwrap();
    relay
}

/// In good order, and without complaints of its own; sqlx may say that a statement took long.
async fn stop(mut relay: Program) {
    assert!(relay.terminate(PATIENCE).await.unwrap().success());
    let complains = |line: &String| line.contains("WARN pillarbox") || line.contains("ERROR pillarbox");
    assert!(!relay.lines().iter().any(complains), "{:?}", relay.lines());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_file_is_waited_for_and_nothing_is_lost_or_sent_again() {
    const HELD: Duration = Duration::from_secs(1);
    let receiver = Receiver::start().await;
    let home = to_receiver(&receiver, "");
    let store = outbox(&home).await;
    emit_orders(&store, 0..5).await;

    // Before the claim: nothing can be sent while somebody else writes.
    let writing = store.pool().begin_with("BEGIN IMMEDIATE").await.unwrap();
    let relay = start(&home).await;
    assert!(receiver.wait_for(1, HELD).await.is_err());
    writing.rollback().await.unwrap();
    delivered(&store, 5).await;

    // Between the claim and the settle: what was sent is settled later.
    receiver.answer_with(|_| Answer::ok().after(HELD / 4));
    emit_orders(&store, 5..6).await;
    receiver.wait_for(6, PATIENCE).await.unwrap();
    let writing = store.pool().begin_with("BEGIN IMMEDIATE").await.unwrap();
    assert!(receiver.wait_for(7, HELD).await.is_err());
    writing.rollback().await.unwrap();
    delivered(&store, 6).await;
    stop(relay).await;
    assert_eq!((receiver.count(), receiver.distinct()), (6, 6));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_relays_on_one_file_send_each_event_once() {
    let receiver = Receiver::start().await;
    let home = to_receiver(&receiver, "[relay]\nbatch_size = 10\n");
    let store = outbox(&home).await;
    let relays = [start(&home).await, start(&home).await];
    for batch in 0..10 {
        emit_orders(&store, batch * 30..(batch + 1) * 30).await;
    }
    delivered(&store, 300).await;
    for relay in relays {
        stop(relay).await;
    }
    assert_eq!((receiver.count(), receiver.distinct()), (300, 300));
}

/// More than fits into two sends at once, to a receiver that does not answer.
async fn at_work(more: &str) -> (Receiver, Home, SqliteStore, Program) {
    let receiver = Receiver::start().await;
    receiver.answer_with(|_| Answer::Hang);
    let home = to_receiver(&receiver, &format!("concurrency = 2\ntimeout = \"4s\"\n{more}"));
    let store = outbox(&home).await;
    emit_orders(&store, 0..20).await;
    let relay = start(&home).await;
    receiver.wait_for(2, PATIENCE).await.unwrap();
    assert_eq!(store.counts().await.unwrap().sending, 20);
    (receiver, home, store, relay)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_is_stopped_gives_back_what_it_has_at_once() {
    let (receiver, _home, store, mut relay) = at_work("[relay]\nshutdown_timeout = \"100ms\"\n").await;
    assert!(relay.terminate(PATIENCE).await.unwrap().success());
    let events = events(&store).await;
    assert_eq!(events.len(), 20);
    assert!(events.iter().all(|event| event.state == State::Due && event.attempts == 0 && event.claims == 0));
    assert_eq!(store.counts().await.unwrap().relays.len(), 0);
    assert_eq!(receiver.count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_relay_had_is_taken_over_when_its_lease_ends() {
    let (receiver, home, store, mut relay) = at_work("[relay]\nlease = \"5s\"\n").await;
    relay.kill().await;
    let left = events(&store).await;
    assert!(left.iter().all(|event| event.state == State::Sending), "{left:?}");
    receiver.answer_with(|_| Answer::ok());
    let next = start(&home).await;
    delivered(&store, 20).await;
    stop(next).await;

    for (before, after) in left.iter().zip(events(&store).await) {
        assert_eq!(before.id, after.id);
        assert!(
            after.delivered_at >= before.next_attempt_at,
            "{after:?} was leased until {:?}",
            before.next_attempt_at
        );
    }
    assert_eq!(receiver.accepted_by_id().into_values().collect::<Vec<_>>(), [1; 20]);
    assert_eq!(receiver.count(), 22, "only what was under way is sent again");
}
