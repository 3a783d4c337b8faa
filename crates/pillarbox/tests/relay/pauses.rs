//! Destinations that people pause: nothing is sent there, whatever else is going on, and nobody else misses anything.

use pillarbox::{Inspect, Route};
use pillarbox_testkit::wait_until;

use crate::fixture::{Outbox, PATIENCE, Place, all_to, while_running};

async fn parked(outbox: &Outbox) -> u64 {
    outbox.counts().await.parked.iter().map(|parked| parked.count).sum()
}

#[tokio::test]
async fn a_destination_that_people_pause_gets_nothing_until_they_resume_it() {
    let outbox = Outbox::new().await;
    let place = Place::fine();
    let relay = outbox.relay().destination(place.as_destination("a")).route(all_to("a")).build().unwrap();
    outbox.store.pause("a", "ann").await.unwrap();
    let first = outbox.emit("order.placed", 3).await;
    while_running(&relay, async {
        wait_until("they wait", PATIENCE, async || parked(&outbox).await == 3).await;
        assert_eq!(place.asked(), 0);
        outbox.store.resume("a", "ann").await.unwrap();
        wait_until("they arrive", PATIENCE, async || outbox.counts().await.delivered == 3).await;
        outbox.store.pause("a", "ann").await.unwrap();
        let status = relay.monitor();
        let is_paused = || status.status().is_some_and(|status| status.destinations[0].paused);
        wait_until("the relay has heard of it", PATIENCE, async || is_paused()).await;
        outbox.emit("order.placed", 2).await;
        wait_until("they wait again", PATIENCE, async || parked(&outbox).await == 2).await;
    })
    .await;
    assert_eq!(place.got().len(), first.len());
}

#[tokio::test]
async fn one_that_is_down_is_not_probed_while_it_is_paused() {
    let outbox = Outbox::new().await;
    let place = Place::down();
    let relay = outbox.relay().destination(place.as_destination("a")).route(all_to("a")).build().unwrap();
    outbox.emit("order.placed", 5).await;
    while_running(&relay, async {
        wait_until("all but the probe wait", PATIENCE, async || parked(&outbox).await == 4).await;
        outbox.store.pause("a", "ann").await.unwrap();
        wait_until("the probe waits, too", PATIENCE, async || parked(&outbox).await == 5).await;
        place.now(|_| Ok(()));
        let asked = place.asked();
        // Another destination's outage would be over by now: the same relay goes on with others meanwhile.
        let status = relay.monitor();
        wait_until("nothing is under way", PATIENCE, async || {
            status.status().is_some_and(|status| status.in_flight == 0)
        })
        .await;
        assert_eq!(place.asked(), asked);
        outbox.store.resume("a", "ann").await.unwrap();
        wait_until("they arrive", PATIENCE, async || outbox.counts().await.delivered == 5).await;
    })
    .await;
}

#[tokio::test]
async fn a_pause_keeps_nothing_from_the_other_destinations_of_an_event() {
    let outbox = Outbox::new().await;
    let (paused, other) = (Place::fine(), Place::down());
    let relay = outbox
        .relay()
        .destination(paused.as_destination("a"))
        .destination(other.as_destination("b"))
        .route(Route::new("*", ["a", "b"]))
        .build()
        .unwrap();
    outbox.store.pause("a", "ann").await.unwrap();
    let ids = outbox.emit("order.placed", 3).await;
    while_running(&relay, async {
        wait_until("they wait", PATIENCE, async || parked(&outbox).await == 3).await;
        other.now(|_| Ok(()));
        wait_until("the other has them", PATIENCE, async || other.got().len() == ids.len()).await;
        assert_eq!(paused.asked(), 0);
    })
    .await;
}

#[tokio::test]
async fn of_two_that_are_paused_the_one_that_is_resumed_gets_what_it_missed() {
    let outbox = Outbox::new().await;
    let (still, resumed) = (Place::fine(), Place::fine());
    let relay = outbox
        .relay()
        .destination(still.as_destination("a"))
        .destination(resumed.as_destination("b"))
        .route(Route::new("*", ["a", "b"]))
        .build()
        .unwrap();
    outbox.store.pause("a", "ann").await.unwrap();
    outbox.store.pause("b", "ann").await.unwrap();
    let ids = outbox.emit("order.placed", 3).await;
    while_running(&relay, async {
        wait_until("they wait", PATIENCE, async || parked(&outbox).await == 3).await;
        outbox.store.resume("b", "ann").await.unwrap();
        wait_until("it has them", PATIENCE, async || resumed.got().len() == ids.len()).await;
        wait_until("they wait for the other", PATIENCE, async || parked(&outbox).await == 3).await;
        assert_eq!(still.asked(), 0);
        outbox.store.resume("a", "ann").await.unwrap();
        wait_until("all is delivered", PATIENCE, async || outbox.counts().await.delivered == 3).await;
    })
    .await;
    assert_eq!((still.got().len(), resumed.got().len()), (3, 3), "each once");
}
