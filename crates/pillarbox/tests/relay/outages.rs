//! Destinations that are down, slow, paused or silent: no attempt is used up, nobody else waits, nothing loops.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox::delivery::{Change, Verdict};
use pillarbox::relay::BreakerSettings;
use pillarbox::store::{Filter, Paging, State};
use pillarbox::{
    Destination, Inspect, Message, Observed, Observer, RelaySettings, Route, SendError, Sink, Status, StoredEvent,
};
use pillarbox_testkit::wait_until;
use tokio::sync::oneshot;

use crate::fixture::{Gate, Mute, Outbox, PATIENCE, Place, all_to, impatient, sorted, while_running};

#[tokio::test]
async fn an_outage_parks_uses_no_attempt_and_ends_by_itself() {
    let outbox = Outbox::new().await;
    let ids = outbox.emit("order.placed", 40).await;
    let place = Place::down();
    let relay = outbox.relay().destination(place.as_destination("a")).route(all_to("a")).build().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let test = async {
        wait_until("all but the probe are parked", PATIENCE, async || {
            outbox.counts().await.parked.first().is_some_and(|parked| parked.count == 39)
        })
        .await;
        // While it is down it is probed, and the rows that wait for it are not touched.
        let before = rows(&outbox).await;
        let asked = place.asked();
        wait_until("it is probed five times more", PATIENCE, async || place.asked() >= asked + 5).await;
        assert_eq!(rows(&outbox).await, before);

        place.now(|_| Ok(()));
        wait_until("all are delivered", PATIENCE, async || outbox.counts().await.delivered == 40).await;
        stop.send(()).unwrap();
    };
    let run = relay.run(async { stopped.await.unwrap() });
    let (ended, ()) = tokio::join!(run, test);
    ended.unwrap();
    assert_eq!(sorted(place.got()), sorted(ids.clone()));
    for id in ids {
        assert_eq!(outbox.get(id).await.event.attempts, 0);
    }
}

/// The parked rows, with when they were last written.
async fn rows(outbox: &Outbox) -> HashMap<uuid::Uuid, chrono::DateTime<chrono::Utc>> {
    let filter = Filter { state: Some(State::Parked), ..Filter::default() };
    let page = outbox.store.list(&filter, &Paging::first(1000)).await.unwrap();
    page.events.into_iter().map(|event| (event.id, event.updated_at)).collect()
}

/// A send from before the opening is answered while the probe is out, and the probe times out.
#[tokio::test]
async fn a_probe_that_times_out_while_an_older_send_is_answered_is_followed_by_another() {
    let outbox = Outbox::new().await;
    outbox.emit("slow", 1).await;
    let gate = Gate::closed();
    let place = Flaky { gate: gate.clone(), mood: Arc::default() };
    let settings = RelaySettings { lease: Duration::from_secs(60), ..impatient() };
    let destination = Destination::new("a", place.clone()).timeout(Duration::from_secs(3));
    let relay = outbox.relay().settings(settings).destination(destination).route(all_to("a")).build().unwrap();
    while_running(&relay, async {
        wait_until("the slow one is inside", PATIENCE, async || gate.inside.load(Ordering::SeqCst) == 1).await;
        outbox.emit("order.placed", 3).await;
        // They are refused, which opens the breaker; the probe then hangs.
        wait_until("a probe hangs", PATIENCE, async || place.mood.load(Ordering::SeqCst) == HANGING).await;
        gate.open.add_permits(1);
        wait_until("the slow one is answered", PATIENCE, async || outbox.counts().await.delivered == 1).await;
        place.mood.store(FINE, Ordering::SeqCst);
        wait_until("all are delivered", PATIENCE, async || outbox.counts().await.delivered == 4).await;
    })
    .await;
}

/// Slow ones wait at the gate. Others are refused three times, then one is left without an answer, until it is fine.
#[derive(Clone)]
struct Flaky {
    gate: Gate,
    mood: Arc<AtomicUsize>,
}

