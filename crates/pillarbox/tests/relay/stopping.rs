//! The end of a relay, whatever is under way: nothing stays leased, nothing goes on behind its back, nothing hangs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pillarbox::{Destination, Relay, RelaySettings};
use pillarbox_testkit::wait_until;

use crate::fixture::{Gate, Outbox, PATIENCE, Place, all_to, impatient, while_running};
use crate::settling::Flaky;

#[tokio::test]
async fn a_relay_that_stops_in_an_outage_gives_its_probe_back() {
    let outbox = Outbox::new().await;
    outbox.emit("order.placed", 1).await;
    let store = Flaky::over(&outbox);
    let fails = Arc::clone(&store.fails);
    let place = Place::down();
    let relay = Relay::builder(Arc::new(store))
        .settings(impatient())
        .destination(place.as_destination("a"))
        .route(all_to("a"))
        .build()
        .unwrap();
    while_running(&relay, async {
        wait_until("it is probed", PATIENCE, async || place.asked() >= 5).await;
        // A settle that does not succeed at once shows whether it is waited for.
        fails.store(2, Ordering::SeqCst);
    })
    .await;
    let counts = outbox.counts().await;
    assert_eq!((counts.sending, counts.parked.len()), (0, 1));
}

#[tokio::test]
async fn a_database_that_does_not_answer_keeps_no_relay_from_stopping() {
    for verb in ["claim", "farewell"] {
        let outbox = Outbox::new().await;
        let store = Flaky { silent_on: Some(verb), ..Flaky::over(&outbox) };
        let claims = Arc::clone(&store.claims);
        let settings = RelaySettings { shutdown_timeout: Duration::from_millis(50), ..impatient() };
        let relay = Relay::builder(Arc::new(store)).settings(settings).build().unwrap();
        let ended = while_running(&relay, async {
            wait_until("it claims", PATIENCE, async || claims.load(Ordering::SeqCst) > 0).await;
        });
        tokio::time::timeout(PATIENCE, ended).await.expect("it ends although the database is silent");
    }
}

#[tokio::test]
async fn a_run_that_is_dropped_gives_back_what_it_had() {
    let outbox = Outbox::new().await;
    outbox.emit("order.placed", 5).await;
    let gate = Gate::closed();
    let destination = Destination::new("a", gate.clone()).concurrency(2);
    let relay = outbox.relay().destination(destination).route(all_to("a")).build().unwrap();
    tokio::select! {
        ended = relay.run(std::future::pending()) => ended.unwrap(),
        () = wait_until("two are inside", PATIENCE, async || gate.inside.load(Ordering::SeqCst) == 2) => {}
    }
    wait_until("all are given back", PATIENCE, async || outbox.counts().await.due == 5).await;
}

#[tokio::test]
async fn a_run_that_is_dropped_while_it_starts_ends_what_it_began() {
    let outbox = Outbox::new().await;
    let store = Flaky { silent_on: Some("wake"), ..Flaky::over(&outbox) };
    let wakers = Arc::clone(&store.wakers);
    let relay = Relay::builder(Arc::new(store)).settings(impatient()).build().unwrap();
    tokio::select! {
        ended = relay.run(std::future::pending()) => ended.unwrap(),
        () = wait_until("it is about to listen", PATIENCE, async || !wakers.lock().unwrap().is_empty()) => {}
    }
    let waker = wakers.lock().unwrap()[0].clone();
    tokio::time::timeout(PATIENCE, waker.relay_gone()).await.expect("the store is told that the relay is gone");
}

#[tokio::test]
async fn a_relay_whose_run_was_dropped_can_do_single_passes() {
    let outbox = Outbox::new().await;
    let gate = Gate::closed();
    let relay = outbox.relay().destination(Destination::new("a", gate.clone())).route(all_to("a")).build().unwrap();
    tokio::select! {
        ended = relay.run(std::future::pending()) => ended.unwrap(),
        () = wait_until("it runs", PATIENCE, async || outbox.counts().await.relays.len() == 1) => {}
    }
    outbox.emit("order.placed", 2).await;
    let open = async {
        wait_until("they are being sent", PATIENCE, async || gate.inside.load(Ordering::SeqCst) == 2).await;
        gate.open.add_permits(2);
    };
    let (pass, ()) = tokio::join!(relay.drain(), open);
    assert_eq!(pass.unwrap().processed, 2);
    assert_eq!(outbox.counts().await.delivered, 2);
}
