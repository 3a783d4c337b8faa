//! Order: one aggregate's events go out one after another, whatever happens to them on the way.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use pillarbox::{Destination, Event, Message, OnFailed, Order, Relay, RelaySettings, Route, SendError, Sink, Status};
use pillarbox_testkit::wait_until;
use uuid::Uuid;

use crate::fixture::{Gate, Outbox, PATIENCE, Place, all_to, impatient, while_running};

pub(crate) fn ordered(on_failed: OnFailed) -> RelaySettings {
    RelaySettings { order: Order::Aggregate(on_failed), ..impatient() }
}

/// Events of one aggregate, the first of them of a type of its own.
async fn line(outbox: &Outbox, first: &str, others: usize) -> Vec<Uuid> {
    let mut ids = Vec::new();
    for number in 0..=others {
        let event_type = if number == 0 { first } else { "account.changed" };
        ids.extend(outbox.emit_events([Event::new("Account", 1, event_type).repeatable()]).await);
    }
    ids
}

/// Remembers what it got, and whether it ever had two events of an aggregate at once.
#[derive(Clone, Default)]
struct OneByOne {
    inside: Arc<Mutex<HashSet<String>>>,
    got: Arc<Mutex<Vec<Uuid>>>,
    crowded: Arc<Mutex<bool>>,
}

#[async_trait]
impl Sink for OneByOne {
    async fn send(&self, batch: &[Message]) -> Vec<Result<(), SendError>> {
        for message in batch {
            if !self.inside.lock().unwrap().insert(message.aggregate_id.clone()) {
                *self.crowded.lock().unwrap() = true;
            }
        }
        tokio::task::yield_now().await;
        for message in batch {
            self.inside.lock().unwrap().remove(&message.aggregate_id);
            self.got.lock().unwrap().push(message.id);
        }
        vec![Ok(()); batch.len()]
    }