const HANGING: usize = 4;
const FINE: usize = 100;

#[async_trait]
impl Sink for Flaky {
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        if batch.iter().any(|message| message.event_type == "slow") {
            return self.gate.send(batch).await;
        }
        match self.mood.load(Ordering::SeqCst) {
            FINE => vec![Ok(()); batch.len()],
            _ if self.mood.fetch_add(1, Ordering::SeqCst) + 1 < HANGING => {
                vec![Err(SendError::unavailable("refused")); batch.len()]
            }
            _ => std::future::pending().await,
        }
    }
}

/// Nobody probes after single passes.
#[tokio::test]
async fn a_breaker_that_single_passes_opened_closes_when_the_relay_runs() {
    let outbox = Outbox::new().await;
    outbox.emit("order.placed", 20).await;
    let place = Place::down();
    let relay = outbox.relay().destination(place.as_destination("a")).route(all_to("a")).build().unwrap();
    relay.drain().await.unwrap();
    assert_eq!(outbox.counts().await.pending(), 20);
    place.now(|_| Ok(()));
    while_running(&relay, async {
        wait_until("all are delivered", PATIENCE, async || outbox.counts().await.delivered == 20).await;
    })
    .await;
}

#[tokio::test]
async fn in_single_passes_an_outage_parks_and_a_later_pass_finds_out_that_it_is_over() {
    let outbox = Outbox::new().await;
    outbox.emit("order.placed", 20).await;
    let place = Place::down();
    let relay = || outbox.relay().destination(place.as_destination("a")).route(all_to("a")).build().unwrap();
    relay().drain().await.unwrap();
    assert_eq!(outbox.counts().await.pending(), 20);
    assert!(place.asked() < 20 + 3, "{}", place.asked());
    place.now(|_| Ok(()));
    let fresh = relay();
    wait_until("passes of a new process deliver all", PATIENCE, async || {
        fresh.drain().await.unwrap();
        outbox.counts().await.delivered == 20
    })
    .await;
}

#[tokio::test]
async fn a_destination_that_is_down_does_not_hold_up_another() {
    let outbox = Outbox::new().await;
    let (down, fine) = (Place::down(), Place::fine());
    let settings = RelaySettings { batch_size: 10, ..impatient() };
    let relay = outbox
        .relay()
        .settings(settings)
        .destination(down.as_destination("down"))
        .destination(fine.as_destination("fine"))
        .route(Route::new("to.down", ["down"]))
        .route(Route::new("to.fine", ["fine"]))
        .build()
        .unwrap();
    outbox.emit("to.down", 100).await;
    outbox.emit("to.fine", 30).await;
    let (stop, stopped) = oneshot::channel::<()>();
    let test = async {
        wait_until("the other has all of its own", PATIENCE, async || fine.got().len() == 30).await;
        stop.send(()).unwrap();
    };
    let (ended, ()) = tokio::join!(relay.run(async { stopped.await.unwrap() }), test);
    ended.unwrap();
    let counts = outbox.counts().await;
    assert_eq!((counts.failed, counts.delivered, counts.pending()), (0, 30, 100));
}

#[tokio::test]
async fn a_slow_destination_does_not_hold_up_another_and_loses_nothing() {
    let outbox = Outbox::new().await;
    let (gate, fine) = (Gate::closed(), Place::fine());
    let settings = RelaySettings { batch_size: 10, ..impatient() };
    let relay = outbox
        .relay()
        .settings(settings)
        .destination(Destination::new("slow", gate.clone()).concurrency(2).timeout(PATIENCE))
        .destination(fine.as_destination("fine"))
        .route(Route::new("to.slow", ["slow"]))
        .route(Route::new("to.fine", ["fine"]))
        .build()
        .unwrap();
    outbox.emit("to.slow", 60).await;
    outbox.emit("to.fine", 30).await;
    let (stop, stopped) = oneshot::channel::<()>();
    let test = async {
        wait_until("the other has all of its own", PATIENCE, async || fine.got().len() == 30).await;
        gate.open.add_permits(60);
        wait_until("the slow one has got all, too", PATIENCE, async || outbox.counts().await.delivered == 90).await;
        stop.send(()).unwrap();
    };
    let (ended, ()) = tokio::join!(relay.run(async { stopped.await.unwrap() }), test);
    ended.unwrap();
}

