//! Leases: long sends keep theirs, queues keep theirs, and what may kill relays is sent alone.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pillarbox::store::{Ask, LOSSES_BEFORE_ALONE, LOSSES_BEFORE_APART};
use pillarbox::{Claims, Destination, RelaySettings};
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
async fn an_event_that_may_kill_relays_is_blamed_only_until_others_are_sent_beside_it() {
    let outbox = Outbox::new().await;
    let suspect = outbox.emit("suspect", 1).await[0];
    for _ in 0..LOSSES_BEFORE_ALONE {
        let claim = outbox.store.claim(Ask::new(10, usize::MAX, Duration::ZERO)).await.unwrap();
        assert_eq!(claim.len(), 1);
        std::mem::forget(claim);
    }
    let gate = Gate::closed();
    let destination = Destination::new("a", gate.clone()).concurrency(8);
    let relay = outbox.relay().destination(destination).route(all_to("a")).build().unwrap();
    let losses = async || outbox.get(suspect).await.event.claims;
    while_running(&relay, async {
        wait_until("it is inside", PATIENCE, async || gate.inside.load(Ordering::SeqCst) == 1).await;
        assert_eq!(losses().await, LOSSES_BEFORE_ALONE, "if the relay dies now, it was this one");
        outbox.emit("order.placed", 10).await;
        // Eight workers, and the one that is sent beside them.
        wait_until("others do not wait for it", PATIENCE, async || gate.inside.load(Ordering::SeqCst) == 9).await;
        assert_eq!(losses().await, LOSSES_BEFORE_ALONE - 1, "it may have been another one");
        gate.open.add_permits(11);
        wait_until("all are delivered", PATIENCE, async || outbox.counts().await.delivered == 11).await;
    })
    .await;
}

#[tokio::test]
async fn a_single_pass_blames_what_it_sends_alone() {
    let outbox = Outbox::new().await;
    let suspect = outbox.emit("suspect", 1).await[0];
    for _ in 0..LOSSES_BEFORE_ALONE {
        std::mem::forget(outbox.store.claim(Ask::new(10, usize::MAX, Duration::ZERO)).await.unwrap());
    }
    let gate = Gate::closed();
    let relay = outbox.relay().destination(Destination::new("a", gate.clone())).route(all_to("a")).build().unwrap();
    let test = async {
        wait_until("it is inside", PATIENCE, async || gate.inside.load(Ordering::SeqCst) == 1).await;
        assert_eq!(outbox.get(suspect).await.event.claims, LOSSES_BEFORE_ALONE);
        gate.open.add_permits(1);
    };
    let (pass, ()) = tokio::join!(relay.run_once(), test);
    assert_eq!(pass.unwrap().processed, 1);
}

#[tokio::test]
async fn many_suspects_hold_up_nobody_and_are_sent_together() {
    let outbox = Outbox::new().await;
    outbox.emit("suspect", 40).await;
    for _ in 0..LOSSES_BEFORE_APART {
        let claim = outbox.store.claim(Ask::new(100, usize::MAX, Duration::ZERO)).await.unwrap();
        assert_eq!(claim.len(), 40);
        std::mem::forget(claim);
    }
    outbox.emit("order.placed", 10).await;
    // Nothing is answered: with one suspect at a time neither the other suspects nor the rest would ever come in.
    let gate = Gate::closed();
    let destination = Destination::new("a", gate.clone()).concurrency(50);
    let relay = outbox.relay().destination(destination).route(all_to("a")).build().unwrap();
    while_running(&relay, async {
        wait_until("all are inside", PATIENCE, async || gate.inside.load(Ordering::SeqCst) == 50).await;
        gate.open.add_permits(50);
        wait_until("all are delivered", PATIENCE, async || outbox.counts().await.delivered == 50).await;
    })
    .await;
}
