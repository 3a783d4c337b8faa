//! What goes wrong for a while leaves nothing behind: no destination is forgotten, no event waits for ever.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pillarbox::store::postgres::PostgresStore;
use pillarbox::{Destination, Inspect, Relay, RelaySettings, Route, SendError, Status, emit};
use pillarbox_testkit::{TestDatabase, wait_until};

use crate::fixture::{Gate, Mute, Outbox, PATIENCE, Place, all_to, impatient, while_running};
use crate::settling::Flaky;

#[tokio::test]
async fn a_database_that_is_away_for_a_while_leaves_no_destination_congested() {
    let outbox = Outbox::new().await;
    let store = Flaky::over(&outbox);
    // Long enough that the claim loop loses its patience and looks for room.
    store.fails.store(5, Ordering::SeqCst);
    let (one, two) = (Place::fine(), Place::fine());
    let relay = Relay::builder(Arc::new(store))
        .settings(impatient())
        .destination(one.as_destination("one"))
        .destination(two.as_destination("two"))
        .route(Route::new("to.one", ["one"]))
        .route(Route::new("to.two", ["two"]))
        .build()
        .unwrap();
    outbox.emit("to.one", 1).await;
    while_running(&relay, async {
        wait_until("it is settled at last", PATIENCE, async || outbox.counts().await.delivered == 1).await;
        outbox.emit("to.one", 5).await;
        outbox.emit("to.two", 5).await;
        wait_until("both have got theirs", PATIENCE, async || outbox.counts().await.delivered == 11).await;
    })
    .await;
}

#[tokio::test]
async fn a_timeout_is_no_proof_that_others_get_through() {
    let outbox = Outbox::new().await;
    let before = outbox.emit("silent", 1).await[0];
    outbox.emit("loud", 1).await;
    let after = outbox.emit("silent", 8).await;
    let destination = Destination::new("a", Mute).timeout(Duration::from_millis(50)).concurrency(2);
    let relay = outbox.relay().destination(destination).route(all_to("a")).build().unwrap();
    relay.run_once().await.unwrap();
    assert_eq!(outbox.get(before).await.event.attempts, 1, "the loud one got through meanwhile");
    for id in after {
        assert_eq!(outbox.get(id).await.event.attempts, 0, "nothing got through any more");
    }
}

#[tokio::test]
async fn what_a_destination_says_can_always_be_settled() {
    let database = TestDatabase::create().await;
    let store = PostgresStore::connect(&database.url(), "public").await.unwrap();
    store.migrate().await.unwrap();
    let sqlite = Outbox::new().await;
    for store in [Arc::new(store) as Arc<dyn Both>, Arc::clone(&sqlite.store) as Arc<dyn Both>] {
        let id = store.emit(pillarbox::Event::new("Order", 1, "order.placed")).await.unwrap().id;
        let asks = |kind: fn(&'static str) -> SendError| {
            Place::that(move |_| Err(kind("not\0now").after(Some(Duration::MAX))))
        };
        let relay = Relay::builder(Arc::clone(&store).as_store())
            .settings(impatient())
            .destination(asks(SendError::retry).as_destination("busy"))
            .destination(asks(SendError::unavailable).as_destination("down"))
            .route(Route::new("*", ["busy", "down"]))
            .build()
            .unwrap();
        tokio::time::timeout(PATIENCE, relay.run_once()).await.expect("it is settled").unwrap();
        let event = store.get(id).await.unwrap().unwrap();
        assert_eq!((event.event.status, event.event.attempts), (Status::Pending, 1));
        assert_eq!(event.deliveries[0].error, "not\u{fffd}now");
    }
}

/// Both sides of a store.
trait Both: Inspect + pillarbox::Store {
    fn as_store(self: Arc<Self>) -> Arc<dyn pillarbox::Store>;
}

impl<T: Inspect + pillarbox::Store> Both for T {
    fn as_store(self: Arc<Self>) -> Arc<dyn pillarbox::Store> {
        self
    }
}

