//! Routes with a condition on the payload: where events go, and how those without a route wait and are found again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pillarbox::store::State;
use pillarbox::{Condition, Event, Order, Relay, RelaySettings, Route, SendError, Store};
use pillarbox_testkit::simulation::plan::Plan;
use pillarbox_testkit::simulation::store::SimulatedStore;
use pillarbox_testkit::simulation::table::Moment;
use pillarbox_testkit::simulation::world::{World, lock};
use serde_json::json;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::fixture::{Outbox, Place, impatient};

fn over(least: i64) -> Condition {
    Condition::new(format!("total > {least}"), move |payload| {
        payload["total"].as_i64().is_some_and(|total| total > least)
    })
}

fn order(total: i64) -> Event {
    Event::new("Order", total, "order.placed").repeatable().payload(json!({ "total": total }))
}

#[tokio::test]
async fn the_payload_decides_and_what_fits_no_route_waits_without_a_write() {
    let outbox = Outbox::new().await;
    let image = Event::new("Order", 7, "order.placed").repeatable().payload_bytes("image/png", b"total");
    let ids = outbox.emit_events([order(20), order(120), image]).await;
    let (audit, billing) = (Place::fine(), Place::fine());
    let relay = |least: i64| {
        let relay =
            outbox.relay().destination(audit.as_destination("audit")).destination(billing.as_destination("billing"));
        relay.route(Route::new("order.*", ["audit", "billing"]).when(over(least))).build().unwrap()
    };
    let strict = relay(100);
    assert_eq!(strict.drain().await.unwrap().processed, 3);
    assert_eq!((audit.got(), billing.got()), (vec![ids[1]], vec![ids[1]]));
    let parked = outbox.get(ids[0]).await.event;
    assert_eq!((parked.state, parked.parked_on.as_deref()), (State::Parked, Some("unrouted")));
    assert_eq!(parked.error_message, "no route matches \"order.placed\" of \"Order\" with this payload");

    // Each pass looks at them, and none writes them.
    for _ in 0..3 {
        assert_eq!(strict.drain().await.unwrap().processed, 0);
    }
    assert_eq!(outbox.get(ids[0]).await.event.updated_at, parked.updated_at);

    let opaque = outbox.get(ids[2]).await.event;
    assert_eq!(relay(10).drain().await.unwrap().processed, 1);
    assert_eq!(audit.got(), [ids[1], ids[0]]);
    assert_eq!(outbox.get(ids[2]).await.event.updated_at, opaque.updated_at, "no condition holds for it");
}

/// More than one page of payloads, and every other one fits.
#[tokio::test]
async fn all_parked_events_that_fit_are_found() {
    let outbox = Outbox::new().await;
    let ids = outbox.emit_events((0..200).map(order)).await;
    let nothing = outbox.relay().build().unwrap();
    assert_eq!(nothing.drain().await.unwrap().processed, 200);
    let place = Place::fine();
    let even = Condition::new("even", |payload| payload["total"].as_i64().is_some_and(|total| total % 2 == 0));
    let relay = outbox.relay().destination(place.as_destination("a")).route(Route::new("*", ["a"]).when(even));
    assert_eq!(relay.build().unwrap().drain().await.unwrap().processed, 100);
    let (mut got, mut expected) = (place.got(), ids.into_iter().step_by(2).collect::<Vec<_>>());
    got.sort();
    expected.sort();
    assert_eq!(got, expected);
}

