//! Failover: a relay follows the primary, and notifications follow, too.

use std::sync::Arc;
use std::time::Duration;

use pillarbox::store::postgres::{PostgresSettings, PostgresStore};
use pillarbox::{Event, Inspect, Relay, RelaySettings};
use pillarbox_testkit::{PrivatePostgres, wait_until};

use crate::fixture::{Log, PATIENCE, Place, all_to, impatient, while_running};

/// A primary with the outbox's tables, and its standby.
async fn primary_and_standby() -> (PrivatePostgres, PrivatePostgres) {
    let primary = PrivatePostgres::start().await;
    PostgresStore::connect(&primary.url(), "public").await.unwrap().migrate().await.unwrap();
    let standby = primary.start_standby().await;
    (primary, standby)
}

async fn store(url: &str) -> PostgresStore {
    let settings = PostgresSettings { deadline: Duration::from_secs(1), ..PostgresSettings::default() };
    PostgresStore::connect_with(url, "public", settings).await.unwrap()
}

fn relay(store: &PostgresStore, place: &Place, settings: RelaySettings) -> Relay {
    Relay::builder(Arc::new(store.clone()))
        .settings(settings)
        .destination(place.as_destination("a"))
        .route(all_to("a"))
        .build()
        .unwrap()
}

#[tokio::test]
async fn a_relay_follows_the_primary_of_several_hosts() {
    let (mut primary, standby) = primary_and_standby().await;
    // The standby first: it is refused.
    let url = format!(
        "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres?target_session_attrs=read-write",
        standby.port(),
        primary.port()
    );
    let (store, place) = (store(&url).await, Place::fine());
    let emit = async |order: u32| store.emit_once(Event::new("Order", order, "order.placed")).await;
    while_running(&relay(&store, &place, impatient()), async {
        emit(1).await.unwrap();
        wait_until("it is delivered", PATIENCE, async || place.got().len() == 1).await;
        let caught_up = "SELECT count(*) FROM outbox_event";
        let replica = store_of(&standby).await;
        wait_until("the standby has it", PATIENCE, async || {
            sqlx::query_scalar::<_, i64>(caught_up).fetch_one(replica.pool()).await.unwrap() == 1
        })
        .await;
        primary.kill().await;
        standby.promote().await;
        wait_until("events can be emitted again", PATIENCE, async || emit(2).await.is_ok()).await;
        wait_until("the relay delivers again", PATIENCE, async || place.got().len() >= 2).await;
        // The pool for the application's own transactions follows, too.
        let to: i32 = sqlx::query_scalar("SELECT inet_server_port()").fetch_one(store.pool()).await.unwrap();
        assert_eq!(to, i32::from(standby.port()));
        wait_until("it is woken again", PATIENCE, async || {
            store.counts().await.is_ok_and(|counts| counts.relays.iter().any(|relay| relay.idle))
        })
        .await;
    })
    .await;
}

async fn store_of(server: &PrivatePostgres) -> PostgresStore {
    PostgresStore::connect(&server.url(), "public").await.unwrap()
}

#[tokio::test]
async fn a_relay_that_started_on_a_read_only_server_is_woken_once_it_can_be_written_to() {
    let (_primary, standby) = primary_and_standby().await;
    let (store, place) = (store(&standby.url()).await, Place::fine());
    // When notifications work, nothing else wakes it.
    let settings = RelaySettings { poll_interval: Duration::from_secs(3600), ..impatient() };
    let (log, guard) = Log::of_warnings();
    while_running(&relay(&store, &place, settings), async {
        let said = "listening for notifications failed";
        wait_until("it cannot listen", PATIENCE, async || log.text().contains(said)).await;
        standby.promote().await;
        wait_until("it is idle and listens", PATIENCE, async || {
            store.counts().await.is_ok_and(|counts| counts.relays.iter().any(|relay| relay.idle))
        })
        .await;
        for order in 1..=3 {
            store.emit(Event::new("Order", order, "order.placed")).await.unwrap();
            wait_until("it is delivered", PATIENCE, async || place.got().len() == order).await;
        }
    })
    .await;
    drop(guard);
}