#[tokio::test]
async fn a_relay_that_runs_again_finds_out_that_an_outage_is_over() {
    let outbox = Outbox::new().await;
    let place = Place::down();
    let relay = outbox.relay().destination(place.as_destination("a")).route(all_to("a")).build().unwrap();
    outbox.emit("order.placed", 10).await;
    while_running(&relay, async {
        wait_until("it is probed", PATIENCE, async || place.asked() >= 5).await;
    })
    .await;
    place.now(|_| Ok(()));
    while_running(&relay, async {
        wait_until("all are delivered", PATIENCE, async || outbox.counts().await.delivered == 10).await;
    })
    .await;
}

#[tokio::test]
async fn what_an_older_relay_parked_as_unrouted_is_found_by_one_that_has_the_route() {
    let outbox = Outbox::new().await;
    let place = Place::fine();
    let older = outbox.relay().build().unwrap();
    let newer = outbox.relay().destination(place.as_destination("a")).route(all_to("a")).build().unwrap();
    newer.drain().await.unwrap();
    outbox.emit("order.placed", 1).await;
    older.drain().await.unwrap();
    assert_eq!(outbox.counts().await.parked.len(), 1);
    newer.drain().await.unwrap();
    assert_eq!(place.got().len(), 1);
}

#[tokio::test]
async fn a_handler_goes_on_while_its_lease_is_renewed() {
    let outbox = Outbox::new().await;
    outbox.emit("order.placed", 1).await;
    let store = Flaky { silent_on: Some("renew"), ..Flaky::over(&outbox) };
    let renewals = Arc::clone(&store.renewals);
    let gate = Gate::closed();
    let settings = RelaySettings { lease: Duration::from_secs(2), ..impatient() };
    let relay = Relay::builder(Arc::new(store))
        .settings(settings)
        .destination(Destination::new("a", gate.clone()).timeout(None))
        .route(all_to("a"))
        .build()
        .unwrap();
    let pass = async { relay.run_once().await.unwrap() };
    let test = async {
        wait_until("a renewal hangs", PATIENCE, async || renewals.load(Ordering::SeqCst) == 1).await;
        gate.open.add_permits(1);
    };
    tokio::time::timeout(PATIENCE, async { tokio::join!(pass, test) }).await.expect("the handler goes on");
    assert_eq!(outbox.counts().await.delivered, 1);
}

#[tokio::test]
async fn a_handler_may_emit_in_eager_mode() {
    let outbox = Outbox::new().await;
    let application: Arc<std::sync::OnceLock<pillarbox::Outbox>> = Arc::default();
    let (emitter, pool) = (Arc::clone(&application), outbox.store.pool().clone());
    let place = Place::fine();
    let relay = outbox
        .relay()
        .handler("order.placed", move |_| {
            let (emitter, pool) = (Arc::clone(&emitter), pool.clone());
            async move {
                let mut tx = pool.begin().await.map_err(|error| error.to_string())?;
                emit(&mut tx, pillarbox::Event::new("Mail", 1, "mail.wanted"))
                    .await
                    .map_err(|error| error.to_string())?;
                emitter.get().unwrap().commit(tx).await.map_err(|error| error.to_string())
            }
        })
        .destination(place.as_destination("mail"))
        .route(Route::new("mail.*", ["mail"]))
        .build()
        .unwrap();
    let outermost = application.get_or_init(|| pillarbox::Outbox::eager(Arc::new(relay)));
    let mut tx = outbox.store.pool().begin().await.unwrap();
    emit(&mut tx, pillarbox::Event::new("Order", 1, "order.placed")).await.unwrap();
    tokio::time::timeout(PATIENCE, outermost.commit(tx)).await.expect("nobody waits for himself").unwrap();
    assert_eq!((outbox.counts().await.delivered, place.got().len()), (2, 1));
}