/// A payload is parsed once, in order too, where an event waits behind others.
#[tokio::test]
async fn a_condition_is_asked_once_for_each_event() {
    for kept in [Order::None, Order::Aggregate(pillarbox::OnFailed::Block)] {
        let outbox = Outbox::new().await;
        let same = |total: i64| Event::new("Order", 1, "order.placed").repeatable().payload(json!({ "total": total }));
        outbox.emit_events((0..50).map(same)).await;
        let (asked, place) = (Arc::new(AtomicUsize::new(0)), Place::fine());
        let counting = Arc::clone(&asked);
        let condition = Condition::new("counts", move |_| {
            counting.fetch_add(1, Ordering::Relaxed);
            true
        });
        let settings = RelaySettings { order: kept, ..impatient() };
        let relay = outbox.relay().settings(settings).destination(place.as_destination("a"));
        let relay = relay.route(Route::new("*", ["a"]).when(condition)).build().unwrap();
        relay.drain().await.unwrap();
        assert_eq!((place.got().len(), asked.load(Ordering::Relaxed)), (50, 50), "{kept:?}");
    }
}

/// Puts an event into the table that another relay has parked, because it has other routes.
fn parked_elsewhere(world: &World, total: i64) -> Uuid {
    let mut event = pillarbox::StoredEvent::for_tests("order.placed", &json!({ "total": total }).to_string());
    event.aggregate_id = total.to_string();
    let (id, now) = (event.id, world.now());
    let mut table = lock(&world.table);
    let seq = table.emit(event, None, now);
    let row = table.rows.get_mut(&seq).unwrap();
    row.parked_on = Some("unrouted".to_owned());
    id
}

fn updated_at(world: &World, id: Uuid) -> Moment {
    lock(&world.table).get(id).unwrap().updated_at
}

fn is_delivered(world: &World, id: Uuid) -> bool {
    lock(&world.table).get(id).unwrap().delivered_at.is_some()
}

/// On paused time: what another relay parks is found within a minute, the last of thousands too, and what fits no route is left
/// alone for hours.
#[tokio::test(start_paused = true)]
async fn a_running_relay_finds_what_others_have_parked_and_leaves_the_rest_alone() {
    let world = Arc::new(World::new(Plan::calm()));
    let store: Arc<dyn Store> = SimulatedStore::connect(&world, world.start(0));
    let place = Place::fine();
    let relay = Relay::builder(store)
        .settings(RelaySettings { poll_interval: Duration::from_secs(5), ..impatient() })
        .destination(place.as_destination("a"))
        .route(Route::new("*", ["a"]).when(over(100)))
        .build()
        .unwrap();
    let small: Vec<Uuid> = (0..7_000).map(|_| parked_elsewhere(&world, 5)).collect();
    let large = parked_elsewhere(&world, 500);
    let before: Vec<Moment> = small.iter().map(|id| updated_at(&world, *id)).collect();
    let (stop, stopped) = oneshot::channel::<()>();
    let test = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(is_delivered(&world, large), "it was there before the relay");
        for _ in 0..3 {
            let later = parked_elsewhere(&world, 700);
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert!(is_delivered(&world, later), "it was parked while the relay ran");
        }
        tokio::time::sleep(Duration::from_secs(3600)).await;
        drop(stop);
    };
    let (ran, ()) = tokio::join!(relay.run(async { drop(stopped.await) }), test);
    ran.unwrap();
    assert_eq!(place.got().len(), 4);
    let after: Vec<Moment> = small.iter().map(|id| updated_at(&world, *id)).collect();
    assert!(before == after, "what stays unrouted is not written");
}

/// A discarding relay decides by the payload as well.
#[tokio::test]
async fn what_no_condition_takes_can_be_discarded() {
    let outbox = Outbox::new().await;
    let ids = outbox.emit_events([order(20), order(120)]).await;
    let place = Place::that(|_| Err(SendError::reject("no")));
    let settings = RelaySettings { unrouted: pillarbox::Unrouted::Discard, ..impatient() };
    let relay = outbox.relay().settings(settings).destination(place.as_destination("a"));
    relay.route(Route::new("*", ["a"]).when(over(100))).build().unwrap().drain().await.unwrap();
    assert_eq!(outbox.get(ids[0]).await.event.state, State::Delivered);
    assert_eq!(outbox.get(ids[1]).await.event.state, State::Failed);
}