/// Counts what is parked.
#[derive(Default)]
struct Parks(AtomicUsize);

impl Observer for Parks {
    fn settled(&self, _event: &StoredEvent, verdict: &Verdict) -> Observed {
        self.0.fetch_add(usize::from(matches!(verdict.change, Change::Park { .. })), Ordering::SeqCst);
        Ok(())
    }
}

/// Once it is known, nobody has to wait to find out again: its queue gets no longer than what is sent next, although there
/// is room for all.
#[tokio::test]
async fn what_comes_for_a_destination_that_is_known_to_be_slow_is_parked_at_once() {
    let outbox = Outbox::new().await;
    let (gate, fine) = (Gate::closed(), Place::fine());
    let counting = Arc::new(Parks::default());
    let relay = outbox
        .relay()
        .settings(RelaySettings { batch_size: 10, ..impatient() })
        .destination(Destination::new("slow", gate.clone()).concurrency(2).timeout(PATIENCE))
        .destination(fine.as_destination("fine").concurrency(20))
        .route(Route::new("to.slow", ["slow"]))
        .observer(Arc::clone(&counting) as Arc<dyn Observer>)
        .build()
        .unwrap();
    let parked = async || outbox.counts().await.parked.iter().map(|parked| parked.count).sum::<u64>();
    let parks = || counting.0.load(Ordering::SeqCst);
    // More than there is room for at first, which is 54.
    outbox.emit("to.slow", 100).await;
    while_running(&relay, async {
        // Two are being sent, and two are next.
        wait_until("it is slow", PATIENCE, async || parked().await == 96).await;
        for round in 1..=10 {
            gate.open.add_permits(2);
            // Then some more are let back, for which there is room.
            wait_until("only two of them are queued", PATIENCE, async || parked().await <= 96 - 2 * round).await;
        }
        assert!(parks() < 96 + 30, "{} were parked, most of them again and again", parks());
        gate.open.add_permits(80);
        wait_until("all are sent", PATIENCE, async || outbox.counts().await.delivered == 100).await;
    })
    .await;
}

#[tokio::test]
async fn a_paused_destination_gets_nothing_until_it_is_not() {
    let outbox = Outbox::new().await;
    let ids = outbox.emit("order.placed", 3).await;
    let place = Place::fine();
    let relay = |paused| {
        let destination = place.as_destination("a").paused(paused);
        outbox.relay().destination(destination).route(all_to("a")).build().unwrap()
    };
    relay(true).drain().await.unwrap();
    assert_eq!(outbox.get(ids[0]).await.event.parked_on.as_deref(), Some("a"));
    assert_eq!(place.asked(), 0);
    relay(false).drain().await.unwrap();
    assert_eq!(place.got().len(), 3);
}

#[tokio::test]
async fn a_timeout_is_an_outage_unless_others_get_through() {
    let outbox = Outbox::new().await;
    let silent = outbox.emit("silent", 1).await[0];
    let relay = || {
        let destination = Destination::new("a", Mute).timeout(Duration::from_millis(50)).concurrency(2);
        outbox.relay().destination(destination).route(all_to("a")).build().unwrap()
    };
    relay().run_once().await.unwrap();
    let event = outbox.get(silent).await.event;
    assert_eq!((event.attempts, event.error_message.as_str()), (0, "no response within 50ms"));

    let outbox = Outbox::new().await;
    let silent = outbox.emit("silent", 1).await[0];
    outbox.emit("loud", 1).await;
    let destination = Destination::new("a", Mute).timeout(Duration::from_millis(50)).concurrency(2);
    let relay = outbox.relay().destination(destination).route(all_to("a")).build().unwrap();
    relay.run_once().await.unwrap();
    assert_eq!(outbox.get(silent).await.event.attempts, 1);
}

