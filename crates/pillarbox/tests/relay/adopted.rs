//! The relay on the tables of django-celery-outbox.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use pillarbox::celery::Recorded;
use pillarbox::store::celery_outbox::{CeleryOutboxSettings, CeleryOutboxStore};
use pillarbox::{Message, Parking, Relay, RelayBuilder, RelaySettings, SendError, Store};
use pillarbox_testkit::{CeleryOutbox, wait_until};

use crate::fixture::{PATIENCE, Place, all_to, impatient, while_running};

/// Runs the checks on a database.
macro_rules! on {
    ($on:ident; $($check:ident),+ $(,)?) => {
        $(#[tokio::test]
        async fn $check() {
            super::$check(super::CeleryOutbox::create_on(pillarbox_testkit::celery_outbox::On::$on).await).await;
        })+
    };
    ($on:ident) => {
        on! { $on;
            an_outage_costs_each_task_a_write_and_no_attempt_and_ends_by_itself,
            a_task_that_alone_makes_the_broker_look_down_does_not_hold_up_the_others,
            in_single_passes_an_outage_parks_and_a_later_pass_finds_out_that_it_is_over,
            what_cannot_be_sent_ends_as_a_dead_letter_with_its_error_and_others_go_on,
            a_relay_that_stops_gives_back_what_it_has,
            what_killed_relays_had_is_sent_by_others,
        }
    };
}

mod on_postgres {
    on!(Postgres);
}

mod on_mariadb {
    on!(Mysql);
}

const STALE: Duration = Duration::from_secs(300);

async fn store(outbox: &CeleryOutbox) -> Arc<CeleryOutboxStore> {
    Arc::new(outbox.store(CeleryOutboxSettings::default()).await)
}

fn relay(store: &Arc<CeleryOutboxStore>, place: &Place) -> RelayBuilder {
    let settings = RelaySettings { batch_size: 20, lease: STALE, ..impatient() };
    Relay::builder(Arc::clone(store) as Arc<dyn Store>)
        .settings(settings)
        .destination(place.as_destination("celery"))
        .route(all_to("celery"))
}

/// As the sinks do with what cannot be sent.
fn strict(message: &Message) -> Result<(), SendError> {
    match Recorded::read(&message.payload) {
        Some(Err(wrong)) => Err(SendError::reject(wrong)),
        _ => Ok(()),
    }
}

/// The cooldown is half a minute: that all arrive sooner is because the store lets its own back.
async fn an_outage_costs_each_task_a_write_and_no_attempt_and_ends_by_itself(outbox: CeleryOutbox) {
    outbox.add(300).await;
    let (store, place) = (store(&outbox).await, Place::down());
    let relay = relay(&store, &place).build().unwrap();
    while_running(&relay, async {
        wait_until("the store has noticed", PATIENCE, async || !store.parked_on().await.unwrap().is_empty()).await;
        // What was being claimed then is parked, too; after that the rows are left alone, however often it is probed.
        wait_until("it is probed and no row is touched", PATIENCE, async || {
            let (before, asked) = (outbox.rows().await, place.asked());
            wait_until("it is probed five times more", PATIENCE, async || place.asked() >= asked + 5).await;
            outbox.rows().await == before
        })
        .await;
        // What a relay may hold was claimed before the outage was noticed: 148 of them, and a batch.
        let untried = outbox.rows().await.iter().filter(|row| row.updated_at.is_none()).count();
        assert!(untried >= 300 - 148 - 20, "{untried}");

        place.now(strict);
        wait_until("all are delivered", PATIENCE, async || outbox.rows().await.is_empty()).await;
    })
    .await;
    assert_eq!(place.got().len(), 300);
    assert!(outbox.dead_letters().await.is_empty());
}

/// The one that probes may be what makes the broker look down: others are let back, a few, to find out.
async fn a_task_that_alone_makes_the_broker_look_down_does_not_hold_up_the_others(outbox: CeleryOutbox) {
    let added = outbox.add(100).await;
    let (store, place) = (store(&outbox).await, Place::fine());
    let culprit = added[0];
    place.now(move |message| if message.seq == culprit { Err(SendError::unavailable("gone")) } else { Ok(()) });
    let mut settings = RelaySettings { batch_size: 1, lease: STALE, ..impatient() };
    settings.breaker.threshold = 1;
    settings.breaker.patience = 2;
    let relay = relay(&store, &place).settings(settings).build().unwrap();
    while_running(&relay, async {
        wait_until("all others are delivered", PATIENCE, async || place.got().len() >= 99).await;
    })
    .await;
}

