//! Leases: long sends keep theirs, queues keep theirs, and what may kill relays is sent alone.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pillarbox::store::Ask;
use pillarbox::{Destination, RelaySettings, Status, Store};
use pillarbox_testkit::wait_until;

use crate::fixture::{Gate, Outbox, PATIENCE, all_to, impatient, while_running};

#[tokio::test]
async fn a_long_handler_keeps_its_event() {
    let outbox = Outbox::new().await;
    let id = outbox.emit("order.placed", 1).await[0];
    let gate = Gate::closed();
    let lease = Duration::from_millis(200);
    let settings = RelaySettings { lease, ..impatient() };
    let destination = Destination::new("a", gate.clone()).timeout(None);
    let relay = outbox.relay().settings(settings).destination(destination).route(all_to("a")).build().unwrap();
    while_running(&relay, async {
        wait_until("it is inside", PATIENCE, async || gate.inside.load(Ordering::SeqCst) == 1).await;
        let began = std::time::Instant::now();
        wait_until("its lease would have run out three times", PATIENCE, async || {
            let ask = Ask::new(1, 1, lease);
            assert!(outbox.store.claim(ask).await.unwrap().is_empty(), "nobody else gets it");
            began.elapsed() > 3 * lease
        })
        .await;
        gate.open.add_permits(1);
        wait_until("it is delivered", PATIENCE, async || outbox.counts().await.delivered == 1).await;
    })
    .await;
    assert_eq!(gate.done.load(Ordering::SeqCst), 1);
    assert_eq!(outbox.get(id).await.event.claims, 0);
}

#[tokio::test]
async fn what_waits_in_the_queue_of_a_slow_destination_stays_ours_and_loses_nothing() {
    let outbox = Outbox::new().await;
    let ids = outbox.emit("order.placed", 5).await;
    let gate = Gate::closed();
    let lease = Duration::from_millis(200);
    let settings = RelaySettings { lease, ..impatient() };
    let destination = Destination::new("a", gate.clone()).timeout(None).concurrency(1);
    let relay = outbox.relay().settings(settings).destination(destination).route(all_to("a")).build().unwrap();
    while_running(&relay, async {
        wait_until("one is inside", PATIENCE, async || gate.inside.load(Ordering::SeqCst) == 1).await;
        let began = std::time::Instant::now();
        wait_until("its lease would have run out three times", PATIENCE, async || {
            let ask = Ask::new(10, usize::MAX, lease);
            assert!(outbox.store.claim(ask).await.unwrap().is_empty(), "nobody else gets them");
            began.elapsed() > 3 * lease
        })
        .await;
        gate.open.add_permits(5);
        wait_until("all are delivered", PATIENCE, async || outbox.counts().await.delivered == 5).await;
    })
    .await;
    assert_eq!(gate.done.load(Ordering::SeqCst), ids.len());
}

#[tokio::test]
async fn an_event_that_may_kill_relays_is_sent_while_nothing_else_is() {
    let outbox = Outbox::new().await;
    outbox.emit("suspect", 3).await;
    for _ in 0..2 {
        let claim = outbox.store.claim(Ask::new(10, usize::MAX, Duration::ZERO)).await.unwrap();
        assert_eq!(claim.len(), 3);
        std::mem::forget(claim);
    }
    outbox.emit("order.placed", 10).await;
    let gate = Gate::closed();
    let destination = Destination::new("a", gate.clone()).concurrency(8);
    let relay = outbox.relay().destination(destination).route(all_to("a")).build().unwrap();
    while_running(&relay, async {
        for done in 0..3 {
            wait_until("one is inside", PATIENCE, async || gate.inside.load(Ordering::SeqCst) == 1).await;
            assert_eq!(gate.done.load(Ordering::SeqCst), done);
            assert_eq!(outbox.counts().await.sending, 1);
            gate.open.add_permits(1);
            wait_until("it is out", PATIENCE, async || gate.done.load(Ordering::SeqCst) == done + 1).await;
        }
        gate.open.add_permits(10);
        wait_until("all are delivered", PATIENCE, async || outbox.counts().await.delivered == 13).await;
    })
    .await;
}

#[tokio::test]
async fn an_event_that_waits_to_be_sent_alone_does_not_keep_the_relay_from_stopping() {
    let outbox = Outbox::new().await;
    let gate = Gate::closed();
    let settings = RelaySettings { shutdown_timeout: Duration::from_millis(50), ..impatient() };
    let destination = Destination::new("a", gate.clone()).timeout(None);
    let relay = outbox.relay().settings(settings).destination(destination).route(all_to("a")).build().unwrap();
    let suspect = outbox.emit("suspect", 1).await[0];
    for _ in 0..2 {
        let claim = outbox.store.claim(Ask::new(10, usize::MAX, Duration::ZERO)).await.unwrap();
        std::mem::forget(claim);
    }
    let answer = outbox.store.claim(Ask::new(10, usize::MAX, PATIENCE)).await.unwrap();
    outbox.emit("order.placed", 1).await;
    while_running(&relay, async {
        wait_until("one is inside", PATIENCE, async || gate.inside.load(Ordering::SeqCst) == 1).await;
        drop(answer);
        wait_until("the suspect is claimed, too", PATIENCE, async || outbox.counts().await.sending == 2).await;
    })
    .await;
    let event = outbox.get(suspect).await.event;
    assert_eq!((event.status, event.claims, gate.most.load(Ordering::SeqCst)), (Status::Pending, 2, 1));
}