#[tokio::test]
async fn a_fan_out_waits_for_the_one_that_is_down_without_bothering_the_other() {
    let outbox = Outbox::new().await;
    let ids = outbox.emit("order.placed", 10).await;
    let (fine, down) = (Place::fine(), Place::down());
    let relay = outbox
        .relay()
        .destination(fine.as_destination("fine"))
        .destination(down.as_destination("down"))
        .route(Route::new("*", ["fine", "down"]))
        .build()
        .unwrap();
    relay.drain().await.unwrap();
    let parked = outbox.counts().await.parked;
    assert_eq!(parked.iter().map(|parked| parked.on.as_str()).collect::<Vec<_>>(), ["down"]);
    down.now(|_| Ok(()));
    wait_until("all are delivered", PATIENCE, async || {
        relay.drain().await.unwrap();
        outbox.counts().await.delivered == 10
    })
    .await;
    assert_eq!(sorted(fine.got()), sorted(ids.clone()));
    assert_eq!(sorted(down.got()), sorted(ids.clone()));
    assert_eq!(outbox.get(ids[0]).await.event.status, Status::Delivered);
}

#[tokio::test]
async fn an_event_that_alone_makes_its_destination_look_down_is_found_out() {
    let outbox = Outbox::new().await;
    let place = Place::that(|message| match message.event_type.as_str() {
        "poison" => Err(SendError::unavailable("overloaded, by this one")),
        _ => Ok(()),
    });
    let poison = outbox.emit("poison", 1).await[0];
    let settings = impatient();
    let breaker = BreakerSettings { threshold: 1, patience: 2, ..settings.breaker };
    let settings = RelaySettings { breaker, ..settings };
    let relay =
        outbox.relay().settings(settings).destination(place.as_destination("a")).route(all_to("a")).build().unwrap();
    while_running(&relay, async {
        wait_until("it looks down", PATIENCE, async || place.asked() > 0).await;
        outbox.emit("order.placed", 20).await;
        wait_until("the others get through", PATIENCE, async || outbox.counts().await.delivered == 20).await;
        wait_until("it has used an attempt", PATIENCE, async || outbox.get(poison).await.event.attempts > 0).await;
    })
    .await;
}

#[tokio::test]
async fn a_fan_out_is_not_held_for_the_one_that_is_down_and_still_finds_out_when_it_is_back() {
    let outbox = Outbox::new().await;
    let id = outbox.emit("order.placed", 1).await[0];
    let settings = impatient();
    let settings = RelaySettings { breaker: BreakerSettings { threshold: 1, ..settings.breaker }, ..settings };
    let (shaky, down) =
        (Place::that(|message| if message.attempt() < 3 { Err("no".into()) } else { Ok(()) }), Place::down());
    let relay = outbox
        .relay()
        .settings(settings)
        .destination(shaky.as_destination("shaky"))
        .destination(down.as_destination("down"))
        .route(Route::new("*", ["shaky", "down"]))
        .build()
        .unwrap();
    while_running(&relay, async {
        wait_until("the other has it", PATIENCE, async || shaky.got() == [id]).await;
        let asked = down.asked();
        wait_until("the one that is down is probed", PATIENCE, async || down.asked() > asked + 2).await;
        down.now(|_| Ok(()));
        wait_until("it is delivered", PATIENCE, async || outbox.counts().await.delivered == 1).await;
    })
    .await;
    assert_eq!((shaky.asked(), down.got()), (3, vec![id]));
}