async fn in_single_passes_an_outage_parks_and_a_later_pass_finds_out_that_it_is_over(outbox: CeleryOutbox) {
    outbox.add(50).await;
    let (store, place) = (store(&outbox).await, Place::down());
    let relay = relay(&store, &place).build().unwrap();
    relay.drain().await.unwrap();
    assert_eq!(outbox.rows().await.len(), 50);
    place.now(strict);
    wait_until("later passes deliver all", PATIENCE, async || {
        relay.drain().await.unwrap();
        outbox.rows().await.is_empty()
    })
    .await;
    assert_eq!(place.got().len(), 50);
}

async fn what_cannot_be_sent_ends_as_a_dead_letter_with_its_error_and_others_go_on(outbox: CeleryOutbox) {
    let added = outbox.add(20).await;
    outbox
        .execute(&format!("UPDATE celery_outbox SET options = '{{\"eta\": \"soon\"}}' WHERE id = {}", added[3]))
        .await;
    outbox.execute(&format!("UPDATE celery_outbox SET task_name = 'orders.refused' WHERE id = {}", added[5])).await;
    outbox.execute(&format!("UPDATE celery_outbox SET schema_version = 2 WHERE id = {}", added[7])).await;
    let place = Place::that(|message| match message.event_type.as_str() {
        "orders.refused" => Err(SendError::retry("no queue 'orders' in vhost '/'")),
        _ => strict(message),
    });
    let store = store(&outbox).await;
    let relay = relay(&store, &place).build().unwrap();
    relay.drain().await.unwrap();
    assert_eq!(place.got().len(), 17);
    let left = outbox.rows().await;
    assert_eq!((left.len(), left[0].id, left[0].updated_at), (1, added[7], None));
    let mut dead = outbox.dead_letters().await;
    dead.sort();
    let reason = |at: usize| dead[at].2.as_deref().unwrap();
    assert_eq!((dead[0].0.as_str(), dead[0].1), ("task-4", 0));
    assert_eq!(reason(0), "the row cannot be sent as a Celery task: the option \"eta\" is not an ISO 8601 time");
    // Five sends, as its own relay counts: four retries and the one that ended it.
    assert_eq!((dead[1].0.as_str(), dead[1].1, reason(1)), ("task-6", 4, "no queue 'orders' in vhost '/'"));
}

async fn a_relay_that_stops_gives_back_what_it_has(outbox: CeleryOutbox) {
    let added = outbox.add(50).await;
    let store = store(&outbox).await;
    let gate = crate::fixture::Gate::closed();
    let settings = RelaySettings { shutdown_timeout: Duration::from_millis(50), lease: STALE, ..impatient() };
    let relay = Relay::builder(Arc::clone(&store) as Arc<dyn Store>)
        .settings(settings)
        .destination(pillarbox::Destination::new("celery", gate.clone()).concurrency(2))
        .route(all_to("celery"))
        .build()
        .unwrap();
    while_running(&relay, async {
        let inside = || gate.inside.load(std::sync::atomic::Ordering::SeqCst);
        wait_until("two are being sent", PATIENCE, async || inside() == 2).await;
    })
    .await;
    assert_eq!(outbox.selected(STALE).await, added);
    assert!(outbox.rows().await.iter().all(|row| row.updated_at.is_none()));
}

/// A runtime that is shut down ends as a killed process does: nothing is settled or given back.
async fn what_killed_relays_had_is_sent_by_others(outbox: CeleryOutbox) {
    let outbox = Arc::new(outbox);
    outbox.add(400).await;
    let place = Place::that(|_| {
        std::thread::sleep(Duration::from_millis(1));
        Ok(())
    });
    for killed_at in [50, 100, 150, usize::MAX] {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (theirs, to) = (Arc::clone(&outbox), place.clone());
        runtime.spawn(async move {
            let settings = RelaySettings { batch_size: 20, lease: Duration::from_millis(500), ..impatient() };
            let to = to.as_destination("celery").timeout(Duration::from_millis(200));
            let relay = Relay::builder(store(&theirs).await as Arc<dyn Store>).settings(settings);
            relay.destination(to).route(all_to("celery")).build().unwrap().run(std::future::pending()).await
        });
        wait_until("so many are sent", PATIENCE, async || {
            place.got().len() >= killed_at || outbox.rows().await.is_empty()
        })
        .await;
        runtime.shutdown_background();
    }
    let got: HashSet<_> = place.got().into_iter().collect();
    assert_eq!((got.len(), outbox.rows().await.len(), outbox.dead_letters().await.len()), (400, 0, 0));
}