    fn batch_limit(&self) -> usize {
        4
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregates_go_side_by_side_and_their_events_one_after_another() {
    let outbox = Outbox::new().await;
    let emitted = outbox.emit_events((0..200).map(|n| Event::new("Account", n % 9, "changed").repeatable())).await;
    let place = OneByOne::default();
    let relay = outbox
        .relay()
        .settings(RelaySettings { batch_size: 50, ..ordered(OnFailed::Block) })
        .destination(Destination::new("a", place.clone()))
        .route(all_to("a"))
        .build()
        .unwrap();
    assert_eq!(relay.drain().await.unwrap().processed, 200);
    assert!(!*place.crowded.lock().unwrap(), "two events of an aggregate were sent at once");
    let got = place.got.lock().unwrap().clone();
    for aggregate in 0..9 {
        let expected: Vec<Uuid> = emitted.iter().skip(aggregate).step_by(9).copied().collect();
        let of_it: Vec<Uuid> = got.iter().filter(|id| expected.contains(id)).copied().collect();
        assert_eq!(of_it, expected);
    }
}

#[tokio::test]
async fn those_behind_one_that_is_tried_again_are_given_back_untouched() {
    let outbox = Outbox::new().await;
    let ids = line(&outbox, "first", 3).await;
    let place = Place::that(|message| match message.event_type.as_str() {
        "first" => Err(SendError::retry("not now").after(Some(Duration::from_secs(3600)))),
        _ => Ok(()),
    });
    let relay = one_place(&outbox, OnFailed::Skip, &place);
    assert_eq!(relay.drain().await.unwrap().processed, 4, "the followers are blocked and not claimed again");
    assert_eq!(place.asked(), 1);
    for id in &ids[1..] {
        let event = outbox.get(*id).await.event;
        assert_eq!((event.status, event.attempts, event.claims), (Status::Pending, 0, 0));
    }
}

fn one_place(outbox: &Outbox, on_failed: OnFailed, place: &Place) -> Relay {
    outbox
        .relay()
        .settings(ordered(on_failed))
        .destination(place.as_destination("a"))
        .route(all_to("a"))
        .build()
        .unwrap()
}

/// The first one's turn ends before the second one was looked at.
#[tokio::test]
async fn those_behind_one_that_is_parked_at_once_do_not_take_its_place() {
    for parks in ["paused", "unrouted"] {
        let outbox = Outbox::new().await;
        line(&outbox, parks, 3).await;
        let place = Place::fine();
        let relay = outbox
            .relay()
            .settings(ordered(OnFailed::Skip))
            .destination(place.as_destination("a"))
            .destination(Place::fine().as_destination("b").paused(true))
            .route(Route::new("account.*", ["a"]))
            .route(Route::new("paused", ["b"]))
            .build()
            .unwrap();
        relay.drain().await.unwrap();
        assert_eq!(place.got().len(), 0, "the first one is {parks}");
    }
}

#[tokio::test]
async fn a_failed_event_blocks_or_is_skipped() {
    for (on_failed, delivered) in [(OnFailed::Block, 0), (OnFailed::Skip, 3)] {
        let outbox = Outbox::new().await;
        line(&outbox, "poison", 3).await;
        outbox.emit("order.placed", 1).await;
        let place = Place::that(|message| match message.event_type.as_str() {
            "poison" => Err(SendError::reject("never")),
            _ => Ok(()),
        });
        one_place(&outbox, on_failed, &place).drain().await.unwrap();
        let counts = outbox.counts().await;
        assert_eq!((counts.failed, counts.delivered), (1, 1 + delivered));
    }
}

#[tokio::test]
async fn the_next_goes_when_all_destinations_have_the_one_before() {
    let outbox = Outbox::new().await;
    let ids = line(&outbox, "first", 1).await;
    let (quick, gate) = (Place::fine(), Gate::closed());
    let relay = outbox
        .relay()
        .settings(ordered(OnFailed::Block))
        .destination(quick.as_destination("quick"))
        .destination(Destination::new("slow", gate.clone()))
        .route(Route::new("*", ["quick", "slow"]))
        .build()
        .unwrap();
    while_running(&relay, async {
        wait_until("the first is at both", PATIENCE, async || gate.inside.load(Ordering::SeqCst) == 1).await;
        wait_until("the quick one has it", PATIENCE, async || quick.got().len() == 1).await;
        assert_eq!(quick.got(), ids[..1]);
        gate.open.add_permits(2);
        wait_until("both are delivered", PATIENCE, async || outbox.counts().await.delivered == 2).await;
        assert_eq!(quick.got(), ids);
    })
    .await;
}

#[tokio::test]
async fn an_outage_keeps_the_order() {
    let outbox = Outbox::new().await;
    let ids = line(&outbox, "first", 20).await;
    let place = Place::down();
    let relay = one_place(&outbox, OnFailed::Block, &place);
    while_running(&relay, async {
        wait_until("it is probed", PATIENCE, async || place.asked() >= 6).await;
        place.now(|_| Ok(()));
        wait_until("all are delivered", PATIENCE, async || outbox.counts().await.delivered == 21).await;
    })
    .await;
    assert_eq!(place.got(), ids);
}

#[tokio::test]
async fn one_slow_aggregate_does_not_fill_the_relay() {
    let outbox = Outbox::new().await;
    line(&outbox, "slow", 60).await;
    let gate = Gate::closed();
    let place = Place::fine();
    let relay = outbox
        .relay()
        .settings(RelaySettings { batch_size: 20, concurrency: 1, ..ordered(OnFailed::Block) })
        .destination(Destination::new("gate", gate.clone()))
        .destination(place.as_destination("fine"))
        .route(Route::new("slow", ["gate"]))
        .route(all_to("fine"))
        .build()
        .unwrap();
    while_running(&relay, async {
        wait_until("the slow one is under way", PATIENCE, async || gate.inside.load(Ordering::SeqCst) == 1).await;
        outbox.emit("order.placed", 100).await;
        wait_until("all others are delivered", PATIENCE, async || outbox.counts().await.delivered == 100).await;
        gate.open.add_permits(1);
        wait_until("and then the slow ones", PATIENCE, async || outbox.counts().await.delivered == 161).await;
    })
    .await;
}

#[tokio::test]
async fn a_relay_that_stops_gives_back_those_that_wait() {
    let outbox = Outbox::new().await;
    let ids = line(&outbox, "first", 5).await;
    let gate = Gate::closed();
    let relay = outbox
        .relay()
        .settings(ordered(OnFailed::Block))
        .destination(Destination::new("gate", gate.clone()))
        .route(all_to("gate"))
        .build()
        .unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let test = async {
        wait_until("the first is under way", PATIENCE, async || gate.inside.load(Ordering::SeqCst) == 1).await;
        stop.send(()).unwrap();
        wait_until("the others are given back", PATIENCE, async || outbox.counts().await.due == 5).await;
        gate.open.add_permits(1);
    };
    let (ended, ()) = tokio::join!(relay.run(async { stopped.await.unwrap() }), test);
    ended.unwrap();
    assert_eq!(outbox.get(ids[0]).await.event.status, Status::Delivered);
    assert_eq!(outbox.counts().await.due, 5);
}
